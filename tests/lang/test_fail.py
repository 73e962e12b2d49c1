"""Files that must not compile: exactly the errors that they announce, at these places.

A file under fail/ begins with comments `# error: RW203 at 7:12`, one for each error. A folder
under fail/packs/ is a case of several packs, of which `main` is loaded; its comments may name
another file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rewrite.errors import Diagnostic, RewriteError, Span
from rewrite.lang.pack import load_pack
from rewrite.lang.vocabulary import Vocabulary

HERE = Path(__file__).parent
FILES = sorted((HERE / "fail").glob("*.rules"))
PACKS = sorted(p for p in (HERE / "fail" / "packs").iterdir() if p.is_dir())
DOCS = HERE.parents[1] / "docs" / "errors"
LANG = HERE.parents[1] / "rewrite" / "lang"

# Codes whose cause does not fit into a file here: they are tested where they are made.
ELSEWHERE = {
    "RW111": "test_parser.py: a file of a megabyte",
    "RW120": "test_printer.py: a formatter that loses a comment",
    "RW314": "test_pack.py: a link out of the folder",
    "RW315": "test_pack.py: hundreds of files",
}

Expectations = Callable[[str, str], list[tuple[str, str, int, int]]]


def place(span: Span | None) -> tuple[str, int, int]:
    assert span is not None
    return (span.file, span.line, span.column)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_file(
    path: Path, expected: Expectations, diagnose: Callable[[str, str], list[Diagnostic]]
) -> None:
    text = path.read_text(encoding="utf-8")
    announced = expected(text, path.name)
    found = [(d.code, *place(d.span)) for d in diagnose(text, path.name)]
    assert announced, "the file announces no error"
    assert sorted(found) == sorted(announced)


@pytest.mark.parametrize("case", PACKS, ids=lambda p: p.name)
def test_packs(case: Path, expected: Expectations, vocabulary: Vocabulary) -> None:
    announced = [
        e
        for path in sorted(case.rglob("*.*"))
        for e in expected(path.read_text(), path.relative_to(case).as_posix())
    ]
    with pytest.raises(RewriteError) as caught:
        load_pack(case / "main", vocabulary)
    found = [
        (d.code, Path(file).relative_to(case).as_posix(), line, column)
        for d in caught.value.diagnostics
        for file, line, column in [place(d.span)]
    ]
    assert announced, "no file announces an error"
    assert sorted(found) == sorted(announced)


def raised() -> set[str]:
    found: set[str] = set()
    for path in LANG.rglob("*.py"):
        found.update(re.findall(r'"(RW[123]\d\d)"', path.read_text()))
    return found


def announced_anywhere() -> set[str]:
    paths = [*FILES, *(p for case in PACKS for p in case.rglob("*.*"))]
    return {code for p in paths for code in re.findall(r"# error: (RW\d+)", p.read_text())}


def test_every_code_fails_somewhere() -> None:
    assert raised() - announced_anywhere() == set(ELSEWHERE)


def test_no_file_announces_what_nothing_raises() -> None:
    assert announced_anywhere() - raised() == set()


@pytest.mark.parametrize("code", sorted(raised()))
def test_every_code_has_a_page(code: str) -> None:
    assert (DOCS / f"{code}.md").read_text().startswith(f"# {code}: ")
