"""Stages: how far a graph can be planned with what is known, and what has to run before going on.

In: the operators that are left, what is known of values. Out: a `Stage`: a plan of kernels (the
segment), then steps for the driver (control flow, operators without kernels), what is left behind
them, and which values have to be looked at before that can be planned.

Most models are one stage. A stage ends where sizes follow from data: its successors are planned for
the sizes, and the small values, that a run has found, and kept for the next run that finds the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from rewrite.errors import error
from rewrite.plan import registry
from rewrite.plan.fusion import is_native
from rewrite.plan.instance import Array, Instance, is_concrete
from rewrite.plan.known import Known, folded, instance, missing, of_array
from rewrite.plan.program import CONTROL, Graph, Op
from rewrite.plan.proto import body_of
from rewrite.plan.segment import Segment, plan_segment
from rewrite.plan.weights import Weights

MOST_BODIES = 32  # function bodies within function bodies

# Operators on sequences and optionals move whole tensors: there is nothing to compile.
_UNTENSOR = ("Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")


@dataclass(frozen=True)
class DriverStep:
    """What the driver runs between segments. `reason`: why it is no kernel."""

    kind: Literal["control", "reference"]
    op: Op
    reason: str


@dataclass(frozen=True)
class Stage:
    """One stretch of a graph's run."""

    segment: Segment | None
    steps: tuple[DriverStep, ...]
    rest: tuple[Op, ...]
    known: Mapping[int, Known]
    types: tuple[int, ...]  # values whose types the next stage is planned for
    contents: tuple[int, ...]  # values whose elements the next stage is planned for


@dataclass(frozen=True)
class Settings:
    """What holds for all plans of a session."""

    weights: Weights
    fresh: Callable[[str], int]
    opset: int = 0  # of ai.onnx, in the main graph
    strict: bool = False
    fuse: bool = True
    fast_math: bool = False


@dataclass
class _Walk:
    """The state while operators are looked at in order."""

    known: dict[int, Known]
    settings: Settings
    native: list[Instance] = field(default_factory=list)
    steps: list[DriverStep] = field(default_factory=list)
    later: list[Op] = field(default_factory=list)
    blocked: set[int] = field(default_factory=set)  # values that are not there in this stage
    learn: dict[int, None] = field(default_factory=dict)
    bounds: dict[int, registry.Bound] = field(default_factory=dict)
    unknown: dict[int, None] = field(default_factory=dict)  # types to be seen

    def postpone(self, op: Op) -> None:
        self.later.append(op)
        self.block(op)

    def block(self, op: Op) -> None:
        self.blocked.update(v for v in op.outputs if v is not None)

    def drive(self, op: Op, kind: Literal["control", "reference"], reason: str) -> None:
        self.steps.append(DriverStep(kind, op, reason))
        self.block(op)
        self.unknown.update((v, None) for v in op.outputs if v is not None)


def next_stage(
    ops: Iterable[Op], known: Mapping[int, Known], wanted: Iterable[int], settings: Settings
) -> Stage:
    """Plan as far as possible. `wanted`: values that must be there in the end."""
    walk = _Walk(dict(known), settings)
    for op in ops:
        _visit(walk, op, 0)
    if not walk.native and not walk.steps and walk.later and not walk.learn:
        op = walk.later[0]
        raise error("RW803", f"{op.node}: the operands of {op.name} never come")
    needed = _needed(walk, wanted)
    segment = None
    if walk.native or any(v in needed for v in walk.learn):
        segment = plan_segment(
            walk.native, walk.known, needed, walk.bounds, settings.weights, settings.fuse,
            settings.fast_math,
        )  # fmt: skip
    walk.unknown.update((number, None) for number in walk.bounds)
    types = tuple(v for v in walk.unknown if v in needed)
    learn = tuple(walk.learn)
    return Stage(segment, tuple(walk.steps), tuple(walk.later), walk.known, types, learn)


def _needed(walk: _Walk, wanted: Iterable[int]) -> set[int]:
    """Values of this segment that something outside of it asks for."""
    needed = set(wanted) | set(walk.learn)
    for op in [*walk.later, *(step.op for step in walk.steps)]:
        needed.update(v for v in op.inputs if v is not None)
        for inner in op.graphs():
            needed.update(inner.captures)
    return needed


def _visit(walk: _Walk, op: Op, depth: int) -> None:
    if all(v is None for v in op.outputs):
        return  # nobody wants what it gives
    uses = [v for v in op.inputs if v is not None]
    for inner in op.graphs():
        uses.extend(inner.captures)
    if any(v in walk.blocked for v in uses):
        walk.postpone(op)
        return
    if op.key in CONTROL:
        _control(walk, op, depth)
        return
    untensor = op.domain == "" and op.name.startswith(_UNTENSOR)
    if untensor or any(walk.known[v].type is None for v in uses) or _has_strings(walk, uses):
        _drive(walk, op, f"{op.name} works on values that are not tensors of numbers")
        return
    made = instance(op, walk.known)
    results = folded(made)
    if results is not None:
        for number, array in zip(op.outputs, results, strict=True):
            if number is not None:
                walk.known[number] = of_array(array)
        return
    _place(walk, op, made, depth)


