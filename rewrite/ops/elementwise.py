"""Elementwise operators of one operand: activations, elementary functions, rounding.

Each is a scalar body; see rewrite/ops/scalar.py for what follows from it. The stated errors are
those of the approximations that runtimes use in float32 (a few units in the last place).
"""

from __future__ import annotations

from rewrite.ops.scalar import Builder, Number, V, pointwise

# A libm-like function in float32: up to 4 units in the last place.
LIBM = 5e-7
# Several of them in a row, or a polynomial of a vector library.
ACTIVATION = 4e-6

SQRT_HALF = 0.7071067811865476
SQRT_TWO_OVER_PI = 0.7978845608028654


# --- exact ------------------------------------------------------------------------------------


@pointwise("Abs")
def absolute(b: Builder[V], x: V) -> V:
    """|x|"""
    return b.abs(x)


@pointwise("Neg")
def negative(b: Builder[V], x: V) -> V:
    """-x"""
    return b.neg(x)


@pointwise("Sign")
def sign(b: Builder[V], x: V) -> V:
    """-1, 0 or 1; of NaN nothing is said"""
    return b.sign(x)


@pointwise("Floor")
def floor(b: Builder[V], x: V) -> V:
    """The largest integer not above x"""
    return b.floor(x)


@pointwise("Ceil")
def ceil(b: Builder[V], x: V) -> V:
    """The smallest integer not below x"""
    return b.ceil(x)


@pointwise("Round")
def rint(b: Builder[V], x: V) -> V:
    """The nearest integer, halves to even"""
    return b.rint(x)


@pointwise("Sqrt")
def sqrt(b: Builder[V], x: V) -> V:
    """Square root"""
    return b.sqrt(x)


@pointwise("Reciprocal")
def reciprocal(b: Builder[V], x: V) -> V:
    """1 / x"""
    return b.div(1.0, x)


@pointwise("Relu")
def relu(b: Builder[V], x: V) -> V:
    """0 where x < 0, else x: NaN and -0 stay"""
    return b.select(b.less(x, 0), 0, x)


@pointwise("ThresholdedRelu")
def thresholded_relu(b: Builder[V], x: V, *, alpha: float = 1.0) -> V:
    """x where x > alpha, else 0"""
    return b.select(b.less(alpha, x), x, 0.0)


@pointwise("Not")
def logical_not(b: Builder[V], x: V) -> V:
    """not x"""
    return b.logical_not(x)


@pointwise("BitwiseNot")
def bit_not(b: Builder[V], x: V) -> V:
    """Every bit inverted"""
    return b.bit_not(x)


@pointwise("IsNaN", out="bool")
def is_nan(b: Builder[V], x: V) -> V:
    """Whether x is not a number"""
    return b.is_nan(x)


@pointwise("IsInf", out="bool")
def is_inf(b: Builder[V], x: V, *, detect_negative: int = 1, detect_positive: int = 1) -> V:
    """Whether x is infinite"""
    infinity = float("inf")
    if detect_negative and detect_positive:
        return b.equal(b.abs(x), infinity)
    if detect_negative:
        return b.equal(x, -infinity)
    if detect_positive:
        return b.equal(x, infinity)
    return b.less(x, x)


# --- piecewise linear, with a multiplication that may be fused --------------------------------


@pointwise("LeakyRelu", error=LIBM)
def leaky_relu(b: Builder[V], x: V, *, alpha: float = 0.01) -> V:
    """x where x >= 0, else alpha x"""
    return b.select(b.less(x, 0.0), b.mul(x, alpha), x)


@pointwise("HardSigmoid", error=LIBM)
def hard_sigmoid(b: Builder[V], x: V, *, alpha: float = 0.2, beta: float = 0.5) -> V:
    """max(0, min(1, alpha x + beta))"""
    return b.max(0.0, b.min(1.0, b.add(b.mul(x, alpha), beta)))


@pointwise("HardSwish", error=LIBM)
def hard_swish(b: Builder[V], x: V) -> V:
    """x max(0, min(1, x/6 + 1/2))"""
    return b.mul(x, b.max(0.0, b.min(1.0, b.add(b.mul(x, 1 / 6), 0.5))))


@pointwise("Shrink", error=LIBM)
def shrink(b: Builder[V], x: V, *, lambd: float = 0.5, bias: float = 0.0) -> V:
    """x + bias below -lambd, x - bias above lambd, else 0"""
    low, high = b.less(x, -lambd), b.less(lambd, x)
    return b.select(low, b.add(x, bias), b.select(high, b.sub(x, bias), 0.0))


@pointwise("Softsign", error=LIBM)
def softsign(b: Builder[V], x: V) -> V:
    """x / (1 + |x|)"""
    return b.div(x, b.add(b.abs(x), 1.0))


# --- elementary functions ---------------------------------------------------------------------


@pointwise("Exp", error=LIBM)
def exp(b: Builder[V], x: V) -> V:
    """e^x"""
    return b.exp(x)


@pointwise("Log", error=LIBM)
def log(b: Builder[V], x: V) -> V:
    """Natural logarithm"""
    return b.log(x)


@pointwise("Sin", error=LIBM)
def sin(b: Builder[V], x: V) -> V:
    """Sine"""
    return b.sin(x)


@pointwise("Cos", error=LIBM)
def cos(b: Builder[V], x: V) -> V:
    """Cosine"""
    return b.cos(x)


