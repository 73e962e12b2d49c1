"""Runs scalar programs on registers: what a fused group does with each element.

In: a `Body`, one value per operand (rewrite/codegen/memory.py), all scalars or all vectors of as
many lanes. Out: the values that the body gives. Every step is rounded to its element type.
What steps there are: rewrite/plan/pointwise.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rewrite.codegen.convert import converted
from rewrite.codegen.floats import rounded
from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math import elementary
from rewrite.codegen.memory import memory_type, register_type, to_memory, to_register
from rewrite.codegen.power import raised
from rewrite.codegen.quantize import code_between, dequantized, quantized
from rewrite.codegen.scalar import Fault, Scalars
from rewrite.codegen.types import lanes, vector
from rewrite.codegen.value import Value
from rewrite.ops import registry
from rewrite.ops.elementwise import SQRT_TWO_OVER_PI
from rewrite.plan import coded
from rewrite.plan.spec import Body, Constant, Step
from rewrite.schema import DTYPE_OF


def emit_body(
    f: Function,
    isa: Isa,
    body: Body,
    values: Sequence[Value],
    fault: Fault | None = None,
) -> list[Value]:
    """The body's results; `fault` is told where data do not allow an operation."""
    return emit_bodies(f, isa, body, [values], fault)[0]


def emit_bodies(
    f: Function,
    isa: Isa,
    body: Body,
    many: Sequence[Sequence[Value]],
    fault: Fault | None = None,
) -> list[list[Value]]:
    """The same for several sets of operands, which do not depend on each other.

    Each step is written for all sets before the next one is: a processor looks ahead over some
    hundred instructions, and finds several chains of dependent ones there instead of one.
    """
    count = next((lanes(v.type) for values in many for v in values), 0)
    known = [list(values) for values in many]
    for step in body.steps:
        dtypes = [_dtype(body, a) for a in step.args]
        write = _STEPS.get((step.domain, step.name), _scalar_step)
        for values in known:
            args = [_argument(f, values, a, count) for a in step.args]
            found = write(Site(f, isa, step, args, dtypes, count, fault))
            if step.name not in _EXACT:
                found = rounded(f, isa, step.dtype, found)
            values.append(found)
    return [[values[i] for i in body.results] for values in known]


# What these give has the digits of an operand: nothing is to be rounded.
_EXACT = frozenset({"Abs", "Clip", "Identity", "Max", "Min", "Neg", "Relu", "Where"})


class Site:
    """One step where it is written: its arguments, and their element types."""

    __slots__ = ("args", "count", "dtypes", "f", "fault", "isa", "step")

    def __init__(
        self,
        f: Function,
        isa: Isa,
        step: Step,
        args: Sequence[Value | None],
        dtypes: Sequence[str],
        count: int,
        fault: Fault | None,
    ) -> None:
        self.f = f
        self.isa = isa
        self.step = step
        self.args = args
        self.dtypes = dtypes
        self.count = count
        self.fault = fault

    def arg(self, index: int) -> Value:
        found = self.args[index]
        assert found is not None, f"{self.step.name} lacks operand {index}"
        return found

    def typed(self, index: int) -> tuple[Value, str]:
        """An operand and its element type."""
        return self.arg(index), self.dtypes[index]

    def optional(self, index: int) -> tuple[Value, str] | None:
        present = index < len(self.args) and self.args[index] is not None
        return self.typed(index) if present else None

    def attribute(self, name: str, default: Any) -> Any:
        return dict(self.step.attributes).get(name, default)


def _argument(
    f: Function, known: Sequence[Value], arg: int | Constant | None, count: int
) -> Value | None:
    if arg is None:
        return None
    if isinstance(arg, Constant):
        return f.const(arg.number, register_type(arg.dtype, count))
    return known[arg]


def _dtype(body: Body, arg: int | Constant | None) -> str:
    if arg is None:
        return ""
    return arg.dtype if isinstance(arg, Constant) else body.dtype(arg)


def _scalar_step(site: Site) -> Value:
    """An operator that has a scalar body."""
    step = site.step
    definition = registry.find(step.domain, step.name)
    assert definition is not None, f"no operator {step.name}"
    body: Any = definition.body
    defaults = body.__kwdefaults__ or {}
    attributes = {n: _attribute(site.attribute(n, d), d) for n, d in defaults.items()}
    if any(_not_of(site.dtypes[0], a) for a in attributes.values()):
        return _in_double(site, body, attributes)
    builder = Scalars(site.f, site.isa, site.dtypes[0], site.fault)
    found: Value = body(builder, *site.args, **attributes)
    return found


def _not_of(dtype: str, attribute: Any) -> bool:
    """Whether an integer type cannot hold the number that an attribute is, or its negative."""
    if dtype[0] not in "su" or not isinstance(attribute, float):
        return False
    return attribute != int(attribute) or (dtype[0] == "u" and attribute != 0)


