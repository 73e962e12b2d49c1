"""Numbers on their way to codes of 8 bits: clipped, rounded, moved and cast in one step.

In: a `Body`. Out: the same with steps `rewrite.Code(x, low, high, zero)`: the nearest integer, half
to even, to x between `low` and `high`, plus `zero` (s32), as the step's type, in which it lies.
Between those bounds nothing saturates, which a processor need not be asked about; NaN gives what
`low` gives.
"""

from __future__ import annotations

from rewrite.plan.spec import Body, Constant, Step
from rewrite.quant.codes import code_type

DOMAIN, NAME = "rewrite", "Code"


def coded(body: Body) -> Body:
    """The program; steps that only led to such a code are left out."""
    made = {}
    for index, step in enumerate(body.steps):
        found = _code(body, step)
        if found is not None:
            made[index] = found
    if not made:
        return body
    steps = tuple(made.get(i, step) for i, step in enumerate(body.steps))
    return needed(Body(body.dtypes, steps, body.results), {})


def _code(body: Body, step: Step) -> Step | None:
    """The step in place of a cast of a rounded number whose bounds are known."""
    if (step.domain, step.name) != ("", "Cast") or step.dtype not in ("u8", "s8"):
        return None
    before, zero = _made(body, step.args[0], "Round"), 0.0
    if before is None:
        sum_ = _made(body, step.args[0], "Add")
        for one, other in () if sum_ is None else (sum_.args, sum_.args[::-1]):
            if isinstance(other, Constant) and before is None:
                before, zero = _made(body, one, "Round"), float(other.number)
    clip = None if before is None else _made(body, before.args[0], "Clip")
    if clip is None or len(clip.args) != 3 or not zero.is_integer():
        return None
    x, low, high = clip.args
    if not isinstance(x, int) or not isinstance(low, Constant) or not isinstance(high, Constant):
        return None
    code = code_type(step.dtype)
    assert code is not None
    # Bounds that are not in order, or NaN, are left to the steps themselves.
    least, most = float(low.number), float(high.number)
    if not code.low <= least + zero <= most + zero <= code.high:
        return None
    return Step(DOMAIN, NAME, (x, low, high, Constant("s32", int(zero))), step.dtype)


def _made(body: Body, value: object, name: str) -> Step | None:
    """The step of that name, in float32, that makes the value."""
    count = len(body.dtypes)
    if not isinstance(value, int) or value < count:
        return None
    step = body.steps[value - count]
    return step if (step.domain, step.name, step.dtype) == ("", name, "f32") else None


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

    steps = []
    for index in left:
        old = body.steps[index]
        args_ = tuple(number(a) if isinstance(a, int) else a for a in old.args)
        steps.append(Step(old.domain, old.name, args_, old.dtype, old.attributes, old.opset))
    return Body(body.dtypes, tuple(steps), tuple(number(r) for r in body.results))