@pointwise("Tan", error=ACTIVATION)
def tan(b: Builder[V], x: V) -> V:
    """Tangent"""
    return b.tan(x)


@pointwise("Asin", error=LIBM)
def asin(b: Builder[V], x: V) -> V:
    """Inverse sine"""
    return b.asin(x)


@pointwise("Acos", error=LIBM)
def acos(b: Builder[V], x: V) -> V:
    """Inverse cosine"""
    return b.acos(x)


@pointwise("Atan", error=LIBM)
def atan(b: Builder[V], x: V) -> V:
    """Inverse tangent"""
    return b.atan(x)


@pointwise("Sinh", error=ACTIVATION)
def sinh(b: Builder[V], x: V) -> V:
    """Hyperbolic sine"""
    return b.sinh(x)


@pointwise("Cosh", error=ACTIVATION)
def cosh(b: Builder[V], x: V) -> V:
    """Hyperbolic cosine"""
    return b.cosh(x)


@pointwise("Tanh", error=LIBM)
def tanh(b: Builder[V], x: V) -> V:
    """Hyperbolic tangent"""
    return b.tanh(x)


@pointwise("Asinh", error=ACTIVATION)
def asinh(b: Builder[V], x: V) -> V:
    """Inverse hyperbolic sine"""
    return b.asinh(x)


@pointwise("Acosh", error=ACTIVATION)
def acosh(b: Builder[V], x: V) -> V:
    """Inverse hyperbolic cosine"""
    return b.acosh(x)


@pointwise("Atanh", error=ACTIVATION)
def atanh(b: Builder[V], x: V) -> V:
    """Inverse hyperbolic tangent"""
    return b.atanh(x)


@pointwise("Erf", error=LIBM)
def erf(b: Builder[V], x: V) -> V:
    """The error function"""
    return b.erf(x)


# --- smooth activations -----------------------------------------------------------------------


def logistic(b: Builder[V], x: V | Number) -> V:
    """1 / (1 + e^-x), from e^-|x| so that nothing overflows"""
    z = b.exp(b.neg(b.abs(_as_value(b, x))))
    positive = b.less_equal(0.0, x)
    return b.div(b.select(positive, 1.0, z), b.add(z, 1.0))


def log_one_plus_exp(b: Builder[V], x: V) -> V:
    """log(1 + e^x) = max(x, 0) + log1p(e^-|x|)"""
    return b.add(b.max(x, 0.0), b.log1p(b.exp(b.neg(b.abs(x)))))


def gelu_erf(b: Builder[V], x: V) -> V:
    """x/2 (1 + erf(x / sqrt 2))"""
    return b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, SQRT_HALF)), 1.0))


def gelu_tanh(b: Builder[V], x: V) -> V:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"""
    cubic = b.add(x, b.mul(b.mul(b.mul(x, x), x), 0.044715))
    return b.mul(b.mul(x, 0.5), b.add(b.tanh(b.mul(cubic, SQRT_TWO_OVER_PI)), 1.0))


def _as_value(b: Builder[V], x: V | Number) -> V:
    return b.mul(x, 1.0) if isinstance(x, (int, float)) else x


@pointwise("Sigmoid", error=LIBM)
def sigmoid(b: Builder[V], x: V) -> V:
    """1 / (1 + e^-x)"""
    return logistic(b, x)


@pointwise("Softplus", error=ACTIVATION)
def softplus(b: Builder[V], x: V) -> V:
    """log(1 + e^x)"""
    return log_one_plus_exp(b, x)


@pointwise("Mish", error=ACTIVATION)
def mish(b: Builder[V], x: V) -> V:
    """x tanh(log(1 + e^x))"""
    return b.mul(x, b.tanh(log_one_plus_exp(b, x)))


@pointwise("Swish", error=ACTIVATION)
def swish(b: Builder[V], x: V, *, alpha: float = 1.0) -> V:
    """x / (1 + e^(-alpha x))"""
    return b.mul(x, logistic(b, b.mul(x, alpha)))


@pointwise("Gelu", error=ACTIVATION)
def gelu(b: Builder[V], x: V, *, approximate: str = "none") -> V:
    """x times the normal distribution function, or its tanh approximation"""
    return gelu_tanh(b, x) if approximate == "tanh" else gelu_erf(b, x)


@pointwise("Elu", error=ACTIVATION)
def elu(b: Builder[V], x: V, *, alpha: float = 1.0) -> V:
    """x where x >= 0, else alpha (e^x - 1)"""
    return b.select(b.less(x, 0.0), b.mul(b.expm1(b.min(x, 0.0)), alpha), x)


@pointwise("Celu", error=ACTIVATION)
def celu(b: Builder[V], x: V, *, alpha: float = 1.0) -> V:
    """max(0, x) + min(0, alpha (e^(x/alpha) - 1))"""
    return b.add(b.max(x, 0.0), b.min(0.0, b.mul(b.expm1(b.div(x, alpha)), alpha)))


@pointwise("Selu", error=ACTIVATION)
def selu(
    b: Builder[V],
    x: V,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> V:
    """gamma x where x > 0, else gamma alpha (e^x - 1)"""
    negative = b.mul(b.expm1(b.min(x, 0.0)), alpha)
    return b.mul(b.select(b.less_equal(x, 0.0), negative, x), gamma)
