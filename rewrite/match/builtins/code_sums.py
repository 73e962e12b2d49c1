"""Sums of codes in the arithmetic of the target.

In: three scales, zero points, bounds of codes. Out: a `CodeSum`, which `claim certified` and
`add_codes` ask. The arithmetic is `rewrite.quant.sums`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rewrite.match.builtins.maker import Maker
from rewrite.match.builtins.nodes import Nodes
from rewrite.match.builtins.registry import Value, builtin
from rewrite.match.builtins.requantization import requantizer_of
from rewrite.match.values import Env, Tensor, Unknown
from rewrite.quant.body import Clamp
from rewrite.quant.certificate import Certificate
from rewrite.quant.codes import CodeType, code_type
from rewrite.quant.faults import QuantError
from rewrite.quant.sums import Sum, derive_sum, prove_sum, sum_body


@dataclass(frozen=True, slots=True, eq=False)
class CodeSum:
    """How two codes are added; `most`: the largest magnitude of one less its zero point."""

    name: str
    plan: Sum
    clamp: Clamp
    zeros: tuple[int, int]
    most: int
    certificate: Certificate


@builtin
def code_sum(
    env: Env, a: Value, a_scale: float, a_zero: int, b: Value, b_scale: float, b_zero: int,
    y: Value, y_scale: float, y_zero: int, low: int, high: int,
) -> object:  # fmt: skip
    """How the target adds codes to codes of `y` in [low, high], and how exact that is."""
    name, _ = requantizer_of(env)
    codes = _code(env, a), _code(env, b), _code(env, y)
    scales = Fraction(a_scale), Fraction(b_scale), Fraction(y_scale)
    clamp = Clamp(y_zero, low, high, codes[2].name)
    try:
        plan = derive_sum(name, *scales, codes[0].bits)
        certificate = prove_sum(plan, scales, (a_zero, b_zero), clamp, codes)
    except QuantError as error:
        raise Unknown(str(error)) from error
    most = max(codes[0].count, codes[1].count)
    return CodeSum(name, plan, clamp, (a_zero, b_zero), most, certificate)


def _code(env: Env, value: object) -> CodeType:
    dtype = env.facts.type(value).dtype  # type: ignore[arg-type]
    found = None if dtype is None else code_type(dtype)
    if found is None or found.kind != "int":
        raise Unknown("codes of integer type are needed")
    return found


@builtin
def sum_multipliers(s: object) -> Tensor:
    """The multipliers of a sum of codes: of both operands, and of the sum where it has one."""
    plan = plan_of(s).plan
    dtype = "f32" if plan.kind == "float" else "s64"
    return Tensor(np.array(plan.multipliers), dtype)


@builtin
def sum_shifts(s: object) -> Tensor:
    """The shifts to the right that belong to the multipliers of a sum of codes."""
    return Tensor(np.array(plan_of(s).plan.shifts or (0,), np.int64), "s64")


@builtin
def sum_arithmetic(s: object) -> str:
    """The name of the arithmetic of a sum of codes."""
    found = plan_of(s)
    return f"{found.name}_{found.plan.kind}"


def plan_of(value: object) -> CodeSum:
    """The sum that an expression stands for."""
    if not isinstance(value, CodeSum):
        raise Unknown("this is not a sum of codes")
    return value


@builtin
def add_codes(maker: Maker, a: Value, b: Value, s: object) -> object:
    """The sum of codes, in the arithmetic of a `code_sum`."""
    found = plan_of(s)
    steps = Nodes(maker)
    less = [
        steps.cast(x, "s32") if zero == 0 else steps.add(steps.cast(x, "s32"), _s32(-zero))
        for x, zero in zip((a, b), found.zeros, strict=True)
    ]
    try:
        return sum_body(steps, found.plan, less[0], less[1], found.clamp, found.most)
    except QuantError as error:
        raise Unknown(str(error)) from error


def _s32(value: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(value, np.int32)
