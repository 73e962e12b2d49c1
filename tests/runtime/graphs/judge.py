"""Whether a session computes what a drawn graph means.

In: `Drawn`. Out: why it does not, or None. Expected values come from onnx's reference evaluator;
where it fails, departs from declared shapes (it concatenates what Loop has to stack, has no Scan
backwards) or disagrees with us, ONNX Runtime is asked, and where that has no kernel the reference
device node by node. What no one of them says is a failure.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import rewrite
from rewrite.audit.feeds import Feeds, is_float
from rewrite.audit.runtimes import CannotRunError, OnnxRuntime, Source, has_onnxruntime
from rewrite.ops.dtypes import to_numpy
from rewrite.schema import DTYPE_OF
from tests.bench.models_tolerance import compare, disturbed, measured, tolerance_of
from tests.runtime.graphs.models import Drawn
from tests.runtime.interpreter import Interpreter

Results = Sequence[Any]
Oracle = Callable[[onnx.ModelProto, Feeds], "Results | None"]


def disagreement(drawn: Drawn, targets: Sequence[str | None] = (None, "host")) -> str | None:
    """Why some session computes something else, for the first target where it does."""
    for target in targets:
        with rewrite.compile(drawn.model, target=target) as session:
            results = session.run(drawn.feeds)
            found = [results[value.name] for value in drawn.model.graph.output]
        reason = judged(drawn, found)
        if reason is not None:
            return f"target {target}: {reason}"
    return None


def judged(drawn: Drawn, found: Results) -> str | None:
    """Why `found` is not what any oracle says."""
    reasons = []
    for name, oracle in oracles():
        expected = oracle(drawn.model, drawn.feeds)
        if expected is None or _misshapen(drawn.model, expected):
            continue
        reason = _differ(drawn, expected, found, oracle)
        if reason is None:
            return None
        reasons.append(f"{name}: {reason}")
    return "; ".join(reasons) or "no oracle runs the model"


def oracles() -> Iterator[tuple[str, Oracle]]:
    yield "onnx.reference", by_evaluator
    if has_onnxruntime():
        yield "onnxruntime", by_runtime
    yield "node by node", by_device


def by_evaluator(model: onnx.ModelProto, feeds: Feeds) -> Results | None:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Results = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception:  # noqa: BLE001 - operators of the evaluator raise what numpy does
        return None
    return found


def by_runtime(model: onnx.ModelProto, feeds: Feeds) -> Results | None:
    try:
        return OnnxRuntime(Source(model, None)).run(feeds)
    except CannotRunError:
        return None


def by_device(model: onnx.ModelProto, feeds: Feeds) -> Results | None:
    return Interpreter(model).run(feeds)


def _misshapen(model: onnx.ModelProto, expected: Results) -> bool:
    """Whether outputs are not of the declared types: the generator declares what the text says."""
    for value, array in zip(model.graph.output, expected, strict=True):
        tensor = value.type.tensor_type
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        dtype = to_numpy(DTYPE_OF[tensor.elem_type])
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            return True
    return False


def _differ(drawn: Drawn, expected: Results, found: Results, oracle: Oracle) -> str | None:
    if _misshapen(drawn.model, found):
        shapes = [f"{x.dtype}{x.shape}" if isinstance(x, np.ndarray) else x for x in found]
        return f"outputs {shapes}"
    for (name, exact), wanted, got in zip(drawn.exact.items(), expected, found, strict=True):
        if (exact or not is_float(wanted)) and not _same(wanted, got):
            return f"{name}: {_first(wanted, got)}"
    tolerance = tolerance_of(drawn.model, drawn.feeds)
    _, reason = compare(drawn.model, expected, found, tolerance, None)
    if reason is None:
        return None
    changed = disturbed(drawn.model, drawn.feeds, tolerance.largest, oracle)
    if not changed:
        return reason
    tolerance = measured(tolerance, expected, changed)
    return compare(drawn.model, expected, found, tolerance, None)[1]


def _same(wanted: Any, got: Any) -> bool:
    """Equal numbers; NaN where there is NaN; zeros of either sign."""
    both = wanted == got
    if is_float(wanted):
        both = both | (np.isnan(wanted.astype(np.float64)) & np.isnan(got.astype(np.float64)))
    return bool(np.all(both))


def _first(wanted: Any, got: Any) -> str:
    places = np.argwhere(np.asarray(wanted != got))
    at = tuple(int(i) for i in places[0])
    return f"{len(places)} of {wanted.size} differ, at {list(at)} {got[at]} instead of {wanted[at]}"