def _has_strings(walk: _Walk, uses: list[int]) -> bool:
    types = (walk.known[v].type for v in uses)
    return any(t is not None and t.dtype in ("string", "c64", "c128", None) for t in types)


def _place(walk: _Walk, op: Op, made: Instance, depth: int) -> None:
    """A kernel, a function body, a value to be learned first, or the reference device."""
    if not all(is_concrete(t) for t in made.outputs):
        if _bounded(walk, op, made):
            return
        lacking = missing(made)
        if lacking:
            walk.learn.update((v, None) for v in lacking)
            walk.postpone(op)
            return
        reason = f"the size of what {op.name} gives is not known before it runs"
        if not _body(walk, op, made, depth):
            _drive(walk, op, reason)
        return
    lowered = registry.find(op.key)
    lacking = tuple(
        number
        for index in (lowered.needs if lowered is not None else ())
        if made.has(index) and not made.is_known(index)
        and (number := made.operands[index]) is not None
    )  # fmt: skip
    if lacking:
        walk.learn.update((v, None) for v in lacking)
        walk.postpone(op)
        return
    if is_native(made):
        _native(walk, op, made)
    elif not _body(walk, op, made, depth):
        _drive(walk, op, registry.refusal(made) or "")


def _native(walk: _Walk, op: Op, made: Instance) -> None:
    walk.native.append(made)
    for number, type_ in zip(op.outputs, made.outputs, strict=True):
        if number is not None:
            walk.known[number] = Known(type_)


def _bounded(walk: _Walk, op: Op, made: Instance) -> bool:
    """An operator whose kernel counts how much it gives."""
    bounds = registry.bounds(made)
    if bounds is None or registry.refusal(made) is not None:
        return False
    made.outputs = tuple(
        replace(type_, shape=bound.shape) for type_, bound in zip(made.outputs, bounds, strict=True)
    )
    _native(walk, op, made)
    for number, bound in zip(op.outputs, bounds, strict=True):
        if number is not None and bound.axis is not None:
            walk.bounds[number] = bound
    walk.block(op)
    return True


def _body(walk: _Walk, op: Op, made: Instance, depth: int) -> bool:
    """The operator's function body in its place, where the standard has one."""
    if depth >= MOST_BODIES:
        return False
    body = body_of(op, made, walk.settings.fresh, walk.settings.opset)
    if body is None or not body.ops:
        return False
    for number, array in body.constants.items():
        walk.known[number] = of_array(array)
    for inner in body.ops:
        _visit(walk, inner, depth + 1)
    return True


def _drive(walk: _Walk, op: Op, reason: str) -> None:
    if walk.settings.strict and not (op.domain == "" and op.name.startswith(_UNTENSOR)):
        raise error(
            "RW804", f"{op.node}: no native kernel: {reason}",
            hint="without strict native code the reference device computes it",
        )  # fmt: skip
    walk.drive(op, "reference", reason)


# --- control flow ------------------------------------------------------------------------------


def _control(walk: _Walk, op: Op, depth: int) -> None:
    """An If whose condition is known is the branch taken; everything else is for the driver."""
    condition = op.inputs[0] if op.name == "If" else None
    if condition is not None and depth < MOST_BODIES:
        known = walk.known[condition]
        if not known.is_known and known.type is not None and condition not in walk.learn:
            walk.learn[condition] = None
            walk.postpone(op)
            return
        content = known.content if known.is_known and known.size == 1 else None
        if content is not None:
            taken = bool(content.reshape(-1)[0])
            branch = op.attributes["then_branch" if taken else "else_branch"]
            _inline(walk, op, branch, depth)
            return
    walk.drive(op, "control", f"{op.name} is run by the driver")


def _inline(walk: _Walk, op: Op, branch: Graph, depth: int) -> None:
    for number, array in branch.constants.items():
        walk.known[number] = of_array(array)
    for inner in branch.ops:
        _visit(walk, inner, depth + 1)
    for target, result in zip(op.outputs, branch.outputs, strict=True):
        if target is not None and result is not None:
            copy = Op("", "Identity", 13, (result,), (target,), {}, op.node, op.group)
            _visit(walk, copy, depth + 1)


def learned(
    stage: Stage, found: Mapping[int, Known], arrays: Mapping[int, Array]
) -> dict[int, Known]:
    """What is known behind a stage that has run."""
    known = dict(stage.known)
    known.update(found)
    for number in stage.contents:
        known[number] = of_array(arrays[number])
    return known
