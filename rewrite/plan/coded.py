"""Numbers on their way to codes of 8 bits: clipped, rounded, moved and cast in one step.

In: a `Body`. Out: the same with steps `rewrite.Code(x, low, high, zero)`: the nearest integer, half
to even, to x between `low` and `high`, plus `zero` (s32), as the step's type, in which it lies.
Between those bounds nothing saturates, which a processor need not be asked about; NaN gives what
`low` gives. What makes a float of the code less its zero point takes the rounded number instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rewrite.plan.spec import Body, Constant, Step
from rewrite.quant.codes import code_type

DOMAIN, NAME = "rewrite", "Code"

Arg = int | Constant | None


@dataclass(frozen=True, slots=True)
class _Found:
    """A code: the step that makes it, its zero point, and the value that was rounded."""

    step: Step
    zero: int
    rounded: int


def coded(body: Body) -> Body:
    """The program; steps that only led to such a code are left out."""
    count = len(body.dtypes)
    found = {
        count + index: code
        for index, step in enumerate(body.steps)
        if (code := _code(body, step)) is not None
    }
    if not found:
        return body
    steps = tuple(
        found[count + i].step if count + i in found else s for i, s in enumerate(body.steps)
    )
    # A code less its zero point is the number that was rounded.
    back = {
        count + i: number
        for i, s in enumerate(body.steps)
        if (number := _number_of(body, s, found)) is not None
    }
    return needed(Body(body.dtypes, steps, body.results), back)


def _code(body: Body, step: Step) -> _Found | None:
    """What takes the place of a cast of a rounded number whose bounds are known."""
    if (step.domain, step.name) != ("", "Cast") or step.dtype not in ("u8", "s8"):
        return None
    value, zero = _less(body, step.args[0], "f32")
    rounding = _made(body, value, "Round", "f32")
    clip = None if rounding is None else _made(body, rounding.args[0], "Clip", "f32")
    if clip is None or len(clip.args) != 3 or not float(zero).is_integer():
        return None
    x, low, high = clip.args
    if not isinstance(x, int) or not isinstance(low, Constant) or not isinstance(high, Constant):
        return None
    code = code_type(step.dtype)
    assert code is not None
    assert isinstance(value, int)
    # Bounds that are not in order, or NaN, are left to the steps themselves.
    least, most = float(low.number), float(high.number)
    if not code.low <= least + zero <= most + zero <= code.high:
        return None
    args = (x, low, high, Constant("s32", int(zero)))
    return _Found(Step(DOMAIN, NAME, args, step.dtype), int(zero), value)


def _number_of(body: Body, step: Step, found: dict[int, _Found]) -> int | None:
    """The number that was rounded, where the step makes a float of a code less its zero point."""
    if (step.domain, step.name, step.dtype) != ("", "Cast", "f32"):
        return None
    value, added = _less(body, step.args[0], "s32")
    widened = _made(body, value, "Cast", "s32")
    made = None if widened is None or not isinstance(widened.args[0], int) else widened.args[0]
    code = found.get(-1 if made is None else made)
    return code.rounded if code is not None and code.zero + added == 0 else None


def _less(body: Body, value: Arg, dtype: str) -> tuple[Arg, float]:
    """The value without a number that is added to it last, and that number."""
    for name, sign in (("Add", 1.0), ("Sub", -1.0)):
        step = _made(body, value, name, dtype)
        if step is None:
            continue
        one, other = step.args
        if isinstance(other, Constant):
            return one, sign * float(other.number)
        if isinstance(one, Constant) and name == "Add":
            return other, float(one.number)
    return value, 0.0


def _made(body: Body, value: Arg, name: str, dtype: str) -> Step | None:
    """The step of that name and type that makes the value."""
    count = len(body.dtypes)
    if not isinstance(value, int) or value < count:
        return None
    step = body.steps[value - count]
    return step if (step.domain, step.name, step.dtype) == ("", name, dtype) else None


def needed(body: Body, others: dict[int, int]) -> Body:
    """The program with other values in place of some, without the steps that nobody needs then."""
    count = len(body.dtypes)
    wanted = {others.get(r, r) for r in body.results}
    left = []
    for index in reversed(range(len(body.steps))):
        if count + index in wanted:
            left.append(index)
            args = body.steps[index].args
            wanted.update(others.get(a, a) for a in args if isinstance(a, int))
    left.reverse()
    numbers = {count + old: count + new for new, old in enumerate(left)}

    def number(value: int) -> int:
        found = others.get(value, value)
        return numbers.get(found, found)

    steps = tuple(renumbered(body.steps[index], number) for index in left)
    return Body(body.dtypes, steps, tuple(number(r) for r in body.results))


def renumbered(step: Step, number: Callable[[int], int]) -> Step:
    """The step with other numbers for the values it takes."""
    return replace(step, args=tuple(number(a) if isinstance(a, int) else a for a in step.args))
