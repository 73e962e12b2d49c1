"""Requantization in the arithmetic of the target: what it holds, how exact it is, its operators.

In: scales and zero points as constants, bounds of codes and accumulators. Out: a `Requantization`,
which `claim certified`, `requantize` and the attributes of a group ask. The arithmetic itself is
`rewrite.quant`; here is only the way to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rewrite.match.builtins.maker import Maker
from rewrite.match.builtins.nodes import Nodes
from rewrite.match.builtins.registry import Dtype, Value, builtin
from rewrite.match.values import Env, Tensor, Unknown, integer_range
from rewrite.ops.call import Array
from rewrite.quant import accumulator, body
from rewrite.quant.body import Clamp
from rewrite.quant.certificate import Certificate
from rewrite.quant.faults import QuantError
from rewrite.quant.proof import Proof, prove
from rewrite.quant.requantize import Fixed, Single
from rewrite.target.requantize import MODES


@dataclass(frozen=True, slots=True, eq=False)
class Requantization:
    """How one group turns accumulators of at most `bound` into codes."""

    proof: Proof
    clamp: Clamp
    bound: int

    @property
    def certificate(self) -> Certificate:
        return self.proof.certificate


def requantizer_of(env: Env, wide: bool = False) -> tuple[str, bool]:
    """The name of the target's requantizer, and whether multipliers may be chosen.

    `wide`: for sums of a convolution of 16-bit codes.
    """
    facts = None if env.target is None else env.target.requantize
    name = None if facts is None else MODES[facts.mode].requantizer(facts.rounding, wide)
    if facts is None or name is None:
        raise Unknown("the target has no arithmetic for requantization")
    return name, MODES[facts.mode].chosen


@builtin
def requantization(
    env: Env, scale: Tensor, to: Tensor, zero_point: int, low: int, high: int, bound: int,
    dtype: Dtype, count: int = 1, over: float = 1.0, once: bool = False,
) -> object:  # fmt: skip
    """How the target makes codes of sums times scale / (to · count · over), and how exact that is.

    Codes lie in [low, high], sums are at most `bound`. `once`: sums of a convolution of 16-bit
    codes, for which Vela chooses another rounding.
    """
    name, choose = requantizer_of(env, once)
    clamp = Clamp(zero_point, low, high, dtype)
    ratio = _ratio(scale, to, count * _positive(over))
    try:
        return Requantization(prove(name, ratio, clamp, bound, choose), clamp, bound)
    except QuantError as error:
        raise Unknown(str(error)) from error


def _positive(number: float) -> Fraction:
    if not 0 < number < float("inf"):
        raise Unknown("a divisor is not a positive number")
    return Fraction(number)


def _ratio(scale: Tensor, to: Tensor, divisor: Fraction) -> list[Fraction]:
    """scale / (to · divisor), exact: a product of two float32 is a float64."""
    over, under = scale.reals().reshape(-1), to.reals().reshape(-1)
    if min(over.size, under.size) != 1:
        raise Unknown("either the scales of the sums or those of the codes are one number")
    if not (np.isfinite(over).all() and np.isfinite(under).all() and (under != 0).all()):
        raise Unknown("a scale is not a finite number other than 0")
    above = [float(x).as_integer_ratio() for x in over] * under.size
    below = [(Fraction(float(x)) * divisor).as_integer_ratio() for x in under] * over.size
    return [Fraction(a * d, b * c) for (a, b), (c, d) in zip(above, below, strict=True)]


@builtin
def multiplier(r: object) -> Tensor:
    """The multipliers of a requantization, one or one for each channel: integers, or a float."""
    factor = _requantization(r).proof.factor
    if isinstance(factor, Single):
        return Tensor(np.atleast_1d(factor.scale).astype(np.float64), "f32")
    assert isinstance(factor, Fixed)
    return Tensor(np.atleast_1d(factor.multiplier).astype(np.int64), "s64")


@builtin
def shift(r: object) -> Tensor:
    """How far sums times multipliers are shifted to the right; 0 beside a float multiplier."""
    factor = _requantization(r).proof.factor
    if isinstance(factor, Single):
        return Tensor(np.zeros(1, np.int64), "s64")
    assert isinstance(factor, Fixed)
    return Tensor(np.atleast_1d(factor.shift).astype(np.int64), "s64")


@builtin
def requantizer(r: object) -> str:
    """The name of the arithmetic of a requantization."""
    return _requantization(r).proof.name


def _requantization(value: object) -> Requantization:
    if not isinstance(value, Requantization):
        raise Unknown("this is not a requantization")
    return value


@builtin
def accumulator_scale(bias: Tensor, x: Tensor, w: Tensor) -> bool:
    """Whether a bias's scale is the float32 nearest to a product of scales, and stands for it.

    As QLinearConv has it, and as quantizers write it.
    """
    product = (x.reals().reshape(-1) * w.reals().reshape(-1)).astype(np.float32)
    given = bias.reals().reshape(-1)
    if given.size not in (1, product.size) and product.size != 1:
        return False
    return bool((given == product.astype(np.float64)).all())


@builtin
def largest_sum(
    env: Env, w: Tensor, axis: int, w_zero: Tensor, x: Value, x_zero: int, bias: Tensor
) -> int:
    """The largest magnitude of sums of weights times codes of `x`, with a bias, in any order."""
    dtype = env.facts.type(x).dtype  # type: ignore[arg-type]
    if dtype is None or w.array.dtype.kind != "i":
        raise Unknown("codes of integer type are needed")
    rows = accumulator.by_channel(w.array, axis)
    zeros = w_zero.array.astype(np.int64).reshape(-1)
    if zeros.size not in (1, rows.shape[0]):
        raise Unknown("the zero points of the weights do not lie along their channels")
    low, high = integer_range(dtype)
    found = accumulator.sums(rows, low, high, x_zero, zeros, _whole(bias, rows.shape[0]))
    return int(found.partial.max(initial=0))


def _whole(bias: Tensor, channels: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    values = bias.array.reshape(-1)
    if values.dtype.kind != "i" or values.size not in (1, channels):
        raise Unknown("the bias is not one integer for each channel")
    return np.broadcast_to(values, (channels,)).astype(np.int64)


@builtin
def requantize(maker: Maker, acc: Value, r: object, axis: int) -> object:
    """Sums as codes, in the arithmetic of a requantization; `axis` is that of the channels."""
    made = _requantization(r)
    rank = maker.env.facts.type(acc).shape  # type: ignore[arg-type]

    def spread(values: Array) -> Array:
        if values.size == 1:
            return values.reshape(())
        if rank is None:
            raise Unknown("the rank of the sums is not known")
        return values.reshape([-1 if i == axis else 1 for i in range(len(rank))])

    steps = Nodes(maker)
    try:
        return body.requantize(
            steps, made.proof.name, acc, made.proof.factor, made.clamp, made.bound, spread
        )
    except QuantError as error:
        raise Unknown(str(error)) from error
