"""The parts of the page that lead from rules and kernels to nodes.

In: rules, applications, near misses, the partition, pictures. Out: `Markup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from rewrite.audit.explain.reasons import REASONS
from rewrite.report import words
from rewrite.report.markup import Content, Markup, element, joined, table, text_block, with_code
from rewrite.report.nearby import MOST_ANCHORS, MOST_RULES, Nearby
from rewrite.report.partition import Kernel, Partition
from rewrite.report.picture import Picture
from rewrite.report.provenance import Provenance
from rewrite.report.rules import Told
from rewrite.report.sections import cells_button, names, rule_link, section
from rewrite.report.text import MOST_NAME, shown
from rewrite.report.words import counted

_FIRED = "Each rule with its promise. A name shows the rule's text and where it was applied."
_NEAR = (
    "Rules that do not apply in the rewritten model, but would at some node if one thing were "
    f"different. Each rule is asked at {MOST_ANCHORS} nodes at most; of each phase the "
    f"{MOST_RULES} rules are shown that match the largest part of a pattern."
)
_PARTITION = (
    "What the target runs, and what is left for another device. A kernel is what runs as one: an "
    "operator, or a fused group; constants do not count."
)
_STRETCHES = "Kernels of the main graph in order: where the target stops and starts again."
_UNSUPPORTED = "Nodes outside of groups that the target does not take as they are."
_TEXTS = "The rules named on this page, as they stand in their files."
_NODES = "All nodes and what became of them."
_MOST_STRETCHES = 200
_MOST_WOULD = 260  # characters

_FATES = {
    "kept": "unchanged",
    "folded": "computed, its value is a constant now",
    "constant": "an initializer now",
    "gone": "removed: unused, equal to another node, or inlined",
}


def fired(told: Sequence[Told], counts: Mapping[str, int], found: Provenance) -> Markup:
    """The table of rules that were applied."""
    numbers = {rule.name: number for number, rule in enumerate(told)}
    after: dict[str, list[int]] = {}
    for application in found.applications:
        after.setdefault(application.rule, []).extend(application.after)
    rows = []
    for name, count in counts.items():
        rule = told[numbers[name]]
        cells = after.get(name, [])
        nodes = cells_button("after", cells, counted(len(cells), "node")) if cells else ""
        rows.append((count, rule_link(name, numbers), rule.phase, rule.claim, nodes, rule.doc))
    heads = ("Times", "Rule", "Phase", "Claim", "In the result", "What it does")
    made = table(heads, rows, "Rules fired", (0,)) if rows else element("p", "No rule fired.")
    return section("rules", "Rules fired", _FIRED if rows else "", made)


def near_misses(found: Nearby, numbers: Mapping[str, int], cells: Mapping[ir.Node, int]) -> Markup:
    """Per rule the tests that did not hold, each with the nodes where it alone was missing."""
    rows = []
    for one in found.rules:
        for reason in one.reasons:
            places = [cells[node] for node in reason.nodes if node in cells]
            code = element("code", reason.code, title=REASONS.get(reason.code))
            button = cells_button("after", places, counted(len(reason.nodes), "node"))
            rows.append(
                (one.rule.phase, rule_link(one.rule.name, numbers), code,
                 with_code(shown(reason.would, _MOST_WOULD)), one.matched, button)
            )  # fmt: skip
    cut = element("p", found.cut, class_="note warn") if found.cut else None
    if not rows:
        return section("near", "Near misses", "", cut)
    heads = ("Phase", "Rule", "Reason", "It would match if", "Nodes matched", "Where")
    return section("near", "Near misses", _NEAR, table(heads, rows, "Near misses", (4,)), cut)


def partition_tables(found: Partition, picture: Picture, target: str) -> Markup:
    """Kernels by kind, and how the target and others take turns."""
    rows = [_kernel(kernel, target) for kernel in found.kernels]
    parts: list[Content] = [table(("Calls", "Kernel", "Runs on", "Where"), rows, "Kernels", (0,))]
    if len(found.stretches) > 1:
        parts.append(element("h3", "Stretches"))
        parts.append(element("p", _STRETCHES, class_="note"))
        lines = []
        for number, stretch in enumerate(found.stretches[:_MOST_STRETCHES]):
            first = picture.cells[stretch.cells[0]]
            runs_on = target if stretch.on_target else "elsewhere"
            button = cells_button("after", stretch.cells, counted(len(stretch.cells), "kernel"))
            lines.append((number + 1, runs_on, button, names([first.key[1]])))
        parts.append(table(("Number", "Runs on", "Kernels", "From"), lines, "Stretches", (0,)))
        more = len(found.stretches) - _MOST_STRETCHES
        if more > 0:
            parts.append(element("p", f"And {more} more.", class_="note"))
    return section("partition", "Partition", _PARTITION, *parts) if rows else Markup("")


def _kernel(kernel: Kernel, target: str) -> tuple[Content, ...]:
    what = element("span", shown(kernel.what), class_="mono")
    by = element("span", f" by {kernel.rule}", class_="note") if kernel.rule else None
    fused = f"{target}, fused" if kernel.kind == "group" else target
    runs_on = "elsewhere" if kernel.kind == "elsewhere" else fused
    count = len(kernel.cells)
    button = cells_button("after", kernel.cells, counted(count, "node"))
    return count, joined((what, by)), runs_on, button


def unsupported(report: Mapping[str, Any], found: Partition) -> Markup:
    """Operators that the target does not take, with the reason."""
    cells: dict[tuple[str, str], list[int]] = {}
    for cell, why in found.reasons.items():
        cells.setdefault(why, []).append(cell)
    rows = []
    for (operator, reason), nodes in words.unsupported(report).items():
        places = cells.get((operator, reason), [])
        button = cells_button("after", places, "show") if places else ""
        told = element("code", shown(operator))
        rows.append((len(nodes), told, shown(reason), names(nodes), button))
    heads = ("Nodes", "Operator", "Reason", "Names", "Where")
    made = table(heads, rows, "Unsupported operators", (0,)) if rows else None
    return section("unsupported", "Unsupported", _UNSUPPORTED, made)


def texts(told: Sequence[Told]) -> Markup:
    """The text of every rule that the page names."""
    parts = [
        element(
            "details",
            element(
                "summary",
                element("span", rule.name, class_="mono"),
                element("span", f" {rule.phase}, {rule.claim}, {rule.place}", class_="note"),
            ),
            element("p", rule.doc) if rule.doc else None,
            element("pre", text_block(rule.text)),
            id=f"rule-{number}",
        )
        for number, rule in enumerate(told)
    ]
    return section("texts", "Rule texts", _TEXTS, *parts)


def nodes(before: Picture, after: Picture, found: Provenance) -> Markup:
    """Every node as a row, for readers without the script."""
    rows: list[tuple[Content, ...]] = []
    for number, cell in enumerate(before.cells):
        if cell.node is None:
            continue
        fate: str = found.fates[number]
        taken = found.taken_by.get(number)
        told = _FATES.get(fate, "")
        if fate == "rewritten" and taken is not None:
            told = f"rewritten by {found.applications[taken].rule}"
        rows.append(("before", *_row(cell.title, cell.key[1]), told))
    for number, made in found.made_by.items():
        cell = after.cells[number]
        told = f"made by {found.applications[made].rule}"
        rows.append(("after", *_row(cell.title, cell.key[1]), told))
    heads = ("Model", "Operator", "Node", "What became of it")
    return element("noscript", section("nodes", "Nodes", _NODES, _plain(heads, rows)))


def _row(title: str, name: str) -> tuple[str, str]:
    return title, shown(name, MOST_NAME)


def _plain(heads: Sequence[str], rows: Iterable[Sequence[Content]]) -> Markup:
    """A table of few characters: there may be thousands of rows."""
    head = element("tr", *(element("th", head) for head in heads))
    body = "".join(
        "<tr>" + "".join(f"<td>{joined((cell,))}" for cell in row) + "\n" for row in rows
    )
    return element("table", head, Markup(body))
