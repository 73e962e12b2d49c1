"""ONNX's operators on single elements, in z3.

In: operands as z3's expressions of an element type. Out: the result. What ONNX leaves open is a
value of which nothing is known: at every node another one for the sign of Max and Min of zeros of
both signs; the same one for the same operands of the same operator for quotients of integers by
zero, shifts by the width, floats that no integer is near, the sign of a NaN. Integers wrap; a NaN
goes through Max, Min, Clip and Relu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from rewrite.audit.claims.smt import numbers as n
from rewrite.audit.claims.smt.terms import NotCoveredError

Term3 = Any

COMPARISONS: Mapping[str, str] = {
    "Equal": "==",
    "Less": "<",
    "LessOrEqual": "<=",
    "Greater": ">",
    "GreaterOrEqual": ">=",
}
LOGICAL = frozenset({"And", "Or", "Xor", "Not"})


@dataclass
class Machine:
    """`assumed`: what is demanded of emitted nodes and of values that are open.

    `crossed`: Clips that were matched, and whether their bounds cross.
    """

    opset: tuple[int, int]
    count: int = 0
    crossed: list[Term3] = field(default_factory=list)
    duties: list[Term3] = field(default_factory=list)

    def open(self, name: str, dtype: str, *operands: Term3) -> Term3:
        """A value of which nothing is known but what it depends on."""
        sorts = [operand.sort() for operand in operands]
        known = "_".join([name, *map(str, sorts), dtype])
        return z3.Function(known, *sorts, n.sort(dtype))(*operands)

    def run(
        self,
        name: str,
        operands: Sequence[Term3 | None],
        attributes: Mapping[str, object],
        dtypes: Sequence[str],
        matched: bool,
    ) -> Term3:
        """`dtypes`: of the operands, then of the result."""
        if name == "Clip":
            return self._clip(operands, dtypes[-1], matched)
        if name == "Cast":
            return self.cast(operands[0], dtypes[0], dtypes[-1])
        if any(o is None for o in operands):
            raise NotCoveredError("an absent operand")
        if name == "Where":
            return z3.If(operands[0], operands[1], operands[2])
        if name in COMPARISONS:
            return n.compare(COMPARISONS[name], operands[0], operands[1], dtypes[0])
        if name in _PLAIN:
            return _PLAIN[name](*operands)
        if name in ("Max", "Min"):
            found = operands[0]
            for other in operands[1:]:
                found = self.choose(name, found, other, dtypes[-1])
            return found
        function = _ARITHMETIC.get(name)
        if function is None:
            raise NotCoveredError(name)
        return function(self, dtypes[-1], attributes, *operands)

    def choose(self, name: str, a: Term3, b: Term3, dtype: str) -> Term3:
        """Max or Min of two."""
        below = n.less(a, b, dtype)
        chosen = z3.If(below, b, a) if name == "Max" else z3.If(below, a, b)
        if dtype not in n.FLOATS:
            return chosen
        self.count += 1
        either = z3.If(z3.Bool(f"sign{self.count}"), a, b)
        chosen = z3.If(z3.And(z3.fpIsZero(a), z3.fpIsZero(b)), either, chosen)
        return z3.If(z3.Or(z3.fpIsNaN(a), z3.fpIsNaN(b)), z3.fpNaN(n.sort(dtype)), chosen)

    def _clip(self, operands: Sequence[Term3 | None], dtype: str, matched: bool) -> Term3:
        x, low, high = (*operands, None, None)[:3]
        if low is not None and high is not None:
            crossed = n.less(high, low, dtype)
            if matched:
                self.crossed.append(crossed)
            elif self.opset[0] < 13:  # onnx/defs/math: said of bounds that cross since then
                self.duties.append(z3.Or(z3.Not(crossed), *self.crossed))
        x = self._cut(x, low, dtype, 0) if low is None else self.choose("Max", x, low, dtype)
        return self._cut(x, high, dtype, 1) if high is None else self.choose("Min", x, high, dtype)

    def _cut(self, x: Term3, bound: None, dtype: str, end: int) -> Term3:
        """A bound left out is none, or the last finite number."""
        if dtype not in n.FLOATS:
            return x
        infinite = n.ends(dtype)[end]
        self.count += 1
        cut = z3.And(x == infinite, z3.Bool(f"cut{self.count}"))
        return z3.If(cut, n.ends(dtype, finite=True)[end], x)

    def cast(self, x: Term3, old: str, new: str) -> Term3:
        """ONNX's Cast."""
        if old == new:
            return x
        known = {"bool", *n.INTEGERS, *n.FLOATS}
        if old not in known or new not in known:
            raise NotCoveredError(f"a Cast of {old} to {new}")
        if new == "bool":
            return z3.Not(n.equal(x, n.number(0, old), old))
        if old == "bool":
            return z3.If(x, n.number(1, new), n.number(0, new))
        if new in n.FLOATS:
            return _to_float(x, old, new)
        if old in n.FLOATS:
            return self._to_integer(x, old, new)
        more = n.bits(new) - n.bits(old)
        if more <= 0:
            return z3.Extract(n.bits(new) - 1, 0, x)
        return z3.SignExt(more, x) if n.is_signed(old) else z3.ZeroExt(more, x)

    def _to_integer(self, x: Term3, old: str, new: str) -> Term3:
        whole = z3.fpRoundToIntegral(z3.RTZ(), x)
        wide = n.bits(new) + 1
        turned = z3.fpToSBV(z3.RTZ(), whole, z3.BitVecSort(wide))
        low, high = z3.BitVecVal(0, wide), z3.BitVecVal(2 ** n.bits(new) - 1, wide)
        if n.is_signed(new):
            low = z3.BitVecVal(-(2 ** (n.bits(new) - 1)), wide)
            high = z3.BitVecVal(2 ** (n.bits(new) - 1) - 1, wide)
        # 2^bits is exact in every float type that has it, or infinite
        limit = z3.fpRealToFP(n.NEAREST(), z3.RealVal(2 ** n.bits(new)), n.sort(old))
        near = z3.And(z3.fpLT(z3.fpAbs(x), limit), turned >= low, turned <= high)
        return z3.If(near, z3.Extract(n.bits(new) - 1, 0, turned), self.open("Cast", new, x))


