"""Scale and zero point of a quantized tensor: per tensor, per axis, or per block of an axis.

In: arrays as a model holds them, shapes. Out: `QuantParams`, the names of what is wrong with
them, and both spread out to the tensor.

    value = (code - zero_point) scale                 scale, zero_point: of the element's group

Sources: QuantizeLinear-25 and DequantizeLinear-25. Blocked: the scale has the tensor's shape with
S = ceil(D / B) instead of D on the axis; B is in [ceil(D/S), ceil(D/(S-1)) - 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from rewrite.quant.codes import SCALES, Array, CodeType, Floats, code_type, name_of, values_of
from rewrite.schema import Dim

Sizes = Sequence[Dim | None]


@dataclass(frozen=True, slots=True, eq=False)
class QuantParams:
    """Parameters as the model has them: `scale` and `zero_point` keep type and shape.

    `axis` None: per tensor, one scale of rank 0 or shape [1]. `block` None: one per index of the
    axis. Equality compares numbers, not the shapes [] and [1] of one scale.
    """

    code: CodeType
    scale: Array
    zero_point: Array
    axis: int | None = None
    block: int | None = None

    @property
    def granularity(self) -> Literal["tensor", "axis", "block"]:
        if self.axis is None:
            return "tensor"
        return "axis" if self.block is None else "block"

    @property
    def scales(self) -> Floats:
        """The scales in float64; exact."""
        return values_of(self.scale)

    @property
    def zeros(self) -> Array:
        """The zero points in int64 (float64 for float codes)."""
        if self.code.kind == "float":
            return values_of(self.zero_point)
        return self.zero_point.astype(np.int64)

    @property
    def symmetric(self) -> bool:
        """Whether every zero point is 0."""
        return not np.any(self.zeros)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantParams) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        shape = None if self.axis is None else self.scale.shape
        zeros = np.asarray(self.zeros)
        if zeros.size == 1 or not zeros.any():  # one zero point for all
            zeros = np.broadcast_to(zeros.reshape(-1)[:1], (1,)) if zeros.size else zeros
        return (
            self.code.name, name_of(self.scale.dtype), self.axis, self.block, shape,
            self.scale.tobytes(), zeros.tobytes(),
        )  # fmt: skip


def quant_params(
    code: str | CodeType,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike | None = None,
    axis: int | None = None,
    block: int | None = None,
) -> QuantParams:
    """Parameters from plain numbers or a model's arrays; copies, which nobody can write.

    Python numbers become a float32 scale, and a zero point in the type of the codes if it fits
    (int64 otherwise, which `faults` names). Without a zero point it is 0.
    """
    kind = code_type(code) if isinstance(code, str) else code
    if kind is None:
        raise ValueError(f"{code} is not a type of codes")
    steps = np.array(scale) if isinstance(scale, np.ndarray | np.generic) else _f32(scale)
    if zero_point is None:
        zeros = np.zeros(steps.shape, kind.dtype)
    elif isinstance(zero_point, np.ndarray | np.generic):
        zeros = np.array(zero_point)
    else:
        zeros = _fitting(np.array(zero_point), kind)
    steps.setflags(write=False)
    zeros.setflags(write=False)
    return QuantParams(kind, steps, zeros, axis, block)


def _f32(scale: npt.ArrayLike) -> Array:
    with np.errstate(over="ignore"):
        return np.array(scale, np.float32)


def _fitting(zeros: Array, code: CodeType) -> Array:
    fits = zeros.size == 0 or (zeros.min() >= code.low and zeros.max() <= code.high)
    return zeros.astype(code.dtype if fits else np.int64)


def faults(params: QuantParams, shape: Sizes | None, even_blocks: bool = False) -> tuple[str, ...]:
    """Everything that is wrong with the parameters of a tensor of this shape, named.

    Sizes that are names or None are not checked; shape None: only the parameters themselves.
    `even_blocks`: a last block that is shorter is a fault too (the standard allows it).
    """
    found = [*_scale_faults(params), *_zero_point_faults(params)]
    if shape is not None:
        if any(d == 0 for d in shape):
            found.append("empty tensor")
        found += _fit_faults(params, shape, even_blocks)
    return tuple(found)


def _scale_faults(params: QuantParams) -> list[str]:
    kind = SCALES.get(name_of(params.scale.dtype) or "")
    if kind is None:
        return [f"scale of type {params.scale.dtype.name}"]
    if params.scale.size == 0:
        return ["empty scale"]
    s = params.scales
    tests = {
        "NaN scale": np.isnan(s),
        "infinite scale": np.isinf(s),
        "zero scale": s == 0,
        "negative scale": s < 0,
        "denormal scale": (s != 0) & (np.abs(s) < 2.0**kind.least),
    }
    return [name for name, bad in tests.items() if bad.any()]


def _zero_point_faults(params: QuantParams) -> list[str]:
    zeros, code = params.zero_point, params.code
    found = []
    if zeros.dtype != code.dtype:
        if zeros.dtype.kind not in "iu" and name_of(zeros.dtype) is None:
            return [f"zero point of type {zeros.dtype.name}"]
        if zeros.dtype != np.dtype(np.int64):  # int64: a plain number
            stated = name_of(zeros.dtype) or zeros.dtype.name
            found.append(f"zero point of type {stated} for codes of type {code.name}")
        if zeros.size and (values_of(zeros).min() < code.low or values_of(zeros).max() > code.high):
            found.append("zero point out of range")
    if zeros.shape != params.scale.shape and not (zeros.size == 1 and params.scale.size == 1):
        found.append("zero point and scale of different shapes")
    if code.kind == "float" and zeros.size and not np.all(values_of(zeros) == 0):
        found.append("zero point of float codes is not 0")
    if code.name == "s32" and zeros.size and np.any(zeros != 0):
        found.append("zero point of s32 codes is not 0")
    return found


def _fit_faults(params: QuantParams, shape: Sizes, even_blocks: bool) -> list[str]:
    scale, axis, block = params.scale, params.axis, params.block
    if axis is None:
        one = scale.size == 1 and scale.ndim <= 1
        return [] if one else [f"scale of shape {list(scale.shape)} per tensor"]
    if not 0 <= axis < len(shape):
        return ["axis out of range"]
    size = shape[axis]
    if block is None:
        fits = scale.ndim == 1 and (not isinstance(size, int) or scale.shape[0] == size)
        return [] if fits else [f"scale of shape {list(scale.shape)} on an axis of size {size}"]
    if block <= 0:
        return ["block size is not positive"]
    if scale.ndim != len(shape):
        return [f"blocked scale of rank {scale.ndim} for a tensor of rank {len(shape)}"]
    found = []
    for i, (have, dim) in enumerate(zip(scale.shape, shape, strict=True)):
        if isinstance(dim, int) and have != (-(-dim // block) if i == axis else dim):
            found.append(f"{have} blocks of {block} on a dimension of size {dim}"
                         if i == axis else "scale and tensor of different shapes")  # fmt: skip
    if even_blocks and isinstance(size, int) and size % block:
        found.append("block size does not divide the axis")
    return found


def spread(params: QuantParams, shape: Sequence[int]) -> tuple[Array, Array]:
    """Scale (own type) and zero point (int64, float64 for float codes), to broadcast with `shape`.

    Blocked parameters come out at full size. For parameters without faults.
    """
    scale, zeros = params.scale, np.asarray(params.zeros)
    axis, block = params.axis, params.block
    if axis is None:
        return scale.reshape(()), zeros.reshape(())
    if block is not None:
        at = np.arange(shape[axis]) // block
        return np.take(scale, at, axis), np.take(zeros, at, axis)
    sizes = [1] * len(shape)
    sizes[axis] = scale.size
    return scale.reshape(sizes), zeros.reshape(sizes)


def uniform(params: QuantParams) -> QuantParams:
    """Per-tensor parameters where all groups have the same; else the same as given."""
    s, z = params.scale.reshape(-1), params.zero_point.reshape(-1)
    if params.axis is None or s.size == 0 or z.size == 0:
        return params
    if s.tobytes() != s[:1].tobytes() * s.size or z.tobytes() != z[:1].tobytes() * z.size:
        return params
    return QuantParams(params.code, s[0:1].reshape(()), z[0:1].reshape(()))
