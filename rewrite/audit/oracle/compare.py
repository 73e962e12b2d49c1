"""Two models under the oracle: by how many steps their outputs differ.

In: the models, inputs for some runs. Out: `Comparison`, one `Gap` for each output.

A step (LSB) is 1 for integers. For floats it is the scale of the codes that they are, where the
first model tells it; else 1/255 of the range that the output has in the first model, and `unit`
says so. Numbers that are known within a bound count as equal where they may be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from rewrite.audit.feeds import (
    PLANS,
    Feeds,
    NoFeedsError,
    Plan,
    make_feeds,
)
from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.run import Oracle, Outcome
from rewrite.audit.oracle.step import Fault, OracleError, Value
from rewrite.audit.oracle.units import units
from rewrite.audit.runtimes import source_of
from rewrite.quant.codes import Array, Floats, values_of

Model = onnx.ModelProto | str | Path
Unit = Literal["code", "scale", "1/255 of the range"]

# The oracle is slow on large inputs, and inputs of a few elements say little of convolutions.
SIZES: tuple[Plan, ...] = (Plan(1, 32, 8), *PLANS)
STYLES = ("normal", "unit", "large", "negative")


@dataclass(frozen=True, slots=True)
class Gap:
    """One output: the largest difference in steps, and where; `differing` of `size` elements."""

    output: str
    lsb: float
    unit: Unit
    step: float
    differing: int
    size: int
    index: tuple[int, ...] = ()
    before: float = 0.0
    after: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"output {self.output!r}: {self.reason}"
        if not self.differing:
            return f"output {self.output!r}: equal"
        unit = "" if self.unit == "code" else f", in steps of {self.step:.6g} ({self.unit})"
        return (
            f"output {self.output!r}: {self.differing} of {self.size} elements differ, by up to "
            f"{self.lsb:.6g} LSB at {list(self.index)}: {self.before:.9g} became "
            f"{self.after:.9g}{unit}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The worst of each output over all runs. `undecided`: in the first model and the second."""

    gaps: tuple[Gap, ...]
    runs: int
    plan: str
    undecided: tuple[int, int]
    faults: tuple[tuple[Fault, ...], tuple[Fault, ...]]

    @property
    def lsb(self) -> float:
        """The largest difference of all."""
        return max((gap.lsb for gap in self.gaps), default=0.0)

    @property
    def equal(self) -> bool:
        return all(gap.lsb == 0 and not gap.reason for gap in self.gaps)


def compare_exact(
    before: Model | Oracle,
    after: Model | Oracle,
    runs: int | Sequence[Mapping[str, Array]] = 2,
    seed: int = 0,
) -> Comparison:
    """Both models on the same inputs: given ones, or a number of random ones.

    Raises `OracleError` where the first model has no exact value, or the second none where the
    first has one; `NoFeedsError` where no inputs can be made up.
    """
    first = before if isinstance(before, Oracle) else Oracle(before)
    second = after if isinstance(after, Oracle) else Oracle(after)
    if isinstance(runs, int):
        if isinstance(before, Oracle):
            raise TypeError("random inputs are made from a model")
        plan, given = inputs_for(first, before, runs, seed)
    else:
        plan, given = "given inputs", [dict(feeds) for feeds in runs]
    widths = units(first)
    worst: dict[str, Gap] = {}
    undecided = [0, 0]
    notes: tuple[Outcome, Outcome] | None = None
    for feeds in given:
        notes = (first.run(feeds), second.run(feeds))
        for k in (0, 1):
            undecided[k] += notes[k].undecided
        for name, theirs in zip(second.outputs, notes[1].outputs.values(), strict=True):
            ours = notes[0].outputs.get(name)
            if ours is None:
                raise OracleError(f"the first model has no output {name!r}")
            gap = gap_of(name, ours, theirs, widths.get(name))
            old = worst.get(name)
            if old is None or gap.lsb > old.lsb or (gap.reason and not old.reason):
                worst[name] = gap
    faults = (notes[0].faults, notes[1].faults) if notes else ((), ())
    counts = (undecided[0], undecided[1])
    return Comparison(tuple(worst.values()), len(given), plan, counts, faults)


def inputs_for(oracle: Oracle, model: Model, runs: int, seed: int) -> tuple[str, list[Feeds]]:
    """Random inputs, in sizes that the oracle takes."""
    proto = source_of(model).proto
    plan = working_plan(oracle, proto, seed)
    styles = (STYLES[k % len(STYLES)] for k in range(runs))
    return str(plan), [make_feeds(proto, plan, seed + k, style) for k, style in enumerate(styles)]


def working_plan(oracle: Oracle, proto: onnx.ModelProto, seed: int) -> Plan:
    """The first sizes with which the model runs; raises the first reason if there are none."""
    reason: OracleError | NoFeedsError | None = None
    for plan in SIZES:
        try:
            oracle.run(make_feeds(proto, plan, seed))
        except (OracleError, NoFeedsError) as problem:
            reason = reason or problem
            if not oracle.inputs:
                break
        else:
            return plan
    assert reason is not None
    raise reason


def numbers(value: Value) -> Floats:
    """The value in float64."""
    if isinstance(value, Real):
        return value.floats
    if value.dtype.kind in "OUS":
        raise OracleError("an output of strings")
    return values_of(value) if value.dtype.kind != "b" else value.astype(np.float64)


def gap_of(name: str, before: Value, after: Value, scale: float | None) -> Gap:
    """How far one value is from another, in steps."""
    a, b = numbers(before), numbers(after)
    if a.shape != b.shape:
        return Gap(name, np.inf, "code", 1.0, 0, a.size, reason=f"shape {a.shape} became {b.shape}")
    if before.dtype != after.dtype:
        reason = f"{before.dtype} became {after.dtype}"
        return Gap(name, np.inf, "code", 1.0, 0, a.size, reason=reason)
    unit, step = _step(before, a, scale)
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    room = sum(v.slack for v in (before, after) if isinstance(v, Real))
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | (apart <= room)
    if isinstance(before, Real) and isinstance(after, Real):
        same |= before.rounded() == after.rounded()
    apart = np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))
    if not apart.size or not apart.any():
        return Gap(name, 0.0, unit, step, 0, a.size)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
    lsb = float(apart[index]) / step
    count = int((apart > 0).sum())
    return Gap(name, lsb, unit, step, count, a.size, index, float(a[index]), float(b[index]))


def _step(before: Value, a: Floats, scale: float | None) -> tuple[Unit, float]:
    if not isinstance(before, Real) and before.dtype.kind in "iub":
        return "code", 1.0
    if scale is not None:
        return "scale", scale
    finite = a[np.isfinite(a)]
    width = float(finite.max() - finite.min()) if finite.size else 0.0
    return "1/255 of the range", width / 255.0 or 1.0
