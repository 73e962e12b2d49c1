"""What a rewriting did wrong, judged by other means than the audit layer uses.

In: a model, a target. Out: `Fault`s.

An `exact` ledger demands the same bits on all inputs, infinities and NaN included (NaN payloads
apart). Any other ledger bounds the error of an element by

    c (rtol M + atol) + 8 eps M,   M = the largest finite magnitude of the output before,

where the conditioning c is how much a relative change of the inputs grows in the output. An error
beyond that is `far`. Elements that are finite before must be finite after. An error beyond the same
bound with c = 1 and a hundredfold claim is `loose`: worth a look by a person, not a fault.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx

import rewrite
from rewrite.audit.feeds import FLOATS, NoFeedsError, Plan, epsilon, is_float
from rewrite.audit.runtimes import CannotRunError, OnnxRuntime, Reference, Runner, source_of
from rewrite.engine.ledger import Bound
from rewrite.engine.limits import Limits
from rewrite.errors import RewriteError
from tests.property.feeds import (
    STYLES,
    UNBOUNDED,
    Array,
    Feeds,
    Runtime,
    feeds_of,
    is_open,
    is_overridable,
    start,
)
from tests.property.mutations import output_types
from tests.property.samples import INVALID

TARGETS = ("generic", "host", "onnxruntime-cpu")
_EPS = {1: 2.0**-23, 10: 2.0**-10, 11: 2.0**-52, 16: 2.0**-7}
_TO_INTEGERS = frozenset({"Cast", "CastLike", "QuantizeLinear", "DynamicQuantizeLinear"})
_DRAWS = frozenset({"Dropout", "Bernoulli", "Multinomial", "BatchNormalization"})
_SIZES = (Plan(1, 1, 2), Plan(3, 5, 2), Plan(1, 4, 2), Plan(4, 1, 2), Plan(0, 2, 1), Plan(2, 0, 1))
_LIMITS = Limits(seconds=30.0)

WRONG = ("crash", "error", "invalid", "load", "run", "type", "bits", "far", "finite", "stop")


@dataclass(frozen=True)
class Fault:
    kind: str
    target: str
    rules: tuple[str, ...]
    text: str

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        return self.kind, tuple(sorted(set(self.rules)))

    def __str__(self) -> str:
        return f"{self.kind} [{self.target}] {' '.join(self.rules) or '-'}: {self.text}"


@dataclass
class Subject:
    """A model that runs, with what is needed to run it again."""

    model: onnx.ModelProto
    runtime: Runtime
    runner: Runner
    plan: Plan
    fixed: Mapping[str, Array]
    wide_open: Runner | bool | None = None
    _outputs: dict[tuple[str, int], tuple[Feeds, list[Array | None]] | None] = field(
        default_factory=dict
    )

    def on(self, style: str, seed: int) -> tuple[Feeds, list[Array | None]] | None:
        """Feeds and outputs; None where the model does not take inputs of this style.

        The style "sizes k" has other sizes, those of plan k, where the model leaves them open.
        """
        key = style, seed
        if key not in self._outputs:
            word, _, number = style.partition(" ")
            plan = _SIZES[int(number)] if number else self.plan
            style = "normal" if number else word
            try:
                feeds = feeds_of(self.model, plan, seed, style, self.fixed)
                outputs = self.runner.run(feeds)
                declared = _as_declared(self.model, feeds, outputs)
                self._outputs[key] = (feeds, outputs) if declared else None
            except (CannotRunError, NoFeedsError):
                self._outputs[key] = None
        return self._outputs[key]


def subject(model: onnx.ModelProto, fixed: Mapping[str, Array] | None = None) -> Subject | None:
    """None where no runtime runs the model, or not twice with the same result."""
    try:
        runtime, runner, plan = start(model, fixed or {})
    except (CannotRunError, NoFeedsError):
        return None
    item = Subject(model, runtime, runner, plan, fixed or {})
    ran = item.on("normal", 0)
    if ran is None or not _repeats(item, *ran):
        return None
    return item


def _as_declared(model: onnx.ModelProto, feeds: Feeds, outputs: list[Array | None]) -> bool:
    """Whether the outputs have the shapes that the model says: else it is wrong, or the runtime."""
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        if value.name in feeds:
            shape = feeds[value.name].shape
            dims = value.type.tensor_type.shape.dim
            sizes.update((d.dim_param, s) for d, s in zip(dims, shape, strict=False) if d.dim_param)
    for value, array in zip(model.graph.output, outputs, strict=True):
        if array is None or not value.type.tensor_type.HasField("shape"):
            continue
        dims = value.type.tensor_type.shape.dim
        if len(dims) != np.ndim(array):
            return False
        for dim, size in zip(dims, np.shape(array), strict=True):
            wanted = dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param, size)
            if wanted != size:
                return False
    return True


def _repeats(item: Subject, feeds: Feeds, outputs: list[Array | None]) -> bool:
    """Whether a second run, and a second session, give the same: no random numbers, no state."""
    draws = any("Random" in op or op in _DRAWS for op in _operators(item.model.graph))
    for runner in (item.runner, item.runtime(source_of(item.model)), *([item.runner] * 10 * draws)):
        try:
            again = runner.run(feeds)
        except CannotRunError:
            return False
        for a, b in zip(outputs, again, strict=True):
            if (a is None) != (b is None) or (a is not None and not same_bits(a, b)):
                return False
    return True


def faults(
    item: Subject,
    targets: tuple[str, ...] = TARGETS,
    rules: tuple[str | Path, ...] = (),
    seeds: int = 1,
) -> list[Fault]:
    """What is wrong under each target; equal results are looked at once."""
    found: list[Fault] = []
    seen: set[bytes] = set()
    for target in targets:
        try:
            result = rewrite.apply(item.model, target=target, rules=rules, limits=_LIMITS)
            after = result.model
        except RewriteError as problem:
            found.append(Fault("error", target, (), str(problem)))
            continue
        except Exception:  # noqa: BLE001 - whatever it is, it is a fault and named
            found.append(Fault("crash", target, (), traceback.format_exc(limit=-6)))
            continue
        fired = tuple(dict.fromkeys(a.rule for a in result.journal.applied))
        if result.journal.stop.reason not in ("fixpoint", "cycle"):
            found.append(Fault("stop", target, fired, result.journal.stop.reason))
        if result.journal.cycles:
            found.append(Fault("cycle", target, result.journal.cycles[0].rules, ""))
        key = after.graph.SerializeToString(deterministic=True)
        if key in seen:
            continue
        seen.add(key)
        fault = _judge(item, after, result.ledger.total, target, fired, seeds)
        if fault is not None:
            found.append(fault)
    return found


def _judge(
    item: Subject,
    after: onnx.ModelProto,
    bound: Bound,
    target: str,
    rules: tuple[str, ...],
    seeds: int,
) -> Fault | None:
    try:
        onnx.checker.check_model(after, full_check=True)
    except INVALID as problem:
        return Fault("invalid", target, rules, _first(problem))
    runner = _load(item, after)
    if isinstance(runner, str):
        return Fault("load", target, rules, runner)
    if runner is None:
        return None
    for style in _styles(item.model):
        for seed in range(seeds):
            fault = _run(item, runner, bound, target, rules, style, seed)
            if fault is not None:
                return _confirmed(item, after, fault, style, seed)
        if not item.on(style, 0) or not item.on(style, 0)[0]:
            break
    return None


def _confirmed(item: Subject, after: onnx.ModelProto, fault: Fault, style: str, seed: int) -> Fault:
    """A `quirk` where ONNX's reference evaluator sees no difference: the runtime is to blame.

    onnxruntime's Where, for one, turns the -0 of its first branch into +0. `rounding`, where the
    result before was as far from that in float64 as it is from the one after.
    """
    ran = item.on(style, seed)
    if fault.kind.split("-")[0] not in ("bits", "far", "finite") or ran is None:
        return fault
    if fault.kind != "bits" and _rounds_itself(item, after, *ran):
        return replace(fault, kind=f"rounding-{fault.kind}")
    if item.runtime is Reference:
        return fault
    try:
        before = Reference(source_of(item.model)).run(ran[0])
        second = Reference(source_of(after)).run(ran[0])
    except CannotRunError:
        return fault
    for a, b in zip(before, second, strict=True):
        if a is None or b is None or not same_bits(a, b):
            return fault
    return replace(fault, kind=f"quirk-{fault.kind}")


def _rounds_itself(
    item: Subject, after: onnx.ModelProto, feeds: Feeds, before: list[Array | None]
) -> bool:
    """Whether the original errs, against float64, by at least half of what the other does."""
    wide = in_double(item.model)
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


def in_double(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with all float types widened to float64, exactly."""
    from tests.property.mutate_types import widened

    return widened(model)


