"""Control flow: If, Loop, Scan, SequenceMap, run by the driver over graphs that are plans.

In: a control step of a stage and the values around it. Out: the operator's results. Source of the
semantics: the ONNX operator reference (If-21, Loop-21, Scan-21, SequenceMap-17).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite.errors import error
from rewrite.ops.dtypes import to_numpy
from rewrite.plan.program import Graph, Op
from rewrite.plan.stage import DriverStep
from rewrite.runtime.beam_search import beam_search
from rewrite.runtime.executor import Context, GraphRunner, Node, Value
from rewrite.runtime.repeated import Around, repeated
from rewrite.schema import Type

MOST_TRIPS = 1 << 40  # of a Loop that names no limit
FIRST_TURNS = 256  # of a Loop at once, as its condition may end it soon; then more

Array = np.ndarray[Any, np.dtype[Any]]


def run_control(
    context: Context, node: Node, index: int, step: DriverStep, values: Mapping[int, Value]
) -> list[Value]:
    """The results of one operator of control flow."""
    runner = _Runners(context, node, index)
    inputs = [None if v is None else values[v] for v in step.op.inputs]
    return _OPERATORS[step.op.name](step.op, runner, inputs, values)


class _Runners:
    """The graphs of one step: planned under what its stage knows, kept with it."""

    def __init__(self, context: Context, node: Node, index: int) -> None:
        self._context = context
        self._node = node
        self._kept = node.runners.setdefault(index, {})

    def of(self, op: Op, name: str) -> GraphRunner:
        found = self._kept.get(name)
        if found is None:
            graph: Graph = op.attributes[name]
            known = self._node.stage.known
            captured = {
                v: known[v] for v in graph.captures
                if v in known and known[v].is_known
            }  # fmt: skip
            found = self._kept[name] = GraphRunner(graph, self._context, captured)
        return found


def _if(op: Op, runners: _Runners, inputs: list[Value], values: Mapping[int, Value]) -> list[Value]:
    taken = "then_branch" if _truth(op, inputs[0]) else "else_branch"
    return runners.of(op, taken).run([], values)


def _loop(
    op: Op, runners: _Runners, inputs: list[Value], values: Mapping[int, Value]
) -> list[Value]:
    """Carried values, then what each turn gives, stacked."""
    body = runners.of(op, "body")
    limit = MOST_TRIPS if inputs[0] is None else int(_single(op, "the number of turns", inputs[0]))
    going = True if inputs[1] is None else _truth(op, inputs[1])
    carried = list(inputs[2:])
    n = len(carried)
    stacks: list[list[Value]] = [[] for _ in range(len(body.graph.outputs) - 1 - n)]
    around = Around(
        states=tuple((2 + i, 1 + i) for i in range(n)),
        stacked=tuple(range(1 + n, len(body.graph.outputs))),
        counter=0,
        condition=(1, 0),
    )
    span = FIRST_TURNS
    trip, native = 0, True
    while going and trip < limit:
        given = [*_counters(body.graph, trip, going), *carried]
        most = min(limit - trip, span)
        turned = repeated(body, given, values, around, most) if native else None
        native = trip == 0 or turned is not None  # behind the first turn the body is planned
        if turned is None:
            results = body.run(given, values)
            going, carried, trip = _truth(op, results[0]), results[1 : 1 + n], trip + 1
            more = results[1 + n :]
        else:
            going, carried, trip = turned.going, turned.states, trip + turned.turns
            span *= 8
            more = [_Turns(array) for array in turned.stacked]
        for stack, value in zip(stacks, more, strict=True):
            stack.append(value)
    types = body.graph.output_types[1 + n :]
    stacked = (_stacked(op, s, t, 0, False) for s, t in zip(stacks, types, strict=True))
    return [*carried, *stacked]


def _counters(body: Graph, trip: int, going: bool) -> list[Array]:
    """Number of the turn and condition, of the rank that the body declares: both are scalars in
    the standard, and exporters write them with one dimension."""
    made = []
    for value, type_ in zip(
        (np.array(trip, np.int64), np.array(going)), body.input_types[:2], strict=True
    ):
        one = type_ is not None and type_.shape is not None and len(type_.shape) == 1
        made.append(value.reshape(1) if one else value)
    return made


def _scan(
    op: Op, runners: _Runners, inputs: list[Value], values: Mapping[int, Value]
) -> list[Value]:
    if op.opset < 9:
        return _scan_8(op, runners, inputs, values)
    return _scan_9(op, runners, inputs, values)


def _scan_9(
    op: Op, runners: _Runners, inputs: list[Value], values: Mapping[int, Value]
) -> list[Value]:
    """State, then outputs of each step stacked along their axes."""
    body = runners.of(op, "body")
    m = int(op.attributes["num_scan_inputs"])
    n = len(inputs) - m
    state, sequences = list(inputs[:n]), [np.asarray(x) for x in inputs[n:]]
    axes = _per(op, "scan_input_axes", m, 0)
    backward = _per(op, "scan_input_directions", m, 0)
    for x, a in zip(sequences, axes, strict=True):
        if not -x.ndim <= a < x.ndim:
            reason = f"axis {a} is outside a tensor of rank {x.ndim}"
            raise error("RW805", f"{op.name}: a scanned input: {reason}", subject=op.node)
    moved = [np.moveaxis(x, a, 0) for x, a in zip(sequences, axes, strict=True)]
    lengths = {x.shape[0] for x in moved}
    if len(lengths) > 1:
        raise error(
            "RW805", f"{op.name}: scanned inputs have lengths {sorted(lengths)}", subject=op.node
        )
    k = len(body.graph.outputs) - n
    stacks: list[list[Value]] = [[] for _ in range(k)]
    length = lengths.pop() if lengths else 0
    turns = [
        np.ascontiguousarray(x[::-1] if b else x) for x, b in zip(moved, backward, strict=True)
    ]
    around = Around(
        states=tuple((i, i) for i in range(n)),
        stacked=tuple(range(n, n + k)),
        scanned={n + i: x.nbytes // max(1, length) for i, x in enumerate(turns)},
    )
    trip, native = 0, True
    while trip < length:
        given = [*state, *(x[trip, ...] for x in turns)]
        turned = repeated(body, given, values, around, length - trip) if native else None
        native = trip == 0 or turned is not None  # behind the first turn the body is planned
        if turned is None:
            results = body.run(given, values)
            state, more, trip = results[:n], results[n:], trip + 1
        else:
            state, trip = turned.states, trip + turned.turns
            more = [_Turns(array) for array in turned.stacked]
        for stack, value in zip(stacks, more, strict=True):
            stack.append(value)
    out_axes = _per(op, "scan_output_axes", k, 0)
    reverse = _per(op, "scan_output_directions", k, 0)
    types = body.graph.output_types[n:]
    outputs = [
        _stacked(op, s, t, a, bool(r))
        for s, t, a, r in zip(stacks, types, out_axes, reverse, strict=True)
    ]
    return [*state, *outputs]


def _scan_8(
    op: Op, runners: _Runners, inputs: list[Value], values: Mapping[int, Value]
) -> list[Value]:
    """Version 8: everything has a batch axis before the sequence axis, lengths per entry."""
    body = runners.of(op, "body")
    m = int(op.attributes["num_scan_inputs"])
    given = inputs[1:]
    n = len(given) - m
    batch = int(given[n].shape[0])
    longest = int(given[n].shape[1])
    lengths = [longest] * batch if inputs[0] is None else [int(v) for v in inputs[0]]
    backward = _per(op, "directions", m, 0)
    k = len(body.graph.outputs) - n
    states: list[list[Value]] = []
    outputs: list[list[Value]] = []
    for entry in range(batch):
        state = [np.asarray(x[entry], order="C") for x in given[:n]]
        stacks: list[list[Value]] = [[] for _ in range(k)]
        for trip in range(lengths[entry]):
            xs = [
                np.asarray(x[entry][lengths[entry] - 1 - trip if b else trip], order="C")
                for x, b in zip(given[n:], backward, strict=True)
            ]
            results = body.run([*state, *xs], values)
            state = results[:n]
            for stack, value in zip(stacks, results[n:], strict=True):
                stack.append(value)
        states.append(state)
        types = body.graph.output_types[n:]
        made = [_stacked(op, s, t, 0, False) for s, t in zip(stacks, types, strict=True)]
        outputs.append([_padded(x, longest) for x in made])
    joined = [np.stack([s[i] for s in states]) for i in range(n)]
    return [*joined, *(np.stack([o[i] for o in outputs]) for i in range(k))]


def _padded(x: Array, length: int) -> Array:
    missing = length - x.shape[0]
    return np.pad(x, [(0, missing), *([(0, 0)] * (x.ndim - 1))]) if missing else x


def _sequence_map(
    op: Op, runners: _Runners, inputs: list[Value], values: Mapping[int, Value]
) -> list[Value]:
    """The body on each element of the sequences; tensors are given to every turn."""
    body = runners.of(op, "body")
    sequence = inputs[0]
    outputs: list[list[Value]] = [[] for _ in body.graph.outputs]
    for trip in range(len(sequence)):
        given = [x[trip] if isinstance(x, list) else x for x in inputs]
        for made, value in zip(outputs, body.run(given, values), strict=True):
            made.append(value)
    return list(outputs)


def _beam_search(
    op: Op, runners: _Runners, inputs: list[Value], values: Mapping[int, Value]
) -> list[Value]:
    results = beam_search(
        op.node, op.attributes, inputs, lambda name, given: runners.of(op, name).run(given, values)
    )
    return results[: len(op.outputs)]


_Operator = Callable[[Op, _Runners, "list[Value]", Mapping[int, Value]], "list[Value]"]
_OPERATORS: dict[str, _Operator] = {
    "If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map,
    "BeamSearch": _beam_search,
}  # fmt: skip


def _truth(op: Op, value: Value) -> bool:
    return bool(_single(op, "the condition", value))


def _single(op: Op, what: str, value: Value) -> Any:
    """The one element of a tensor."""
    array = np.asarray(value)
    if array.size != 1:
        message = f"{op.name}: {what} must be one element, not {array.size}"
        raise error("RW805", message, subject=op.node)
    return array.reshape(-1)[0]


def _per(op: Op, name: str, count: int, default: int) -> list[int]:
    given = op.attributes.get(name)
    return [default] * count if not given else [int(v) for v in given]


@dataclass(frozen=True, slots=True)
class _Turns:
    """Values of several turns, in an array."""

    array: Array


def _stacked(op: Op, values: list[Value], type_: Type | None, axis: int, reverse: bool) -> Value:
    """The values of all turns along a new axis; of no turn, as declared, with length 0."""
    if values:
        many = [v.array if isinstance(v, _Turns) else np.asarray(v)[None] for v in values]
        forms = list(dict.fromkeys((v.dtype, v.shape[1:]) for v in many))
        if len(forms) > 1:
            first, second = (f"{dtype} {list(shape)}" for dtype, shape in forms[:2])
            raise error(
                "RW805",
                f"{op.name}: turns give {first} and {second}, which do not stack",
                subject=op.node,
            )
        if not -many[0].ndim <= axis < many[0].ndim:
            kind = f"{many[0].dtype} {list(many[0].shape[1:])}"
            raise error(
                "RW805", f"{op.name}: {kind} cannot be stacked along axis {axis}", subject=op.node
            )
        whole = many[0] if len(many) == 1 else np.concatenate(many)
        if reverse or axis:
            whole = np.moveaxis(whole[::-1] if reverse else whole, 0, axis)
        return np.ascontiguousarray(whole)
    dtype = to_numpy(type_.dtype) if type_ is not None and type_.dtype else np.dtype(np.float32)
    shape = [d if isinstance(d, int) else 0 for d in (type_.shape or ())] if type_ else []
    shape.insert(axis % (len(shape) + 1), 0)
    return np.empty(shape, dtype)