def _in_double(site: Site, body: Any, attributes: dict[str, Any]) -> Value:
    """Integers beside attributes that are none, as numpy computes them."""
    f, isa, target = site.f, site.isa, site.step.dtype
    wide = [converted(f, isa, site.arg(i), d, "f64") for i, d in enumerate(site.dtypes)]
    found: Value = body(Scalars(f, isa, "f64", site.fault), *wide, **attributes)
    return converted(f, isa, found, "f64", target)


def _attribute(given: Any, default: Any) -> Any:
    """As rewrite/ops/scalar.py reads it: floats as they are stored, in float32."""
    if isinstance(default, float):
        return float(np.float32(given))
    if isinstance(default, int):
        return int(given)
    return given.decode() if isinstance(given, bytes) else str(given)


def _identity(site: Site) -> Value:
    return site.arg(0)


def _where(site: Site) -> Value:
    return site.f.select(site.arg(0), site.arg(1), site.arg(2))


def _gelu(site: Site) -> Value:
    """The approximate form: x/2 (1 + tanh u) = x / (1 + e^-2u), without cancellation."""
    if site.attribute("approximate", "none") != "tanh" or site.dtypes[0] == "f64":
        return _scalar_step(site)
    return _gelu_tanh(site, site.arg(0))


def _fast_gelu(site: Site) -> Value:
    if site.dtypes[0] == "f64":
        return _scalar_step(site)
    bias = site.optional(1)
    return _gelu_tanh(site, site.arg(0) if bias is None else site.f.add(site.arg(0), bias[0]))


def _gelu_tanh(site: Site, x: Value) -> Value:
    f, slope = site.f, -2 * SQRT_TWO_OVER_PI
    inner = f.add(f.mul(f.mul(x, x), 0.044715 * slope), slope)
    power = elementary(f, site.isa, "exp", f.mul(x, inner))
    return f.binary("fdiv", x, f.add(power, 1.0))


def _power(site: Site) -> Value:
    signed = [dtype[0] != "u" for dtype in site.dtypes]
    return raised(site.f, site.isa, site.arg(0), site.arg(1), signed[0], signed[1])


def _cast(site: Site) -> Value:
    saturate = bool(site.attribute("saturate", 1))
    mode = _attribute(site.attribute("round_mode", "up"), "up")
    x, source = site.typed(0)
    return converted(site.f, site.isa, x, source, site.step.dtype, saturate, str(mode))


def _bit_cast(site: Site) -> Value:
    """The bits of an element as it lies in memory."""
    f, isa, target = site.f, site.isa, site.step.dtype
    x, source = site.typed(0)
    raw = to_memory(f, isa, source, x)
    return to_register(f, isa, target, f.bitcast(raw, vector(memory_type(target), site.count)))


# From this opset on the division has the type of the scale where no other is stated; before, the
# text leaves it open, and runtimes divide in float32.
_DIVIDES_AS_SCALE = 23


def _quantize(site: Site) -> Value:
    precision = DTYPE_OF.get(int(site.attribute("precision", 0) or 0))
    scale = site.typed(1)[1]
    if not site.step.domain and site.step.opset >= _DIVIDES_AS_SCALE and scale in ("f16", "bf16"):
        precision = precision or scale
    saturate = bool(site.attribute("saturate", 1))
    return quantized(
        site.f, site.isa, site.typed(0), site.typed(1), site.optional(2), site.step.dtype,
        precision, saturate,
    )  # fmt: skip


def _dequantize(site: Site) -> Value:
    return dequantized(
        site.f, site.isa, site.typed(0), site.typed(1), site.optional(2), site.step.dtype
    )


def _code(site: Site) -> Value:
    """A step of rewrite/plan/coded.py."""
    f = site.f
    code = code_between(f, site.isa, *(site.arg(i) for i in range(4)))
    return f.cast("trunc", code, register_type(site.step.dtype, site.count))


_STEPS: dict[tuple[str, str], Callable[[Site], Value]] = {
    ("", "BitCast"): _bit_cast,
    ("", "Cast"): _cast,
    ("", "CastLike"): _cast,
    ("", "DequantizeLinear"): _dequantize,
    ("", "Gelu"): _gelu,
    ("", "Identity"): _identity,
    ("", "Pow"): _power,
    ("", "QuantizeLinear"): _quantize,
    ("", "Where"): _where,
    ("com.microsoft", "DequantizeLinear"): _dequantize,
    ("com.microsoft", "FastGelu"): _fast_gelu,
    ("com.microsoft", "QuantizeLinear"): _quantize,
    (coded.DOMAIN, coded.NAME): _code,
}
