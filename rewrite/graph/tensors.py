"""Tensors whose data lies in a file, sparse tensors, and those that are computed from others.

In: a file and a place in it, a SparseTensorProto, or how elements are computed. Out: tensors as
onnx-ir has them that read or compute only when asked.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import serde

CHUNK = 1 << 22
_MANY = 1 << 20  # bytes of an array whose pages are worth giving back
SMALL = 1 << 16  # a map takes a file handle, so little data is read instead

Part = TypeVar("Part", onnx.TensorProto, onnx.SparseTensorProto, onnx.TypeProto)


def own(part: Part) -> Part:
    """A copy with memory of its own. Every part of a message keeps all of the message in memory."""
    made = type(part)()
    made.CopyFrom(part)
    return made


class MappedFile:
    """A file of tensor data. It is open only while it is read or mapped: there may be thousands.

    What is read is what was checked: a file that was replaced or changed its size is an error.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        status = path.stat()
        self.size = status.st_size
        self._identity = (status.st_dev, status.st_ino, status.st_size)
        self._map: weakref.ref[mmap.mmap] | None = None
        self.open().close()

    def open(self) -> BinaryIO:
        """The file, open for reading."""
        stream = self.path.open("rb")
        status = os.fstat(stream.fileno())
        if (status.st_dev, status.st_ino, status.st_size) != self._identity:
            stream.close()
            raise OSError(f"{self.path} has changed since it was opened")
        return stream

    def buffer(self) -> mmap.mmap:
        """The whole file, mapped for reading as long as somebody holds a view of it."""
        found = None if self._map is None else self._map()
        if found is None:
            with self.open() as stream:
                found = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            self._map = weakref.ref(found)
        return found

    def is_at(self, path: Path) -> bool:
        """Whether `path` is this very file."""
        try:
            status = path.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity[:2]

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        """The bytes of a range, read and not mapped, so that they do not stay in memory."""
        with self.open() as stream:
            stream.seek(offset)
            while size > 0:
                piece = stream.read(min(CHUNK, size))
                if not piece:
                    raise OSError(f"{self.path} became shorter while it was read")
                yield piece
                size -= len(piece)


def strings(tensor: ir.TensorProtocol) -> list[bytes]:
    """The elements of a string tensor. numpy's own strings would lose zeros at their ends."""
    if isinstance(tensor, serde.TensorProtoTensor):
        return list(tensor.raw.string_data)
    if isinstance(tensor, ir.StringTensor):
        return [bytes(item) for item in tensor.string_data()]
    return [bytes(item) for item in tensor.numpy().reshape(-1).tolist()]


def elements(tensor: ir.TensorProtocol) -> np.ndarray:
    """The tensor as an array; strings as objects."""
    if tensor.dtype != ir.DataType.STRING:
        return tensor.numpy()
    found = np.empty(tensor.size, object)
    found[:] = strings(tensor)
    return found.reshape(tuple(tensor.shape.numpy()))


class _Lazy:
    """What onnx-ir asks for in place of an array: the array, made when asked."""

    def __init__(self, tensor: MappedTensor | SparseTensor | ComputedTensor) -> None:
        self._tensor = tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._tensor.numpy(), dtype=dtype, copy=copy)


class MessageTensor(serde.TensorProtoTensor):
    """A tensor inside the model's message, all of which stays in memory as long as one does."""

    def drop(self) -> None:
        """Lets go of the message; the tensor is not read any more."""
        self._proto = onnx.TensorProto()


