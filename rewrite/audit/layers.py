"""Two models layer by layer: values of the same name, in steps of their quantization.

In: two models, how to run each (exact oracle, onnxruntime), the number of runs. Out: `Layers`.

A value is compared where both models have one of its name with the same shape: rewriting keeps
the names of what it replaces. Codes count in steps; u8 and s8 codes that are 128 apart are the
same. Floats are measured in steps where `units` knows one, else in 1/255 of their range, and count
as different beyond 2^-16 of the largest: less than that is the noise of float32.

The first layer of codes that differs is explained: what the exact number was before rounding says
whether the difference is a tie, a saturation, a rounding of floats, or something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from rewrite.audit.feeds import Feeds, make_feeds, open_inputs
from rewrite.audit.oracle.compare import STYLES, inputs_for, numbers
from rewrite.audit.oracle.run import Oracle
from rewrite.audit.oracle.step import OracleError, Value
from rewrite.audit.oracle.units import units
from rewrite.audit.runtimes import CannotRunError, OnnxRuntime, Source, source_of, working_plan
from rewrite.quant.codes import Array, code_type

Runtime = Literal["oracle", "onnxruntime"]
Cause = Literal["tie", "saturation", "float rounding", "other"]
CAUSES: tuple[Cause, ...] = ("tie", "saturation", "float rounding", "other")

NOISE = 2.0**-16  # of the largest number of a layer of floats
NEAR = 2.0**-10  # of a step: what float32 can be off by in front of a rounding
MOST_BARS = 33  # of a histogram


@dataclass(frozen=True, slots=True)
class Layer:
    """One value in both models, over all runs. `lsb` is the largest difference in steps."""

    name: str
    operator: str
    kind: Literal["codes", "floats"]
    size: int
    differing: int = 0
    lsb: float = 0.0
    mean: float = 0.0
    step: float = 1.0
    reason: str = ""

    @property
    def equal(self) -> bool:
        return not self.differing and not self.reason


@dataclass(frozen=True, slots=True)
class First:
    """The first layer that differs: how often by how many steps, and why."""

    layer: Layer
    histogram: Mapping[int, int]
    causes: Mapping[Cause, int]


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers in the order of the first model; `only`: values that one side alone has."""

    layers: tuple[Layer, ...]
    first: First | None
    outputs: tuple[Layer, ...]
    only: tuple[int, int]
    runs: int
    plan: str
    runtimes: tuple[Runtime, Runtime]
    undecided: int = 0

    @property
    def equal(self) -> bool:
        return self.first is None and all(layer.equal for layer in self.outputs)


@dataclass(slots=True)
class _Tally:
    """What was seen of one layer."""

    layer: Layer
    total: float = 0.0
    bars: dict[int, int] = field(default_factory=dict)
    run: int = -1  # the first in which it differed


@dataclass(slots=True)
class _Side:
    """A model in a runtime. `oracle` None: it has no exact value, and a runtime does without."""

    source: Source
    runtime: Runtime
    oracle: Oracle | None
    undecided: int = 0

    @classmethod
    def of(cls, model: onnx.ModelProto | str | Path, runtime: Runtime) -> _Side:
        source = source_of(model)
        try:
            oracle = Oracle(model)
        except OracleError:
            if runtime == "oracle":
                raise
            return cls(source, runtime, None)
        return cls(source, runtime, oracle)

    def values(self, feeds: Feeds) -> dict[str, Value]:
        found: dict[str, Value] = {}
        if self.runtime == "oracle" and self.oracle is not None:
            self.undecided += self.oracle.run(feeds, found.__setitem__).undecided
            return found
        runner = OnnxRuntime(_exposed(self.source))
        pairs = zip(runner.outputs, runner.run(feeds), strict=True)
        return {name: value for name, value in pairs if isinstance(value, np.ndarray)}

    def operators(self) -> dict[str, str]:
        """The operator of each computed value, functions inlined where the oracle runs."""
        own = {o: node.op_type for node in self.source.proto.graph.node for o in node.output if o}
        if self.oracle is None:
            return own
        inner = {v.name: node.op_type for node in self.oracle.nodes for v in node.outputs if v.name}
        return {**own, **inner}

    def inputs(self) -> set[str]:
        return {value.name for value in open_inputs(self.source.proto)}

    def outputs(self) -> set[str]:
        return {value.name for value in self.source.proto.graph.output}

    def given(self, runs: int, seed: int) -> tuple[str, list[Feeds]]:
        """Random inputs."""
        proto = self.source.proto
        if self.oracle is not None:
            return inputs_for(self.oracle, self.source.path or proto, runs, seed)
        plan, _ = working_plan(OnnxRuntime(self.source), proto, seed)
        chosen = (STYLES[k % len(STYLES)] for k in range(runs))
        return str(plan), [make_feeds(proto, plan, seed + k, s) for k, s in enumerate(chosen)]


