"""The scalar bodies of operators (rewrite/ops/scalar.py) as instructions.

In: a body, values in registers (rewrite/codegen/memory.py), scalars or vectors alike. Out: a value.
Arithmetic is that of the element type, float16 and bfloat16 in float32.

What the standard leaves open is still a value, and never a trap: an integer divided by zero gives
0 (and is reported to whoever asked, `fault`), the least integer divided by -1 wraps, a shift by
the width or more gives 0 or the sign, a negative power of an integer is truncated to 0, 1 or -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewrite.codegen import power
from rewrite.codegen.integers import divided, remainder_of
from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math import SINGLE, elementary
from rewrite.codegen.types import bits, is_float, like
from rewrite.codegen.value import Value

# Told where a lane of the condition is true: the fault's number, the condition.
Fault = Callable[[int, Value], None]


class Scalars:
    """Writes the steps of a body. All operands have the element type `dtype`, or are bool."""

    def __init__(self, f: Function, isa: Isa, dtype: str, fault: Fault | None = None) -> None:
        self.f = f
        self.isa = isa
        self.dtype = dtype
        self.signed = dtype[0] != "u"
        self.fault = fault

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Elementary functions."""
        if name not in SINGLE:
            raise AttributeError(name)
        return lambda x: elementary(self.f, self.isa, name, x)

    # --- arithmetic --------------------------------------------------------------------------

    def add(self, x: Any, y: Any) -> Any:
        return self.f.add(x, y)

    def sub(self, x: Any, y: Any) -> Any:
        return self.f.sub(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return self.f.mul(x, y)

    def div(self, x: Any, y: Any) -> Value:
        a, b = self._pair(x, y)
        if is_float(a.type):
            known = number_of(b)
            if known is not None and power.is_power_of_two(known):
                return self.f.binary("fmul", a, 1.0 / known)
            return self.f.binary("fdiv", a, b)
        return divided(self.f, a, b, self.signed, self.fault)

    def mod(self, x: Any, y: Any) -> Value:
        """The remainder with the sign of y, as numpy computes it."""
        a, b = self._pair(x, y)
        rest = self.fmod(a, b)
        if not is_float(a.type) and not self.signed:
            return rest
        zero = self.f.zero(a.type)
        apart = self.f.binary("xor", self.f.compare("<", rest, zero), self.f.compare("<", b, zero))
        moves = self.f.binary("and", apart, self.f.compare("!=", rest, zero))
        moved = self.f.select(moves, rest + b, rest)
        if not is_float(a.type):
            return moved
        # A remainder of zero has the sign of the divisor.
        signed_zero = self.f.intrinsic("llvm.copysign", a.type, zero, b)
        return self.f.select(self.f.compare("==", moved, zero), signed_zero, moved)

    def fmod(self, x: Any, y: Any) -> Value:
        """The remainder with the sign of x."""
        a, b = self._pair(x, y)
        if is_float(a.type):
            return power.float_remainder(self.f, a, b)
        return remainder_of(self.f, a, b, self.signed, self.fault)

    def pow(self, x: Any, y: Any) -> Value:
        a, b = self._pair(x, y)
        return power.raised(self.f, self.isa, a, b, self.signed, self.signed)

    def min(self, x: Any, y: Any) -> Value:
        return self._extreme("<", "llvm.minimum", x, y)

    def max(self, x: Any, y: Any) -> Value:
        return self._extreme(">", "llvm.maximum", x, y)

    def _extreme(self, sign: str, intrinsic: str, x: Any, y: Any) -> Value:
        f = self.f
        a, b = self._pair(x, y)
        if not is_float(a.type):
            return f.select(f.compare(sign, a, b, self.signed), a, b)
        if self.isa.arch == "aarch64":
            return f.intrinsic(intrinsic, a.type, a, b)
        # `a < b ? a : b` is one instruction, which gives b where one is NaN. A number known not
        # to be NaN goes first, so that this is right.
        if number_of(b) is not None:
            a, b = b, a
        chosen = f.select(f.compare(sign, a, b), a, b)
        known = number_of(a)
        if known is not None and known == known:
            return chosen
        return f.select(f.compare("==", a, a), chosen, a)

    def neg(self, x: Value) -> Value:
        return self.f.neg(x)

    def abs(self, x: Value) -> Value:
        if is_float(x.type):
            return self.f.intrinsic("llvm.fabs", x.type, x)
        if not self.signed:
            return x
        return self.f.select(self.f.compare("<", x, 0), self.f.neg(x), x)

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1; NaN and zeros of floats as they are."""
        f = self.f
        if is_float(x.type):
            one = f.intrinsic("llvm.copysign", x.type, 1.0, x)
            nonzero = f.binary("or", f.compare("<", x, 0.0), f.compare(">", x, 0.0))
            return f.select(nonzero, one, x)
        positive = f.select(f.compare(">", x, 0, self.signed), 1, f.zero(x.type))
        return f.select(f.compare("<", x, 0), -1, positive) if self.signed else positive

    def floor(self, x: Value) -> Value:
        return self._to_whole("llvm.floor", x)

    def ceil(self, x: Value) -> Value:
        return self._to_whole("llvm.ceil", x)

    def rint(self, x: Value) -> Value:
        return self._to_whole("llvm.roundeven", x)

    def _to_whole(self, name: str, x: Value) -> Value:
        return self.f.intrinsic(name, x.type, x) if is_float(x.type) else x

    def sqrt(self, x: Value) -> Value:
        return self.f.intrinsic("llvm.sqrt", x.type, x)

    # --- truth values ------------------------------------------------------------------------

    def less(self, x: Any, y: Any) -> Value:
        return self.f.compare("<", x, y, self.signed)

    def less_equal(self, x: Any, y: Any) -> Value:
        return self.f.compare("<=", x, y, self.signed)

    def equal(self, x: Any, y: Any) -> Value:
        return self.f.compare("==", x, y)

    def is_nan(self, x: Value) -> Value:
        return self.f.compare("!=", x, x)

    def logical_and(self, x: Value, y: Value) -> Value:
        return self.f.binary("and", x, y)

    def logical_or(self, x: Value, y: Value) -> Value:
        return self.f.binary("or", x, y)

    def logical_xor(self, x: Value, y: Value) -> Value:
        return self.f.binary("xor", x, y)

    def logical_not(self, x: Value) -> Value:
        return self.f.binary("xor", x, True)

    def select(self, condition: Value, x: Any, y: Any) -> Value:
        if isinstance(x, Value) or isinstance(y, Value):
            return self.f.select(condition, x, y)
        name = {"f64": "double"}.get(self.dtype, "float")
        number = like(condition.type, name)
        return self.f.select(condition, self.f.const(x, number), self.f.const(y, number))

    # --- bits --------------------------------------------------------------------------------

    def bit_and(self, x: Value, y: Value) -> Value:
        return self.f.binary("and", x, y)

    def bit_or(self, x: Value, y: Value) -> Value:
        return self.f.binary("or", x, y)

    def bit_xor(self, x: Value, y: Value) -> Value:
        return self.f.binary("xor", x, y)

    def bit_not(self, x: Value) -> Value:
        return self.f.binary("xor", x, -1)

    def shift_left(self, x: Value, y: Value) -> Value:
        within = self.f.compare("<", y, bits(x.type), signed=False)
        amount = self.f.select(within, y, self.f.zero(y.type))
        shifted = self.f.binary("shl", x, amount)
        return self.f.select(within, shifted, self.f.zero(x.type))

    def shift_right(self, x: Value, y: Value) -> Value:
        f, most = self.f, bits(x.type) - 1
        within = f.compare("<=", y, most, signed=False)
        amount = f.select(within, y, f.const(most, y.type))
        if self.signed:
            return f.binary("ashr", x, amount)
        return f.select(within, f.binary("lshr", x, amount), f.zero(x.type))

    def _pair(self, x: Any, y: Any) -> tuple[Value, Value]:
        if isinstance(x, Value):
            return x, self.f.value(y, x.type)
        return self.f.value(x, y.type), y


def number_of(x: Value) -> float | None:
    """The number of a float constant (of all its lanes); None for other values."""
    return power.number_of(x)
