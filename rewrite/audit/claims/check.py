"""The claim of a rule on one model.

In: the model before, the model that the rule made of it, the bound that it promises. Out:
`Checked`: it holds, it is broken (on which inputs, how), or nothing runs the model.

The result has to be valid ONNX with the same inputs and outputs. Claims of steps are held against
the exact oracle, where it has a value for both models, and a runtime, which computes in float32,
within one step more. All other claims are held against a runtime that is not ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import onnx

from rewrite.audit import exactly
from rewrite.audit.claims.excuses import is_conditioned, is_outside
from rewrite.audit.claims.original import Original, Run, Step, originals
from rewrite.audit.compare import differ
from rewrite.audit.examples import first_lines
from rewrite.audit.feeds import Array
from rewrite.audit.instances.draft import INVALID, dims_of
from rewrite.audit.oracle.compare import compare_exact
from rewrite.audit.oracle.step import OracleError
from rewrite.audit.runtimes import CannotRunError, Runner, source_of
from rewrite.audit.verify import ORACLE
from rewrite.engine.ledger import Bound
from rewrite.errors import RewriteError

_ORACLE_RUNS = 4  # one of each style of inputs
_NOT_IMPLEMENTED = ("NOT_IMPLEMENTED", "Could not find an implementation")


@dataclass(frozen=True, slots=True)
class Checked:
    """`points`: the domain was finite, and these are all inputs there are. `outside`: runs that
    differ and that the claim does not speak of."""

    status: Literal["holds", "broken", "unrun"]
    reason: str = ""
    runtime: str = ""
    runs: int = 0
    points: int = 0
    outside: int = 0
    feeds: Mapping[str, Array] = field(default_factory=dict)
    wanted: Mapping[str, Array] = field(default_factory=dict)
    got: Mapping[str, Array] = field(default_factory=dict)


def check(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    bound: Bound,
    step: Step = lambda doing: None,
) -> Checked:
    """Whether the model after keeps the promise on the inputs that are tried."""
    wrong = _invalid(after) or _interface(before, after)
    if wrong:
        return Checked("broken", wrong)
    judged = _by_oracle(before, after, bound, step) if exactly.applies(bound) else None
    if judged is not None and judged.status == "broken":
        return judged
    if exactly.applies(bound):
        bound = bound + Bound("lsb", 1)
    found = _by_runtime(before, after, bound, step)
    if judged is None or found.status == "broken":
        return found
    points = found.points if judged.points else 0
    runs = judged.runs + found.runs
    return Checked("holds", "", ORACLE, runs, points, found.outside)


# --- the model ---------------------------------------------------------------------------------


def _invalid(after: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(after, full_check=True)
    except INVALID as problem:
        return f"the result is not valid ONNX: {first_lines(problem)}"
    return ""


def _interface(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """What is different about inputs and outputs, in words."""
    kinds = (
        ("input", before.graph.input, after.graph.input),
        ("output", before.graph.output, after.graph.output),
    )
    for kind, old, new in kinds:
        names = [v.name for v in old], [v.name for v in new]
        if names[0] != names[1]:
            return f"{kind}s {', '.join(names[0])} became {', '.join(names[1])}"
        for a, b in zip(old, new, strict=True):
            if a.type.tensor_type.elem_type != b.type.tensor_type.elem_type:
                return f"{kind} {a.name!r} has another element type"
            if not _agree(dims_of(a), dims_of(b)):
                return f"{kind} {a.name!r}: shape {dims_of(a)} became {dims_of(b)}"
    return ""


def _agree(a: list[int | str | None] | None, b: list[int | str | None] | None) -> bool:
    """Whether both shapes can be those of one tensor."""
    if a is None or b is None:
        return True
    if len(a) != len(b):
        return False
    pairs = zip(a, b, strict=True)
    return all(x == y for x, y in pairs if isinstance(x, int) and isinstance(y, int))


# --- steps -------------------------------------------------------------------------------------


def _by_oracle(
    before: onnx.ModelProto, after: onnx.ModelProto, bound: Bound, step: Step
) -> Checked | None:
    """None where the oracle has no value."""
    step(f"{ORACLE} runs both models")
    judged = exactly.judge(before, after, _ORACLE_RUNS, bound)
    if isinstance(judged, str):
        return None
    if not judged.ok:
        return Checked("broken", f"under {ORACLE} {judged.reason}", ORACLE)
    whole = [o for o in originals(before, False, step) if isinstance(o, Original) and o.points]
    if not whole:
        return Checked("holds", "", ORACLE, judged.runs)
    try:
        found = compare_exact(before, after, [run.feeds for run in whole[0].runs])
    except (OracleError, RewriteError):
        return Checked("holds", "", ORACLE, judged.runs)
    for gap in found.gaps:
        if gap.reason or gap.lsb > bound.lsb:
            return Checked("broken", f"under {ORACLE} {gap}", ORACLE)
    return Checked("holds", "", ORACLE, judged.runs + found.runs, whole[0].points)


# --- numbers -----------------------------------------------------------------------------------


def _by_runtime(
    before: onnx.ModelProto, after: onnx.ModelProto, bound: Bound, step: Step
) -> Checked:
    """In the first runtime that takes both models."""
    reasons: list[str] = []
    broken: Checked | None = None
    for original in originals(before, bound.kind == "exact", step):
        if isinstance(original, str):
            reasons.append(original)
            continue
        name = original.runtime.name
        try:
            step(f"{name} loads the rewritten model")
            second = original.runtime(source_of(after))
            step(f"{name} runs the rewritten model")
            return _compare(original, second, bound)
        except CannotRunError as problem:
            reasons.append(f"{name}: {problem}")
            if _fails(original, problem) and broken is None:
                broken = Checked("broken", f"{name} takes the original, not the result: {problem}", name)
    return broken or Checked("unrun", "; ".join(reasons))


def _fails(original: Original, problem: CannotRunError) -> bool:
    """Whether the result is at fault, and not what the runtime has no kernel for."""
    if any(words in str(problem) for words in _NOT_IMPLEMENTED):
        return False
    return not any(0 in a.shape for run in original.runs for a in run.feeds.values())


def _compare(original: Original, second: Runner, bound: Bound) -> Checked:
    done = outside = 0
    for run in original.runs:
        got = _run(second, run)
        if got is None:
            outside += 1
            continue
        reason = _differs(original, run, got, bound)
        if reason and _is_excused(original, run, got, bound):
            outside += 1
            continue
        if reason:
            named = original.names
            return Checked(
                "broken",
                f"on {run.what} {reason}",
                original.runtime.name,
                feeds=run.feeds,
                wanted=_present(named, run.outputs),
                got=_present(named, got),
            )
        done += 1
    points = original.points if done == len(original.runs) else 0
    return Checked("holds", "", original.runtime.name, done, points, outside)


def _run(second: Runner, run: Run) -> Sequence[Array | None] | None:
    """The outputs; None where sizes are 0, which operators of the result may not take."""
    try:
        return second.run(run.feeds)
    except CannotRunError:
        if any(0 in a.shape for a in (*run.feeds.values(), *run.outputs) if a is not None):
            return None
        raise


def _differs(
    original: Original, run: Run, got: Sequence[Array | None], bound: Bound
) -> str:
    for name, a, b in zip(original.names, run.outputs, got, strict=True):
        found = differ(name, a, b, bound, eps=original.eps)
        if found is not None:
            return str(found)
    return ""


def _is_excused(
    original: Original, run: Run, got: Sequence[Array | None], bound: Bound
) -> bool:
    if bound.kind == "exact":
        return False
    if any(
        a is not None and b is not None and (a.shape != b.shape or a.dtype != b.dtype)
        for a, b in zip(run.outputs, got, strict=True)
    ):
        return False
    return is_outside(original, run) or is_conditioned(original, run, got, bound)


def _present(names: Sequence[str], arrays: Sequence[Array | None]) -> dict[str, Array]:
    return {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
