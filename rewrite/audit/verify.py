"""Comparison of a rewritten model with its original on random inputs.

In: the two models, the number of runs, the `Ledger` of the rewriting. Out: `Verification`.

An `exact` ledger demands the same bits. One of class `lsb` is judged by the exact oracle, in steps
(see `exactly`), where it has a value for both models. Otherwise each step of the ledger is a
relative error made somewhere inside the model, and the rest of the model may magnify it. That
factor is measured: the inputs (or, where none is a float, the float weights) are changed by a
relative 2^-20, and the change of the original's outputs divided by 2^-20 is the conditioning, at
least 1. What cannot be run is not verified, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import numpy_helper

from rewrite.audit import exactly
from rewrite.audit.compare import Difference, differ, measure
from rewrite.audit.feeds import (
    FLOATS,
    Array,
    Feeds,
    NoFeedsError,
    Plan,
    coarsest,
    epsilon,
    is_float,
    make_feeds,
    perturbed,
)
from rewrite.audit.runtimes import (
    CannotRunError,
    Reference,
    Runner,
    Runtime,
    Source,
    runners,
    source_of,
    working_plan,
)
from rewrite.engine.determinism import RANDOM
from rewrite.engine.ledger import Bound, Ledger

ORACLE = "the exact oracle"
_STEP = 2.0**-20
_MAX_PERTURBED_BYTES = 256 << 20
_STYLES = ("normal", "unit", "large", "negative")

# Runs of an original that may draw random numbers: no element agrees by chance in all of them.
_REPEATS = 64

Outputs = list[Array | None]
Step = Callable[[str, str], None]  # the name of a runtime, what it is about to do


@dataclass(frozen=True, slots=True)
class Verification:
    """`equal`: every run agreed within the ledger. `different`: at least one did not.

    `unverified`: the original cannot be run, or not twice with the same result; see `reason`.
    `used`: the largest difference seen, as a share of what `bound` times `conditioning` allows.
    """

    status: Literal["equal", "different", "unverified"]
    runs: int = 0
    runtime: str = ""
    plan: str = ""
    bound: Bound = field(default_factory=Bound)
    conditioning: float = 1.0
    used: float = 0.0
    worst: tuple[Difference, ...] = ()
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "equal"


def compare(
    before: onnx.ModelProto | str | Path,
    after: onnx.ModelProto | str | Path,
    n: int,
    ledger: Ledger,
    seed: int = 0,
    step: Step = lambda runtime, doing: None,
) -> Verification:
    """Run both models on `n` random inputs and judge the outputs by the ledger.

    Runtimes run in this process, and may end it; `apart.compare` does the same in another one.
    """
    if n < 1:
        return Verification("unverified", reason="no runs were asked for")
    if exactly.applies(ledger.total):
        step(ORACLE, "comparing both models")
        judged = exactly.judge(before, after, n, ledger.total, seed, dict(ledger.outputs))
        if not isinstance(judged, str):
            return _by_oracle(judged, ledger.total)
        found = _by_runtime(before, after, n, ledger, seed, step)
        return replace(found, reason=found.reason or f"{ORACLE} has no value: {judged}")
    return _by_runtime(before, after, n, ledger, seed, step)


def _by_runtime(
    before: onnx.ModelProto | str | Path,
    after: onnx.ModelProto | str | Path,
    n: int,
    ledger: Ledger,
    seed: int,
    step: Step,
) -> Verification:
    """In the first runtime that takes the original."""
    old, new = source_of(before), source_of(after)
    reasons = []
    for runtime in runners():
        try:
            first = _open(runtime, old, "the original", step)
            plan, feeds = working_plan(first, old.proto, seed)
        except (CannotRunError, NoFeedsError) as problem:
            reasons.append(f"{runtime.name}: {problem}")
            continue
        trial = _Trial(runtime, first, old, new, plan, ledger.total, seed, step)
        return trial.judge(feeds, n)
    return Verification("unverified", reason="the original cannot be run: " + "; ".join(reasons))


def _by_oracle(judged: exactly.Judged, bound: Bound) -> Verification:
    if judged.ok and judged.unbounded:
        return Verification("unverified", runtime=ORACLE, reason=judged.unbounded)
    return Verification(
        status="equal" if judged.ok else "different",
        runs=judged.runs,
        runtime=ORACLE,
        plan=judged.plan,
        bound=bound,
        used=judged.used,
        worst=judged.worst,
        reason=judged.reason,
    )


@dataclass(frozen=True, slots=True)
class _Trial:
    """An original that runs, and the rewritten model that it is compared with."""

    runtime: Runtime
    first: Runner
    old: Source
    new: Source
    plan: Plan
    bound: Bound
    seed: int
    step: Step

    def judge(self, feeds: Feeds, n: int) -> Verification:
        base = self.first.run(feeds)
        if self._varies(feeds, base):
            reason = "two runs of the original on the same inputs differ (it draws random numbers)"
            return self._unverified(reason)
        try:
            second = _open(self.runtime, self.new, "the rewritten model", self.step)
        except CannotRunError as problem:
            return self._not_loaded(problem)
        factor = 1.0
        if self.bound.kind != "exact":
            factor = self._conditioning(feeds, base)
        return self._runs(second, n, factor)

    def _varies(self, feeds: Feeds, base: Outputs) -> bool:
        """Whether the original gives something else when it runs again."""
        proto = self.old.proto
        bodies = (proto.graph.node, *(function.node for function in proto.functions))
        repeats = _REPEATS if any(map(_may_draw, bodies)) else 1
        names = self._names()
        again = (self.first.run(feeds) for _ in range(repeats))
        return any(_differ(names, base, outputs) for outputs in again)

    def _not_loaded(self, problem: CannotRunError) -> Verification:
        strange = sorted(_domains(self.new) - _domains(self.old))
        if self.runtime is Reference and strange:
            return self._unverified(
                f"{self.runtime.name} knows no operators of {', '.join(strange)}"
            )
        return self._broken(f"the rewritten model does not load: {problem}")

    def _runs(self, second: Runner, n: int, factor: float) -> Verification:
        """Both models on `n` inputs, and the worst element of each output."""
        names, eps = self._names(), coarsest(self.old.proto)
        worst: dict[str, Difference] = {}
        done, used = 0, 0.0
        for run in range(n):
            style = _STYLES[run % len(_STYLES)]
            feeds = make_feeds(self.old.proto, self.plan, self.seed + run, style)
            try:
                wanted = self.first.run(feeds)
            except CannotRunError:
                continue  # inputs of this style are outside what the model takes
            try:
                got = second.run(feeds)
            except CannotRunError as problem:
                return self._broken(f"fails where the original runs: {problem}")
            done += 1
            for name, a, b in zip(names, wanted, got, strict=True):
                measured = measure(name, a, b, self.bound, factor, eps)
                used, found = max(used, measured.used), measured.difference
                if found and (name not in worst or found.error > worst[name].error):
                    worst[name] = found
        return Verification(
            status="different" if worst else "equal",
            runs=done,
            runtime=self.runtime.name,
            plan=str(self.plan),
            bound=self.bound,
            conditioning=factor,
            used=used,
            worst=tuple(worst.values()),
            reason="; ".join(str(found) for found in worst.values()),
        )

    def _conditioning(self, feeds: Feeds, base: Outputs) -> float:
        """The largest relative change of an output per relative change of the inputs, or 1."""
        step, seed = _STEP, self.seed
        try:
            if any(is_float(array) for array in feeds.values()):
                step = max([_STEP, *(2 * epsilon(a) for a in feeds.values() if is_float(a))])
                trials = [self.first.run(perturbed(feeds, step, seed + k)) for k in (1, 2)]
            else:
                changed = _perturbed_weights(self.old, seed)
                what = "the original with changed weights"
                trials = [_open(self.runtime, changed, what, self.step).run(feeds)]
        except CannotRunError:
            return 1.0
        pairs = ((a, b) for outputs in trials for a, b in zip(base, outputs, strict=True))
        return max([1.0, *(change(a, b) / step for a, b in pairs)])

    def _names(self) -> list[str]:
        return [value.name for value in self.old.proto.graph.output]

    def _unverified(self, reason: str) -> Verification:
        return Verification("unverified", runtime=self.runtime.name, reason=reason)

    def _broken(self, reason: str) -> Verification:
        return Verification("different", runtime=self.runtime.name, reason=reason)


@dataclass(frozen=True, slots=True)
class _Told:
    """A runner that says what it is about to do."""

    runner: Runner
    what: str
    step: Step

    @property
    def name(self) -> str:
        return self.runner.name

    def run(self, feeds: Feeds) -> Outputs:
        self.step(self.name, f"running {self.what}")
        return self.runner.run(feeds)


def _open(runtime: Runtime, item: Source, what: str, step: Step) -> _Told:
    """The model in this runtime."""
    step(runtime.name, f"loading {what}")
    return _Told(runtime(item), what, step)


def _differ(names: Sequence[str], before: Outputs, after: Outputs) -> bool:
    return any(differ(k, a, b, Bound()) for k, a, b in zip(names, before, after, strict=True))


def _may_draw(nodes: Iterable[onnx.NodeProto]) -> bool:
    """Whether an operator of a graph or function may draw random numbers."""
    for node in nodes:
        if node.op_type in RANDOM or "Dropout" in node.op_type:
            return True
        inner = (g.node for a in node.attribute for g in (a.g, *a.graphs))
        if any(map(_may_draw, inner)):
            return True
    return False


def _domains(item: Source) -> set[str]:
    """The domains of operators, without those of the model's own functions."""
    own = {function.domain for function in item.proto.functions}
    return {entry.domain for entry in item.proto.opset_import} - own


def change(a: Array | None, b: Array | None) -> float:
    """Largest change relative to the largest magnitude; 0 where there is nothing to compare."""
    if a is None or b is None or a.shape != b.shape or not a.size:
        return 0.0
    if not (is_float(a) or a.dtype.kind in "iu"):
        return 0.0
    old, new = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(old) & np.isfinite(new)
    if not finite.any():
        return 0.0
    old, new = old[finite], new[finite]
    magnitude = float(np.abs(old).max())
    return float(np.abs(old - new).max()) / magnitude if magnitude else 0.0


def _perturbed_weights(item: Source, seed: int) -> Source:
    if item.path is not None or item.proto.ByteSize() > _MAX_PERTURBED_BYTES:
        raise CannotRunError("too large to copy")
    copy = onnx.ModelProto()
    copy.CopyFrom(item.proto)
    weights = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in copy.graph.initializer
        if tensor.data_type in FLOATS
    }
    changed = perturbed(weights, _STEP, seed)
    for tensor in copy.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
    return source_of(copy)