def compare_layers(
    before: onnx.ModelProto | str | Path,
    after: onnx.ModelProto | str | Path,
    runs: int = 1,
    seed: int = 0,
    runtimes: tuple[Runtime, Runtime] = ("oracle", "oracle"),
) -> Layers:
    """Raises `OracleError`, `NoFeedsError` or `CannotRunError` where a model cannot be run."""
    first, second = _Side.of(before, runtimes[0]), _Side.of(after, runtimes[1])
    if first.inputs() != second.inputs():
        raise OracleError("the models have different inputs")
    plan, given = first.given(runs, seed)
    widths = {} if first.oracle is None else units(first.oracle)
    names, asked = first.operators(), first.outputs()
    tallies: dict[str, _Tally] = {}
    only = (0, 0)
    for run, feeds in enumerate(given):
        ours, theirs = first.values(feeds), second.values(feeds)
        both = [name for name in ours if name in theirs]
        only = (len(ours) - len(both), len(theirs) - len(both))
        for name in both:
            _compare(tallies, name, names, ours[name], theirs[name], widths.get(name), run)
    layers = tuple(_closed(t, runs) for t in tallies.values())
    outputs = tuple(layer for layer in layers if layer.name in asked)
    found = next((t for t in tallies.values() if not t.layer.equal), None)
    wanted = next((t for t in tallies.values() if _codes_differ(t)), found)
    explained = None
    if wanted is not None:
        explained = _explained(wanted, first, second, given, runs)
    doubts = first.undecided + second.undecided
    return Layers(layers, explained, outputs, only, runs, plan, runtimes, doubts)


def _codes_differ(tally: _Tally) -> bool:
    return tally.layer.kind == "codes" and not tally.layer.equal


def _exposed(source: Source) -> Source:
    """The model with every computed value as an output."""
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    if source.path is not None:
        onnx.load_external_data_for_model(proto, str(source.path.parent))
    have = {value.name for value in proto.graph.output}
    for node in proto.graph.node:
        for name in node.output:
            if name and name not in have:
                proto.graph.output.append(onnx.ValueInfoProto(name=name))
    return Source(proto, None)


# --- one layer --------------------------------------------------------------------------------


def _compare(
    tallies: dict[str, _Tally],
    name: str,
    operators: Mapping[str, str],
    a: Value,
    b: Value,
    scale: float | None,
    run: int,
) -> None:
    tally = tallies.get(name)
    if tally is None:
        kind: Literal["codes", "floats"] = "codes" if _is_codes(a) else "floats"
        tally = _Tally(Layer(name, operators.get(name, ""), kind, int(np.prod(a.shape))))
        tallies[name] = tally
    if a.shape != b.shape:
        tally.layer = replace(tally.layer, reason=f"shapes {a.shape} and {b.shape}")
        return
    if isinstance(a, np.ndarray) and a.dtype.kind in "OUS":
        return
    apart, step = _apart(tally.layer.kind, a, b, scale)
    differing = int(np.count_nonzero(apart))
    if not differing:
        tally.layer = replace(tally.layer, step=step)
        return
    if tally.run < 0:
        tally.run = run
    tally.total += float(np.abs(apart).sum())
    steps, counts = np.unique(np.rint(apart), return_counts=True)
    for value, count in zip(steps.tolist(), counts.tolist(), strict=True):
        tally.bars[int(value)] = tally.bars.get(int(value), 0) + int(count)
    tally.layer = replace(
        tally.layer,
        differing=tally.layer.differing + differing,
        lsb=max(tally.layer.lsb, float(np.abs(apart).max())),
        step=step,
    )


