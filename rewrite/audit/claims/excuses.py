"""Differences that a claim does not speak of.

In: an original, a run in which outputs differ by more than the claim. Out: whether the claim says
nothing of the run (docs/language.md, Claim).

- No claim speaks of what ONNX leaves open: where runtimes disagree about the original.
- No claim but `exact` speaks of runs in which a value is infinite, NaN or below the normal numbers;
  constants so extreme that their products overflow count as such.
- Nor does it speak of the rounding errors of the original. What a relative change of 2^-20 of all
  inputs and constants does to the outputs is measured, and so is how far the original is from
  itself in float64; the bound is multiplied by the one, and the other added twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx

from rewrite.audit.claims.meaning import OPEN, meaning
from rewrite.audit.claims.original import Original, Run
from rewrite.audit.compare import measure
from rewrite.audit.feeds import Array, epsilon, is_float, perturbed
from rewrite.audit.instances.draft import Draft, array_of, dtype_of
from rewrite.audit.runtimes import CannotRunError, runners, source_of
from rewrite.audit.verify import change
from rewrite.engine.ledger import Bound
from rewrite.ops.dtypes import finfo
from rewrite.schema import DTYPE_OF

_STEP = 2.0**-20
_TRIALS = 4
_KERNELS = 1e-2  # by which kernels of one operator may differ; what is open differs by more
FLOAT_NAMES = frozenset({"f32", "f16", "bf16"})
_MOST_FACTOR = 2.0**14  # beyond it nothing can be said of a relative error of 2^-20


def is_outside(original: Original, run: Run) -> bool:
    """Whether a value of the run is infinite, NaN, below the normal numbers, a constant extreme."""
    constants = [array_of(t) for t in original.model.graph.initializer]
    if any(_is_irregular(a) or _is_extreme(a) for a in constants):
        return True
    if any(_is_irregular(a) for a in (*run.feeds.values(), *run.outputs)):
        return True
    return any(_is_irregular(v) for v in _inside(original, run))


def _is_extreme(array: Array) -> bool:
    if not is_float(array):
        return False
    limits = finfo(array.dtype)
    wide = np.abs(array.astype(np.float64))
    low, high = float(limits.smallest_normal) ** 0.75, float(limits.max) ** 0.75
    return bool(((wide > high) | ((wide > 0) & (wide < low))).any())


def _is_irregular(array: Array | None) -> bool:
    if array is None or not is_float(array):
        return False
    wide = np.abs(array.astype(np.float64))
    least = float(finfo(array.dtype).smallest_normal)
    return bool((~np.isfinite(wide) | ((wide > 0) & (wide < least))).any())


def _inside(original: Original, run: Run) -> Sequence[Array | None]:
    """All values that nodes of the main graph compute; none where no runtime shows them."""
    draft = Draft(original.model)
    shown = {v.name for v in draft.graph.output}
    for node in draft.nodes:
        for name in node.output:
            if name and name not in shown:
                draft.graph.output.append(onnx.ValueInfoProto(name=name))
    model = draft.finish()
    if model is None:
        return ()
    try:
        return original.runtime(source_of(model)).run(run.feeds)
    except CannotRunError:
        return ()


def is_rounding(original: Original, run: Run, got: Sequence[Array | None], bound: Bound) -> bool:
    """Whether the outputs are as far apart as the rounding errors of the original explain."""
    factor = original.factor * conditioning(original, run)
    apart = rounding(original, run)
    for place, (a, b) in enumerate(zip(run.outputs, got, strict=True)):
        allowed = replace(bound, atol=bound.atol + 2 * apart.get(place, 0.0) / factor)
        if bound.kind != "lsb" and measure("", a, b, allowed, factor, original.eps).difference:
            return False
        if bound.kind == "lsb" and measure("", a, b, bound, factor, original.eps).difference:
            return False
    return True


def rounding(original: Original, run: Run) -> dict[int, float]:
    """How far each output is from the one that float64 gives, where that has a value."""
    draft = Draft(original.model)
    for constant in draft.constants():
        array = array_of(constant)
        if is_float(array):
            draft.set_constant(constant.name, array.astype(np.float64))
    for given in draft.graph.input:
        if dtype_of(given) in FLOAT_NAMES:
            given.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in draft.nodes:
        for attribute in node.attribute:
            if attribute.name == "to" and DTYPE_OF.get(attribute.i) in FLOAT_NAMES:
                attribute.i = onnx.TensorProto.DOUBLE
    wide = draft.finish()
    if wide is None:
        return {}
    feeds = {n: a.astype(np.float64) if is_float(a) else a for n, a in run.feeds.items()}
    exact: Sequence[Array | None] | str | None
    try:
        exact = original.runtime(source_of(wide)).run(feeds)
    except CannotRunError:
        exact = meaning(wide, feeds)
    if exact is None or isinstance(exact, str):
        return {}
    pairs = enumerate(zip(run.outputs, exact, strict=True))
    return {place: _distance(a, b) for place, (a, b) in pairs}


def _distance(a: Array | None, b: Array | None) -> float:
    if a is None or b is None or a.shape != b.shape or not a.size or not is_float(a):
        return 0.0
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(np.where(np.isfinite(apart), apart, 0.0).max())


def is_open(original: Original, run: Run) -> bool:
    """Whether ONNX leaves open what the original computes, or the runtime takes it for another.

    Declarations of operators say so; where one is missing, another runtime is asked.
    """
    declared = meaning(original.model, run.feeds)
    if declared == OPEN:
        return True
    if declared is not None:
        return are_other(run.outputs, declared)
    for runtime in runners():
        if runtime is original.runtime:
            continue
        try:
            others = runtime(source_of(original.model)).run(run.feeds)
        except CannotRunError:
            continue
        return are_other(run.outputs, others)
    return False


def are_other(outputs: Sequence[Array | None], others: Sequence[Array | None]) -> bool:
    """Whether two runtimes take a model for something else."""
    return any(_is_other(a, b) for a, b in zip(outputs, others, strict=True))


def _is_other(a: Array | None, b: Array | None) -> bool:
    """Another shape, other places of NaN, other numbers by more than kernels differ."""
    if a is None or b is None:
        return a is not b
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if a.dtype.kind in "OSUbiu":
        return bool((a != b).any())
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    signs = np.signbit(x.real) != np.signbit(y.real)
    close = np.isclose(x, y, rtol=_KERNELS, atol=0.0, equal_nan=True)
    zeros = (x == 0) & (y == 0)
    return bool((~(close | np.isnan(x) & np.isnan(y)) | (zeros & signs)).any())


def conditioning(original: Original, run: Run) -> float:
    """The largest relative change of an output per relative change of inputs and constants."""
    largest = 1.0
    for seed in range(1, _TRIALS + 1):
        changed = _perturbed(original.model, seed)
        step = max([_STEP, *(2 * epsilon(a) for a in run.feeds.values() if is_float(a))])
        try:
            outputs = original.runtime(source_of(changed)).run(perturbed(run.feeds, step, seed))
        except CannotRunError:
            continue
        for a, b in zip(run.outputs, outputs, strict=True):
            largest = max(largest, change(a, b) / step)
    return min(largest, _MOST_FACTOR)


def _perturbed(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    draft = Draft(model)
    weights = {t.name: array_of(t) for t in draft.constants()}
    for name, array in perturbed(weights, _STEP, seed).items():
        if is_float(array):
            draft.set_constant(name, array)
    return draft.model
