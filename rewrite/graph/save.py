"""A model to files: whole or not at all.

In: a `LoadedModel` and a path. Out: the model's file, and `<path>.data` beside it where its tensors
had files of their own or where everything together would not fit into one protobuf message.

Large tensors go from where they are to where they belong in pieces; they are never held in memory.
Files are written under another name in the same folder and then renamed, data before the model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import onnx
import onnx_ir as ir
from onnx_ir import serde

from rewrite import files
from rewrite.errors import error
from rewrite.graph import wire, write
from rewrite.graph.model import LoadedModel
from rewrite.graph.tensors import MappedTensor, SparseTensor
from rewrite.graph.uses import nodes_of

LARGE = 1 << 20  # tensors of this many bytes or more are copied in pieces
LIMIT = 1_900_000_000  # a message must be smaller than 2**31 bytes; the rest is for the nodes
SMALLEST_EXTERNAL = 1024  # smaller tensors stay inside, as in onnx.save
PAGE = 4096  # docs/ExternalData.md: offsets that are multiples of a page can be mapped


@dataclass(slots=True)
class _Plan:
    """Where each tensor goes. Keys of `holes` are the offsets in the notes (rewrite.graph.wire)."""

    location: str
    split: bool  # everything but small tensors goes into the data file
    stream: bool  # leave holes for large tensors
    holes: dict[int, ir.TensorProtocol] = field(default_factory=dict)
    outside: list[tuple[int, ir.TensorProtocol]] = field(default_factory=list)
    end: int = 0

    def write(self, proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
        """Fill in one tensor of the model."""
        size = 0 if tensor.dtype == ir.DataType.STRING else tensor.nbytes
        if is_external(tensor) or (self.split and size >= SMALLEST_EXTERNAL):
            self._outside(proto, tensor, size)
        elif self.stream and size >= LARGE:
            write.describe(proto, tensor)
            proto.MergeFromString(wire.note(len(self.holes), 0))
            self.holes[len(self.holes)] = tensor
        else:
            write.inline(proto, tensor)

    def _outside(self, proto: onnx.TensorProto, tensor: ir.TensorProtocol, size: int) -> None:
        step = PAGE if size >= PAGE else 16
        offset = -(-self.end // step) * step
        write.describe(proto, tensor)
        proto.MergeFromString(wire.note(offset, size, self.location))
        self.outside.append((offset, tensor))
        self.end = offset + size


def is_external(tensor: ir.TensorProtocol) -> bool:
    """Whether the tensor has a file of its own."""
    return isinstance(tensor, ir.ExternalTensor) or (
        isinstance(tensor, MappedTensor) and tensor.external
    )


def save(loaded: LoadedModel, path: str | os.PathLike[str]) -> None:
    """Write the model to `path`, or to where the link `path` leads. On failure nothing is left."""
    target = Path(path)
    if not target.name or "\0" in target.name:
        raise error("RW513", "cannot write the model: no file name", subject=repr(str(path)))
    try:
        if target.is_symlink():
            target = target.resolve()
        _save(loaded, target, target.with_name(target.name + ".data"))
    except RuntimeError:
        raise error(
            "RW513", "cannot write the model: the links go in a circle", subject=str(path)
        ) from None
    except OSError as failure:
        reason = failure.strerror or str(failure)
        raise error("RW513", f"cannot write the model: {reason}", subject=str(target)) from failure


def _save(loaded: LoadedModel, target: Path, data_path: Path) -> None:
    _refuse_inputs(loaded, target, data_path)
    plan = _Plan(data_path.name, inline_size(loaded) > LIMIT, stream=True)
    data = message(loaded, plan.write).SerializeToString()
    sizes = {key: tensor.nbytes for key, tensor in plan.holes.items()}
    pieces = wire.splice(data, sizes.__getitem__, frozenset(sizes))
    with files.whole(target) as model_file:
        if not plan.outside:
            _write_pieces(model_file, pieces, plan)
            return
        with files.whole(data_path) as data_file:
            _write_outside(data_file, plan)
            _write_pieces(model_file, pieces, plan)
            model_file.flush()


def message(loaded: LoadedModel, tensors: write.TensorWriter) -> onnx.ModelProto:
    """The model as a message, with its training information."""
    proto = write.write_model(loaded.model, loaded.facts.declared, tensors)
    proto.training_info.extend(loaded.training)
    return proto


def to_proto(loaded: LoadedModel) -> onnx.ModelProto:
    """The model with all its data in one ModelProto."""
    size = inline_size(loaded, external=True)
    if size > LIMIT:
        raise error(
            "RW512",
            f"{size / 1e9:.1f} GB do not fit into one ModelProto, which holds 2 GB",
            subject=loaded.source,
            hint="save the model to a file: its tensors then go into a data file beside it",
        )
    return message(loaded, write.inline)


def inline_size(loaded: LoadedModel, external: bool = False) -> int:
    """Bytes of tensor data inside the message; also of what lies outside where `external`."""
    return sum(
        tensor.nbytes
        for tensor in _tensors(loaded)
        if tensor.dtype != ir.DataType.STRING
        and (external or not is_external(tensor))
        and not isinstance(tensor, SparseTensor)
    )


def _tensors(loaded: LoadedModel) -> Iterator[ir.TensorProtocol]:
    kinds = (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS)
    for graph in loaded.facts.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value.const_value
        for node in nodes_of(graph):
            for attribute in node._attributes.data.values():
                if attribute.type in kinds and attribute.value is not None:
                    held = attribute.value
                    yield from (held,) if attribute.type == kinds[0] else held


# --- files -------------------------------------------------------------------------------------


def _refuse_inputs(loaded: LoadedModel, target: Path, data_path: Path) -> None:
    for path in (target, data_path):
        if any(file.is_at(path) for file in loaded.files):
            raise error(
                "RW514",
                f"{path.name} is a file that the model was read from",
                subject=str(target),
                hint="choose another name: the input is never changed",
            )
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise error("RW513", f"cannot write the model: it is {kind}", subject=str(path))


def _write_pieces(stream: IO[bytes], pieces: Iterable[wire.Piece], plan: _Plan) -> None:
    for piece in pieces:
        if isinstance(piece, wire.Hole):
            _copy(plan.holes[piece.key], stream)
        else:
            stream.write(piece)


def _write_outside(stream: IO[bytes], plan: _Plan) -> None:
    at = 0
    for offset, tensor in plan.outside:
        stream.write(b"\0" * (offset - at))
        _copy(tensor, stream)
        at = offset + tensor.nbytes


def _copy(tensor: ir.TensorProtocol, stream: IO[bytes]) -> None:
    if isinstance(tensor, MappedTensor):
        for piece in tensor.chunks():
            stream.write(piece)
    elif isinstance(tensor, serde.TensorProtoTensor):
        stream.write(tensor.tobytes())
    elif isinstance(tensor, (ir.Tensor, ir.ExternalTensor)):
        tensor.tofile(stream)
    else:
        stream.write(tensor.tobytes())
