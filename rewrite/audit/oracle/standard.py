"""Operators in the element types of the model, as the ONNX specification has them.

In: `Step`, operands as arrays. Out: arrays. Integers that leave their type are a fault: they wrap
around here, as in numpy and in C without its undefined cases, but no runtime promises it. Floats
are rounded after each operator as IEEE 754 does.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.step import OracleError, Step, Value, Values
from rewrite.ops.dtypes import integer_range, of_numpy, to_numpy
from rewrite.ops.evaluate import OPEN, evaluate
from rewrite.quant.codes import Array

_EXACT_INTEGERS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


def standard(step: Step, inputs: Sequence[Value | None]) -> Values:
    """The operator's value in the types of the operands."""
    arrays = [value.floats if isinstance(value, Real) else value for value in inputs]
    _check(step, arrays)
    try:
        found = evaluate(step.domain, step.op, step.opset, arrays, step.attributes, step.n_outputs)
    except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
        raise OracleError(f"{step.op}: {problem}") from problem
    if found is not None and found != OPEN:
        return tuple(np.asarray(array) for array in found)
    if step.domain != "":
        raise OracleError(f"no exact value of {step.domain}::{step.op} is known")
    return reference(step, arrays)


def reference(step: Step, arrays: Sequence[Array | None]) -> Values:
    """ONNX's own evaluator on this one node."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(arrays)]
    outputs = [f"y{k}" for k in range(step.n_outputs)]
    node = helper.make_node(step.op, names, outputs, domain=step.domain)
    for name, value in step.attributes.items():
        if value is not None:
            given = value
            if name in ("value",) and hasattr(value, "numpy"):
                given = numpy_helper.from_array(np.asarray(value.numpy()))
            node.attribute.append(helper.make_attribute(name, given))
    graph = helper.make_graph([node], "node", [], [])
    for name, array in zip(names, arrays, strict=True):
        if name and array is not None:
            elem = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, elem, list(array.shape)))
    for name in outputs:
        graph.output.append(onnx.ValueInfoProto(name=name))
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    )
    feeds = {name: a for name, a in zip(names, arrays, strict=True) if name}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Any = ReferenceEvaluator(model).run(None, feeds)
    except Exception as problem:
        text = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise OracleError(f"no exact value of {step.op} is known ({text})") from problem
    return tuple(np.asarray(value) for value in found)


# --- integers that leave their type -----------------------------------------------------------


def _check(step: Step, arrays: Sequence[Array | None]) -> None:
    """Note where arithmetic on integers wraps around."""
    given = [a for a in arrays if a is not None]
    if step.domain != "" or not given or given[0].dtype.kind not in "iu":
        return
    if step.op == "Cast":
        _check_cast(step, given[0])
    elif step.op in _EXACT_INTEGERS and len(given) == 2:
        low, high = integer_range(of_numpy(given[0].dtype) or "s64")
        operation = _EXACT_INTEGERS[step.op]
        rough = operation(given[0].astype(np.float64), given[1].astype(np.float64))
        if np.any((rough < low / 2) | (rough > high / 2)):
            wide = operation(given[0].astype(object), given[1].astype(object))
            step.fault("integers wrap around", int(np.sum((wide < low) | (wide > high))))


def _check_cast(step: Step, x: Array) -> None:
    name = step.element_type("to", None) or ""
    if name[:1] not in ("u", "s") or name == "string":
        return
    low, high = integer_range(name)
    wide = x.astype(np.float64)
    count = int(np.sum((wide < low) | (wide > high)))
    step.fault(f"an integer outside of {name} is cast to it", count)


def in_type(step: Step, x: Array, name: str) -> Array:
    """Sums that an integer type is to hold: wrapped around, and noted, where it does not."""
    low, high = integer_range(name)
    outside = int(np.sum((x < low) | (x > high)))
    step.fault(f"a sum outside of {name} wraps around", outside)
    return x.astype(np.int64).astype(to_numpy(name))
