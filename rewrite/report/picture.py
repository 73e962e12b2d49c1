"""A model as a picture: nodes, values and boxes, each at its place.

In: a loaded model. Out: `Picture`. A call of a local function is a box with the function's nodes
inside, and so is a node that holds graphs. Nothing here knows about rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.graph.uses import nodes_of
from rewrite.report.layout.layered import Point, draw
from rewrite.report.text import MOST_NAME, brief_type, constant_text, few_elements, shown, type_text
from rewrite.schema import Type

# A function of the target, another function, a node with graphs, one of these.
BOXES = ("group", "function", "control", "graph")
MOST_CELLS = 20_000  # drawn; of a larger model, its last nodes are left out
_DEEPEST = 32  # boxes inside boxes
_INSIDE = 12  # between the border of a box and what is inside
_HEAD = 26  # height of the title of a box
_NODE_HEIGHT, _PLAIN_HEIGHT = 40, 26  # with a second line, and without one
_LEAST_WIDTH, _MOST_WIDTH = 64, 230
_LETTER, _SMALL_LETTER = 7.4, 6.1  # widths of the two lines' letters, about
_MOST_TITLE = 28
_MOST_CONSTANT = 12


@dataclass(slots=True)
class Cell:
    """What is drawn as one: a node (`operator`, `constant`), a box, an input or output of a graph.

    `key`: the graph's name and the name of the first output.
    """

    kind: str
    title: str
    note: str
    key: tuple[str, str]
    parent: int
    node: ir.Node | None = None
    inputs: tuple[int, ...] = ()  # numbers of values
    outputs: tuple[int, ...] = ()
    corner: Point = (0, 0)
    size: Point = (0, 0)

    @property
    def is_box(self) -> bool:
        return self.kind in BOXES


@dataclass(frozen=True, slots=True)
class Named:
    """A value: its name in the model, its type, and what is told of a constant."""

    name: str
    type: str
    constant: str | None


@dataclass(frozen=True, slots=True)
class Route:
    """An edge: a value goes from one cell to another; without points where it is not drawn."""

    value: int
    source: int
    target: int
    points: tuple[Point, ...]


@dataclass(slots=True)
class Picture:
    """`left_out`: how many nodes are not drawn, because there are too many."""

    cells: list[Cell] = field(default_factory=list)
    values: list[Named] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    size: Point = (0, 0)
    left_out: int = 0


@dataclass(slots=True)
class _Scope:
    """Values of one graph by number; what is not found belongs to the scope around.

    `members`: the nodes of a group and the names that they had outside.
    """

    graph: str
    around: _Scope | None
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    members: dict[ir.Node, str] = field(default_factory=dict)

    def find(self, value: ir.Value) -> int | None:
        scope: _Scope | None = self
        while scope is not None:
            found = scope.numbers.get(value)
            if found is not None:
                return found
            scope = scope.around
        return None


def picture(
    facts: Facts,
    domain: str | None = None,
    members: Mapping[str, tuple[str, ...]] | None = None,
    types: Mapping[str, Type] | None = None,
) -> Picture:
    """Draw a model. `domain`: that of the target's groups; `members`: the call of a group -> the
    names that its nodes had outside; `types`: what is known of values by name, where the model
    says nothing."""
    drawer = _Drawer(facts, domain, members or {}, types or {})
    graph = facts.model.graph
    scope = _Scope(str(graph.name or ""), None)
    width, height = drawer.graph(graph, scope, -1, 0)
    made = drawer.made
    made.size = (width, height)
    _settle(made)
    return made


class _Drawer:
    def __init__(
        self,
        facts: Facts,
        domain: str | None,
        members: Mapping[str, tuple[str, ...]],
        types: Mapping[str, Type],
    ) -> None:
        self.facts = facts
        self.domain = domain
        self.members = members
        self.types = types
        self.made = Picture()

    # --- graphs --------------------------------------------------------------------------------

    def graph(self, graph: ir.Graph, scope: _Scope, parent: int, depth: int) -> Point:
        """Draw a graph and what is inside of its nodes; its width and height."""
        here: list[int] = []
        self._define(graph, scope)
        for value in graph.inputs:
            if not value.is_initializer():
                number = self._number(value, scope)
                here.append(self._pill("input", value, scope, parent, (), (number,)))
        here += self._nodes(nodes_of(graph), scope, parent, depth)
        for value in graph.outputs:
            number = self._number(value, scope)
            here.append(self._pill("output", value, scope, parent, (number,), ()))
        return self._arrange(here)

    def _body(
        self, call: ir.Node, function: ir.Function, scope: _Scope, box: int, depth: int
    ) -> Point:
        """The nodes of a function that is called, with the values of the call."""
        cell = self.made.cells[box]
        nodes = nodes_of(function.graph)
        inner = _Scope(f"{scope.graph}/{function.name}", None)
        if cell.kind == "group":
            inner.graph = scope.graph
            nodes = [node for node in nodes if node.op_type != "Constant"]
            names = self.members.get(cell.key[1], ())
            if len(names) == len(nodes):
                inner.members = dict(zip(nodes, names, strict=True))
        for parameter, given in zip(function.graph.inputs, call.inputs, strict=False):
            if given is not None:
                inner.numbers[parameter] = self._number(given, scope)
        for result, number in zip(function.graph.outputs, cell.outputs, strict=False):
            inner.numbers[result] = number
        self._define(function.graph, inner)
        return self._arrange(self._nodes(nodes, inner, box, depth))

    def _nodes(self, nodes: list[ir.Node], scope: _Scope, parent: int, depth: int) -> list[int]:
        here = []
        for node in nodes:
            if len(self.made.cells) < MOST_CELLS:
                here.append(self._node(node, scope, parent, depth))
            else:
                self.made.left_out += 1
        return here

    def _arrange(self, here: list[int]) -> Point:
        """Give the cells of one scope their places, and draw the edges between them."""
        cells = self.made.cells
        local = {value: at for at, c in enumerate(here) for value in cells[c].outputs}
        carried: dict[tuple[int, int], int] = {}
        for at, number in enumerate(here):
            for value in cells[number].inputs:
                source = local.get(value)
                if source is not None and source < at:
                    carried.setdefault((source, at), value)
        minor = frozenset(at for at, c in enumerate(here) if cells[c].kind == "constant")
        drawing = draw([cells[c].size for c in here], list(carried), minor)
        for c, corner in zip(here, drawing.corners, strict=True):
            cells[c].corner = corner
        routed = [*drawing.routes, *((edge, ()) for edge in drawing.far)]
        for (source, target), points in routed:
            value = carried[source, target]
            self.made.routes.append(Route(value, here[source], here[target], points))
        return drawing.width, drawing.height

    # --- cells ---------------------------------------------------------------------------------

    def _node(self, node: ir.Node, scope: _Scope, parent: int, depth: int) -> int:
        """A node's cell, and what is inside of it."""
        inputs = [self._number(v, scope) for v in node.inputs if v is not None]
        outputs = [self._number(v, scope) for v in node.outputs if v.name]
        first = str(node.outputs[0].name or "") if node.outputs else ""
        key = (scope.graph, scope.members.get(node, first))
        number = len(self.made.cells)
        title = shown(node.op_type, _MOST_TITLE)
        note = brief_type(self._type(node.outputs[0], key[1])) if outputs else ""
        cell = Cell("operator", title, note, key, parent, node)
        if node.op_type == "Constant" and node.domain == "":
            few = few_elements(self.facts, node.outputs[0])
            is_short = few is not None and len(few) <= _MOST_CONSTANT
            cell.kind, cell.title, cell.note = "constant", (few if is_short else note) or "", ""
        cell.inputs, cell.outputs = tuple(inputs), tuple(outputs)
        cell.size = _size(cell.title, cell.note)
        self.made.cells.append(cell)
        function = self.facts.model.functions.get(node.op_identifier())
        if depth >= _DEEPEST or (function is None and not any(_named_graphs(node))):
            return number
        if function is not None:
            cell.kind = "group" if node.domain == self.domain else "function"
            inside = self._body(node, function, scope, number, depth + 1)
        else:
            cell.kind = "control"
            inside = self._graphs(node, scope, number, depth + 1)
            cell.inputs = tuple(dict.fromkeys((*inputs, *self._captured(number, scope))))
        cell.size = _around(inside, cell.title)
        return number

    def _graphs(self, node: ir.Node, scope: _Scope, parent: int, depth: int) -> Point:
        """The graphs of a node, side by side."""
        x, height = 0, 0
        for name, graph in _named_graphs(node):
            number = len(self.made.cells)
            title = shown(name, _MOST_TITLE)
            cell = Cell("graph", title, "", (str(graph.name or ""), ""), parent)
            self.made.cells.append(cell)
            inner = _Scope(str(graph.name or ""), scope)
            cell.size = _around(self.graph(graph, inner, number, depth), title)
            cell.corner = (x, 0)
            x += cell.size[0] + _INSIDE
            height = max(height, cell.size[1])
        return x - _INSIDE, height

    def _captured(self, box: int, scope: _Scope) -> list[int]:
        """Values from around that are used inside of a box."""
        values = self.made.values
        outer = {v for v in scope.numbers.values() if values[v].constant is None}
        inside = self.made.cells[box + 1 :]
        return [value for cell in inside for value in cell.inputs if value in outer]

    def _pill(
        self,
        kind: str,
        value: ir.Value,
        scope: _Scope,
        parent: int,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> int:
        name = str(value.name or "")
        note = brief_type(self._type(value, name))
        title = shown(name, _MOST_TITLE) if len(name) <= _MOST_TITLE else f"{shown(name[:26])}…"
        cell = Cell(kind, title, note, (scope.graph, name), parent, None, inputs, outputs)
        cell.size = _size(title, note)
        self.made.cells.append(cell)
        return len(self.made.cells) - 1

    # --- values --------------------------------------------------------------------------------

    def _define(self, graph: ir.Graph, scope: _Scope) -> None:
        """What a graph computes is its own, also where a graph around has a value of that name."""
        for node in nodes_of(graph):
            for position, value in enumerate(node.outputs):
                if value.name and value not in scope.numbers:
                    member = scope.members.get(node) if position == 0 else None
                    self._add(value, member or str(value.name), scope)

    def _number(self, value: ir.Value, scope: _Scope) -> int:
        found = scope.find(value)
        return self._add(value, str(value.name or ""), scope) if found is None else found

    def _add(self, value: ir.Value, name: str, scope: _Scope) -> int:
        number = scope.numbers[value] = len(self.made.values)
        constant = constant_text(self.facts, value)
        kind = type_text(self._type(value, name))
        self.made.values.append(Named(shown(name, MOST_NAME), kind, constant))
        return number

    def _type(self, value: ir.Value, name: str) -> Type:
        found = self.facts.type(value)
        if found.dtype is None or found.shape is None:
            return self.types.get(name, found)
        return found


def _named_graphs(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """The graphs that a node holds, with the names of their attributes."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.name, attribute.value
        elif attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from ((attribute.name, graph) for graph in attribute.value)


def _around(inside: Point, title: str) -> Point:
    """The size of a box with a title."""
    width, height = inside
    return max(width + 2 * _INSIDE, _size(title, "")[0]), height + _HEAD + _INSIDE


def _size(title: str, note: str) -> Point:
    width = max(len(title) * _LETTER, len(note) * _SMALL_LETTER) + 20
    return min(
        max(round(width), _LEAST_WIDTH), _MOST_WIDTH
    ), _NODE_HEIGHT if note else _PLAIN_HEIGHT


def _settle(made: Picture) -> None:
    """From places inside of boxes to places in the picture; a box comes before what is in it."""
    origin: dict[int, Point] = {-1: (0, 0)}
    for number, cell in enumerate(made.cells):
        x, y = origin[cell.parent]
        cell.corner = (cell.corner[0] + x, cell.corner[1] + y)
        if cell.is_box:
            origin[number] = (cell.corner[0] + _INSIDE, cell.corner[1] + _HEAD)
    moved = []
    for route in made.routes:
        x, y = origin[made.cells[route.source].parent]
        points = tuple((px + x, py + y) for px, py in route.points)
        moved.append(Route(route.value, route.source, route.target, points))
    made.routes = moved
