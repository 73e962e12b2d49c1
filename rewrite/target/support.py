"""Why a target does not take an operator.

In: a `Target`, one operator call in plain data. Out: a reason, None where it is taken.
"""

from __future__ import annotations

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
    if limits.static and not call.static:
        return "needs sizes that are known"
    return None
