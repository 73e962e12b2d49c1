"""Weights of recurrent layers in blocks of hidden units.

In: arrays or tensors whose dimensions are those of ONNX. Out: the layouts that the specs of
rewrite/plan/specs/recurrent.py state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.recurrent import Recurrent
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import View

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Array = np.ndarray[Any, np.dtype[Any]]


def in_blocks(x: Array, unit: int) -> Array:
    """(…, sets, hidden) as (…, block, set, unit), padded with zeros."""
    pad = -x.shape[-1] % unit
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)])
    x = x.reshape(*x.shape[:-1], x.shape[-1] // unit, unit)
    return np.ascontiguousarray(np.moveaxis(x, -3, -2))


def packed_weights(r: Array, passes: tuple[tuple[int, ...], ...], unit: int, wide: str) -> Array:
    """R (direction, gate, hidden, k) as one row: [direction][pass][block][k][gate][unit]."""
    found = []
    for direction in r.astype(np.float64 if wide == "f64" else np.float32):
        for gates in passes:
            blocks = in_blocks(direction[list(gates)].transpose(2, 0, 1), unit)
            found.append(blocks.transpose(1, 0, 2, 3).reshape(-1))
    return np.concatenate(found)


def weights_of(low: Lowering, r: Tensor, spec: Recurrent, wide: str) -> Tensor:
    """The same of weights that are not known before the run."""
    directions, _, hidden, k = r.shape
    unit, blocks = spec.unit, spec.blocks
    every = spec.gates * unit * blocks * k
    made = low.new(wide, (directions * every,))
    offset = 0
    for gates in spec.passes:
        count = len(gates)
        shape = (directions, count, blocks, unit, k)
        strides = (every, unit, k * count * unit, 1, count * unit)
        target = Tensor(made.buffer, View(wide, shape, strides), made.offset + offset)
        source = r.sliced((0, gates[0], 0, 0), (directions, count, hidden, k))
        blocked(low, source, target)
        offset += count * unit * blocks * k
    return made


def blocked(low: Lowering, source: Tensor, target: Tensor) -> None:
    """(d, set, hidden, k) into (d, set, block, unit, k), zeros behind the last hidden unit."""
    d, sets, hidden, k = source.shape
    unit = target.shape[3]
    whole, rest = divmod(hidden, unit)
    if rest:
        low.fill(target.sliced((0, 0, whole, 0, 0), (d, sets, 1, unit, k)), 0)
        last = target.sliced((0, 0, whole, 0, 0), (d, sets, 1, rest, k))
        given = source.sliced((0, 0, whole * unit, 0), (d, sets, rest, k))
        _convert(low, _under(given, (d, sets, 1, rest, k)), last)
    if whole:
        given = source.sliced((0, 0, 0, 0), (d, sets, whole * unit, k))
        first = target.sliced((0, 0, 0, 0, 0), (d, sets, whole, unit, k))
        _convert(low, _under(given, (d, sets, whole, unit, k)), first)


def _under(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    found = tensor.reshaped(shape)
    assert found is not None, "a dimension of any stride can be split"
    return found


def _convert(low: Lowering, source: Tensor, target: Tensor) -> None:
    if source.dtype == target.dtype:
        low.copy(source, target)
        return
    cast = Step("", "Cast", (0,), target.dtype, (("saturate", 1),), 22)
    low.pointwise(Body((source.dtype,), (cast,), (1,)), [source], [target])