def _to_float(x: Term3, old: str, new: str) -> Term3:
    if old in n.FLOATS:
        return z3.fpFPToFP(n.NEAREST(), x, n.sort(new))
    if n.is_signed(old):
        return z3.fpSignedToFP(n.NEAREST(), x, n.sort(new))
    return z3.fpUnsignedToFP(n.NEAREST(), x, n.sort(new))


_PLAIN: Mapping[str, Callable[..., Term3]] = {
    "Identity": lambda x: x,
    "Expand": lambda x: x,  # broadcasting, which every operator here does as well
    "And": z3.And,
    "Or": z3.Or,
    "Xor": z3.Xor,
    "Not": z3.Not,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
    "BitwiseNot": lambda a: ~a,
}

Attributes = Mapping[str, object]


def _add(m: Machine, t: str, at: Attributes, a: Term3, b: Term3) -> Term3:
    return z3.fpAdd(n.NEAREST(), a, b) if _number(t) in n.FLOATS else a + b


def _subtract(m: Machine, t: str, at: Attributes, a: Term3, b: Term3) -> Term3:
    return z3.fpSub(n.NEAREST(), a, b) if _number(t) in n.FLOATS else a - b


def _multiply(m: Machine, t: str, at: Attributes, a: Term3, b: Term3) -> Term3:
    if _number(t) not in n.FLOATS:
        return a * b
    for x, one in ((a, b), (b, a)):
        if z3.is_fp_value(one) and one.eq(n.number(1, t)):
            return x  # nothing is rounded; z3 takes long to see it
        if z3.is_fp_value(one) and one.eq(n.number(-1, t)):
            return z3.fpNeg(x)
    return z3.fpMul(n.NEAREST(), a, b)


def _divide(m: Machine, t: str, at: Attributes, a: Term3, b: Term3) -> Term3:
    if _number(t) in n.FLOATS:
        if z3.is_fp_value(b) and b.eq(n.number(1, t)):
            return a
        return z3.fpDiv(n.NEAREST(), a, b)
    undefined = b == 0
    if n.is_signed(t):
        undefined = z3.Or(undefined, z3.And(b == -1, a == n.ends(t)[0]))
    return z3.If(undefined, m.open("Div", t, a, b), a / b if n.is_signed(t) else z3.UDiv(a, b))


