"""What is told of tests: lines for a terminal, JSON, JUnit's XML.

In: packs' names and `Outcome`s. Out: text and plain dictionaries.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewrite.audit.cases.case import Outcome
from rewrite.errors import render, visible
from rewrite.told import source_of

REFINED = "the pack's own conditions exclude this model"


@dataclass(frozen=True, slots=True)
class Ran:
    """An outcome, and the pack that the test was run in."""

    pack: str
    outcome: Outcome


def rows(outcome: Outcome) -> Iterator[str]:
    """Why a test does not hold: the diagnostic with its line of text, then what belongs to it."""
    if outcome.finding is None:
        return
    yield from render(outcome.finding.problem, source_of(outcome.finding.problem)).splitlines()
    yield from (f"    {visible(row)}" for row in outcome.finding.details)


def as_json(ran: Sequence[Ran], targets: Sequence[str], left: int) -> dict[str, Any]:
    """`--json`. `left`: tests that were not selected."""
    return {
        "targets": list(targets),
        "counts": {
            "tests": len(ran),
            "failed": sum(one.outcome.finding is not None for one in ran),
            "refined": sum(one.outcome.refined for one in ran),
            "not_selected": left,
        },
        "seconds": round(sum(one.outcome.seconds for one in ran), 3),
        "tests": [_one(one) for one in ran],
    }


def _one(ran: Ran) -> dict[str, Any]:
    outcome = ran.outcome
    test, finding = outcome.test, outcome.finding
    found: dict[str, Any] = {
        "pack": ran.pack,
        "rule": test.rule,
        "name": test.name,
        "fires": test.fires,
        "file": test.span.file,
        "line": test.span.line,
        "outcome": _word(outcome),
        "runtime": outcome.runtime,
        "seconds": round(outcome.seconds, 4),
    }
    if finding is not None:
        problem = finding.problem
        found |= {"code": problem.code, "message": problem.message, "hint": problem.hint}
        if problem.span is not None:
            place = problem.span
            found["at"] = {"file": place.file, "line": place.line, "column": place.column}
        found["details"] = list(finding.details)
    return found


def _word(outcome: Outcome) -> str:
    if outcome.finding is not None:
        return "failed"
    return "refined" if outcome.refined else "held"


def as_junit(ran: Sequence[Ran]) -> str:
    """A suite of tests for each pack, as JUnit writes it and machines read it."""
    root = ElementTree.Element("testsuites", name="rewrite")
    for pack in dict.fromkeys(one.pack for one in ran):
        own = [one.outcome for one in ran if one.pack == pack]
        suite = ElementTree.SubElement(root, "testsuite", name=pack)
        suite.set("tests", str(len(own)))
        suite.set("failures", str(sum(o.finding is not None for o in own)))
        suite.set("errors", "0")
        suite.set("skipped", str(sum(o.refined for o in own)))
        suite.set("time", f"{sum(o.seconds for o in own):.3f}")
        for outcome in own:
            _case(suite, pack, outcome)
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return head + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, pack: str, outcome: Outcome) -> None:
    test = outcome.test
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"{pack}.{test.rule}",
        name=visible(test.name),
        file=visible(test.span.file),
        line=str(test.span.line),
        time=f"{outcome.seconds:.3f}",
    )
    if outcome.finding is not None:
        problem = outcome.finding.problem
        failure = ElementTree.SubElement(case, "failure", type=problem.code)
        failure.set("message", visible(problem.message))
        failure.text = "\n".join(visible(row) for row in rows(outcome))
    elif outcome.refined:
        ElementTree.SubElement(case, "skipped", message=REFINED)
