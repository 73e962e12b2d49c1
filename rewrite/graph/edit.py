"""Replacing values in a graph: checked first, then done, and undone where the caller wants.

In: `Facts`, pairs of old and new values, and the new nodes (rewrite.graph.nodes). Out: a
`Replacement`, or `Refused` with the reason and nothing touched.

The new value of a root takes over the root's name and what the model declares about it. A constant
goes where it is used: an initializer, or a Constant node in a function body, which has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from rewrite.graph import order
from rewrite.graph.dead import drop_initializer, sweep
from rewrite.graph.declared import Saved
from rewrite.graph.facts import Facts
from rewrite.graph.names import holds_graph, subgraphs
from rewrite.graph.nodes import Refused, discard, is_pending, make_node, new_constant
from rewrite.graph.uses import is_used, rewire
from rewrite.graph.versions import FREE_INITIALIZERS, require_ir

__all__ = ["Refused", "Replacement", "discard", "make_node", "new_constant", "replace"]

Root = tuple[ir.Value, ir.Value]


@dataclass(slots=True)
class Replacement:
    """A replacement that was made. Either `undo` it, or `finish` it: then the old nodes go."""

    facts: Facts
    graph: ir.Graph
    new_nodes: tuple[ir.Node, ...]
    old_nodes: tuple[ir.Node, ...]
    _uses: list[tuple[ir.Node, int, ir.Value]] = field(default_factory=list)
    _outputs: list[tuple[int, ir.Value]] = field(default_factory=list)
    _names: list[tuple[ir.Value, str]] = field(default_factory=list)
    _declared: list[Saved] = field(default_factory=list)
    _initializers: list[ir.Value] = field(default_factory=list)
    _imports: list[tuple[ir.Graph, str]] = field(default_factory=list)

    def undo(self) -> None:
        """Put everything back and throw the new nodes away."""
        for node, index, old in reversed(self._uses):
            rewire(node, index, old)
        for index, old in reversed(self._outputs):
            self.graph.outputs[index] = old
        for value, _ in self._names:
            rename(value, self.facts.names.fresh("undone"))
        for value, name in reversed(self._names):
            rename(value, name)
        for saved in reversed(self._declared):
            self.facts.declared.restore(saved)
        discard(self.new_nodes)
        for node in reversed(self.new_nodes):
            self.facts.order.drop(node)
            self.graph.remove(node)
        for value in self._initializers:
            drop_initializer(self.facts, value)
        for graph, domain in self._imports:
            del graph.opset_imports[domain]

    def finish(self) -> tuple[ir.Node, ...]:
        """Remove the nodes and initializers that nothing needs any more; returns those nodes."""
        return sweep(self.facts, self.old_nodes)


def replace(
    facts: Facts,
    graph: ir.Graph,
    roots: Sequence[Root],
    new_nodes: Sequence[ir.Node],
    matched: Sequence[ir.Node] = (),
) -> Replacement | Refused:
    """Let every user of each old value use the new value, and put `new_nodes` into the graph.

    Where the answer is `Refused` nothing was touched and the caller discards the new nodes.
    `matched` are further nodes that `finish` removes if nothing needs them.
    """
    roots = [(old, new) for old, new in roots if old is not new]
    needs = _needs(graph, new_nodes, roots)
    reason = _why_not(facts, graph, roots, new_nodes, needs)
    if reason is not None:
        return Refused(reason)
    nodes = list(new_nodes)
    outputs = [old for old, _ in roots if old.is_graph_output()]
    if outputs:
        extra = _identities(facts, graph, roots, new_nodes)
        roots = [(old, extra[old].outputs[0] if old in extra else new) for old, new in roots]
        roots.sort(key=lambda root: not root[0].is_graph_output())
        nodes += extra.values()
    place = order.plan(facts.order, graph, facts.parent_node, roots, nodes, needs.makers)
    if place is None:
        discard(nodes[len(new_nodes) :])
        return Refused("the new nodes would need their own results: a cycle")
    old_nodes = dict.fromkeys([node for old, _ in roots if (node := old._producer) is not None])
    old_nodes.update(dict.fromkeys(matched))
    done = Replacement(facts, graph, tuple(nodes), tuple(old_nodes))
    if nodes or needs.constants:
        done.new_nodes = (*_place_constants(facts, graph, needs.constants, done), *nodes)
        _import_domains(facts, graph, nodes, done)
    _insert(facts, graph, place, done.new_nodes)
    renamed: set[ir.Value] = set()
    for old, new in roots:
        _hand_over(facts, graph, old, new, done, renamed)
    return done


@dataclass(slots=True)
class _Needs:
    """What new nodes and the new values of roots come from."""

    makers: list[ir.Node] = field(default_factory=list)  # nodes of the graph
    constants: list[ir.Value] = field(default_factory=list)  # in no graph yet
    others: list[ir.Value] = field(default_factory=list)  # neither computed nor given in the graph


def _needs(graph: ir.Graph, nodes: Sequence[ir.Node], roots: Sequence[Root]) -> _Needs:
    used = [new for _, new in roots]
    for node in reversed(nodes):
        used = order.reads(node) + used
    needs = _Needs()
    for value in used:
        maker = value._producer
        if maker is None:
            if is_pending(value):
                needs.constants.append(value)
            elif value._graph is not graph:
                needs.others.append(value)
        elif maker._graph is graph:
            needs.makers.append(maker)
        elif maker not in nodes:
            needs.others.append(value)
    return needs


def _why_not(
    facts: Facts,
    graph: ir.Graph,
    roots: Sequence[Root],
    new_nodes: Sequence[ir.Node],
    needs: _Needs,
) -> str | None:
    for old, new in roots:
        producer = old._producer
        if producer is None or producer._graph is not graph:
            return f"'{old.name}' is not computed in this graph"
        needs_identity = old.is_graph_output() and not _can_be_output(graph, old, new, new_nodes)
        if needs_identity and producer.op_type == "Identity" and producer.domain == "":
            return f"graph output '{old.name}' can have this value only through an Identity"
    if len(roots) > 1 and len({id(old) for old, _ in roots}) != len(roots):
        return "the same value is replaced twice"
    inner = _graphs_inside(new_nodes) if needs.others else ()
    for value in needs.others:
        if value.graph not in inner:
            reason = _why_not_visible(facts, graph, value, new_nodes)
            if reason is not None:
                return reason
    return None


def _graphs_inside(nodes: Sequence[ir.Node]) -> frozenset[ir.Graph]:
    """The graphs that nodes hold, and those inside them: what they define they may use."""
    found: list[ir.Graph] = []
    pending = [node for node in nodes if holds_graph(node)]
    while pending:
        for graph in subgraphs(pending.pop()):
            found.append(graph)
            pending.extend(node for node in graph if holds_graph(node))
    return frozenset(found)


def _why_not_visible(
    facts: Facts, graph: ir.Graph, value: ir.Value, new_nodes: Sequence[ir.Node]
) -> str | None:
    """Why nodes of `graph` cannot use a value that is not of this graph."""
    owner = value.graph
    if owner is None:
        producer = value.producer()
        if producer is not None:
            return None if producer in new_nodes else f"'{value.name}' is in no graph"
        if value.const_value is None:
            return "a parameter of the function would become an operand"
        return None
    around: ir.Graph | None = graph
    while around is not None and around is not owner:
        holder = facts.parent_node(around)
        around = None if holder is None else holder.graph
    return None if around is owner else f"'{value.name}' cannot be used in this graph"


def _can_be_output(
    graph: ir.Graph, old: ir.Value, new: ir.Value, new_nodes: Sequence[ir.Node]
) -> bool:
    """Whether a value can take over the name of the graph output `old`."""
    if is_pending(new):
        return True
    producer = new.producer()
    if producer is None or new.is_graph_output():
        return False
    if producer in new_nodes:
        return True
    # A subgraph that uses `new` may have an input of its own with the name of `old`.
    return producer.graph is graph and all(u.node.graph is graph for u in new.uses())


def _identities(
    facts: Facts, graph: ir.Graph, roots: Sequence[Root], new_nodes: Sequence[ir.Node]
) -> dict[ir.Value, ir.Node]:
    """An Identity for each root that is a graph output whose new value cannot have its name."""
    made: dict[ir.Value, ir.Node] = {}
    taken: set[ir.Value] = set()
    for old, new in roots:
        if not old.is_graph_output():
            continue
        if _can_be_output(graph, old, new, new_nodes) and new not in taken:
            taken.add(new)
            continue
        node = make_node(facts, graph, "", "Identity", (new,), {})
        if not isinstance(node, Refused):  # every opset has Identity
            made[old] = node
            facts.set_type(node.outputs[0], facts.type(old))
    return made


def _place_constants(
    facts: Facts, graph: ir.Graph, constants: Sequence[ir.Value], done: Replacement
) -> list[ir.Node]:
    """Give each new constant a place in the graph; returns the Constant nodes made."""
    if not constants:
        return []
    constants = tuple(dict.fromkeys(constants))
    if facts.in_function(graph):
        return [constant_node(value) for value in constants]
    require_ir(facts, FREE_INITIALIZERS, "a new initializer is no input")
    for value in constants:
        graph.register_initializer(value)
        done._initializers.append(value)
    return []


def constant_node(value: ir.Value) -> ir.Node:
    """The Constant node whose output is `value`."""
    tensor = value.const_value
    assert tensor is not None
    attribute = ir.AttrTensor("value", tensor)
    return ir.Node("", "Constant", (), (attribute,), outputs=(value,), name=f"{value.name}_node")


def _import_domains(
    facts: Facts, graph: ir.Graph, nodes: Sequence[ir.Node], done: Replacement
) -> None:
    if not nodes:
        return
    # onnxruntime inlines functions into the main graph, which must know the domains of their nodes.
    main = facts.model.graph
    for root in (main,) if graph is main else dict.fromkeys((facts.root(graph), main)):
        imports = root.opset_imports
        for node in nodes:
            if node._domain not in imports:
                imports[node.domain] = node.version or 1
                done._imports.append((root, node.domain))


def _insert(facts: Facts, graph: ir.Graph, place: order.Place, nodes: Sequence[ir.Node]) -> None:
    anchor = place.anchor
    if nodes:
        if anchor is None:
            anchor = graph[0]
            graph.insert_before(anchor, nodes)
            facts.order.forget(graph)
        else:
            facts.order.insert_after(graph, anchor, nodes)
        anchor = nodes[-1]
    if anchor is not None and place.moved:
        facts.order.insert_after(graph, anchor, place.moved)


def _hand_over(
    facts: Facts,
    graph: ir.Graph,
    old: ir.Value,
    new: ir.Value,
    done: Replacement,
    renamed: set[ir.Value],
) -> None:
    """Uses, place among the outputs, name and declared facts go from `old` to `new`."""
    for user, index in old.uses():
        if user in done.new_nodes:
            continue
        rewire(user, index, new)
        done._uses.append((user, index, old))
    was_output = old.is_graph_output()
    if was_output:
        for index, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[index] = new
                done._outputs.append((index, old))
    producer = new.producer()
    made = producer is not None and producer in done.new_nodes
    if new in renamed or not (was_output or made):
        return
    renamed.add(new)
    _swap_names(facts, old, new, done)
    done._declared.append(facts.declared.move(old, new))
    if producer is not None and made:
        _inherit(producer, old.producer())


def _swap_names(facts: Facts, old: ir.Value, new: ir.Value, done: Replacement) -> None:
    name, other = old._name or "", new._name or ""
    if is_used(old):  # it stays, and what was inferred is known by name
        facts.set_type(old, facts.type(old))
    done._names += [(old, name), (new, other)]
    rename(new, name)
    rename(old, other)


def rename(value: ir.Value, name: str) -> None:
    """Rename a value, but not its tensor, which may be shared with the caller's model."""
    tensor = value._const_value
    if tensor is None:  # setting a tensor, even to None, costs more than all else here
        value.name = name
        return
    value.const_value = None
    value.name = name
    value.const_value = tensor


def _inherit(node: ir.Node, old: ir.Node | None) -> None:
    """A new node keeps the notes of the node whose result it gives."""
    if old is None:
        return
    node.doc_string = node.doc_string or old.doc_string
    for key, text in (old._metadata_props or {}).items():
        node.metadata_props.setdefault(key, text)