def owned(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """The tensor, without the model's message: it stays when the model is released."""
    return serde.TensorProtoTensor(own(tensor.raw)) if isinstance(tensor, MessageTensor) else tensor


class MappedTensor(ir.Tensor[Any]):
    """A tensor in a file: external data, or large data inside the model's own file."""

    __slots__ = ("external", "file", "offset")

    def __init__(
        self,
        file: MappedFile,
        offset: int,
        dtype: ir.DataType,
        shape: tuple[int, ...],
        external: bool,
        name: str | None = None,
        doc_string: str | None = None,
        metadata_props: dict[str, str] | None = None,
    ) -> None:
        self.file = file
        self.offset = offset
        self.external = external  # it had a file of its own, and gets one again
        super().__init__(
            _Lazy(self),
            dtype,
            shape=ir.Shape(shape, frozen=True),
            name=name,
            doc_string=doc_string,
            metadata_props=metadata_props,
        )

    def numpy(self) -> np.ndarray:
        """A view of the file; little data, and elements of less than a byte, are in memory."""
        shape = self.shape.numpy()
        dtype = self.dtype.numpy()
        if self.size == 0:
            return np.empty(shape, dtype)
        if self.dtype.bitwidth < 8:
            packed = self._bytes()
            return ir.PackedTensor(packed, self.dtype, shape=self.shape).numpy()
        return self._bytes().view(np.dtype(dtype).newbyteorder("<")).reshape(shape)

    def _bytes(self) -> np.ndarray:
        """The data as it lies in the file: mapped, or read where it is little."""
        if self.nbytes <= SMALL:
            return np.frombuffer(self.tobytes(), np.uint8)
        return np.frombuffer(self.file.buffer(), np.uint8, self.nbytes, self.offset)

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they lie in the file."""
        return self.file.chunks(self.offset, self.nbytes)

    def tobytes(self) -> bytes:
        return b"".join(self.chunks())

    def tofile(self, file: Any) -> None:
        for piece in self.chunks():
            file.write(piece)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"{self._repr_base()}(file={str(self.file.path)!r}, offset={self.offset})"


class SparseTensor(ir.Tensor[Any]):
    """A constant stored as positions and values; `numpy` gives it dense."""

    __slots__ = ("proto",)

    def __init__(self, proto: onnx.SparseTensorProto) -> None:
        self.proto = proto
        shape = ir.Shape(tuple(proto.dims), frozen=True)
        dtype = ir.DataType(proto.values.data_type)
        super().__init__(_Lazy(self), dtype, shape=shape, name=proto.values.name)

    def numpy(self) -> np.ndarray:
        values = serde.deserialize_tensor(self.proto.values).numpy()
        dense = np.zeros(self.shape.numpy(), values.dtype)
        if values.size == 0:
            return dense
        indices = serde.deserialize_tensor(self.proto.indices).numpy()
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = values
        else:
            dense[tuple(indices.T)] = values
        return dense

    def tobytes(self) -> bytes:
        return self.numpy().tobytes()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)


class Recipe(Protocol):
    """How the elements of a constant follow from arrays that are there."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def key(self) -> Hashable:
        """Equal keys, equal elements."""

    def store(self, out: np.ndarray) -> None:
        """Write the elements, each rounded once to the type of `out`."""

    def arrays(self) -> Iterator[np.ndarray]:
        """What they follow from."""


class ComputedTensor(ir.Tensor[Any]):
    """A constant whose elements are in memory only from when they are asked for until `drop`.

    For large ones that follow from data in files: what is packed for kernels needs no second copy.
    """

    __slots__ = ("_elements", "recipe")

    def __init__(self, recipe: Recipe, dtype: ir.DataType, name: str | None = None) -> None:
        self.recipe = recipe
        self._elements: np.ndarray | None = None
        super().__init__(_Lazy(self), dtype, shape=ir.Shape(recipe.shape, frozen=True), name=name)

    def numpy(self) -> np.ndarray:
        found = self._elements
        if found is None:
            found = self._elements = self._computed()
        return found

    def _computed(self) -> np.ndarray:
        made = np.empty(self.recipe.shape, self.dtype.numpy())
        self.store(made)
        made.flags.writeable = False
        return made

    def store(self, out: np.ndarray) -> None:
        """Write the elements to `out`, an array of this type and shape."""
        self.recipe.store(out)
        for array in self.recipe.arrays():
            give_back_pages(array)

    def drop(self) -> None:
        """Lets go of the elements; they are computed anew when asked for again."""
        self._elements = None

    def _once(self) -> np.ndarray:
        """The elements for somebody who reads them once: not kept for that."""
        found = self._elements
        return self._computed() if found is None else found

    def tobytes(self) -> bytes:
        return self._once().tobytes()

    def tofile(self, file: Any) -> None:
        file.write(self._once().reshape(-1).view(np.uint8).data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)


def map_of(array: np.ndarray) -> mmap.mmap | None:
    """The mapped file that an array is a view of; None where the map may be written to: what it
    holds changes, or is nowhere else."""
    base: Any = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, mmap.mmap) and memoryview(base).readonly else None


def give_back_pages(array: np.ndarray) -> None:
    """The memory behind a large array that lies in a mapped file is the system's again, once it has
    been read in full; who reads it once more reads the file."""
    mapped = map_of(array)
    if mapped is None or array.nbytes < _MANY or not hasattr(mmap, "MADV_DONTNEED"):
        return
    first = int(np.frombuffer(mapped, np.uint8).__array_interface__["data"][0])
    low, high = np.lib.array_utils.byte_bounds(array)
    start = (low - first) // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.madvise(mmap.MADV_DONTNEED, start, high - first - start)
