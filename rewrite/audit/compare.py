"""Whether two sets of outputs agree within a bound.

In: outputs before and after, a `Bound`, a conditioning factor. Out: `Difference` or None, or what
was `Measured`.

A bound of class `exact` demands the same bits (NaN payloads apart). Else an element may differ by
    factor * (rtol * M + atol) + 4 * eps * M,   M = the largest finite magnitude before,
where eps is that of the coarsest float type the model computes in (no bound holds below it), and
`lsb(n)` adds n quantization steps: n for integer outputs, n / 128 of M for float ones. Elements
that are NaN or infinite before are outside every claim but `exact`; finite ones must stay finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite.audit.feeds import Array, is_float
from rewrite.engine.ledger import Bound


@dataclass(frozen=True, slots=True)
class Difference:
    """The worst element of one output. `allowed` is what the bound admits there."""

    output: str
    error: float
    allowed: float
    reason: str

    def __str__(self) -> str:
        return f"output {self.output!r}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Measured:
    """`used`: the largest error of an output as a share of what is allowed, above 1 where it fails.

    0 where nothing differs, infinite where something differs that no bound admits.
    """

    used: float = 0.0
    difference: Difference | None = None


def differ(
    name: str,
    before: Array | None,
    after: Array | None,
    bound: Bound,
    factor: float = 1.0,
    eps: float = 2.0**-23,
) -> Difference | None:
    """The worst element of one output, if it is outside of the bound."""
    return measure(name, before, after, bound, factor, eps).difference


def measure(
    name: str,
    before: Array | None,
    after: Array | None,
    bound: Bound,
    factor: float = 1.0,
    eps: float = 2.0**-23,
) -> Measured:
    """How far one output is off, within the bound or not."""
    if before is None or after is None:
        return Measured() if before is after else _never(name, "present on one side only")
    before, after = np.asarray(before), np.asarray(after)
    if before.dtype != after.dtype:
        return _never(name, f"dtype {before.dtype} became {after.dtype}")
    if before.shape != after.shape:
        return _never(name, f"shape {before.shape} became {after.shape}")
    if before.size == 0:
        return Measured()
    if bound.kind == "exact" or not _numeric(before):
        return _exact(name, before, after)
    return _close(name, before, after, bound, factor, eps)


def _never(name: str, reason: str) -> Measured:
    """A difference that no bound admits."""
    return Measured(np.inf, Difference(name, np.inf, 0.0, reason))


def _numeric(array: Array) -> bool:
    return is_float(array) or array.dtype.kind in "iufcV"


def _exact(name: str, before: Array, after: Array) -> Measured:
    if before.dtype == object or before.dtype.kind in "SU":
        wrong = before != after
    else:
        wrong = ~_same_bits(before, after)
    if not wrong.any():
        return Measured()
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = int(wrong.sum())
    reason = (
        f"{count} of {before.size} elements differ, first at {list(index)}: "
        f"{before[index]} became {after[index]}"
    )
    return _never(name, reason)


def _same_bits(before: Array, after: Array) -> Array:
    if before.dtype.kind == "c":
        parts = before.real.dtype
        pairs = (before.view(parts), after.view(parts)) if before.ndim else (before, after)
        if not before.ndim:
            return np.asarray(before.tobytes() == after.tobytes())
        same = _same_bits(*pairs)
        return np.asarray(same.reshape(*before.shape, 2).all(axis=-1))
    raw = np.dtype(f"u{before.dtype.itemsize}")
    same = np.ascontiguousarray(before).view(raw) == np.ascontiguousarray(after).view(raw)
    if is_float(before):
        wide = (before.astype(np.float64), after.astype(np.float64))
        same |= np.isnan(wide[0]) & np.isnan(wide[1])
    return np.asarray(same).reshape(before.shape)


def _close(
    name: str, before: Array, after: Array, bound: Bound, factor: float, eps: float
) -> Measured:
    wide = np.complex128 if before.dtype.kind == "c" else np.float64
    a, b = before.astype(wide), after.astype(wide)
    finite = np.isfinite(a)
    if not finite.any():
        return Measured()
    magnitude = float(np.abs(a[finite]).max())
    floating = before.dtype.kind == "c" or is_float(before)
    allowed = _allowed(bound, factor, eps, magnitude, floating)
    with np.errstate(all="ignore"):
        error = np.where(finite, np.abs(a - b), 0.0)
    error = np.where(np.isnan(error), np.inf, error)
    worst = float(error.max())
    if worst <= allowed:
        return Measured(worst / allowed if worst else 0.0)
    index = tuple(int(i) for i in np.argwhere(error == worst)[0])
    reason = (
        f"at {list(index)} {before[index]} became {after[index]}: "
        f"error {worst:.3g}, {bound} allows {allowed:.3g}"
    )
    used = worst / allowed if allowed else np.inf
    return Measured(used, Difference(name, worst, allowed, reason))


def _allowed(bound: Bound, factor: float, eps: float, magnitude: float, floating: bool) -> float:
    if not floating:
        real = factor * (bound.rtol * magnitude + bound.atol)
        return bound.lsb * factor + float(np.floor(real))
    step = bound.lsb / 128.0
    relative = bound.rtol + step
    slack = 4.0 * eps * magnitude if relative or bound.atol else 0.0
    return factor * (relative * magnitude + bound.atol) + slack
