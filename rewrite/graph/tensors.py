"""Tensors whose data lies in a file, and sparse tensors.

In: a file and a place in it, or a SparseTensorProto. Out: onnx-ir tensors that read only when
asked. A file is opened once and stays open, so that what was checked is what is read.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import serde

CHUNK = 1 << 22


class MappedFile:
    """A file of tensor data, mapped when first read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = path.open("rb")
        self.size = os.fstat(self._stream.fileno()).st_size
        self._map: mmap.mmap | None = None

    def buffer(self) -> mmap.mmap:
        """The whole file, mapped for reading."""
        if self._map is None:
            self._map = mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map

    def is_at(self, path: Path) -> bool:
        """Whether `path` is this very file."""
        try:
            return os.path.samestat(os.fstat(self._stream.fileno()), path.stat())
        except OSError:
            return False

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        """The bytes of a range, read and not mapped, so that they do not stay in memory."""
        end = offset + size
        while offset < end:
            piece = os.pread(self._stream.fileno(), min(CHUNK, end - offset), offset)
            if not piece:
                raise OSError(f"{self.path} became shorter while it was read")
            yield piece
            offset += len(piece)


class _Lazy:
    """What onnx-ir asks for in place of an array: the array, made when asked."""

    def __init__(self, tensor: MappedTensor | SparseTensor) -> None:
        self._tensor = tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._tensor.numpy(), dtype=dtype, copy=copy)


class MappedTensor(ir.Tensor[Any]):
    """A tensor in a file: external data, or large data inside the model's own file."""

    __slots__ = ("_array", "external", "file", "offset")

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
        self._array: np.ndarray | None = None
        super().__init__(
            _Lazy(self),
            dtype,
            shape=ir.Shape(shape, frozen=True),
            name=name,
            doc_string=doc_string,
            metadata_props=metadata_props,
        )

    def numpy(self) -> np.ndarray:
        """A view of the file; elements smaller than a byte are unpacked into memory."""
        if self._array is None:
            self._array = self._view()
        return self._array

    def _view(self) -> np.ndarray:
        shape = self.shape.numpy()
        dtype = self.dtype.numpy()
        if self.size == 0:
            return np.empty(shape, dtype)
        if self.dtype.bitwidth < 8:
            packed = np.frombuffer(self.file.buffer(), np.uint8, self.nbytes, self.offset)
            return ir.PackedTensor(packed, self.dtype, shape=self.shape).numpy()
        little = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(self.file.buffer(), little, self.size, self.offset).reshape(shape)

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