def _load(item: Subject, after: onnx.ModelProto) -> Runner | str | None:
    """The rewritten model in the same runtime; None where only onnxruntime has its operators."""
    try:
        return item.runtime(source_of(after))
    except CannotRunError as problem:
        known = {entry.domain for entry in item.model.opset_import}
        own = {function.domain for function in after.functions}
        strange = {entry.domain for entry in after.opset_import} - known - own
        if item.runtime is Reference and (strange or "No implementation" in str(problem)):
            return None  # it does not expand all operators inside functions
        return str(problem)


def _styles(model: onnx.ModelProto) -> list[str]:
    more = [f"sizes {k}" for k in range(len(_SIZES))] if is_open(model) else []
    return _by_operators(model) + more + ["overridden"] * is_overridable(model)


def _by_operators(model: onnx.ModelProto) -> list[str]:
    operators = set(_operators(model.graph))
    for function in model.functions:
        operators.update(node.op_type for node in function.node)
    if operators & _TO_INTEGERS:
        return [style for style in STYLES if style not in UNBOUNDED]
    return list(STYLES)


def _operators(graph: onnx.GraphProto) -> list[str]:
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found += _operators(inner)
    return found


def _run(
    item: Subject,
    runner: Runner,
    bound: Bound,
    target: str,
    rules: tuple[str, ...],
    style: str,
    seed: int,
) -> Fault | None:
    ran = item.on(style, seed)
    if ran is None:
        return None
    feeds, wanted = ran
    try:
        got = runner.run(feeds)
    except CannotRunError as problem:
        # Kernels refuse empty tensors where another operator takes them.
        kind = "run-empty" if any(a.size == 0 for a in feeds.values()) else "run"
        return Fault(kind, target, rules, f"{style}: {problem}")
    names = [value.name for value in item.model.graph.output]
    for index, (name, a, b) in enumerate(zip(names, wanted, got, strict=True)):
        kind, text = _differ(item, bound, style, seed, index, a, b)
        if kind:
            return Fault(kind, target, rules, f"{style} {name}: {text} ({bound})")
    return None


