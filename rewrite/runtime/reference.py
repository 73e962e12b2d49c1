"""The reference device: any operator on numpy values, one node at a time, slowly.

In: an operator with its operands in the form in which the model's opset has them, as arrays,
strings as object arrays of `str`, sequences as lists, empty optionals and absent operands as None.
Out: the values of its outputs in the same form; `RewriteError` (RW831, RW832) that names the node.

Four evaluators are asked in turn: `reference_operators`, the values declared in `rewrite.ops`, the
arithmetic of quantized operators as ONNX Runtime computes it on x86 (`rewrite.quant.reference`),
and the evaluator that comes with onnx. Operators with a subgraph are the session's affair.

Random operators draw from numpy's Mersenne Twister, seeded by the attribute `seed` (a whole number
in effect) at every run: the same seed gives the same numbers each time. Without the attribute they
differ from run to run.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

from rewrite.errors import RewriteError, error
from rewrite.ops import legacy, registry, schemas
from rewrite.ops.call import Array
from rewrite.ops.dtypes import of_numpy
from rewrite.ops.evaluate import evaluate
from rewrite.quant import reference as quantized
from rewrite.quant.faults import QuantError
from rewrite.quant.reference.call import Arithmetic
from rewrite.quant.requantize import REQUANTIZERS
from rewrite.quant.rounding import Order
from rewrite.runtime.reference_operators import OPERATORS, compute
from rewrite.runtime.strings import to_text
from rewrite.schema import DTYPES

Value = Any  # an array, a list of values (a sequence), a dict (a map) or None

_STANDARD = ("", "ai.onnx")
_KEPT = 1024  # evaluators of single nodes that are kept ready


def run_node(
    node: onnx.NodeProto,
    opset: int,
    attributes: Mapping[str, Any],
    inputs: Sequence[Value],
    label: str = "",
) -> list[Value]:
    """All outputs of one node.

    `attributes`: those of `node` as plain values; `inputs`: one per operand of the node, None where
    it is absent. `label` names the node in messages.
    """
    what = label or node.name or node.op_type
    for evaluator in (compute, _declared, _quantized, _onnx):
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = evaluator(node, opset, attributes, inputs)
        except RewriteError:
            raise
        except MemoryError as problem:
            raise _failed(node, what, "the result does not fit into memory") from problem
        except Exception as problem:
            raise _failed(node, what, _first_line(problem)) from problem
        if found is not None:
            return [to_text(value) for value in found]
    if known(node.domain, node.op_type, opset):
        raise _failed(node, what, "these operands or attributes are not taken")
    raise error(
        "RW831",
        f"no kernel and no reference value for {_operator(node)} of opset {opset}",
        hint="operators of own domains need a local function in the model, which says what they do",
        subject=what,
    )


def known(domain: str, name: str, opset: int) -> bool:
    """Whether some evaluator has the operator."""
    key = ("" if domain in _STANDARD else domain, name)
    if key in OPERATORS or key in quantized.OPERATORS:
        return True
    definition = registry.find(domain, name)
    if definition is not None and definition.evaluate is not None:
        return True
    if domain == "com.microsoft":
        return False
    try:
        onnx.defs.get_schema(name, opset, key[0])
    except onnx.defs.SchemaError:
        return False
    return key != ("ai.onnx.preview.training", "Gradient")


# --- rewrite.ops -------------------------------------------------------------------------------


def _declared(
    node: onnx.NodeProto, opset: int, attributes: Mapping[str, Any], inputs: Sequence[Value]
) -> list[Value] | None:
    """The value declared in `rewrite.ops`; None also where the standard leaves it open: another
    evaluator has to choose one of the values that are allowed."""
    arrays = newest_form(node, opset, attributes, inputs)
    if arrays is None:
        return None
    versions = schemas.versions("" if node.domain in _STANDARD else node.domain, node.op_type)
    if versions and opset < versions[0].since:
        opset = versions[0].since  # ONNX Runtime runs LayerNormalization, Gelu, ... in any opset
    found = evaluate(node.domain, node.op_type, opset, arrays, attributes, len(node.output))
    return [np.asarray(array) for array in found] if found else None


def newest_form(
    node: onnx.NodeProto, opset: int, attributes: Mapping[str, Any], inputs: Sequence[Value]
) -> list[Array | None] | None:
    """Operands as declarations want them: what old opsets say by attributes is operands; None
    where an operand is no tensor."""
    if any(value is not None and not isinstance(value, np.ndarray) for value in inputs):
        return None
    operands = list(inputs)
    domain = "" if node.domain in _STANDARD else node.domain
    for index, carried in legacy.operands_of(domain, node.op_type, opset).items():
        if index < len(operands) and operands[index] is not None:
            continue
        first = operands[0] if operands else None
        dtype = None if first is None else of_numpy(first.dtype)
        given = attributes.get(carried.attribute)
        operands += [None] * (index + 1 - len(operands))
        operands[index] = legacy.legacy_operand("", node.op_type, opset, index, given, dtype)
    return operands


# --- rewrite.quant -----------------------------------------------------------------------------

_AFTER = Arithmetic(requantizer=REQUANTIZERS["ort_x86"])
_BEFORE = Arithmetic(requantizer=REQUANTIZERS["ort_x86"], order=Order.ADD_THEN_ROUND)
# ONNX Runtime adds the zero point of these before it rounds.
_ADDED_FIRST = frozenset({"QLinearAdd", "QLinearMul", "QLinearAveragePool"})


def _quantized(
    node: onnx.NodeProto, opset: int, attributes: Mapping[str, Any], inputs: Sequence[Value]
) -> list[Value] | None:
    how = _BEFORE if node.op_type in _ADDED_FIRST else _AFTER
    domain = "" if node.domain in _STANDARD else node.domain
    try:
        found = quantized.evaluate(domain, node.op_type, inputs, attributes, how)
    except QuantError:
        if domain == "":
            return None  # onnx's evaluator may give a value to what has none by the text
        raise
    return None if found is None else list(found)


# --- onnx --------------------------------------------------------------------------------------


def _onnx(
    node: onnx.NodeProto, opset: int, attributes: Mapping[str, Any], inputs: Sequence[Value]
) -> list[Value] | None:
    """onnx's evaluator on a model of this node alone, or of the function that its schema gives."""
    if node.domain in ("com.microsoft",):
        return None
    alone = onnx.NodeProto(op_type=node.op_type, domain=node.domain, attribute=node.attribute)
    alone.output.extend(f"o{k}" if name else "" for k, name in enumerate(node.output))
    if _resamples(node, opset):
        alone, inputs, opset = _resize(alone, inputs), [inputs[0], None, inputs[1]], 13
    alone.input.extend("" if value is None else f"i{k}" for k, value in enumerate(inputs))
    types = tuple(_type_of(value) for value in inputs)
    evaluator = _evaluator(alone.SerializeToString(deterministic=True), opset, types)
    if evaluator is None:
        return None
    feeds = {f"i{k}": value for k, value in enumerate(inputs) if value is not None}
    results = iter(evaluator.run(None, feeds))
    return [next(results) if name else None for name in node.output]


