"""Why a target does not take an operator.

In: a `Target`, one operator call in plain data. Out: a reason, None where it is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rewrite.target.target import Limits, Operator, Target


@dataclass(frozen=True, slots=True)
class Call:
    """What is known of a node: None where it is not. The first operand has index 0."""

    operator: Operator
    dtype: str | None = None  # of the first operand
    rank: int | None = None  # of the first operand
    static: bool = True  # whether every size of operands and outputs is known
    constant: tuple[bool, ...] = ()  # per operand given
    shifted: bool = False  # whether codes have a zero point that is not 0
    shapes: tuple[tuple[int | str, ...] | None, ...] = ()  # per operand given
    kernel: tuple[int, ...] | None = None  # the window, not dilated
    dilations: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


def unsupported(target: Target, call: Call) -> str | None:
    """A clause that follows the operator's name: "is not an operator of hexagon"."""
    domain, name = call.operator
    if call.operator in target.decomposed:
        return None
    if not target.has(domain, name):
        return f"is not an operator of {target.name}"
    limits = target.limits.get(call.operator)
    if limits is None:
        return None
    if call.dtype is not None and not target.has(domain, name, call.dtype):
        return f"takes {', '.join(limits.dtypes)}, not {call.dtype}"
    return _outside(limits, call)


def _outside(limits: Limits, call: Call) -> str | None:
    if limits.rank is not None and call.rank is not None:
        least, most = limits.rank
        if not least <= call.rank <= most:
            ranks = f"{least}" if least == most else f"{least} to {most}"
            return f"takes rank {ranks}, not {call.rank}"
    for index in limits.constant:
        if index < len(call.constant) and not call.constant[index]:
            return f"needs operand {index} to be constant"
    if call.shifted and limits.weight_zero_point == "zero":
        return "needs the zero point 0"
    if limits.static and not call.static:
        return "needs sizes that are known"
    return _sizes(limits, call) or _window(limits, call)


def _sizes(limits: Limits, call: Call) -> str | None:
    first = call.shapes[0] if call.shapes else None
    if limits.batch is not None and first is not None and len(first) >= 4:
        reason = _within("a batch", limits.batch, first[:1])
        if reason is not None:
            return reason
    if limits.sizes is None:
        return None
    return _within("sizes", limits.sizes, [size for shape in call.shapes for size in shape or ()])


def _window(limits: Limits, call: Call) -> str | None:
    if call.kernel is not None:
        dilations = call.dilations or (1,) * len(call.kernel)
        reach = [(k - 1) * d + 1 for k, d in zip(call.kernel, dilations, strict=False)]
        reason = (
            _within("a window", limits.kernel, call.kernel)
            or _within("a window height", limits.kernel_height, reach[:1])
            or _within("a window area", limits.kernel_area, [math.prod(reach)])
        )
        if reason is not None:
            return reason
    return _within("strides", limits.strides, call.strides)


def _within(what: str, bounds: tuple[int, int] | None, numbers: Iterable[int | str]) -> str | None:
    """Sizes that are names are not known, and not held against it."""
    if bounds is None:
        return None
    least, most = bounds
    for number in numbers:
        if isinstance(number, int) and not least <= number <= most:
            span = f"{least}" if least == most else f"{least} to {most}"
            return f"takes {what} of {span}, not {number}"
    return None
