"""Where the nodes of a directed acyclic graph are drawn, and how its edges run between them.

In: sizes of the nodes in topological order, edges. Out: `Drawing`. The steps are those of Sugiyama,
Tagawa and Toda (1981): layers, order inside of layers, places. Each takes about n log n time. Edges
over many layers, and most of those of a node with many users, would cost space and say little:
they are not routed, but returned as `far`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrite.report.layout.ordering import ordered
from rewrite.report.layout.placing import placed

Point = tuple[int, int]
Edge = tuple[int, int]

NODE_GAP = 24
LAYER_GAP = 34
_MOST_SPAN = 24  # layers that a routed edge may go over
_MANY_USERS = 12  # a node with more is drawn with its nearest users only
_NEAR = 3  # layers
_LINE = 10  # width of an edge that goes past a node


@dataclass(frozen=True, slots=True)
class Drawing:
    """Upper left corners of the nodes, routes from the bottom of one to the top of another."""

    corners: tuple[Point, ...]
    routes: tuple[tuple[Edge, tuple[Point, ...]], ...]
    far: tuple[Edge, ...]  # edges that are not routed
    width: int
    height: int


@dataclass(slots=True)
class Layers:
    """Vertices by layer: nodes, and one vertex wherever an edge goes past a layer.

    The vertices that edges of one node go through are shared, so that they run as one line.
    """

    layer: list[int]
    rows: list[list[int]]
    above: list[list[int]]
    below: list[list[int]]
    main: list[bool]  # below the sources of the longest paths
    nodes: int  # the first vertex that is not a node
    lines: dict[Edge, tuple[int, ...]]  # edge -> vertices that it goes through


def draw(
    sizes: Sequence[tuple[int, int]], edges: Sequence[Edge], minor: frozenset[int] = frozenset()
) -> Drawing:
    """Draw a graph from top to bottom. An edge goes from a smaller to a larger number.

    `minor`: nodes that stand beside their users, whatever is below them.
    """
    if not sizes:
        return Drawing((), (), (), 0, 0)
    layer, main = _layers(len(sizes), edges, minor)
    near, far = _split(layer, edges)
    layers = _with_lines(layer, main, near)
    layers.rows = ordered(layers.rows, layers.above, layers.below)
    widths = [w for w, _ in sizes] + [_LINE] * (len(layers.above) - len(sizes))
    above, below = _straightened(layers)
    middles = placed(layers.rows, above, below, widths, len(sizes), NODE_GAP)
    return _drawing(sizes, layers, middles, far)


def _layers(
    count: int, edges: Sequence[Edge], minor: frozenset[int]
) -> tuple[list[int], list[bool]]:
    """As high as possible below the sources of the longest paths; all else as low as possible.
    Also whether a node is below such a source."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        below[source].append(target)
        above[target].append(source)
    height = [0] * count
    for node in reversed(range(count)):
        height[node] = max((height[user] + 1 for user in below[node]), default=0)
    major = [node for node in range(count) if node not in minor] or range(count)
    longest = max(height[node] for node in major)
    heads = {node for node in major if height[node] == longest}
    layer = [0] * count
    main = [False] * count
    for node in range(count):
        operands = above[node]
        layer[node] = max((layer[operand] + 1 for operand in operands), default=0)
        main[node] = node in heads or any(main[operand] for operand in operands)
    for node in reversed(range(count)):
        users = below[node]
        if users and (not main[node] or len(users) > len(above[node]) > 0):
            layer[node] = min(layer[user] for user in users) - 1
    first = min(layer)
    return [number - first for number in layer], main


def _split(layer: Sequence[int], edges: Sequence[Edge]) -> tuple[list[Edge], list[Edge]]:
    users: dict[int, int] = {}
    for source, _ in edges:
        users[source] = users.get(source, 0) + 1
    near: list[Edge] = []
    far: list[Edge] = []
    for edge in edges:
        source, target = edge
        most = _NEAR if users[source] > _MANY_USERS else _MOST_SPAN
        (near if layer[target] - layer[source] <= most else far).append(edge)
    return near, far


def _with_lines(layer: list[int], main: list[bool], edges: Sequence[Edge]) -> Layers:
    count = len(layer)
    layer, main = list(layer), list(main)
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    shared: dict[tuple[int, int], int] = {}
    lines: dict[Edge, tuple[int, ...]] = {}
    for source, target in edges:
        last, through = source, []
        for number in range(layer[source] + 1, layer[target]):
            vertex = shared.get((source, number))
            if vertex is None:
                vertex = shared[source, number] = len(layer)
                layer.append(number)
                main.append(main[source])
                above.append([last])
                below.append([])
                below[last].append(vertex)
            through.append(vertex)
            last = vertex
        below[last].append(target)
        above[target].append(last)
        lines[source, target] = tuple(through)
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for vertex, number in enumerate(layer):
        rows[number].append(vertex)
    return Layers(layer, rows, above, below, main, count, lines)


def _straightened(layers: Layers) -> tuple[list[list[int]], list[list[int]]]:
    """The neighbours that a vertex may stand in line with: constants beside a chain do not count,
    or they would draw it to their side at every step."""
    main = layers.main
    above = [[v for v in ends if main[v]] or ends for ends in layers.above]
    below: list[list[int]] = [[] for _ in above]
    for vertex, ends in enumerate(above):
        for end in ends:
            below[end].append(vertex)
    return above, below


def _drawing(
    sizes: Sequence[tuple[int, int]], layers: Layers, middles: Sequence[int], far: Sequence[Edge]
) -> Drawing:
    heights = [
        max((sizes[v][1] for v in row if v < layers.nodes), default=0) for row in layers.rows
    ]
    tops, y = [], 0
    for height in heights:
        tops.append(y)
        y += height + LAYER_GAP
    layer = layers.layer
    corners = []
    for node, (width, height) in enumerate(sizes):
        number = layer[node]
        top = tops[number] + (heights[number] - height) // 2
        corners.append((middles[node] - width // 2, top))
    routes = []
    for edge, through in layers.lines.items():
        source, target = edge
        points = [(middles[source], corners[source][1] + sizes[source][1])]
        for vertex in through:
            top = tops[layer[vertex]]
            points += [(middles[vertex], top), (middles[vertex], top + heights[layer[vertex]])]
        points.append((middles[target], corners[target][1]))
        routes.append((edge, _without_straights(points)))
    right = max(
        [x + w for (x, _), (w, _) in zip(corners, sizes, strict=True)]
        + [x + _LINE // 2 for x in middles]
    )
    return Drawing(tuple(corners), tuple(routes), tuple(far), right, y - LAYER_GAP)


def _without_straights(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points in the middle of a vertical line say nothing."""
    kept = [points[0]]
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if not before[0] == point[0] == after[0]:
            kept.append(point)
    return (*kept, points[-1])
