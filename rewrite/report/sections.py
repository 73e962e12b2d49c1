"""The parts of the page that are text: summary, tables, rule texts.

In: the dictionary that `--json` writes, rules, partition, near misses. Out: `Markup`. All of it is
read without a script; the script adds sorting and the way into the pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rewrite.report import quantized
from rewrite.report.markup import Content, Markup, element, joined, table
from rewrite.report.text import MOST_NAME, shown
from rewrite.report.words import count, counted, stopped, tidied, verdict

Report = Mapping[str, Any]
_MOST_NAMES = 12  # of nodes in a cell of a table
_FEW = 3  # operators in a tile

_LEDGER = (
    "The promises of all steps added up. Errors made inside a model can grow on their way to its "
    "outputs; how much is the conditioning, which --verify measures."
)
_QUANTIZED = (
    "How many steps (LSB) the outputs are away from the original at most, both in real numbers "
    "between codes; and whether sums of 16 bits inside the target's instructions can overflow."
)
_FLOATS = "What still computes with floats between the first codes and the last, and why."
_FAULTS = "Quantizations with bad parameters. No rule touches them."
_REFUSED = "Steps that matched but were not taken, and why; the model is as if they were not tried."


def section(name: str, title: str, note: str, *content: Content) -> Markup:
    """A part of the page with its heading; nothing where there is no content."""
    if not any(content):
        return Markup("")
    told = element("p", note, class_="note") if note else None
    return element("section", element("h2", title, id=f"{name}-title"), told, *content,
                   id=name, aria_labelledby=f"{name}-title")  # fmt: skip


# --- summary -----------------------------------------------------------------------------------


def summary(report: Report) -> Markup:
    """The figures that one looks at first."""
    ledger, stop = report["ledger"], report["stop"]
    done = stop["reason"] == "fixpoint"
    unsupported = len(report["unsupported"])
    fired = sum(report["fired"].values())
    tiles = [
        _sizes("Nodes", report, "nodes"),
        _sizes("Kernels", report, "kernels"),
        _tile("Exactness", ledger["class"], _exactness(report)),
        _tile("Rules", f"{fired}", f"applications of {counted(len(report['fired']), 'rule')}"),
        _tile("Not on the target", f"{unsupported}", _left(report["unsupported"]),
              "warn" if unsupported else ""),
        _tile("Stop", stop["reason"].replace("_", " "), stopped(stop), "" if done else "warn"),
        _times(report["seconds"]),
    ]  # fmt: skip
    if "verified" in report:
        status = report["verified"]["status"]
        kind = "good" if status == "equal" else "bad"
        tiles.append(_tile("Verified", status, verdict(report["verified"]), kind))
    return element("div", *tiles, class_="tiles")


def _tile(title: str, figure: str, told: str, kind: str = "") -> Markup:
    return element(
        "div",
        element("div", title, class_="what"),
        element("div", figure, class_="figure"),
        element("div", shown(told), class_="told"),
        class_=f"tile {kind}".rstrip(),
    )


def _exactness(report: Report) -> str:
    """The sum of all claims; of a quantized model that is bounded, in steps of its outputs."""
    total = str(report["ledger"]["total"])
    if not report.get("lsb_bound") or report.get("lsb_unbounded"):
        return total
    return f"{total}; LSB bound {quantized.bound(report)}"


def _left(records: Sequence[Mapping[str, Any]]) -> str:
    """The operators that the target does not run, the most frequent first."""
    if not records:
        return "every kernel runs there"
    operators = list(count(record["operator"] for record in records))
    more = f" and {len(operators) - _FEW} more" if len(operators) > _FEW else ""
    return f"{', '.join(operators[:_FEW])}{more}"


def _sizes(title: str, report: Report, what: str) -> Markup:
    before, after = report[f"{what}_before"], report[f"{what}_after"]
    share = min(100.0, 100.0 * after / before) if before else 0.0
    change = f"{100.0 * (after - before) / before:+.0f} %" if before else ""
    bar = element(
        "svg",
        element("rect", class_="whole", width="100%", height="100%"),
        element("rect", class_="part", width=f"{share:.1f}%", height="100%"),
        class_="bar", width="100%", height="4", aria_hidden="true",
    )  # fmt: skip
    return element(
        "div",
        element("div", title, class_="what"),
        element("div", f"{before} → {after}", class_="figure"),
        bar,
        element("div", change, class_="told"),
        class_="tile",
    )


def _times(seconds: Mapping[str, float]) -> Markup:
    """The only place of the page that is not the same for the same model."""
    parts = "  ".join(f"{name} {value:.3f}" for name, value in seconds.items() if name != "total")
    return element(
        "div",
        element("div", "Time", class_="what"),
        element("div", f"{seconds.get('total', 0.0):.2f} s", class_="figure"),
        element("div", parts, class_="told"),
        class_="tile",
        id="times",
    )


# --- tables ------------------------------------------------------------------------------------


def ledger(report: Report, rules: Mapping[str, int]) -> Markup:
    """Every promise, and what it stands on."""
    entries = report["ledger"]["entries"]
    rows = [(e["count"], rule_link(e["rule"], rules), e["claim"], e["evidence"]) for e in entries]
    made = table(("Times", "Rule", "Claim", "Evidence"), rows, "Ledger", (0,)) if rows else None
    return section("ledger", f"Ledger: {report['ledger']['total']}", _LEDGER, made)


def codes(report: Report) -> Markup:
    """What is told of quantized models only."""
    told = [("Bound in steps of the outputs", quantized.bound(report))]
    told += [("Saturation", sentence) for sentence in quantized.saturation(report)]
    parts: list[Content] = []
    if kept := [row for row in told if row[1]]:
        parts.append(table(("What", "Value"), kept, "Quantization"))
    for (title, rows), note in zip(quantized.sections(report), (_FLOATS, _FAULTS), strict=True):
        if rows:
            parts += [element("h3", title.capitalize()), element("p", note, class_="note")]
            cells = [(n, shown(what), names(nodes)) for n, what, nodes in rows]
            parts.append(table(("Nodes", "Why", "Names"), cells, title, (0,)))
    return section("quantization", "Quantization", _QUANTIZED, *parts)


def refused(report: Report, rules: Mapping[str, int]) -> Markup:
    """Steps that were rolled back."""
    rows = [
        (rule_link(r["rule"], rules), shown(r["node"], MOST_NAME), shown(r["reason"]))
        for r in report["refused"]
    ]
    made = table(("Rule", "Node", "Reason"), rows, "Refused steps") if rows else None
    return section("refused", "Refused steps", _REFUSED, made)


def run(report: Report) -> Markup:
    """What was done besides rules, and what was noticed."""
    rows = [("Stop", stopped(report["stop"]))]
    rows += [("Tidied", done) for done in tidied(report)]
    rows += [("Rules undo each other", " → ".join(c["rules"])) for c in report["cycles"]]
    rows += [("Note", shown(note)) for note in report["notes"]]
    return section("run", "Run", "", table(("What", "Detail"), rows, "Run"))


# --- pieces ------------------------------------------------------------------------------------


def names(found: Sequence[str]) -> Markup:
    """The first names of a list, and how many more there are."""
    pieces = [element("code", shown(name, MOST_NAME)) for name in found[:_MOST_NAMES]]
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else None
    return joined((Markup(", ".join(pieces)), more))


def rule_link(name: str, rules: Mapping[str, int]) -> Content:
    """A rule's name, which leads to its text."""
    number = rules.get(name)
    if number is None:
        return name
    return element("a", name, href=f"#rule-{number}", data_rule=number, class_="mono")


def cells_button(graph: str, cells: Iterable[int], words: str) -> Markup:
    """A number of nodes that the script shows in a picture; without it, the number alone."""
    listed = ",".join(map(str, cells))
    return element(
        "button", words, type="button", class_="cells", data_graph=graph, data_cells=listed
    )
