"""Which floats of a model are machine numbers, and not stand-ins for real ones.

In: the nodes of a graph in order, which values are floats. Out: the nodes that compute in float32.

Code that converts integers to float, computes, and converts back (a requantizer: Cast, Mul, Round,
Clip, Cast; or arithmetic on sizes) means float32 arithmetic, with its roundings, which every
runtime does alike. Floats that come from DequantizeLinear, from inputs or from weights, or go on
to QuantizeLinear or an output, stand for real numbers. So: floats connected through nodes form an
island; it is one of machine numbers if everything that leads into it is integers or constants, and
everything that leaves it is integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# What reads or makes floats that stand for real numbers, by its definition.
REAL = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})


@dataclass(frozen=True, slots=True)
class Link:
    """What islands need to know of a node."""

    op: str
    domain: str
    floats_in: tuple[str, ...]  # values computed or given, constants left out
    floats_out: tuple[str, ...]
    known: bool  # whether the element types of all its values are known


def machine_nodes(nodes: Sequence[Link], given: Iterable[str], asked: Iterable[str]) -> set[int]:
    """Positions of nodes that compute on machine floats only."""
    groups = _Groups()
    real = "the real numbers"
    for name in (*given, *asked):
        groups.join(real, name)
    for node in nodes:
        names = (*node.floats_in, *node.floats_out)
        for name in names[1:]:
            groups.join(names[0], name)
        plain = node.domain == "" and node.op not in REAL and node.known
        if names and not plain:
            groups.join(real, names[0])
    own = groups.find(real)
    found = set()
    for k, node in enumerate(nodes):
        names = (*node.floats_in, *node.floats_out)
        if names and groups.find(names[0]) != own:
            found.add(k)
    return found


class _Groups:
    """Disjoint sets of names."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        parent = self.parent
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    def join(self, a: str, b: str) -> None:
        self.parent[self.find(a)] = self.find(b)
