"""Pointwise operators on their own or joined: one loop over their output.

In: a cluster of pointwise operators. Out: one `Pointwise` kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rewrite.plan.body import join, place
from rewrite.plan.coded import coded
from rewrite.plan.instance import Instance
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import View

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering


def lower_pointwise(low: Lowering, op: Instance) -> None:
    """One kernel for all members of the cluster; its outputs lie as its largest operand does."""
    del op
    cluster = low.cluster
    results = [output.value for output in cluster.outputs]
    joined, operands = join(cluster.members, results=[v for v in results if v is not None])
    body = coded(joined)
    shape = cluster.shape
    given = [place(o, i, _operand(low, o, i), shape) for o, i in operands]
    order = _order(given, shape)
    outputs = [low.output(k, order) for k, v in enumerate(results) if v is not None]
    low.pointwise(body, given, outputs)


def _operand(low: Lowering, op: Instance, index: int) -> Tensor:
    """An operand where it lies; scales and zero points per block repeated along their axis."""
    tensor = low.tensor_of(op, index)
    block = op.integer("block_size", 0)
    if not block or index == 0 or tensor.view.size == 1:
        return tensor
    shape = op.shape(0)
    axis = op.integer("axis", 1) % len(shape)
    view = tensor.view
    sizes = (*view.shape[: axis + 1], block, *view.shape[axis + 1 :])
    strides = (*view.strides[: axis + 1], 0, *view.strides[axis + 1 :])
    repeated = low.new(tensor.dtype, sizes)
    low.copy(tensor.like(View(tensor.dtype, sizes, strides)), repeated)
    merged = repeated.reshaped(
        (*view.shape[:axis], view.shape[axis] * block, *view.shape[axis + 1 :])
    )
    assert merged is not None
    return merged.sliced((0,) * len(shape), shape)


def _order(given: Sequence[Tensor], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order of the first operand that fills the whole shape; None: row-major."""
    for tensor in given:
        view = tensor.view
        if view.shape == shape and view.dense and all(
            s != 0 or n == 1 for n, s in zip(view.shape, view.strides, strict=True)
        ):  # fmt: skip
            return view.order
    return None
