"""Control flow: If, Loop and Scan whose bodies are random graphs over the values around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import helper

from tests.runtime.graphs.maker import Maker, Value, info

Fill = Callable[[Maker, int], None]  # adds some operators to a graph


def _inner(m: Maker, fill: Fill, given: Sequence[Value] = ()) -> Maker:
    """A graph inside: it sees everything around it, and what it is given."""
    body = Maker(
        m.draw, f"{m.prefix}b{len(m.nodes)}_{m.count}_", (*m.outer, *m.values), m.depth + 1
    )
    m.count += 1
    body.values.extend(given)
    fill(body, m.number(1, 3))
    return body


def _graph(body: Maker, inputs: Sequence[Value], outputs: Sequence[Value]) -> onnx.GraphProto:
    return helper.make_graph(
        body.nodes, "body", [info(v) for v in inputs], [info(v) for v in outputs], body.weights
    )


def _result(body: Maker, like: Value) -> Value:
    """A value of the body of the same type and shape as `like`, made by a node of the body."""
    found = [v for v in body.values if v.dtype == like.dtype and v.shape == like.shape]
    source = found[-1] if found else like
    name = body.node("Identity", [source])
    return Value(name, like.dtype, like.shape, source.exact, source.limit)


def branch(m: Maker, fill: Fill) -> Value | None:
    condition = m.pick(lambda v: v.dtype == "bool" and v.size == 1 and v.rank <= 1)
    if condition is None:
        condition = m.constant(np.array(m.flag()))
    like = m.pick()
    if like is None:
        return None
    graphs, results = [], []
    for _ in range(2):
        body = _inner(m, fill)
        result = _result(body, like)
        graphs.append(_graph(body, (), (result,)))
        results.append(result)
    name = m.node("If", [condition], then_branch=graphs[0], else_branch=graphs[1])
    exact = all(r.exact for r in results)
    return m.add(name, like.dtype, like.shape, exact, max(r.limit for r in results))


def loop(m: Maker, fill: Fill) -> Value | None:
    """A state carried through, and a row given by each turn."""
    start = m.pick(lambda v: v.floating and v.dtype in ("f32", "f64"))
    if start is None:
        return None
    start = m.tame(start, 16.0)
    trips = m.number(0, 3)
    turn = Value(m.fresh("turn"), "s64", ())
    going = Value(m.fresh("going"), "bool", ())
    state = Value(m.fresh("state"), start.dtype, start.shape, False, 16.0)
    body = _inner(m, fill, (turn, state))
    result = body.tame(_result(body, state), 16.0)
    again = Value(body.node("Identity", [going]), "bool", ())
    row = Value(body.node("Identity", [result]), state.dtype, state.shape)
    graph = _graph(body, (turn, going, state), (again, result, row))
    count = m.constant(np.array(trips, np.int64))
    first = m.constant(np.array(True))
    last, rows = m.many("Loop", [count, first, start], 2, body=graph)
    m.add(rows, start.dtype, (trips, *start.shape), False, 16.0)
    return m.add(last, start.dtype, start.shape, False, 16.0)


def scan(m: Maker, fill: Fill) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1 and v.shape[0] in range(1, 8) and v.dtype in ("f32", "f64"))
    if x is None:
        return None
    x = m.tame(x, 16.0)
    row = Value(m.fresh("row"), x.dtype, x.shape[1:], x.exact, x.limit)
    state = Value(m.fresh("state"), x.dtype, row.shape, False, 64.0)
    start = m.filled(x.dtype, row.shape)
    body = _inner(m, fill, (state, row))
    summed = Value(body.node("Add", [state, row]), x.dtype, row.shape, False, 80.0)
    carried = body.tame(summed, 64.0)
    given = _result(body, row)
    graph = _graph(body, (state, row), (carried, given))
    back = {"scan_input_directions": [1]} if m.flag() else {}
    last, rows = m.many("Scan", [start, x], 2, body=graph, num_scan_inputs=1, **back)
    m.add(last, x.dtype, row.shape, False, 64.0)
    return m.add(rows, x.dtype, x.shape, False, given.limit)


FAMILY = (branch, loop, scan)
