"""The report of `apply` as one self-contained page.

In: the dictionary that `--json` writes, and a `Run`: the model before and after, the journal, the
target and its matcher. Out: HTML text that needs no other file and no network. The same run gives
the same text but for the figures of the element `times`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePath
from string import Template
from typing import Any

from rewrite.engine.journal import Journal
from rewrite.graph.model import LoadedModel
from rewrite.match.matcher import Matcher
from rewrite.report import listings, sections
from rewrite.report.data import data
from rewrite.report.markup import Markup, element, joined, json_text, source_hash
from rewrite.report.nearby import Nearby, nearby
from rewrite.report.partition import partition
from rewrite.report.picture import Picture, picture
from rewrite.report.provenance import trace
from rewrite.report.rules import Told, told
from rewrite.report.text import MOST_NAME, shown
from rewrite.schema import Type
from rewrite.target.target import Target

# In the order in which they follow each other in the page's one script.
_SCRIPTS = ("model.js", "canvas.js", "view.js", "panel.js", "search.js", "tables.js", "main.js")


@dataclass(frozen=True)
class Run:
    """What a page shows besides figures. `before` is the model loaded once more."""

    before: LoadedModel
    after: LoadedModel
    journal: Journal
    target: Target
    matcher: Matcher


def page(report: Mapping[str, Any], run: Run) -> str:
    """The whole page."""
    before = picture(run.before.facts)
    members = {group.node: group.members for group in run.journal.groups}
    after = picture(run.after.facts, run.target.domain, members, _types(run.before, before))
    found = trace(before, after, run.journal)
    near = nearby(run.after.facts, run.matcher, run.target)
    parts = partition(after, run.journal.groups, report["unsupported"])
    rules = _rules(report, near, run.matcher)
    numbers = {rule.name: number for number, rule in enumerate(rules)}
    cells = {cell.node: n for n, cell in enumerate(after.cells) if cell.node is not None}
    elsewhere = {cell: " ".join(why) for cell, why in parts.reasons.items()}
    shown_data = data(before, after, found, rules, elsewhere)
    content = [
        listings.fired(rules, report["fired"], found),
        listings.near_misses(near, numbers, cells),
        sections.ledger(report, numbers),
        sections.codes(report),
        listings.partition_tables(parts, after, run.target.name),
        listings.unsupported(report, parts),
        sections.refused(report, numbers),
        sections.run(report),
        listings.texts(rules),
        listings.nodes(before, after, found),
    ]
    return _filled(report, shown_data, content)


def _filled(report: Mapping[str, Any], shown_data: object, content: list[Markup]) -> str:
    style = _template("page.css")
    script = '(() => {\n"use strict";\n' + "\n".join(map(_template, _SCRIPTS)) + "})();\n"
    path, target, output = str(report["model"]), report["target"], report["output"]
    model = shown(PurePath(path).name, MOST_NAME)
    words = {
        "title": f"{model} for {target}",
        "model": model,
        "target": target,
        "output": f"{shown(path)} → {shown(output) if output else 'not written'}",
    }
    values = {name: joined((text,)) for name, text in words.items()}
    values["policy"] = joined(
        (f"default-src 'none'; style-src {source_hash(style)}; script-src {source_hash(script)}",)
    )
    values |= {
        "style": Markup(style),
        "script": Markup(script),
        "data": json_text(shown_data),
        "summary": sections.summary(report),
        "content": joined(content),
        "links": _links(content),
    }
    return Template(_template("page.html")).substitute(values)


def _links(content: list[Markup]) -> Markup:
    """The way to those sections that there are."""
    titles = {
        "rules": "Rules", "near": "Near misses", "ledger": "Ledger",
        "quantization": "Quantization", "partition": "Partition", "unsupported": "Unsupported",
        "refused": "Refused", "run": "Run", "texts": "Rule texts",
    }  # fmt: skip
    whole = joined(content)
    there = [name for name in titles if f'<section id="{name}"' in whole]
    return joined([element("a", titles[name], href=f"#{name}") for name in there])


def _rules(report: Mapping[str, Any], near: Nearby, matcher: Matcher) -> list[Told]:
    """Rules that the page names: those that fired, then those that nearly did."""
    known = {entry.rule.name: entry.rule for entry in matcher.entries}
    wanted = dict.fromkeys([*report["fired"], *(one.rule.name for one in near.rules)])
    return told(known[name] for name in wanted)


def _types(loaded: LoadedModel, before: Picture) -> dict[str, Type]:
    """What was known of values, by name: a name keeps its type."""
    return {
        str(value.name): loaded.facts.type(value)
        for cell in before.cells
        if cell.node is not None
        for value in cell.node.outputs
        if value.name
    }


def _template(name: str) -> str:
    return (resources.files("rewrite.report") / "templates" / name).read_text(encoding="utf-8")