def _differ(
    item: Subject,
    bound: Bound,
    style: str,
    seed: int,
    index: int,
    a: Array | None,
    b: Array | None,
) -> tuple[str, str]:
    if a is None or b is None:
        return ("", "") if a is b else ("type", "present on one side only")
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return "type", f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}"
    if not a.size or same_bits(a, b):
        return "", ""
    if bound.kind == "exact" or not _number(a):
        return "bits", _shown(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x)
    if (finite & ~np.isfinite(y)).any():
        kind = "finite" if style not in UNBOUNDED else f"finite-{style}"
        return kind, _shown(x[finite], y[finite])
    if not finite.any():
        return "", ""
    return _far(item, bound, style, seed, index, a, x[finite], y[finite])


def _far(
    item: Subject,
    bound: Bound,
    style: str,
    seed: int,
    index: int,
    a: Array,
    x: Array,
    y: Array,
) -> tuple[str, str]:
    magnitude = float(np.abs(x).max())
    error = float(np.abs(x - y).max())
    eps = coarsest(item.model)
    if a.dtype.kind in "iub":
        allowed = bound.lsb + np.floor(bound.rtol * magnitude + bound.atol)
        return ("far", _shown(x, y)) if error > allowed else ("", "")
    scale = eps / 2.0**-23 if eps > 2.0**-23 else 1.0
    promised = scale * ((bound.rtol + bound.lsb / 128) * magnitude + bound.atol)
    slack = 8 * eps * magnitude
    if error <= promised + slack:
        return "", ""
    slack = 16 * eps * max(magnitude, inside(item, style, seed))
    if bound.rtol + bound.atol and error <= promised + slack:
        return "", ""
    factor = conditioning(item, style, seed, index)
    text = f"{_shown(x, y)}, error {error:.3g}, promised {promised:.3g}, conditioning {factor:.3g}"
    if error > factor * (promised + slack):
        return ("far" if style not in UNBOUNDED else f"far-{style}"), text
    return ("loose", text) if error > 100 * promised + slack and factor > 100 else ("", "")


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


def same_bits(a: Array, b: Array) -> bool:
    """NaN payloads apart."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype == object or a.dtype.kind in "SU":
        return bool((a == b).all())
    if a.tobytes() == b.tobytes():
        return True
    if not is_float(a):
        return False
    raw = np.dtype(f"u{a.dtype.itemsize}")
    equal = np.ascontiguousarray(a).view(raw) == np.ascontiguousarray(b).view(raw)
    with np.errstate(all="ignore"):
        nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return bool((equal.reshape(a.shape) | nan).all())


def _number(a: Array) -> bool:
    return is_float(a) or a.dtype.kind in "iu"


def _shown(a: Array, b: Array) -> str:
    wrong = np.argwhere(np.asarray((a != b) & ~((a != a) & (b != b))))
    at = tuple(int(i) for i in wrong[0]) if len(wrong) else (0,) * a.ndim
    if len(wrong) and is_float(a):
        with np.errstate(all="ignore"):
            gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
        gap = np.where(np.isnan(gap), -1.0, gap)
        at = tuple(int(i) for i in np.argwhere(gap == gap.max())[0]) if gap.max() > 0 else at
    return f"at {list(at)} {a[at]!r} became {b[at]!r} ({len(wrong)} of {a.size})"


@cache
def _eps_of(elems: frozenset[int]) -> float:
    return max((_EPS[e] for e in elems if e in _EPS), default=2.0**-23)


def coarsest(model: onnx.ModelProto) -> float:
    """The largest eps of the float types of the model's inputs, outputs and weights."""
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    elems = [v.type.tensor_type.elem_type for v in values]
    elems += [t.data_type for t in model.graph.initializer]
    return _eps_of(frozenset(e for e in elems if e in FLOATS))


def _first(problem: Exception) -> str:
    return " ".join(str(problem).split())[:300]


__all__ = ["TARGETS", "Fault", "OnnxRuntime", "Subject", "faults", "subject"]
