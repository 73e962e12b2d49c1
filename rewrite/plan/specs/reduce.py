"""Where the largest or smallest element along an axis is: ArgMax, ArgMin, Hardmax."""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec


@dataclass(frozen=True, slots=True)
class ArgExtreme(Spec):
    """x[outer, n, inner] -> s64 [outer, inner], or, with `hot`, x-like: 1 there and 0 elsewhere.

    Of equal elements the first one is meant, or the last one (`last`); a NaN is above and below
    all numbers. n > 0; all tensors without gaps. `inner_one`: inner is 1, and neighbours lie
    along n.

    Words: x, output, n, inner, rows per item. Items: with `inner_one` outer; else for each of
    outer, groups of so many of inner, the last of them smaller.
    """

    dtype: str
    largest: bool
    last: bool
    inner_one: bool
    hot: str | None = None
