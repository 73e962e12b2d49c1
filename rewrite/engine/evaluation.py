"""The value of a node whose operands are known.

In: a node and its operands. Out: arrays with the bound within which any conforming runtime agrees,
or None where it cannot be computed here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from rewrite.engine.inference import plain_attributes, to_node
from rewrite.engine.ledger import EXACT, Bound
from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.ops import registry
from rewrite.ops.call import Array
from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.ops.evaluate import evaluate
from rewrite.schema import DTYPE_CLASSES, DTYPES, Type

_MOST_REFERENCE = 64 << 20  # bytes of operands that the reference evaluator is given
# Where runtimes round differently from the reference evaluator by design.
_NOT_BY_REFERENCE = frozenset(
    {
        "QLinearConv", "QLinearMatMul", "QuantizeLinear", "DynamicQuantizeLinear",
        "ConvInteger", "MatMulInteger", "StringNormalizer", "TfIdfVectorizer", "ImageDecoder",
    }
)  # fmt: skip
# One operator of the reference evaluator, a few roundings deep, in the type of the result.
_UNITS = {"f64": 2.0**-50, "f32": 2.0**-20, "f16": 2.0**-8, "bf16": 2.0**-5}


@dataclass(frozen=True, slots=True)
class Evaluated:
    arrays: tuple[Array, ...]
    bound: Bound
    evidence: str


def nbytes(tensor: ir.TensorProtocol) -> int:
    """The size of a tensor; a string counts as 16 bytes."""
    return 16 * tensor.size if tensor.dtype == ir.DataType.STRING else tensor.nbytes


def evaluate_node(
    facts: Facts, node: ir.Node, operands: Sequence[ir.Value | None], types: Sequence[Type]
) -> Evaluated | None:
    """All outputs of the node, of the element types and shapes that `types` say."""
    try:
        attributes = plain_attributes(node)
    except ReferenceAttribute:
        return None
    arrays = [None if value is None else facts.array(value) for value in operands]
    found = evaluate(node.domain, node.op_type, facts.opset(node), arrays, attributes)
    if found is not None:
        # numpy gives scalars for rank 0; a declaration may give outputs that nobody asked for.
        found = tuple(np.asarray(array) for array in found[: len(node.outputs)])
        definition = registry.find(node.domain, node.op_type)
        error = None if definition is None else definition.evaluation
        bound = EXACT if error == "exact" or error is None else Bound("equal", rtol=float(error))
        if all(array.dtype.kind in "iub" for array in found):
            bound = EXACT if error == "exact" else bound
        done = Evaluated(tuple(found), bound, "computed by the operator's declaration")
    else:
        by_reference = _by_reference(facts, node)
        if by_reference is None:
            return None
        done = Evaluated(by_reference, _bound(by_reference), "computed by onnx's evaluator")
    return done if _fits(done.arrays, types) else None


def _fits(arrays: Sequence[Array], types: Sequence[Type]) -> bool:
    """Whether the results are what type inference says: a check on the evaluator."""
    if len(arrays) != len(types):
        return False
    for array, type_ in zip(arrays, types, strict=True):
        if type_.dtype is not None and of_numpy(array.dtype) != type_.dtype:
            return False
        if type_.shape is None:
            continue
        if len(type_.shape) != array.ndim:
            return False
        sizes = zip(type_.shape, array.shape, strict=True)
        if any(isinstance(dim, int) and dim != size for dim, size in sizes):
            return False
    return True


def _bound(arrays: Sequence[Array]) -> Bound:
    worst = 0.0
    for array in arrays:
        name = of_numpy(array.dtype)
        if name in DTYPE_CLASSES["f"]:
            worst = max(worst, _UNITS.get(name, 2.0**-3))
    return Bound("equal", rtol=worst) if worst else EXACT


def _by_reference(facts: Facts, node: ir.Node) -> tuple[Array, ...] | None:
    """One node as a model for the reference evaluator."""
    if node.op_type in _NOT_BY_REFERENCE or node.domain not in ("", "ai.onnx.ml"):
        return None
    feeds: dict[str, Array] = {}
    for index, value in enumerate(node.inputs):
        if value is not None:
            array = facts.array(value)
            if array is None or array.dtype.kind in "OSU":  # strings: as bytes here, not there
                return None
            feeds[f"i{index}"] = array
    if sum(array.nbytes for array in feeds.values()) > _MOST_REFERENCE:
        return None
    model = _model(facts, node, feeds)
    if model is None:
        return None
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # noqa: BLE001 - any failure of the evaluator means: not folded
        return None
    if not all(isinstance(result, (np.ndarray, np.generic)) for result in results):
        return None
    return tuple(np.asarray(result) for result in results)


def _model(facts: Facts, node: ir.Node, feeds: dict[str, Array]) -> onnx.ModelProto | None:
    proto = to_node(node)
    given = []
    for name, array in feeds.items():
        dtype = of_numpy(array.dtype)
        if dtype is None or to_numpy(dtype) is None:
            return None
        given.append(helper.make_tensor_value_info(name, DTYPES[dtype], array.shape))
    made = [onnx.ValueInfoProto(name=name) for name in proto.output]
    imports = [helper.make_opsetid(node.domain, facts.opset(node))]
    graph = helper.make_graph([proto], "node", given, made)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
