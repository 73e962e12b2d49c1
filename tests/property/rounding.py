"""How far rounding alone may take two results apart.

In: a subject, a style of inputs. Out: the conditioning of an output, the largest magnitude inside,
whether the original errs as much against float64 as the rewritten one.
"""

from __future__ import annotations

import numpy as np
import onnx

from rewrite.audit.feeds import epsilon, is_float
from rewrite.audit.runtimes import CannotRunError, OnnxRuntime, Reference, Runner, source_of
from tests.property.feeds import Array, Feeds
from tests.property.mutate_types import widened
from tests.property.mutations import output_types
from tests.property.subject import Subject, coarsest


def rounds_itself(
    item: Subject, after: onnx.ModelProto, feeds: Feeds, before: list[Array | None]
) -> bool:
    """Whether the original errs, against float64, by at least half of what the other does."""
    wide = widened(item.model)
    if wide is None:
        return False
    exact = {
        name: array.astype(np.float64) if is_float(array) and array.dtype != np.float64 else array
        for name, array in feeds.items()
    }
    try:
        second = item.runtime(source_of(after)).run(feeds)
        truth = _first_that_runs(wide, exact)
    except CannotRunError:
        return False
    for a, b, c in zip(before, second, truth, strict=True):
        if a is None or b is None or c is None or a.shape != c.shape:
            return False
        x, y, z = (np.asarray(v).astype(np.float64) for v in (a, b, c))
        use = np.isfinite(x) & np.isfinite(z)
        if not use.any():
            continue
        with np.errstate(all="ignore"):
            own, new = np.abs(x - z)[use].max(), np.abs(y - z)[use].max()
            if not new <= 2 * own + 1e-12 * np.abs(z[use]).max():
                return False
    return True


def _first_that_runs(model: onnx.ModelProto, feeds: Feeds) -> list[Array | None]:
    try:
        return OnnxRuntime(source_of(model)).run(feeds)
    except CannotRunError:
        return Reference(source_of(model)).run(feeds)


def inside(item: Subject, style: str, seed: int) -> float:
    """The largest finite magnitude of the floats that the main graph computes on the way.

    Rounding alone makes errors of that size: (x + 1000) - 1000 is not x.
    """
    ran = item.on(style, seed)
    assert ran is not None
    if item.wide_open is None:
        item.wide_open = _opened(item)
    try:
        values = item.wide_open.run(ran[0]) if item.wide_open else []
    except CannotRunError:
        values = []
    largest = 0.0
    for value in values:
        if value is not None and is_float(np.asarray(value)):
            array = np.asarray(value).astype(np.float64)
            finite = array[np.isfinite(array)]
            largest = max(largest, float(np.abs(finite).max()) if finite.size else 0.0)
    return largest


def _opened(item: Subject) -> Runner | bool:
    """The original with every value as an output; False where that does not run."""
    made = onnx.ModelProto()
    made.CopyFrom(item.model)
    known = output_types(item.model)
    given = {v.name for v in made.graph.output}
    for node in item.model.graph.node:
        for name in node.output:
            if name in known and name not in given:
                made.graph.output.append(onnx.ValueInfoProto(name=name, type=known[name]))
    try:
        return item.runtime(source_of(made))
    except CannotRunError:
        return False


def conditioning(item: Subject, style: str, seed: int, index: int) -> float:
    """The largest relative change of one output per relative change of the float inputs."""
    ran = item.on(style, seed)
    assert ran is not None
    feeds, base = ran
    step = max(2.0**-12, 4 * coarsest(item.model))
    factor = 1.0
    for trial in range(4):
        rng = np.random.default_rng(trial)
        moved = {}
        for name, array in feeds.items():
            if is_float(array) and name not in item.fixed:
                by = 1.0 + max(step, 2 * epsilon(array)) * rng.choice([-1.0, 1.0], array.shape)
                with np.errstate(all="ignore"):
                    moved[name] = (array.astype(np.float64) * by).astype(array.dtype)
            else:
                moved[name] = array
        try:
            other = item.runner.run(moved)
        except CannotRunError:
            continue
        factor = max(factor, _change(base[index], other[index]) / step)
    return factor


def _change(a: Array | None, b: Array | None) -> float:
    if a is None or b is None or a.shape != b.shape:
        return 0.0
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any() or not np.abs(x[finite]).max():
        return 0.0
    with np.errstate(all="ignore"):
        return float(np.abs(x - y)[finite].max() / np.abs(x[finite]).max())
