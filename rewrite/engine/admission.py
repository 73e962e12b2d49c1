"""What an emitted node and a computed constant must satisfy before they may stand in a model.

In: a schema with the operands and outputs of a new node; a constant and how it is
stored. Out: nothing, or `RefusedError` with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from rewrite.engine.refused import RefusedError
from rewrite.graph.facts import Facts
from rewrite.graph.tensors import ComputedTensor, give_back_pages, map_of
from rewrite.match.deferred import MANY, ends, is_native
from rewrite.match.values import Tensor
from rewrite.ops.dtypes import finfo, of_numpy, to_numpy
from rewrite.schema import DTYPE_CLASSES, DTYPES, OperandSchema, OpSchema

_LITTLE = 8  # how many times a constant is as large as what is kept in memory to compute it


def admitted(
    facts: Facts,
    schema: OpSchema,
    operands: Sequence[ir.Value | None],
    outputs: Sequence[ir.Value],
) -> None:
    """Every known element type is one that this version of the operator takes or gives."""
    for index, value in enumerate(operands):
        if value is not None:
            _takes(facts, schema, operand_schema(schema, index), value)
    last = len(schema.outputs) - 1
    for index, value in enumerate(outputs):
        _takes(facts, schema, schema.outputs[min(index, last)], value)


def _takes(facts: Facts, schema: OpSchema, place: OperandSchema, value: ir.Value) -> None:
    types = schema.types.get(place.type)
    dtype = facts.type(value).dtype
    if types is None or dtype is None or dtype in types:
        return
    raise RefusedError(f"{schema.name}-{schema.since} has no '{place.name}' of type {dtype}")


def operand_schema(schema: OpSchema, index: int) -> OperandSchema:
    """The declaration of operand `index`; the last one repeats where it is variadic."""
    inputs = schema.inputs
    if index < len(inputs):
        return inputs[index]
    if inputs and inputs[-1].option == "variadic":
        return inputs[-1]
    raise RefusedError(f"{schema.name}-{schema.since} has {len(inputs)} operands")


def keeps_precision(tensor: Tensor, stored: npt.NDArray[np.generic], hint: str) -> None:
    """A claim speaks of errors relative to the largest element: that one must be a normal number.

    Constants of subnormal numbers that only move are exact and pass. NaN is no number that a rule
    can have reckoned with: comparisons and bounds mean nothing there.
    """
    dtype = of_numpy(stored.dtype)
    if not stored.size or dtype not in DTYPE_CLASSES["f"]:
        return
    least = 2 * float(finfo(stored.dtype).smallest_normal)
    # Rounding keeps the order: one that is clearly normal when stored was so before.
    if is_native(stored.dtype) and least <= _largest(stored) < np.inf:
        return
    wide = tensor.array
    if wide.dtype.kind != "f":
        return
    largest = _largest(wide)
    if np.isnan(largest):
        raise RefusedError(f"the constant '{hint}' would hold NaN")
    if np.isinf(largest):
        largest = float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))
    if largest == 0.0 or largest >= float(finfo(stored.dtype).smallest_normal):
        return
    if not np.array_equal(stored.astype(np.float64), wide):
        raise RefusedError(f"the constant '{hint}' would lose its precision: it is below {dtype}")


def postponed(tensor: Tensor, dtype: str | None) -> ComputedTensor | None:
    """The constant, to be computed when it is read; None where it must be computed now.

    It pays for many elements that follow from data in files, which stay there anyway, and from
    little else, which would have to be kept. What `keeps_precision` asks for is asked here without
    making the elements.
    """
    late, name = tensor.late, tensor.dtype or dtype
    if isinstance(late, np.ndarray) or name is None or tensor.size < MANY:
        return None
    target = to_numpy(name)
    kept = sum(array.nbytes for array in late.arrays() if map_of(array) is None)
    if not is_native(target) or kept * _LITTLE > tensor.size * target.itemsize:
        return None
    low, high = ends(late, target)
    for array in late.arrays():
        give_back_pages(array)
    if not 2 * float(finfo(target).smallest_normal) <= max(-low, high) < np.inf:
        return None
    return ComputedTensor(late, ir.DataType(DTYPES[name]))


def _largest(array: npt.NDArray[np.generic]) -> float:
    """The largest magnitude; NaN where an element is none."""
    return max(-float(np.min(array)), float(np.max(array)))
