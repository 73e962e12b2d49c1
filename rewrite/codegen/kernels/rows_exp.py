"""e^x of numbers that are not positive: what softmax spends its time on.

In: `float` values, at most 0 or NaN. Out: e^x, with a relative error of (3 + |x| / 4) 2^-24 at most
(the second term is that of 1 / ln 2 as one float; rounding the difference that x is costs more).

    e^x = 2^(k/16) 2^(floor n) (1 + r Q(r)),  n = k/16 + floor n next to x / ln 2,  |r| <= 1/32

With vectors of 16 lanes the sixteen powers 2^(k/16) are one register, and one shuffle looks them
up: six instructions of multiplication instead of nine. Other machines take the usual function.
"""

from __future__ import annotations

import numpy as np

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math import elementary
from rewrite.codegen.value import Value

_TYPE = "<16 x float>"
_LEAST = -104.0  # e^x is 0 from here on
_LOG2_E = 1.4426950408889634
_MAGIC = 786432.0  # 1.5 2^19: a number added to it is rounded to a sixteenth
# (2^r - 1) / r: the Taylor series, whose fourth term is 1e-8 at most.
_POWER = (0.6931471805599453, 0.2402265069591007, 0.05550410866482158)


def exp_below(f: Function, isa: Isa, x: Value) -> Value:
    """e^x for x <= 0; NaN of NaN."""
    if x.type != _TYPE or not isa.has("avx512f"):
        return elementary(f, isa, "exp", x)
    bounded = f.select(f.compare("<", x, _LEAST), _LEAST, x)
    shifted = f.fma(bounded, _LOG2_E, _MAGIC)
    n = f.sub(shifted, _MAGIC)
    r = f.fma(bounded, _LOG2_E, f.neg(n))
    power = _scaled(f, _looked_up(f, shifted), n)
    inner = f.fma(f.fma(r, _POWER[2], _POWER[1]), r, _POWER[0])
    return f.fma(power, f.mul(r, inner), power)


def _looked_up(f: Function, shifted: Value) -> Value:
    """2^(k/16) by the low four bits of each lane."""
    powers = np.exp2(np.arange(16) / 16).astype(np.float32)
    table = f.load(_TYPE, f.global_(f.module.table(powers)), 64)
    index = f.bitcast(shifted, "<16 x i32>")
    return f.call("llvm.x86.avx512.permvar.sf.512", _TYPE, table, index)


def _scaled(f: Function, x: Value, n: Value) -> Value:
    """x 2^(floor n)"""
    mask, mode = f.const(-1, "i16"), f.const(4, "i32")
    return f.call("llvm.x86.avx512.mask.scalef.ps.512", _TYPE, x, n, x, mask, mode)
