"""Comparison of a rewritten model with its original on random inputs.

In: the two models, the number of runs, the `Ledger` of the rewriting. Out: `Verification`.

An `exact` ledger demands the same bits. Otherwise each step of the ledger is a relative error
made somewhere inside the model, and the rest of the model may magnify it. That factor is measured:
the inputs (or, where none is a float, the float weights) are changed by a relative 2^-20, and the
change of the original's outputs divided by 2^-20 is the conditioning, at least 1. What cannot be
run is not verified, and says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from rewrite.audit.compare import Difference, differ
from rewrite.audit.feeds import (
    FLOATS,
    PLANS,
    Array,
    Feeds,
    NoFeedsError,
    Plan,
    epsilon,
    is_float,
    make_feeds,
    open_inputs,
    perturbed,
)
from rewrite.audit.runtimes import (
    CannotRunError,
    OnnxRuntime,
    Reference,
    Runner,
    Source,
    runners,
    source_of,
)
from rewrite.engine.ledger import Bound, Ledger

_STEP = 2.0**-20
_MAX_PERTURBED_BYTES = 256 << 20
_STYLES = ("normal", "unit", "large", "negative")
_EPS = {
    TensorProto.FLOAT: 2.0**-23,
    TensorProto.FLOAT16: 2.0**-10,
    TensorProto.BFLOAT16: 2.0**-7,
    TensorProto.DOUBLE: 2.0**-52,
}

# Runs of an original that may draw random numbers: few elements agree by chance in all of them.
_REPEATS = 12
_RANDOM = frozenset(
    {
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        "Multinomial", "Bernoulli",
    }
)  # fmt: skip

Outputs = list[Array | None]
Runtime = type[OnnxRuntime] | type[Reference]


@dataclass(frozen=True, slots=True)
class Verification:
    """`equal`: every run agreed within the ledger. `different`: at least one did not.

    `unverified`: the original cannot be run, or not twice with the same result; see `reason`.
    """

    status: Literal["equal", "different", "unverified"]
    runs: int = 0
    runtime: str = ""
    plan: str = ""
    bound: Bound = field(default_factory=Bound)
    conditioning: float = 1.0
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
) -> Verification:
    """Run both models on `n` random inputs and judge the outputs by the ledger."""
    if n < 1:
        return Verification("unverified", reason="no runs were asked for")
    old, new = source_of(before), source_of(after)
    reasons = []
    for runtime in runners(old):
        try:
            first = runtime(old)
            plan, feeds = _working_plan(first, old, seed)
        except (CannotRunError, NoFeedsError) as problem:
            reasons.append(f"{runtime.name}: {problem}")
            continue
        return _judge(runtime, first, (old, new), plan, feeds, n, ledger, seed)
    return Verification("unverified", reason="the original cannot be run: " + "; ".join(reasons))


def _working_plan(runner: Runner, item: Source, seed: int) -> tuple[Plan, Feeds]:
    """The first plan under which the original runs."""
    problem: CannotRunError | NoFeedsError | None = None
    for plan in PLANS:
        try:
            feeds = make_feeds(item.proto, plan, seed)
            runner.run(feeds)
        except (CannotRunError, NoFeedsError) as found:
            problem = problem or found
            if not open_inputs(item.proto):
                break
        else:
            return plan, feeds
    assert problem is not None
    raise problem


def _judge(
    runtime: Runtime,
    first: Runner,
    items: tuple[Source, Source],
    plan: Plan,
    feeds: Feeds,
    n: int,
    ledger: Ledger,
    seed: int,
) -> Verification:
    old, new = items
    bound = ledger.total
    names = [value.name for value in old.proto.graph.output]
    base = first.run(feeds)
    repeated = (first.run(feeds) for _ in range(_REPEATS if _may_draw(old.proto.graph) else 1))
    if any(_differ(names, base, again) for again in repeated):
        reason = "two runs of the original on the same inputs differ (it draws random numbers)"
        return Verification("unverified", runtime=runtime.name, reason=reason)
    try:
        second: Runner = runtime(new)
    except CannotRunError as problem:
        strange = sorted(_domains(new) - _domains(old))
        if runtime is Reference and strange:
            reason = f"{runtime.name} knows no operators of {', '.join(strange)}"
            return Verification("unverified", runtime=runtime.name, reason=reason)
        return _broken(runtime.name, f"the rewritten model does not load: {problem}")
    eps = coarsest(old.proto)
    factor = 1.0 if bound.kind == "exact" else _conditioning(runtime, first, old, feeds, base, seed)
    worst: dict[str, Difference] = {}
    done = 0
    for run in range(n):
        feeds = make_feeds(old.proto, plan, seed + run, _STYLES[run % len(_STYLES)])
        try:
            wanted = first.run(feeds)
        except CannotRunError:
            continue  # inputs of this style are outside what the model takes
        try:
            got = second.run(feeds)
        except CannotRunError as problem:
            return _broken(runtime.name, f"fails where the original runs: {problem}")
        done += 1
        for name, a, b in zip(names, wanted, got, strict=True):
            found = differ(name, a, b, bound, factor, eps)
            if found and (name not in worst or found.error > worst[name].error):
                worst[name] = found
    return Verification(
        status="different" if worst else "equal",
        runs=done,
        runtime=runtime.name,
        plan=str(plan),
        bound=bound,
        conditioning=factor,
        worst=tuple(worst.values()),
        reason="; ".join(str(found) for found in worst.values()),
    )


def _differ(names: Sequence[str], before: Outputs, after: Outputs) -> bool:
    return any(differ(k, a, b, Bound()) for k, a, b in zip(names, before, after, strict=True))


def _may_draw(graph: onnx.GraphProto) -> bool:
    """Whether an operator in the graph may draw random numbers."""
    for node in graph.node:
        if node.op_type in _RANDOM or "Dropout" in node.op_type:
            return True
        inner = (g for a in node.attribute for g in (a.g, *a.graphs))
        if any(_may_draw(g) for g in inner):
            return True
    return False


def _domains(item: Source) -> set[str]:
    """The domains of operators, without those of the model's own functions."""
    own = {function.domain for function in item.proto.functions}
    return {entry.domain for entry in item.proto.opset_import} - own


def _broken(runtime: str, reason: str) -> Verification:
    return Verification("different", runtime=runtime, reason=reason)


def coarsest(model: onnx.ModelProto) -> float:
    """The largest eps among the float types of the model's weights, inputs and outputs."""
    elems = [tensor.data_type for tensor in model.graph.initializer]
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    elems += [value.type.tensor_type.elem_type for value in values]
    return max((_EPS[elem] for elem in elems if elem in _EPS), default=2.0**-23)


def _conditioning(
    runtime: Runtime, first: Runner, item: Source, feeds: Feeds, base: Outputs, seed: int
) -> float:
    """The largest relative change of an output per relative change of the inputs, at least 1."""
    step = _STEP
    try:
        if any(is_float(array) for array in feeds.values()):
            step = max([_STEP, *(2 * epsilon(a) for a in feeds.values() if is_float(a))])
            trials = [first.run(perturbed(feeds, step, seed + k)) for k in (1, 2)]
        else:
            trials = [_perturbed_weights(runtime, item, seed).run(feeds)]
    except CannotRunError:
        return 1.0
    factor = 1.0
    for outputs in trials:
        for a, b in zip(base, outputs, strict=True):
            factor = max(factor, _change(a, b) / step)
    return factor


def _change(a: Array | None, b: Array | None) -> float:
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


def _perturbed_weights(runtime: Runtime, item: Source, seed: int) -> Runner:
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
    runner: Runner = runtime(source_of(copy))
    return runner
