"""The claim of a rule on one model.

In: the model before, the model that the rule made of it, the bound that it promises. Out:
`Checked`: it holds, it is broken (on which inputs, how), or nothing runs the model.

The result has to be valid ONNX with the same inputs and outputs. Claims of steps are held against
the exact oracle, where it has a value for both models, and a runtime, which computes in float32,
within one step more. All other claims are held against a runtime that is not ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import onnx

from rewrite.audit import exactly
from rewrite.audit.claims.excuses import are_other, is_open, is_outside, is_rounding
from rewrite.audit.claims.original import (
    Original,
    Run,
    Step,
    differs_from_itself,
    lacks_kernel,
    originals,
)
from rewrite.audit.compare import differ
from rewrite.audit.examples import first_lines
from rewrite.audit.feeds import Array, NoFeedsError
from rewrite.audit.instances.draft import INVALID, dims_of
from rewrite.audit.oracle.compare import compare_exact, inputs_for, numbers
from rewrite.audit.oracle.run import Oracle
from rewrite.audit.oracle.step import OracleError
from rewrite.audit.runtimes import CannotRunError, Reference, Runner, source_of
from rewrite.audit.verify import ORACLE
from rewrite.engine.ledger import Bound
from rewrite.errors import RewriteError

_ORACLE_RUNS = 4  # one of each style of inputs


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
        taken = originals(before, bound.kind == "exact", step)
        is_run = any(isinstance(one, Original) for one in taken)
        return Checked("broken" if is_run else "unrun", wrong)
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
    try:
        first, second = Oracle(before), Oracle(after)
        _, given = inputs_for(first, before, _ORACLE_RUNS, 0)
    except (OracleError, NoFeedsError, RewriteError):
        return None
    whole = [o for o in originals(before, False, step) if isinstance(o, Original) and o.points]
    if whole:
        given = [dict(run.feeds) for run in whole[0].runs]
    outside = 0
    for feeds in given:
        try:
            found = compare_exact(first, second, [feeds])
        except OracleError:
            return None
        worst = [gap for gap in found.gaps if gap.reason or gap.lsb > bound.lsb]
        if not worst:
            continue
        hangs = sum(found.undecided) and all(g.lsb <= bound.lsb + 1 for g in worst)
        if hangs or any(0 in a.shape for a in feeds.values()):
            outside += 1  # on the rounding of float64; or windows that hold nothing
            continue
        wanted, got = _numbers(first, feeds), _numbers(second, feeds)
        reason = f"under {ORACLE} {worst[0]}"
        return Checked("broken", reason, ORACLE, feeds=feeds, wanted=wanted, got=got)
    points = whole[0].points if whole and not outside else 0
    return Checked("holds", "", ORACLE, len(given) - outside, points, outside)


def _numbers(oracle: Oracle, feeds: Mapping[str, Array]) -> dict[str, Array]:
    return {name: numbers(value) for name, value in oracle.run(feeds).outputs.items()}


# --- numbers -----------------------------------------------------------------------------------


def _by_runtime(
    before: onnx.ModelProto, after: onnx.ModelProto, bound: Bound, step: Step
) -> Checked:
    """In the first runtime that takes both models.

    Where a claim leaves room, or inputs are empty, it is broken only where every runtime says so:
    kernels are not exact, and some leave unset what they make of nothing.
    """
    reasons: list[str] = []
    broken: Checked | None = None
    for original in originals(before, bound.kind == "exact", step):
        if isinstance(original, str):
            reasons.append(original)
            continue
        if broken is not None and _takes_for_another(original, broken):
            continue
        found = _in_runtime(original, after, bound, step)
        if isinstance(found, str):
            reasons.append(f"{original.runtime.name}: {found}")
        elif found.status == "broken" and (bound.kind != "exact" or _may_be_the_kernel(found)):
            broken = broken or found
        elif broken is None:
            return found
        elif found.runs:
            return replace(found, outside=found.outside + 1)
    return broken or Checked("unrun", "; ".join(reasons))


def _may_be_the_kernel(found: Checked) -> bool:
    """Whether an exact claim was not seen broken on numbers."""
    return not found.feeds or any(array.size == 0 for array in found.feeds.values())


def _takes_for_another(original: Original, broken: Checked) -> bool:
    """Whether the runtime computes another original than the one in which the claim is broken."""
    if not broken.feeds:
        return False
    try:
        outputs = original.runner.run(dict(broken.feeds))
    except CannotRunError:
        return True
    return are_other([broken.wanted.get(name) for name in original.names], outputs)


def _in_runtime(
    original: Original, after: onnx.ModelProto, bound: Bound, step: Step
) -> Checked | str:
    """The claim in one runtime; the reason where it does not go so far."""
    name = original.runtime.name
    try:
        step(f"{name} loads the rewritten model")
        second = original.runtime(source_of(after))
        step(f"{name} runs the rewritten model")
        return _compare(original, second, bound)
    except CannotRunError as problem:
        if lacks_kernel(problem) or _is_empty(original) or original.runtime is Reference:
            return str(problem)  # the reference evaluator does not take all that is valid
        return Checked("broken", f"{name} takes the original, not the result: {problem}", name)


def _is_empty(original: Original) -> bool:
    """Whether sizes are 0, which operators of the result may not take."""
    arrays = (a for run in original.runs for a in (*run.feeds.values(), *run.outputs))
    return any(a is not None and 0 in a.shape for a in arrays)


def _compare(original: Original, second: Runner, bound: Bound) -> Checked:
    if original.varies:
        return _random(original, second)
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


def _random(original: Original, second: Runner) -> Checked:
    """Random numbers cannot be compared; but they are random still, or they are not."""
    name, run = original.runtime.name, original.runs[0]
    if differs_from_itself(second, run):
        return Checked("unrun", f"{name}: the original draws random numbers")
    reason = "the original draws random numbers, and the result does not"
    wanted, got = (
        _present(original.names, run.outputs),
        _present(original.names, second.run(run.feeds)),
    )
    return Checked("broken", reason, name, feeds=run.feeds, wanted=wanted, got=got)


def _run(second: Runner, run: Run) -> Sequence[Array | None] | None:
    """The outputs; None where sizes are 0, which operators of the result may not take."""
    try:
        return second.run(run.feeds)
    except CannotRunError:
        if any(0 in a.shape for a in (*run.feeds.values(), *run.outputs) if a is not None):
            return None
        raise


def _differs(original: Original, run: Run, got: Sequence[Array | None], bound: Bound) -> str:
    for name, a, b in zip(original.names, run.outputs, got, strict=True):
        found = differ(name, a, b, bound, original.factor, original.eps)
        if found is not None:
            return str(found)
    return ""


def _is_excused(original: Original, run: Run, got: Sequence[Array | None], bound: Bound) -> bool:
    if is_open(original, run):
        return True
    if bound.kind == "exact" or not _alike(run.outputs, got):
        return False
    return is_outside(original, run) or is_rounding(original, run, got, bound)


def _alike(outputs: Sequence[Array | None], got: Sequence[Array | None]) -> bool:
    """Whether shapes and element types are the same."""
    pairs = ((a, b) for a, b in zip(outputs, got, strict=True) if a is not None and b is not None)
    return all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs)


def _present(names: Sequence[str], arrays: Sequence[Array | None]) -> dict[str, Array]:
    return {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
