"""Findings as SARIF 2.1.0 (OASIS standard), for code hosts and editors.

In: reports, the folder that places are relative to. Out: the log as a JSON value. Columns count
UTF-16 units, as the standard has them by default; ours count characters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from rewrite.audit.lint.finding import Finding
from rewrite.audit.lint.registry import Check
from rewrite.audit.lint.run import PackReport
from rewrite.errors import Span
from rewrite.lang.text import position

Json = dict[str, object]

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def log(reports: Sequence[PackReport], checks: Sequence[Check], base: Path, version: str) -> Json:
    """One run. Files below `base` have relative addresses."""
    texts = {file: text for report in reports for file, text in report.texts.items()}
    numbers = {check.code: i for i, check in enumerate(checks)}
    results = [
        _result(finding, numbers[finding.code], texts, base)
        for report in reports
        for finding in report.findings
    ]
    driver: Json = {
        "name": "rewrite lint",
        "version": version,
        "rules": [_rule(check) for check in checks],
    }
    run: Json = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {"ROOT": {"uri": base.as_uri() + "/"}},
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(check: Check) -> Json:
    return {
        "id": check.code,
        "name": "".join(word.title() for word in check.function.__name__.split("_")),
        "shortDescription": {"text": check.title + "."},
        "defaultConfiguration": {"level": check.severity},
    }


def _result(finding: Finding, number: int, texts: Mapping[str, str], base: Path) -> Json:
    message = finding.message if finding.hint is None else f"{finding.message} ({finding.hint})"
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": finding.severity,
        "message": {"text": message},
        "locations": [_location(finding.span, texts, base)],
    }
    if finding.labels:
        result["relatedLocations"] = [
            {"id": i, **_location(label.span, texts, base), "message": {"text": label.text}}
            for i, label in enumerate(finding.labels)
        ]
    if finding.edits:
        result["fixes"] = [_fix(finding, texts, base)]
    return result


def _location(span: Span, texts: Mapping[str, str], base: Path) -> Json:
    place = {"artifactLocation": _artifact(span.file, base), "region": _region(span, texts)}
    return {"physicalLocation": place}


def _artifact(file: str, base: Path) -> Json:
    path = Path(file).resolve()
    if path.is_relative_to(base):
        return {"uri": quote(os.fsencode(path.relative_to(base).as_posix())), "uriBaseId": "ROOT"}
    return {"uri": path.as_uri()}


def _region(span: Span, texts: Mapping[str, str]) -> Json:
    rows = texts.get(span.file, "").split("\n")
    return {
        "startLine": span.line,
        "startColumn": _units(rows, span.line, span.column),
        "endLine": span.end_line,
        "endColumn": _units(rows, span.end_line, span.end_column),
    }


def _units(rows: Sequence[str], line: int, column: int) -> int:
    before = rows[line - 1][: column - 1] if line <= len(rows) else ""
    return column + sum(ord(character) > 0xFFFF for character in before)


def _fix(finding: Finding, texts: Mapping[str, str], base: Path) -> Json:
    changes = []
    for file in dict.fromkeys(edit.span.file for edit in finding.edits):
        replacements = [
            {
                "deletedRegion": _region(_within_file(edit.span, texts[file]), texts),
                "insertedContent": {"text": edit.text},
            }
            for edit in finding.edits
            if edit.span.file == file
        ]
        changes.append({"artifactLocation": _artifact(file, base), "replacements": replacements})
    return {"description": {"text": finding.hint or finding.message}, "artifactChanges": changes}


def _within_file(span: Span, text: str) -> Span:
    """The span, its end at the last place of the file where it would lie behind that."""
    if span.end_line <= text.count("\n") + 1:
        return span
    return Span(span.file, span.line, span.column, *position(text, len(text)))
