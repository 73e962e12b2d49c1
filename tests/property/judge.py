"""What a rewriting did wrong, judged by other means than the audit layer uses.

In: a model, a target. Out: `Fault`s.

An `exact` ledger demands the same bits on all inputs, infinities and NaN included (NaN payloads
apart). Any other ledger bounds the error of an element by

    c (rtol M + n S + atol) + 8 eps M,   M = the largest finite magnitude of the output before,
                                         n steps of S = the larger of M / 128 and the largest scale,

where the conditioning c is how much a relative change of the inputs grows in the output. An error
beyond that is `far`. Elements that are finite before must be finite after. An error beyond the same
bound with c = 1 and a hundredfold claim is `loose`: worth a look by a person, not a fault. One step
more, under a ledger in steps, is `rounding`: a tie that float32 breaks in its own way.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import rewrite
from rewrite.audit.feeds import is_float
from rewrite.audit.runtimes import CannotRunError, Reference, Runner, source_of
from rewrite.engine.ledger import Bound
from rewrite.engine.limits import Limits
from rewrite.errors import RewriteError
from tests.property.feeds import UNBOUNDED, Array
from tests.property.rounding import conditioning, inside, rounds_itself
from tests.property.samples import INVALID
from tests.property.subject import Subject, coarsest, largest, same_bits, styles

TARGETS = ("generic", "host", "onnxruntime-cpu")
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
    for style in styles(item.model):
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
    if fault.kind != "bits" and rounds_itself(item, after, *ran):
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
        # Near the end of the type, values inside may overflow in one order and not in another.
        near = max(float(np.abs(x[finite]).max()), inside(item, style, seed))
        calm = style not in UNBOUNDED and near < largest(item.model) / 1e4
        return "finite" if calm else f"finite-{style}", _shown(x[finite], y[finite])
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
    steps = bound.lsb * max(magnitude / 128, _step(item.model)) if bound.lsb else 0.0
    promised = scale * (bound.rtol * magnitude + steps + bound.atol)
    slack = 8 * eps * magnitude
    if error <= promised + slack:
        return "", ""
    slack = 16 * eps * max(magnitude, inside(item, style, seed))
    if bound.rtol + bound.atol and error <= promised + slack:
        return "", ""
    factor = conditioning(item, style, seed, index)
    text = f"{_shown(x, y)}, error {error:.3g}, promised {promised:.3g}, conditioning {factor:.3g}"
    step = max(magnitude / 128, _step(item.model))
    if bound.kind == "lsb" and error <= promised + step + slack:
        # Such claims are about real numbers. The runtime computes the original in float32, where
        # the half of a step may fall to the other side.
        return "rounding-far", text
    if error > factor * (promised + slack):
        return ("far" if style not in UNBOUNDED else f"far-{style}"), text
    return ("loose", text) if error > 100 * promised + slack and factor > 100 else ("", "")


def _step(model: onnx.ModelProto) -> float:
    """The largest step between codes: small samples do not reach the ends of their range."""
    held = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            held[node.output[0]] = node.attribute[0].t
    scales = [
        float(np.abs(numpy_helper.to_array(held[node.input[1]]).astype(np.float64)).max(initial=0))
        for node in model.graph.node
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.input[1] in held
    ]
    return max((s for s in scales if np.isfinite(s)), default=0.0)


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


def _first(problem: Exception) -> str:
    return " ".join(str(problem).split())[:300]
