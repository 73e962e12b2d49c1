"""Files that compile: no diagnostics, and the same tree after printing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rewrite.errors import Diagnostic
from rewrite.lang.parser import parse
from rewrite.lang.printer import format_text, print_file

FILES = sorted((Path(__file__).parent / "pass").glob("*.rules"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_compiles(path: Path, diagnose: Callable[[str, str], list[Diagnostic]]) -> None:
    assert diagnose(path.read_text(), path.name) == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_prints_to_the_same_tree(path: Path) -> None:
    tree = parse(path.read_text(), path.name)
    assert parse(print_file(tree), path.name) == tree


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_is_formatted(path: Path) -> None:
    text = path.read_text()
    assert format_text(text, path.name) == text