def _is_codes(value: Value) -> bool:
    return isinstance(value, np.ndarray) and (
        value.dtype.kind in "iub" or code_type(value.dtype) is not None
    )


def _apart(kind: str, a: Value, b: Value, scale: float | None) -> tuple[Array, float]:
    """b - a in steps, 0 where they are the same; and the size of a step."""
    x, y = numbers(a), numbers(b)
    if kind == "codes":
        shift = _shift(a, b)
        return y - x + shift, 1.0
    with np.errstate(all="ignore"):
        finite = x[np.isfinite(x)]
        top = float(np.abs(finite).max()) if finite.size else 0.0
        step = scale or (float(finite.max() - finite.min()) / 255.0 if finite.size else 0.0) or 1.0
        difference = np.nan_to_num((y - x) / step, nan=0.0, posinf=2.0**31, neginf=-(2.0**31))
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(y - x) <= NOISE * top)
    return np.where(same, 0.0, np.clip(difference, -(2.0**31), 2.0**31)), step


def _shift(a: Value, b: Value) -> float:
    """What makes s8 and u8 codes of one number the same."""
    if a.dtype == b.dtype or {a.dtype.name, b.dtype.name} != {"int8", "uint8"}:
        return 0.0
    return 128.0 if b.dtype.name == "int8" else -128.0


def _closed(tally: _Tally, runs: int) -> Layer:
    count = tally.layer.size * runs
    return replace(tally.layer, mean=tally.total / count if count else 0.0)


# --- causes -----------------------------------------------------------------------------------


def _explained(tally: _Tally, first: _Side, second: _Side, given: list[Feeds], runs: int) -> First:
    layer = _closed(tally, runs)
    bars = dict(sorted(tally.bars.items()))
    causes: dict[Cause, int] = dict.fromkeys(CAUSES, 0)
    if tally.run >= 0 and layer.kind == "codes":
        feeds = given[tally.run]
        ours, theirs = (side.values(feeds)[layer.name] for side in (first, second))
        exact = _steps(first, layer.name, feeds)
        if exact is None:
            exact = _steps(second, layer.name, feeds)
        for cause in _causes(ours, theirs, exact):
            causes[cause] += 1
    elif layer.differing:
        causes["other"] = layer.differing
    return First(layer, _shortened(bars), {k: n for k, n in causes.items() if n})


def _steps(side: _Side, name: str, feeds: Feeds) -> Array | None:
    """The numbers in front of the rounding, exact up to float64."""
    if side.oracle is None:
        return None
    found: dict[str, Array] = {}
    side.oracle.run(feeds, steps=found)
    return found.get(name)


def _causes(a: Value, b: Value, exact: Array | None) -> Iterator[Cause]:
    """Why each pair of codes differs.

    tie             the number lies between two codes
    float rounding  it lies nearer to the middle than float32 can tell
    saturation      it is beyond the codes, and one side has another than the last code
    """
    x, y = numbers(a), numbers(b) + _shift(a, b)
    code = code_type(a.dtype)
    for at in np.flatnonzero(x != y):
        if exact is None or code is None:
            yield "other"
            continue
        number = float(exact.reshape(-1)[at])
        distance = abs(number - np.floor(number) - 0.5)
        neighbours = abs(x.reshape(-1)[at] - y.reshape(-1)[at]) == 1
        if number > code.high + 0.5 or number < code.low - 0.5:
            yield "saturation"
        elif neighbours and distance <= 2.0**-40 * max(1.0, abs(number)):
            yield "tie"
        elif neighbours and distance <= NEAR:
            yield "float rounding"
        else:
            yield "other"


def _shortened(bars: dict[int, int]) -> dict[int, int]:
    """The smallest differences, where there are many."""
    if len(bars) <= MOST_BARS:
        return bars
    kept = sorted(sorted(bars, key=abs)[:MOST_BARS])
    return {value: bars[value] for value in kept}


__all__ = ["CannotRunError", "Layers", "compare_layers"]
