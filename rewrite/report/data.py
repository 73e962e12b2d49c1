"""The pictures and what belongs to them as compact data for the page's script.

In: pictures, provenance, rules, what is not on the target. Out: a dictionary for JSON: columns of
numbers; texts are numbers of `strings`, where each is once. The script's names are those here
(templates/model.js).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewrite.graph.nodes import PROVENANCE
from rewrite.graph.outline import OUTLINED
from rewrite.report.picture import BOXES, Cell, Picture
from rewrite.report.provenance import Application, Provenance
from rewrite.report.rules import Told
from rewrite.report.text import MOST_NAME, attribute_text, shown

KINDS = ("operator", "constant", "input", "output", *BOXES)
FATES = ("", "kept", "rewritten", "folded", "constant", "gone", "made", "moved")

Columns = dict[str, Any]
_NOTES = "rewrite."  # how the keys of our metadata begin


class Strings:
    """Texts by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def all(self) -> list[int | str]:
        """Each as the number of characters that it begins with as the one before does, and the
        rest: names in models are long, and those of neighbours alike."""
        coded: list[int | str] = []
        last = ""
        for text in self.numbers:
            same = _common(last, text)
            coded += [same, text[same:]]
            last = text
        return coded


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike, up to the first of two UTF-16 units, which
    the script would count twice."""
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b or ord(a) > 0xFFFF:
            return number
    return min(len(one), len(other))


def data(
    before: Picture,
    after: Picture,
    provenance: Provenance,
    rules: Sequence[Told],
    elsewhere: Mapping[int, str],
) -> dict[str, Any]:
    """All that the script needs. `elsewhere`: cells after that the target does not run, and why."""
    strings = Strings()
    strings("")
    number = {rule.name: index for index, rule in enumerate(rules)}
    old, new = _graph(before, strings), _graph(after, strings)
    cells = range(len(before.cells))
    old["fate"] = [FATES.index(provenance.fates.get(cell, "")) for cell in cells]
    old["by"] = [provenance.taken_by.get(cell, -1) for cell in cells]
    cells = range(len(after.cells))
    new["fate"] = [FATES.index(provenance.sources.get(cell, "")) for cell in cells]
    new["by"] = [provenance.made_by.get(cell, -1) for cell in cells]
    new["origin"] = [list(provenance.origins.get(cell, ())) for cell in cells]
    new["elsewhere"] = {cell: strings(shown(why)) for cell, why in elsewhere.items()}
    applications = [
        [number.get(a.rule, -1), strings(_summary(a)), list(a.before), a.after]
        for a in provenance.applications
    ]
    return {
        "before": old,
        "after": new,
        "applications": applications,
        "rules": [[strings(part) for part in _rule(rule)] for rule in rules],
        "kinds": KINDS,
        "boxes": BOXES,
        "fates": FATES,
        "strings": strings.all(),
    }


def _rule(rule: Told) -> tuple[str, ...]:
    return rule.name, rule.phase, rule.claim, rule.doc, rule.place


def _summary(application: Application) -> str:
    """`Conv, BatchNormalization → Conv`."""
    added = ", ".join(application.added) or "no node"
    return shown(f"{', '.join(application.removed)} → {added}")


def _graph(picture: Picture, strings: Strings) -> Columns:
    cells, values = picture.cells, picture.values
    return {
        "size": picture.size,
        "leftOut": picture.left_out,
        "kind": [KINDS.index(cell.kind) for cell in cells],
        "title": [strings(cell.title) for cell in cells],
        "note": [strings(cell.note) for cell in cells],
        "name": [strings(shown(cell.key[1], MOST_NAME)) for cell in cells],
        "graph": [strings(shown(cell.key[0], MOST_NAME)) for cell in cells],
        "operator": [strings(_operator(cell)) for cell in cells],
        "label": [strings(_label(cell)) for cell in cells],
        "attributes": [[strings(text) for text in _attributes(cell)] for cell in cells],
        "parent": [cell.parent for cell in cells],
        "x": [cell.corner[0] for cell in cells],
        "y": [cell.corner[1] for cell in cells],
        "w": [cell.size[0] for cell in cells],
        "h": [cell.size[1] for cell in cells],
        "inputs": [cell.inputs for cell in cells],
        "outputs": [cell.outputs for cell in cells],
        "valueName": [strings(value.name) for value in values],
        "valueType": [strings(value.type) for value in values],
        "valueConstant": [-1 if v.constant is None else strings(v.constant) for v in values],
        "edges": [
            [route.source, route.target, *(n for point in route.points for n in point)]
            for route in picture.routes
        ],
    }


def _operator(cell: Cell) -> str:
    node = cell.node
    if node is None:
        return ""
    return shown(f"{node.domain}.{node.op_type}" if node.domain else node.op_type, MOST_NAME)


def _label(cell: Cell) -> str:
    """The node's own name, where it has one."""
    return "" if cell.node is None else shown(cell.node.name or "", MOST_NAME)


def _attributes(cell: Cell) -> list[str]:
    """The attributes of a node, and what was noted on it besides the names told elsewhere."""
    node = cell.node
    if node is None or cell.kind == "constant":
        return []
    notes = [
        shown(f"{key}={value}")
        for key, value in sorted(node.metadata_props.items())
        if key.startswith(_NOTES) and key not in (PROVENANCE, OUTLINED)
    ]
    return [*map(attribute_text, node.attributes.values()), *notes]
