"""The transforms of Winograd's F(2x2, 3x3) and F(4x4, 3x3), along one dimension.

In: elements along a row or a column of a tile, floats or integers (which wrap around). Out: their
combinations. Reference: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks
(2015). F(4, 3) interpolates at 0, 1, -1, 2, -2:

    B^T = 4  0 -5  0  1  0     A^T = 1  1  1  1  1  0
          0 -4 -4  1  1  0           0  1 -1  2 -2  0
          0  4 -4 -1  1  0           0  1  1  4  4  0
          0 -2 -1  2  1  0           0  1 -1  8 -8  1
          0  2 -1 -2  1  0
          0  4  0 -5  0  1

F(2, 3) at 0, 1, -1:

    B^T = 1  0 -1  0           A^T = 1  1  1  0
          0  1  1  0                 0  1 -1 -1
          0 -1  1  0
          0  1  0 -1

Of integers the columns of A^T are multiplied by 2 1 1 2 or 6 4 4 1 1 24 (see the spec `Winograd`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.types import is_float
from rewrite.codegen.value import Value

_NINTH = 0x38E38E39  # 9 times this is 1 modulo 2^32


def forward(f: Function, isa: Isa, x: Sequence[Value]) -> list[Value]:
    """B^T of four or six."""
    if len(x) == 4:
        return [x[0] - x[2], x[1] + x[2], x[2] - x[1], x[1] - x[3]]
    even, odd = _plus(f, isa, x[4], -4, x[2]), _plus(f, isa, x[3], -4, x[1])
    near, far = x[4] - x[2], _times(f, x[3] - x[1], 2)
    first = _plus(f, isa, near, 4, x[0] - x[2])
    last = _plus(f, isa, x[5] - x[3], 4, x[1] - x[3])
    return [first, even + odd, even - odd, near + far, near - far, last]


def backward(f: Function, isa: Isa, m: Sequence[Value]) -> list[Value]:
    """A^T of four or six, with the multiplied columns where they are integers."""
    floats = is_float(m[0].type)
    if len(m) == 4:
        first, last = (m[0], m[3]) if floats else (_times(f, m[0], 2), _times(f, m[3], 2))
        return [first + (m[1] + m[2]), (m[1] - m[2]) - last]
    one, other = m[1] + m[2], m[1] - m[2]
    two, opposite = m[3] + m[4], m[3] - m[4]
    if floats:
        return [
            m[0] + one + two,
            _plus(f, isa, other, 2, opposite),
            _plus(f, isa, one, 4, two),
            _plus(f, isa, other, 8, opposite) + m[5],
        ]
    # Common factors are taken out: 6 a + 4 b = 2 a + 4 (a + b).
    end = opposite + _plus(f, isa, m[5], 2, m[5])
    return [
        _plus(f, isa, _plus(f, isa, two, 2, m[0]), 4, m[0] + one),
        _times(f, _plus(f, isa, opposite, 2, other), 2),
        _times(f, one + two, 4),
        _times(f, _plus(f, isa, other, 2, end), 4),
    ]


def unscaled(f: Function, edge: int, y: Value) -> Value:
    """The convolution of an integer result of both passes."""
    if edge == 2:
        return f.binary("ashr", y, 2)
    return f.binary("ashr", f.mul(y, _NINTH), 6)


def _times(f: Function, x: Value, power: int) -> Value:
    """By a power of two."""
    if is_float(x.type):
        found: Value = f.mul(x, float(power))
        return found
    return f.binary("shl", x, power.bit_length() - 1)


def _plus(f: Function, isa: Isa, x: Value, k: int, y: Value) -> Value:
    """x + k y; k a power of two, or the opposite of one."""
    found: Value
    if not is_float(x.type):
        scaled = _times(f, y, abs(k))
        found = x + scaled if k > 0 else x - scaled
        return found
    if isa.fma:
        return f.fma(y, float(k), x)
    found = x + f.mul(y, float(k))
    return found
