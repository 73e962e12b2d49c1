"""TensorProtos to onnx-ir tensors, each checked: its data is there and has the size it claims.

In: TensorProtos of one model and the folder of that model. Out: tensors that read their data when
asked; external files are opened here, and only inside the model's folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir

from rewrite.graph import wire
from rewrite.graph.tensors import MappedFile, MappedTensor, MessageTensor, SparseTensor, own

Report = Callable[[str, str], None]  # code, message

_EXTERNAL = onnx.TensorProto.EXTERNAL
_DTYPES = {int(dtype): dtype for dtype in ir.DataType}

# The field that holds values of each type (comments of TensorProto), and entries per element.
_FLOATS, _INT32S, _DOUBLES, _UINT64S = "float_data", "int32_data", "double_data", "uint64_data"
_FIELDS = {
    "FLOAT": (_FLOATS, 1), "COMPLEX64": (_FLOATS, 2), "DOUBLE": (_DOUBLES, 1),
    "COMPLEX128": (_DOUBLES, 2), "INT64": ("int64_data", 1), "UINT32": (_UINT64S, 1),
    "UINT64": (_UINT64S, 1), "STRING": ("string_data", 1),
}  # fmt: skip


class TensorLoader:
    """Reads the tensors of one model."""

    def __init__(
        self,
        folder: Path | None,
        own: MappedFile | None = None,
        given: Sequence[ir.TensorProtocol] = (),
    ) -> None:
        self._folder = folder
        self._own = own  # the model's own file, where notes without a file name point to
        self._given = given  # or the tensors themselves, by number
        self._report: Report = _ignore
        self._files: dict[tuple[Path, str], MappedFile] = {}  # external files
        self.messages: list[MessageTensor] = []  # all that hold on to the model's message
        self.unusual = False  # some tensor is sparse, or not in the message

    def report_to(self, report: Report) -> None:
        """Where problems go."""
        self._report = report

    def opened(self) -> tuple[MappedFile, ...]:
        """All files in use."""
        return (*self._files.values(), *((self._own,) if self._own is not None else ()))

    def dense(self, proto: onnx.TensorProto, where: str) -> ir.TensorProtocol | None:
        """One TensorProto; None where it was reported."""
        dtype = _DTYPES.get(proto.data_type)
        dims = tuple(proto.dims)
        if dtype is None or dtype == ir.DataType.UNDEFINED:
            self._report("RW508", f"{where} has the unknown element type {proto.data_type}")
            return None
        if any(d < 0 for d in dims):
            self._report("RW508", f"{where} has a negative dimension: {list(dims)}")
            return None
        if proto.data_location == _EXTERNAL:
            return self._mapped(proto, dtype, dims, where)
        problem = _size_problem(proto, dtype, math.prod(dims))
        if problem is not None:
            self._report("RW508", f"{where} {problem}")
            return None
        made = MessageTensor(proto)
        self.messages.append(made)
        return made

    def sparse(self, proto: onnx.SparseTensorProto, where: str) -> SparseTensor | None:
        """One SparseTensorProto; the ONNX checker looks at its positions."""
        self.unusual = True
        if _EXTERNAL in (proto.values.data_location, proto.indices.data_location):
            self._report("RW509", f"{where} is sparse and has its data in a file")
            return None
        values = self.dense(proto.values, f"{where} (values)")
        if values is None or (values.size and self.dense(proto.indices, where) is None):
            return None
        return SparseTensor(own(proto))

    def _mapped(
        self, proto: onnx.TensorProto, dtype: ir.DataType, dims: tuple[int, ...], where: str
    ) -> ir.TensorProtocol | None:
        self.unusual = True
        entries = {str(entry.key): str(entry.value) for entry in proto.external_data}
        location = entries.get("location", "")
        folder = self._folder
        if location == wire.INLINE and self._given:
            given = self._given[int(entries["offset"])]
            if not isinstance(given, ir.ExternalTensor):
                return given
            folder, location = Path(given.base_dir), str(given.location)
            entries = {"offset": str(given.offset or 0), "length": str(given.length or "")}
        if dtype == ir.DataType.STRING:
            self._report("RW508", f"{where}: strings cannot be stored as bytes")
            return None
        own = location == wire.INLINE and self._own is not None
        file = self._own if own else self._file(folder, location, where)
        size = math.ceil(dtype.itemsize * math.prod(dims))
        offset = None if file is None else self._offset(entries, file, size, where)
        if file is None or offset is None:
            return None
        return MappedTensor(
            file,
            offset,
            dtype,
            dims,
            not own,
            proto.name,
            proto.doc_string or None,
            {entry.key: entry.value for entry in proto.metadata_props} or None,
        )

    def _offset(
        self, entries: Mapping[str, str], file: MappedFile, size: int, where: str
    ) -> int | None:
        """Where the data begins; None where it is not all there."""
        try:
            offset = int(entries.get("offset") or 0)
            length = int(entries.get("length") or size)
        except ValueError:
            self._report("RW509", f"{where}: offset and length of external data must be numbers")
            return None
        if length != size:
            message = f"{where} has {length} bytes of data; its shape and type need {size}"
            self._report("RW508", message)
            return None
        if offset < 0 or offset + size > file.size:
            message = f"bytes {offset} to {offset + size}, but {file.path.name} has {file.size}"
            self._report("RW509", f"{where} wants {message}")
            return None
        return offset

    def _file(self, folder: Path | None, location: str, where: str) -> MappedFile | None:
        if folder is None:
            message = "has its data in a file, but the model was not read from a file"
            self._report("RW509", f"{where} {message}")
            return None
        found = self._files.get((folder, location))
        if found is not None:
            return found
        path = _inside(folder, location)
        if path is None:
            message = f"external data {location!r} lies outside the folder of the model"
            self._report("RW509", f"{where}: {message}")
            return None
        try:
            if path.exists() and not path.is_file():
                self._report("RW509", f"{where}: external data {location} is not a regular file")
                return None
            found = self._files[folder, location] = MappedFile(path)
        except OSError as failure:
            reason = failure.strerror or str(failure)
            self._report("RW509", f"{where}: external data {location}: {reason}")
        return found


def _inside(folder: Path, location: str) -> Path | None:
    """The file of that name, links followed, if it lies in the folder."""
    if not location or "\0" in location or Path(location).is_absolute():
        return None
    inside = os.path.realpath(folder)
    path = os.path.realpath(folder / location)
    return Path(path) if os.path.commonpath((inside, path)) == inside else None


def _ignore(code: str, message: str) -> None:
    del code, message


def _size_problem(proto: onnx.TensorProto, dtype: ir.DataType, elements: int) -> str | None:
    """What is wrong with the amount of data that a TensorProto holds itself."""
    if proto.HasField("raw_data"):
        if dtype == ir.DataType.STRING:
            return "has strings in raw_data"
        size, needed = len(proto.raw_data), math.ceil(dtype.itemsize * elements)
        if size != needed:
            return f"has {size} bytes of data; its shape and type need {needed}"
        return None
    if elements == 0:
        return None
    field, entries = _FIELDS.get(dtype.name, (_INT32S, 1))
    needed = elements * entries
    if dtype != ir.DataType.STRING and dtype.bitwidth in (2, 4):
        needed = math.ceil(elements * dtype.bitwidth / 8)  # one byte of packed values each
    count = len(getattr(proto, field))
    if count != needed:
        return f"has {count} values in {field}; its shape and type need {needed}"
    return None