def _resamples(node: onnx.NodeProto, opset: int) -> bool:
    """Upsample with its scales as an operand, and Resize before it had coordinates."""
    return node.domain in _STANDARD and (
        (node.op_type == "Upsample" and opset >= 9) or (node.op_type == "Resize" and opset == 10)
    )


def _resize(node: onnx.NodeProto, inputs: Sequence[Value]) -> onnx.NodeProto:
    """The same as Resize of opset 13: element i comes from floor(i / scale)."""
    node.op_type = "Resize"
    node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    node.attribute.append(helper.make_attribute("nearest_mode", "floor"))
    return node


@lru_cache(maxsize=_KEPT)
def _evaluator(node: bytes, opset: int, types: tuple[bytes | None, ...]) -> Any:
    """A ready evaluator of the node, None where onnx has none."""
    from onnx.reference import ReferenceEvaluator

    proto = onnx.NodeProto.FromString(node)
    given = []
    for k, text in enumerate(types):
        if text is not None:
            type_ = onnx.TypeProto.FromString(text)
            given.append(onnx.ValueInfoProto(name=f"i{k}", type=type_))
    made = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
    imports = [helper.make_opsetid(proto.domain, opset)]
    if proto.domain not in _STANDARD:
        imports.append(helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    graph = helper.make_graph([proto], "node", given, made)
    model = helper.make_model(graph, opset_imports=imports, ir_version=onnx.IR_VERSION)
    try:
        return ReferenceEvaluator(model)
    except NotImplementedError:
        # onnx has no such operator. `run_node` says so: RW831 where nobody has it (Gradient, own
        # domains), RW832 where another evaluator has it and did not take what it was given.
        return None


def _type_of(value: Value) -> bytes | None:
    """The serialized type of a value, as onnx's evaluator wants it for functions."""
    proto = _type_proto(value)
    return None if proto is None else proto.SerializeToString(deterministic=True)


def _type_proto(value: Value) -> onnx.TypeProto | None:
    if value is None:
        return None
    if isinstance(value, list):
        inner = _type_proto(value[0]) if value else helper.make_tensor_type_proto(1, None)
        return None if inner is None else helper.make_sequence_type_proto(inner)
    if isinstance(value, dict):
        return onnx.TypeProto()
    name = of_numpy(value.dtype)
    shape = [None] * value.ndim
    return helper.make_tensor_type_proto(0 if name is None else DTYPES[name], shape)


# --- messages ----------------------------------------------------------------------------------


def _operator(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in _STANDARD else f"{node.domain}.{node.op_type}"


def _failed(node: onnx.NodeProto, what: str, reason: str) -> RewriteError:
    return error("RW832", f"{_operator(node)} cannot be computed: {reason}", subject=what)


def _first_line(problem: Exception) -> str:
    text = str(problem).strip()
    return text.splitlines()[0][:300] if text else type(problem).__name__
