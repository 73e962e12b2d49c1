"""ONNX in and out.

In: a path, a ModelProto or an onnx-ir model. Out: a checked `LoadedModel`; and back to a ModelProto
or to files, whole or not at all. The source is never changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rewrite.errors import error
from rewrite.graph import checks, collector, infer, stubs, wire
from rewrite.graph import save as saving
from rewrite.graph.facts import Facts
from rewrite.graph.load_tensors import TensorLoader
from rewrite.graph.model import LoadedModel
from rewrite.graph.read import Problems, Read, read_model
from rewrite.graph.tensors import MappedFile

WHOLE = 32 << 20  # files up to this size are read whole; of larger ones, data stays in the file
LEAST_CUT = 1 << 20

Source = str | os.PathLike[str] | onnx.ModelProto | ir.Model


def load(source: Source) -> LoadedModel:
    """Read and check a model. Raises `RewriteError` (RW5xx) where it cannot be taken."""
    with collector.paused():
        if isinstance(source, ir.Model):
            proto, tensors = stubs.from_ir(source)
            return _take(proto, None, TensorLoader(None, given=tensors), "model")
        if isinstance(source, onnx.ModelProto):
            return _take(source, None, TensorLoader(None), "model")
        if not isinstance(source, (str, os.PathLike)):
            what = type(source).__name__
            hint = "a model is given as a path, an onnx.ModelProto or an onnx_ir.Model"
            raise error("RW501", f"cannot read the model: it is of type {what}", hint=hint)
        path = Path(source)
        subject = str(path)
        file = _open(path, subject)
        data = _small_part(file, subject)
        return _take(parse(data, subject), data, TensorLoader(path.parent, file), subject)


def save(loaded: LoadedModel, path: str | os.PathLike[str]) -> None:
    """Write the model, and its data file where it needs one. Raises RW513 or RW514."""
    with collector.paused():
        saving.save(loaded, path)


def to_proto(loaded: LoadedModel) -> onnx.ModelProto:
    """The model as one ModelProto. Raises RW512 where it has more than 2 GB."""
    with collector.paused():
        return saving.to_proto(loaded)


def parse(data: bytes, subject: str = "model") -> onnx.ModelProto:
    """The message that these bytes are. Raises RW502 where they are none."""
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as failure:
        raise _not_onnx(subject, "it is not a protobuf message, or cut off") from failure
    if not proto.HasField("graph") and not proto.ir_version:
        raise _not_onnx(subject, "it has no graph and no IR version")
    return proto  # type: ignore[no-any-return]


# --- bytes -------------------------------------------------------------------------------------


def _open(path: Path, subject: str) -> MappedFile:
    try:
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "no regular file"
            raise error("RW501", f"cannot read the model: it is {kind}", subject=subject)
        file = MappedFile(path)
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure)
        raise error("RW501", f"cannot read the model: {reason}", subject=subject) from failure
    if file.size == 0:
        raise error("RW502", "the file is empty", subject=subject)
    return file


def _small_part(file: MappedFile, subject: str) -> bytes:
    """The model's bytes; of a large file, without the data of its large tensors."""
    try:
        if file.size <= WHOLE:
            return b"".join(file.chunks(0, file.size))
        return wire.cut(file.buffer(), LEAST_CUT)
    except wire.MalformedError as failure:
        raise _not_onnx(subject, str(failure)) from failure
    except OSError as failure:
        reason = failure.strerror or str(failure)
        raise error("RW501", f"cannot read the model: {reason}", subject=subject) from failure


def _not_onnx(subject: str, why: str) -> Exception:
    return error("RW502", f"this is not an ONNX model: {why}", subject=subject)


# --- checks ------------------------------------------------------------------------------------


def _take(
    proto: onnx.ModelProto, data: bytes | None, loader: TensorLoader, subject: str
) -> LoadedModel:
    """A message to a checked model. `data` are its bytes, where they are at hand."""
    problems = Problems(subject)
    if not proto.HasField("graph"):
        raise error("RW502", "this model has no graph", subject=subject)
    read = read_model(proto, loader, problems)
    checks.check_versions(read.model, problems)
    facts = _facts(proto, read)
    mended = checks.repair(facts, read, subject)
    loaded = LoadedModel(
        read.model,
        facts,
        subject,
        facts.notes,
        loader.opened(),
        tuple(proto.training_info),
        tuple(loader.messages),
    )
    if mended or data is None or loader.unusual:
        data, checkable = stubs.small_forms(loaded)
    else:
        checkable = data
    tolerated = checks.check(checkable, read.op_types, subject)
    if tolerated is not None:
        loaded.notes.append(tolerated)
    if any(facts.is_overridable(v) for g in facts.graphs() for v in g.initializers.values()):
        data = infer.without_defaults(data, facts.pinned)
    facts.learn(infer.infer(read.model, data, read.nested, read.op_types, loaded.notes))
    return loaded


def _facts(proto: onnx.ModelProto, read: Read) -> Facts:
    """Names that something outside the graphs uses stay; what training changes is no constant."""
    kept = {
        entry.value
        for annotation in (
            *read.declared.annotations.values(),
            *(a for many in read.declared.stray_annotations.values() for a in many),
        )
        for entry in annotation.quant_parameter_tensor_names
    }
    pinned = {name for training in proto.training_info for name in _training_names(training)}
    return Facts(read.model, read.declared, frozenset(pinned), frozenset(kept), read.nested)


def _training_names(training: onnx.TrainingInfoProto) -> Iterator[str]:
    """The names of the model's values that training reads or sets."""
    for entry in (*training.initialization_binding, *training.update_binding):
        yield entry.key
        yield entry.value
    graphs = [training.initialization, training.algorithm]
    for graph in graphs:
        for node in graph.node:
            yield from node.input
            for attribute in node.attribute:
                graphs.extend((*attribute.graphs, attribute.g))
