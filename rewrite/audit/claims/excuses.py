"""Differences that a claim does not speak of.

In: an original, a run in which outputs differ by more than the claim. Out: whether the claim says
nothing of the run (docs/language.md, Claim).

No claim but `exact` speaks of runs in which a value is infinite, NaN or below the normal numbers,
nor of rounding errors that the original makes itself: how much a relative change of 2^-20 of all
its inputs and constants changes its outputs is measured, and the bound multiplied by that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from rewrite.audit.claims.original import Original, Run
from rewrite.audit.compare import measure
from rewrite.audit.feeds import Array, epsilon, is_float, perturbed
from rewrite.audit.instances.draft import Draft, array_of
from rewrite.audit.runtimes import CannotRunError, source_of
from rewrite.engine.ledger import Bound
from rewrite.ops.dtypes import finfo

_STEP = 2.0**-20
_TRIALS = 4
_MOST_FACTOR = 2.0**14  # beyond it nothing can be said of a relative error of 2^-20


def is_outside(original: Original, run: Run) -> bool:
    """Whether a value of the run is infinite, NaN, or below the normal numbers."""
    values: list[Array | None] = [*run.feeds.values(), *run.outputs]
    values += [array_of(t) for t in original.model.graph.initializer]
    if any(_is_irregular(v) for v in values):
        return True
    return any(_is_irregular(v) for v in _inside(original, run))


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


def is_conditioned(
    original: Original, run: Run, got: Sequence[Array | None], bound: Bound
) -> bool:
    """Whether the outputs are within the bound times the conditioning of the original."""
    factor = conditioning(original, run)
    pairs = zip(original.names, run.outputs, got, strict=True)
    return all(
        measure(name, a, b, bound, factor, original.eps).difference is None for name, a, b in pairs
    )


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
            largest = max(largest, _change(a, b) / step)
    return min(largest, _MOST_FACTOR)


def _perturbed(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    draft = Draft(model)
    weights = {t.name: array_of(t) for t in draft.constants()}
    for name, array in perturbed(weights, _STEP, seed).items():
        if is_float(array):
            draft.set_constant(name, array)
    return draft.model


def _change(a: Array | None, b: Array | None) -> float:
    """Largest change relative to the largest magnitude; 0 where nothing can be compared."""
    if a is None or b is None or a.shape != b.shape or not a.size:
        return 0.0
    if not (is_float(a) or a.dtype.kind in "iu"):
        return 0.0
    old, new = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(old) & np.isfinite(new)
    if not finite.any():
        return 0.0
    magnitude = float(np.abs(old[finite]).max())
    return float(np.abs(old - new)[finite].max()) / magnitude if magnitude else 0.0
