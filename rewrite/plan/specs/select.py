"""Kernels whose results are as large as the data say.

In: nothing. Out: specs. Results have room for the most that can be found; what is found stands at
their beginning, row-major at the true sizes, and `count` (one s64) says how much it is. Such a
kernel has one work item.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec


@dataclass(frozen=True, slots=True)
class NonZero(Spec):
    """result[d, k] = coordinate d of the k-th element that is not zero.

    Words: x, result, count; `rank` sizes.
    """

    dtype: str
    rank: int


@dataclass(frozen=True, slots=True)
class Compress(Spec):
    """The rows whose condition holds.

    Words: data, condition, result, count; outer size; rows; conditions; bytes of a row.
    A true condition without a row is a fault.
    """


@dataclass(frozen=True, slots=True)
class Unique(Spec):
    """The different slices along an axis, in ascending order (`ascending`) or as they come.

    Words: x, work (3 n s64), unique slices, first place of each, slice of each place, times that
    each occurs, then three counts (of slices, of first places, of times); outer size; n; inner
    size. NaNs are equal to each other and the largest.
    """

    dtype: str
    ascending: bool


@dataclass(frozen=True, slots=True)
class NonMaxSuppression(Spec):
    """(batch, class, box) of boxes by falling score that overlap none of those taken before.

    Words: boxes [batches, n, 4], scores [batches, classes, n], most boxes per class (s64),
    threshold of overlap (f32), threshold of scores (f32; not read unless `filtered`), work
    (`suppression_work(n)` s64), result, count; batches; classes; n.
    `centered`: boxes are centre and size instead of two corners.
    """

    centered: bool
    filtered: bool


def suppression_work(n: int) -> int:
    """Two orders of n boxes, and five float32 numbers for each (and for a vector more)."""
    return 2 * n + -(-5 * (n + 64) // 2)
