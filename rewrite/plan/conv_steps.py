"""Short programs that convolutions and pools put together themselves.

In: element types, numbers. Out: `Body`.
"""

from __future__ import annotations

from rewrite.plan.spec import Body, Constant, Step
from rewrite.schema import DTYPES

Arg = int | Constant | None


class Program:
    """A body under construction: `step` gives the number of its value."""

    def __init__(self, *dtypes: str) -> None:
        self.dtypes = dtypes
        self.steps: list[Step] = []

    def step(self, name: str, dtype: str, *args: Arg) -> int:
        self.steps.append(Step("", name, args, dtype))
        return len(self.dtypes) + len(self.steps) - 1

    def number(self, dtype: str, number: float) -> Constant:
        return Constant(dtype, number)

    def cast(self, value: int, to: str) -> int:
        """Between types of which the wider one holds the number."""
        attributes = (("saturate", 1), ("to", DTYPES[to]))
        self.steps.append(Step("", "Cast", (value,), to, attributes, 13))
        return len(self.dtypes) + len(self.steps) - 1

    def codes(self, steps: int, dtype: str, zero: int, low: int, high: int) -> int:
        """A number of steps in f64, rounded half to even, as a code."""
        return self.codes_by(steps, dtype, Constant("f64", float(zero)), low, high)

    def codes_by(self, steps: int, dtype: str, zero: Arg, low: int, high: int) -> int:
        """The same; the zero point is a value of type f64."""
        rounded = self.step("Round", "f64", steps)
        moved = self.step("Add", "f64", rounded, zero)
        bounds = Constant("f64", float(low)), Constant("f64", float(high))
        return self.cast(self.step("Clip", "f64", moved, *bounds), dtype)

    def body(self, *results: int) -> Body:
        return Body(self.dtypes, tuple(self.steps), results)
