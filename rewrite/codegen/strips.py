"""Work items across vectors: strips of neighbours beside an axis.

In: how many neighbours there are and how many make a strip, as run-time values. Out: a loop over
the kernel's items, each a strip (outer index, first neighbour, number of neighbours).
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.kernel import Kernel
from rewrite.codegen.value import Value


def each_strip(
    k: Kernel, inner: Value, group: Value, strip: Callable[[Value, Value, Value], None]
) -> None:
    """Items number strips, those of one outer index first."""
    f = k.f
    groups = f.binary("udiv", inner + group - 1, group)

    def item(number: Value) -> None:
        outer = f.binary("udiv", number, groups)
        first = f.mul(f.sub(number, f.mul(outer, groups)), group)
        strip(outer, first, f.intrinsic("llvm.smin", "i64", group, f.sub(inner, first)))

    f.loop(k.begin, k.end, item)
