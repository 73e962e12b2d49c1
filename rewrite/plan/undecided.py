"""Output types that rewrite/ops leaves open because runtimes disagree, as this runtime decides.

In: an instance whose operands are known as far as they will be, and its types so far. Out: types.
Sizes of Resize by scales are products in float32, rounded down, as ONNX Runtime computes them;
everything else is as ONNX's own inference has it.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from rewrite.plan.instance import Instance, is_concrete
from rewrite.plan.program import Op
from rewrite.plan.proto import infer_by_onnx
from rewrite.schema import Type

Types = tuple[Type, ...]


def decided(op: Op, made: Instance, found: Types) -> Types:
    """The types, with what was open about them where it can be decided."""
    if all(is_concrete(t) for t in found):
        return found
    if not all(t is None or is_concrete(t) for t in made.inputs):
        return found
    if made.key in (("", "Resize"), ("", "Upsample")):
        return _scaled(made) or found
    try:
        theirs = infer_by_onnx(op, made.inputs, made.known)
    except onnx.shape_inference.InferenceError:
        return found
    if theirs is None:
        return found
    return tuple(
        t if not is_concrete(f) and is_concrete(t) else f
        for f, t in zip(found, theirs, strict=True)
    )


def _scaled(made: Instance) -> Types | None:
    """Every size times its scale; a region to be cropped would count, too."""
    scales = made.known(2 if made.name == "Resize" and made.opset >= 11 else 1)
    crops = made.text("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    if scales is None or scales.size == 0 or crops:
        return None
    shape = list(made.shape())
    axes = [a % len(shape) for a in made.integers("axes") or range(len(shape))]
    if len(axes) != scales.size:
        return None
    for axis, scale in zip(axes, scales.reshape(-1).astype(np.float32), strict=True):
        shape[axis] = math.floor(np.float32(shape[axis]) * scale)
    return (Type(made.dtype(), tuple(shape)),)
