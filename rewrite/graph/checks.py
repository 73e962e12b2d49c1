"""Whether a model can be taken: versions, and the verdict of the ONNX checker.

In: a model that was read, and its bytes without large tensor data. Out: notes about what was
repaired or tolerated, or a `RewriteError`.

Repaired: nodes out of order, missing imports of domains other than ai.onnx, graphs without a name,
initializers of IR version 3 that are not inputs. Tolerated, with a note: operators that ONNX does
not have at the model's opset, and outputs without type or shape. Everything else that the checker
refuses is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import onnx
import onnx_ir as ir
from onnx import checker

from rewrite.errors import error
from rewrite.graph import order
from rewrite.graph.facts import Facts, walk
from rewrite.graph.read import Problems, Read
from rewrite.graph.versions import FREE_INITIALIZERS, require_ir
from rewrite.ops import schemas
from rewrite.schema import OLDEST_OPSET

OLDEST_IR = 3
LONG_NAME = "ai.onnx"  # the domain "", which onnx-ir writes short, and the checker wants short
_STANDARD = frozenset({"", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training"})
# The checker accepts these without a schema, and says so on standard output (onnx/checker.cc).
_EXPERIMENTAL = frozenset(
    {"ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill",
     "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"}
)  # fmt: skip
_TOLERABLE = re.compile(
    r"No Op registered for|Field 'shape' of 'type' is required|"
    r"Field 'type' of 'value_info' is required"
)


def check_versions(model: ir.Model, problems: Problems) -> None:
    """IR version and opsets that this tool knows."""
    if not OLDEST_IR <= (model.ir_version or 0) <= onnx.IR_VERSION:
        known = f"this tool knows {OLDEST_IR} to {onnx.IR_VERSION}"
        newer = (model.ir_version or 0) > onnx.IR_VERSION
        hint = "install a newer onnx" if newer else "export the model again"
        problems.add("RW503", f"IR version {model.ir_version} is not supported: {known}", hint)
    newest = schemas.newest_opset()
    for graph, who in _importers(model):
        version = graph.opset_imports.get("")
        if version is None:
            if any(node.domain == "" for node in graph):
                hint = "onnx.helper.make_opsetid makes an entry for `opset_import`"
                problems.add("RW504", f"{who} imports no opset of ai.onnx", hint)
        elif not OLDEST_OPSET <= version <= newest:
            known = f"this tool knows {OLDEST_OPSET} to {newest}"
            raises = "onnx.version_converter.convert_version raises the opset of a model"
            hint = "install a newer onnx" if version > newest else raises
            problems.add("RW504", f"opset {version} of {who} is not supported: {known}", hint)
    problems.raise_if_any()


def _importers(model: ir.Model) -> Iterator[tuple[ir.Graph, str]]:
    yield model.graph, "the model"
    for function in model.functions.values():
        yield function.graph, f"function {function.domain}:{function.name}"


def repair(facts: Facts, read: Read, subject: str) -> bool:
    """Mend what has one right answer; whether anything was mended."""
    facts.notes += read.notes
    before = len(facts.notes)
    model = facts.model
    if not read.in_order:
        _sort(model, subject)
        facts.notes.append("nodes were out of order; they were sorted")
    if read.domains - set(model.opset_imports) - {LONG_NAME} or model.functions:
        _import_missing(facts)
    for graph in facts.graphs():
        if not graph.name and not facts.in_function(graph):
            graph.name = facts.names.fresh("graph")
            facts.notes.append(f"a graph without a name was named '{graph.name}'")
    if model.ir_version < FREE_INITIALIZERS:
        loose = [v for v in model.graph.initializers.values() if not v.is_graph_input()]
        if loose:
            require_ir(facts, FREE_INITIALIZERS, f"initializer '{loose[0].name}' is no input")
    return len(facts.notes) > before or bool(read.notes) or LONG_NAME in read.domains


def _import_missing(facts: Facts) -> None:
    for graph, root, _ in walk(facts.model):
        used = {node.domain for node in graph}
        for domain in sorted(used - set(root.opset_imports) - {""}):
            root.opset_imports[domain] = 1
            facts.notes.append(f"the import of {domain} was missing; version 1 was added")


def _sort(model: ir.Model, subject: str) -> None:
    for graph, _, holder in walk(model):
        if not order.sort(graph):
            where = f"graph '{graph.name}'" if holder is None else f"a graph in '{holder.name}'"
            raise error("RW506", f"the nodes of {where} form a cycle", subject=subject)


# --- the ONNX checker --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker says: accepted without a message, tolerated with one, or refused."""

    accepted: bool
    message: str = ""


def verdict(data: bytes, op_types: frozenset[str]) -> Verdict:
    """The checker's verdict on a model with these operators."""
    if op_types & _EXPERIMENTAL:
        proto = onnx.ModelProto.FromString(data)
        _hide_unknown(proto)
        data = proto.SerializeToString()
    message = _complaint(data)
    if message is None:
        return Verdict(True)
    if not _TOLERABLE.search(message):
        return Verdict(False, message)
    proto = onnx.ModelProto.FromString(data)
    _patch(proto)
    again = _complaint(proto.SerializeToString())
    return Verdict(True, message) if again is None else Verdict(False, again)


def check(data: bytes, op_types: frozenset[str], subject: str) -> str | None:
    """A note where the model is tolerated; `RewriteError` where it is refused."""
    found = verdict(data, op_types)
    if not found.accepted:
        message = f"the ONNX checker refuses the model: {found.message}"
        raise error("RW510", message, subject=subject)
    if not found.message:
        return None
    return f"tolerated, though the ONNX checker refuses it: {found.message}"


def _complaint(data: bytes) -> str | None:
    try:
        checker.check_model(data)
    except checker.ValidationError as failure:
        return " ".join(str(failure).split())
    except ValueError as failure:
        return str(failure)
    return None


def _patch(proto: onnx.ModelProto) -> None:
    """Hide from the checker what is tolerated."""
    for info in proto.graph.output:
        if not info.HasField("type"):
            info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for info in (*proto.graph.input, *proto.graph.output):
        if info.type.HasField("tensor_type") and not info.type.tensor_type.HasField("shape"):
            info.type.tensor_type.shape.SetInParent()
    _hide_unknown(proto)


def _hide_unknown(proto: onnx.ModelProto) -> None:
    """Operators that ONNX does not have at this opset go to a domain that is not checked."""
    foreign = "rewrite.unknown"
    proto.opset_import.add(domain=foreign, version=1)
    imports = {entry.domain: entry.version for entry in proto.opset_import}
    _hide(proto.graph.node, imports, foreign)
    for function in proto.functions:
        function.opset_import.add(domain=foreign, version=1)
        _hide(function.node, {e.domain: e.version for e in function.opset_import}, foreign)


def _hide(nodes: object, imports: dict[str, int], foreign: str) -> None:
    pending = list(nodes)  # type: ignore[call-overload]
    while pending:
        node = pending.pop()
        for attribute in node.attribute:
            pending.extend(attribute.g.node if attribute.type == attribute.GRAPH else ())
            for graph in attribute.graphs:
                pending.extend(graph.node)
        if node.domain not in _STANDARD:
            continue
        if not _has_schema(node.op_type, imports.get(node.domain, 0), node.domain):
            node.domain = foreign


def _has_schema(op_type: str, version: int, domain: str) -> bool:
    try:
        onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return False
    return True
