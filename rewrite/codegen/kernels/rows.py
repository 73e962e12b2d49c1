"""Row programs (rewrite/plan/specs/rows.py).

In: a `Rows` spec. Out: code. The program is run in passes over the row: pass p computes what needs
no more than p folds, folds it or stores it, and the next pass uses the folded values. Between two
passes stand the steps on values of the row. What a pass needs and an earlier one has computed is
computed again from operands, which are in the nearest cache by then, unless it is `kept`.

Sums go into several accumulators per lane, are added pairwise after some thousand elements, and the
lanes at the end: the error of a sum grows with n / 4096 + 64 / lanes and not with n.
"""

from __future__ import annotations

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.rows_across import Across
from rewrite.codegen.kernels.rows_along import Along
from rewrite.codegen.kernels.rows_frame import Frame
from rewrite.plan.specs.rows import Rows


@emits(Rows)
def rows(k: Kernel, spec: Rows) -> None:
    """One row after another, or some neighbouring rows in the lanes."""
    frame = Frame(k, spec)
    if spec.across:
        Across(frame).write()
    else:
        Along(frame).write()
