"""The plainest inputs of a counterexample.

In: a counterexample with inputs. Out: the same models with inputs of which as many numbers as
possible are 0 or 1, and the outputs on these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from rewrite.audit.claims.counterexample import Counterexample
from rewrite.audit.feeds import Array, is_float
from rewrite.audit.runtimes import CannotRunError, Runner, runners, source_of

_MOST_TRIES = 60
_SAME = 0.5  # a plainer input has to show at least this share of the difference


def simplest(found: Counterexample) -> Counterexample:
    """The counterexample with plainer inputs; the one given where none are."""
    runtime = next((r for r in runners() if r.name == found.runtime), None)
    if not found.feeds or runtime is None:
        return found
    try:
        pair = runtime(source_of(found.before)), runtime(source_of(found.after))
    except CannotRunError:
        return found
    names = [v.name for v in found.before.graph.output]
    best, gap = found, _gap(found.wanted, found.got)
    for tries, feeds in enumerate(_plainer(found.feeds)):
        if tries == _MOST_TRIES:
            break
        merged = {**best.feeds, **feeds}
        outputs = _outputs(pair, names, merged)
        if outputs is not None and _gap(*outputs) >= _SAME * gap > 0:
            best = replace(best, feeds=merged, wanted=outputs[0], got=outputs[1])
    return best


def _plainer(feeds: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
    """One input changed at a time."""
    for name, array in feeds.items():
        if array.dtype.kind in "OSU" or not array.size:
            continue
        yield {name: np.zeros_like(array)}
        yield {name: np.ones_like(array)}
        if is_float(array):
            with np.errstate(all="ignore"):
                yield {name: np.rint(array.astype(np.float64)).astype(array.dtype)}


def _outputs(
    pair: tuple[Runner, Runner], names: list[str], feeds: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]] | None:
    try:
        both = [runner.run(dict(feeds)) for runner in pair]
    except CannotRunError:
        return None
    named = [
        {n: a for n, a in zip(names, outputs, strict=True) if a is not None} for outputs in both
    ]
    return named[0], named[1]


def _gap(wanted: Mapping[str, Array], got: Mapping[str, Array]) -> float:
    """The largest difference; infinite where it is not one of numbers."""
    largest = 0.0
    for name, a in wanted.items():
        b = got.get(name)
        if b is None or a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind in "OSU":
            return float("inf")
        if not a.size:
            continue
        x, y = a.astype(np.complex128), b.astype(np.complex128)
        with np.errstate(all="ignore"):
            apart = np.abs(x - y)
        same = (x == y) & (np.signbit(x.real) == np.signbit(y.real))
        apart = np.where(same | (np.isnan(x) & np.isnan(y)), 0.0, apart)
        largest = max(largest, float(np.where(np.isnan(apart), np.inf, apart).max()))
        if largest == 0.0 and not same.all() and not np.isnan(x).all():
            largest = float(np.finfo(np.float64).tiny)  # signs of zeros
    return largest