def _sum(m: Machine, t: str, at: Attributes, *xs: Term3) -> Term3:
    if len(xs) > 2:
        raise NotCoveredError("the order of a sum")
    return xs[0] if len(xs) == 1 else _add(m, t, at, *xs)


def _mean(m: Machine, t: str, at: Attributes, *xs: Term3) -> Term3:
    if len(xs) > 1:
        raise NotCoveredError("the order of a mean")
    return xs[0]


def _negate(m: Machine, t: str, at: Attributes, a: Term3) -> Term3:
    return z3.fpNeg(a) if _number(t) in n.FLOATS else -a


def _magnitude(m: Machine, t: str, at: Attributes, a: Term3) -> Term3:
    if _number(t) in n.FLOATS:
        return z3.fpAbs(a)
    return z3.If(a < 0, -a, a) if n.is_signed(t) else a


def _sign(m: Machine, t: str, at: Attributes, a: Term3) -> Term3:
    zero, one = n.number(0, _number(t)), n.number(1, t)
    minus = one if t[0] == "u" else n.number(-1, t)
    found = z3.If(n.less(zero, a, t), one, z3.If(n.less(a, zero, t), minus, zero))
    if t not in n.FLOATS:
        return found
    # The sign of the zero that a zero gives is open, and so is what a NaN gives.
    m.count += 1
    nothing = z3.If(z3.Bool(f"sign{m.count}"), zero, z3.fpNeg(zero))
    found = z3.If(z3.fpIsZero(a), nothing, found)
    return z3.If(z3.fpIsNaN(a), m.open("Sign", t, a), found)


def _relu(m: Machine, t: str, at: Attributes, a: Term3) -> Term3:
    return m.choose("Max", a, n.number(0, t), t)


def _leaky(m: Machine, t: str, at: Attributes, a: Term3) -> Term3:
    slope = n.number(_only(at, "alpha"), t)
    return z3.If(n.less(a, n.number(0, t), t), _multiply(m, t, at, slope, a), a)


def _thresholded(m: Machine, t: str, at: Attributes, a: Term3) -> Term3:
    return z3.If(n.less(n.number(_only(at, "alpha"), t), a, t), a, n.number(0, t))


def _rounded(mode: Callable[[], Term3]) -> Callable[..., Term3]:
    return lambda m, t, at, a: z3.fpRoundToIntegral(mode(), a)


def _shift(m: Machine, t: str, at: Attributes, a: Term3, b: Term3) -> Term3:
    moved = z3.LShR(a, b) if _only(at, "direction") == "RIGHT" else a << b
    return z3.If(z3.ULT(b, n.bits(t)), moved, m.open(str(_only(at, "direction")), t, a, b))


def _modulo(m: Machine, t: str, at: Attributes, a: Term3, b: Term3) -> Term3:
    if _number(t) in n.FLOATS:
        raise NotCoveredError("Mod of floats")
    found = z3.URem(a, b)
    if n.is_signed(t):
        found = z3.SRem(a, b) if _only(at, "fmod") else a % b
    return z3.If(b == 0, m.open(f"Mod{_only(at, 'fmod')}", t, a, b), found)


def _number(dtype: str) -> str:
    if dtype not in n.FLOATS and dtype not in n.INTEGERS:
        raise NotCoveredError(f"arithmetic of {dtype}")
    return dtype


def _only(attributes: Attributes, name: str) -> Any:
    found = attributes.get(name)
    if not isinstance(found, tuple) or len(found) != 1:
        raise NotCoveredError(f"the attribute {name}")
    return found[0]


_ARITHMETIC: Mapping[str, Callable[..., Term3]] = {
    "Add": _add,
    "Sub": _subtract,
    "Mul": _multiply,
    "Div": _divide,
    "Sum": _sum,
    "Mean": _mean,
    "Neg": _negate,
    "Abs": _magnitude,
    "Sign": _sign,
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "ThresholdedRelu": _thresholded,
    "Ceil": _rounded(z3.RTP),
    "Floor": _rounded(z3.RTN),
    "Round": _rounded(z3.RNE),
    "BitShift": _shift,
    "Mod": _modulo,
}
TRANSLATED = frozenset(
    ("", name)
    for name in ("Clip", "Cast", "Where", "Max", "Min", *COMPARISONS, *_PLAIN, *_ARITHMETIC)
)
