"""Verification of quantized models by the exact oracle, in steps of their outputs.

In: two models, the number of runs, a bound of class `lsb`. Out: `Judged`, or why the oracle has
no value for one of them: then a runtime may be asked.

Claims of class `lsb` speak of the real-number meaning of a model. A runtime computes the original
in float32, and differs from that meaning where its rounding does; the oracle does not. The outputs
may differ by the steps that the ledger adds up, or by what is known to become of them, without a
factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import onnx

from rewrite.audit.compare import Difference
from rewrite.audit.feeds import NoFeedsError
from rewrite.audit.oracle.compare import Comparison, compare_exact
from rewrite.audit.oracle.step import OracleError
from rewrite.engine.ledger import Bound
from rewrite.errors import RewriteError

Model = onnx.ModelProto | str | Path


@dataclass(frozen=True, slots=True)
class Judged:
    """`used`: the largest difference as a share of the bound; infinite where none is allowed.

    `unbounded`: outputs that differ by more than the ledger's steps, where nothing says what
    becomes of these; neither right nor wrong.
    """

    ok: bool
    runs: int
    plan: str
    used: float
    worst: tuple[Difference, ...]
    reason: str
    unbounded: str = ""


def applies(bound: Bound) -> bool:
    """Whether every promise of the ledger is one of exactness or of steps."""
    return bound.kind == "lsb"


def judge(
    before: Model,
    after: Model,
    n: int,
    bound: Bound,
    seed: int = 0,
    outputs: Mapping[str, int | None] = MappingProxyType({}),
) -> Judged | str:
    """Both models under the oracle on `n` random inputs.

    `outputs`: what codes of an output may be off, where that is more than the bound; None where
    nothing bounds it.
    """
    try:
        found = compare_exact(before, after, n, seed)
    except (OracleError, NoFeedsError, RewriteError) as problem:
        return str(problem)
    return _judged(found, bound, outputs)


def _judged(found: Comparison, bound: Bound, outputs: Mapping[str, int | None]) -> Judged:
    worst: list[Difference] = []
    unbounded: list[str] = []
    used = 0.0
    for gap in found.gaps:
        allowed = bound.lsb
        if gap.unit == "code":
            allowed = max(allowed, outputs.get(gap.output, 0) or 0)
        if (
            bound.lsb
            and gap.lsb > allowed
            and outputs.get(gap.output, 0) is None
            and not gap.reason
        ):
            unbounded.append(
                f"'{gap.output}' differs by {gap.lsb} steps, and nothing bounds its error"
            )
            continue
        if gap.reason or gap.lsb > allowed:
            worst.append(Difference(gap.output, gap.lsb, float(allowed), str(gap)))
        if gap.lsb:
            used = max(used, gap.lsb / allowed if allowed else math.inf)
    reason = "; ".join(difference.reason for difference in worst)
    if worst and sum(found.undecided):
        reason += f"; {max(found.undecided)} codes hang on the rounding of float64"
    return Judged(
        not worst, found.runs, found.plan, used, tuple(worst), reason, "; ".join(unbounded)
    )
