"""Operators that neither `rewrite.ops` nor onnx's evaluator computes.

In: a node, its attributes as plain values and its operands, as `reference.run_node` has them. Out:
the values of its outputs, or None for an operator, or a form of one, that is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from rewrite.ops.dtypes import to_numpy
from rewrite.runtime import reference_ml
from rewrite.schema import DTYPE_OF

Attributes = Mapping[str, Any]
Operator = Callable[[Attributes, Sequence[Any]], list[Any] | None]


def compute(
    node: onnx.NodeProto, opset: int, attributes: Attributes, inputs: Sequence[Any]
) -> list[Any] | None:
    operator = OPERATORS.get((node.domain, node.op_type))
    return None if operator is None else operator(attributes, inputs)


# --- optionals: the value that is held, or None ------------------------------------------------


def _optional(attributes: Attributes, inputs: Sequence[Any]) -> list[Any]:
    return [inputs[0] if inputs else None]


def _has_element(attributes: Attributes, inputs: Sequence[Any]) -> list[Any]:
    return [np.array(bool(inputs) and inputs[0] is not None)]


def _get_element(attributes: Attributes, inputs: Sequence[Any]) -> list[Any]:
    if inputs[0] is None:
        raise ValueError("the optional is empty")
    return [inputs[0]]


# --- random numbers ----------------------------------------------------------------------------


def _multinomial(attributes: Attributes, inputs: Sequence[Any]) -> list[Any]:
    """Classes by the inverse of the cumulative distribution; the operand is unnormalized logs."""
    logs = inputs[0].astype(np.float64)
    seed = attributes.get("seed")
    draw = np.random.RandomState(None if seed is None else int(seed))
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    ends = np.cumsum(weights, axis=1)
    points = draw.random_sample((len(logs), int(attributes.get("sample_size", 1))))
    rows = [np.searchsorted(e, p * e[-1], side="right") for e, p in zip(ends, points, strict=True)]
    classes = np.minimum(np.array(rows).reshape(points.shape), logs.shape[1] - 1)
    dtype = DTYPE_OF[int(attributes.get("dtype", onnx.TensorProto.INT32))]
    return [classes.astype(to_numpy(dtype))]


# --- pooling -----------------------------------------------------------------------------------


def _max_roi_pool(attributes: Attributes, inputs: Sequence[Any]) -> list[Any]:
    """The largest element of each cell of a grid over each region (Fast R-CNN, section 2.1)."""
    x, regions = inputs[0], inputs[1]
    height, width = (int(n) for n in attributes["pooled_shape"])
    scale = np.float32(attributes.get("spatial_scale", 1.0))
    y = np.zeros((len(regions), x.shape[1], height, width), x.dtype)
    for region, out in zip(regions, y, strict=True):
        image = x[int(region[0])]
        left, top, right, bottom = (_half_away(float(np.float32(v) * scale)) for v in region[1:])
        rows = _cells(top, max(bottom - top + 1, 1), height, image.shape[1])
        columns = _cells(left, max(right - left + 1, 1), width, image.shape[2])
        for i, (r0, r1) in enumerate(rows):
            for j, (c0, c1) in enumerate(columns):
                if r0 < r1 and c0 < c1:
                    out[:, i, j] = image[:, r0:r1, c0:c1].max(axis=(1, 2))
    return [y]


def _half_away(value: float) -> int:
    return int(np.floor(abs(value) + 0.5) * np.sign(value))


def _cells(start: int, size: int, count: int, limit: int) -> list[tuple[int, int]]:
    """The ranges of the cells along one axis, clipped to the image."""
    ends = []
    cell = np.float32(size) / np.float32(count)
    for k in range(count):
        low = int(np.floor(np.float32(k) * cell)) + start
        high = int(np.ceil(np.float32(k + 1) * cell)) + start
        ends.append((min(max(low, 0), limit), min(max(high, 0), limit)))
    return ends


OPERATORS: Mapping[tuple[str, str], Operator] = {
    ("", "Optional"): _optional,
    ("", "OptionalHasElement"): _has_element,
    ("", "OptionalGetElement"): _get_element,
    ("", "Multinomial"): _multinomial,
    ("", "MaxRoiPool"): _max_roi_pool,
    **{("ai.onnx.ml", name): operator for name, operator in reference_ml.OPERATORS.items()},
}
