"""Values inside that something else uses, too: a node, an output, the body of an If."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import onnx
from onnx import TensorProto, helper

from rewrite.audit.instances.draft import Draft, value_info
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, variation


@variation("second use")
def second(draft: Draft, _: Hints) -> Iterator[Change]:
    """Another node uses a value; or the graph gives it as an output."""
    for name in _inside(draft):
        yield Change(f"{name} is also used by Identity", partial(_consume, name=name))
        yield Change(f"{name} is also an output", partial(_show, name=name))


@variation("use in a body")
def captured(draft: Draft, _: Hints) -> Iterator[Change]:
    """The body of an If uses a value."""
    names = [*_inside(draft), *(v.name for v in draft.open_inputs())]
    for name in names:
        yield Change(f"{name} is also used in an If", partial(_capture, name=name))


@variation("in a body")
def inside_if(draft: Draft, _: Hints) -> Iterator[Change]:
    """All nodes are in the body of an If; constants with them, or outside."""
    if any(n.op_type in ("If", "Loop", "Scan") for n in draft.nodes):
        return
    yield Change("inside an If", partial(_enclose, constants=False))
    yield Change("inside an If, constants too", partial(_enclose, constants=True))


@variation("repeated operands")
def repeated(draft: Draft, _: Hints) -> Iterator[Change]:
    """One input in place of two."""
    given = [v.name for v in draft.open_inputs()]
    for kept in given:
        for gone in given:
            if gone != kept:
                yield Change(f"{gone} is {kept}", partial(_merge, kept=kept, gone=gone))


@variation("surroundings")
def surroundings(draft: Draft, _: Hints) -> Iterator[Change]:
    """Inputs come from a node; outputs go into one: roots that are no outputs, and the reverse."""
    for given in draft.open_inputs():
        yield Change(f"{given.name} is computed", partial(_compute, name=given.name))
    for output in draft.graph.output:
        yield Change(f"{output.name} is used", partial(_wrap, name=output.name))
    for node in draft.nodes:
        if node.op_type in ("Abs", "Neg", "Identity") and len(draft.nodes) > 1:
            yield Change(
                f"without {node.op_type} of {node.input[0]}", partial(_skip, name=node.output[0])
            )


def _inside(draft: Draft) -> list[str]:
    """Values that nodes compute, outputs of the graph apart."""
    outputs = {v.name for v in draft.graph.output}
    return [o for n in draft.nodes for o in n.output if o and o not in outputs]


def _consume(draft: Draft, name: str) -> None:
    made = draft.fresh(f"{name}_too")
    draft.graph.node.append(helper.make_node("Identity", [name], [made]))
    draft.graph.output.append(onnx.ValueInfoProto(name=made))


def _show(draft: Draft, name: str) -> None:
    draft.graph.output.append(onnx.ValueInfoProto(name=name))


def _capture(draft: Draft, name: str) -> None:
    condition, made = draft.fresh("condition"), draft.fresh(f"{name}_too")
    branches = []
    for place in ("then", "else"):
        inner = draft.fresh(f"{name}_{place}")
        node = helper.make_node("Identity", [name], [inner])
        output = onnx.ValueInfoProto(name=inner)
        branches.append(helper.make_graph([node], place, [], [output]))
    draft.graph.node.append(
        helper.make_node(
            "If", [condition], [made], then_branch=branches[0], else_branch=branches[1]
        )
    )
    draft.graph.input.append(value_info(condition, TensorProto.BOOL, []))
    draft.graph.output.append(onnx.ValueInfoProto(name=made))


def _enclose(draft: Draft, constants: bool) -> bool:
    graph = draft.graph
    condition = draft.fresh("condition")
    produced = {o for n in graph.node for o in n.output}
    outputs = [v.name for v in graph.output]
    if not all(name in produced for name in outputs):
        return False
    kept = [] if constants else list(graph.initializer)
    moved = list(graph.initializer) if constants else []
    if constants and any(draft.input(t.name) is not None for t in moved):
        return False
    branches = []
    for place in ("then", "else"):
        body = onnx.GraphProto(name=place)
        rename = {name: f"{name}_{place}" for name in (*produced, *(t.name for t in moved)) if name}
        for node in graph.node:
            copy = body.node.add()
            copy.CopyFrom(node)
            copy.input[:] = [rename.get(n, n) for n in node.input]
            copy.output[:] = [rename.get(n, n) for n in node.output]
        for constant in moved:
            copied = body.initializer.add()
            copied.CopyFrom(constant)
            copied.name = rename[constant.name]
        body.output.extend(onnx.ValueInfoProto(name=rename[name]) for name in outputs)
        branches.append(body)
    node = helper.make_node(
        "If", [condition], outputs, then_branch=branches[0], else_branch=branches[1]
    )
    del graph.node[:], graph.initializer[:]
    graph.node.append(node)
    graph.initializer.extend(kept)
    graph.input.append(value_info(condition, TensorProto.BOOL, []))
    return True


def _merge(draft: Draft, kept: str, gone: str) -> bool:
    first, second = draft.input(kept), draft.input(gone)
    if first is None or second is None or first.type != second.type:
        return False
    for node in draft.nodes:
        node.input[:] = [kept if n == gone else n for n in node.input]
    draft.graph.input.remove(second)
    return True


def _compute(draft: Draft, name: str) -> None:
    made = draft.fresh(f"{name}_computed")
    for node in draft.nodes:
        node.input[:] = [made if n == name else n for n in node.input]
    draft.graph.node.insert(0, helper.make_node("Identity", [name], [made]))


def _wrap(draft: Draft, name: str) -> None:
    """The output is an Identity of what it was."""
    inner = draft.fresh(f"{name}_inner")
    for node in draft.nodes:
        node.input[:] = [inner if n == name else n for n in node.input]
        node.output[:] = [inner if n == name else n for n in node.output]
    draft.graph.node.append(helper.make_node("Identity", [inner], [name]))


def _skip(draft: Draft, name: str) -> bool:
    """A node that changes nothing that matters is left out; its operand takes its place."""
    node = draft.producer(name)
    if node is None or len(node.input) != 1 or node.attribute:
        return False
    operand = node.input[0]
    if any(v.name == name for v in draft.graph.output):
        above = draft.producer(operand)
        if above is None or len(draft.users(operand)) > 1:
            return False
        above.output[:] = [name if n == operand else n for n in above.output]
    for user in draft.nodes:
        user.input[:] = [operand if n == name else n for n in user.input]
    draft.graph.node.remove(node)
    return True
