"""Running sums and products: CumSum, CumProd."""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec


@dataclass(frozen=True, slots=True)
class RunningTotal(Spec):
    """y[o, i, j] = x[o, 0, j] combined up to x[o, i, j], of x[outer, n, inner] without gaps.

    `combine`: add or mul. `exclusive`: without x[o, i, j] itself; `reverse`: from the end. Half
    floats are combined in f32. `inner_one`: inner is 1, and neighbours lie along n.

    Words: x, y, n, inner, rows per item. Items: with `inner_one` outer; else for each of outer,
    groups of so many of inner, the last of them smaller.
    """

    dtype: str
    combine: str
    exclusive: bool
    reverse: bool
    inner_one: bool
