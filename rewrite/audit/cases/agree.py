"""Whether a rewritten model computes what its original does, within the claim of the rule.

In: the model before and after, a bound. Out: the name of the runtime that was asked, or
`DisagreeError` with what does not agree.

The result has to be valid ONNX, and its outputs on random inputs have to agree in a runtime that is
not ours. Claims of steps (`lsb`, `certified`) are held against the real-number meaning, by the
exact oracle where it has a value for both models; then the runtime, which computes the original in
float32, has to agree within one step more.
"""

from __future__ import annotations

import onnx

from rewrite.audit import exactly
from rewrite.audit.compare import differ
from rewrite.audit.examples import first_lines
from rewrite.audit.feeds import NoFeedsError, Plan, coarsest, make_feeds, styles
from rewrite.audit.runtimes import (
    CannotRunError,
    Runner,
    TookTooLongError,
    runners,
    source_of,
    working_plan,
)
from rewrite.audit.verify import ORACLE
from rewrite.engine.ledger import Bound

_SEEDS = 2
_ORACLE_RUNS = 4  # one of each style of inputs


class DisagreeError(Exception):
    """`code` and words of the diagnostic."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def agree(before: onnx.ModelProto, after: onnx.ModelProto, bound: Bound) -> str:
    """The runtime that the outputs were compared with. Raises `DisagreeError`."""
    try:
        onnx.checker.check_model(after, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as problem:
        message = f"the result is not valid ONNX: {first_lines(problem)}"
        raise DisagreeError("RW706", message) from problem
    judged = _by_oracle(before, after, bound)
    if judged:
        bound = bound + Bound("lsb", 1)
    old, new = source_of(before), source_of(after)
    reasons = []
    for runtime in runners():
        try:
            first, second = runtime(old), runtime(new)
            plan, _ = working_plan(first, before, seed=0)
            _compare(first, second, before, plan, bound)
        except TookTooLongError as problem:
            raise DisagreeError("RW705", f"the test cannot be run: {problem}") from problem
        except (CannotRunError, NoFeedsError) as problem:
            reasons.append(f"{runtime.name}: {problem}")
            continue
        return ORACLE if judged else runtime.name
    raise DisagreeError("RW705", "the test cannot be run: " + "; ".join(reasons))


def _by_oracle(before: onnx.ModelProto, after: onnx.ModelProto, bound: Bound) -> bool:
    """Whether the exact oracle has judged the claim; then it holds."""
    if not exactly.applies(bound):
        return False
    judged = exactly.judge(before, after, _ORACLE_RUNS, bound)
    if isinstance(judged, str):
        return False
    if not judged.ok:
        raise DisagreeError("RW704", f"under the exact oracle {judged.reason}")
    return True


def _compare(
    first: Runner, second: Runner, before: onnx.ModelProto, plan: Plan, bound: Bound
) -> None:
    eps = coarsest(before)
    names = [value.name for value in before.graph.output]
    for style in styles(before, bound.kind == "exact"):
        for seed in range(_SEEDS):
            feeds = make_feeds(before, plan, seed, style)
            outputs = zip(names, first.run(feeds), second.run(feeds), strict=True)
            for name, a, b in outputs:
                found = differ(name, a, b, bound, eps=eps)
                if found is not None:
                    raise DisagreeError("RW704", f"on {style} inputs (seed {seed}) {found}")
            if not feeds:
                return
