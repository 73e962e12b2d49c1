"""What the tests of the language share: the vocabulary, and expectations written in rule files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rewrite.errors import Diagnostic, RewriteError
from rewrite.lang.check import check
from rewrite.lang.parser import parse
from rewrite.lang.vocabulary import Vocabulary

HERE = Path(__file__).parent
OPSETS = (7, 26)
EXPECTED = re.compile(r"^# error: (RW\d+) at (?:(\S+?):)?(\d+):(\d+)$", re.MULTILINE)

Expectation = tuple[str, str, int, int]  # code, file, line, column


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    from rewrite.match.vocabulary import vocabulary as real

    return real()


@pytest.fixture(scope="session")
def diagnose(vocabulary: Vocabulary) -> Callable[[str, str], list[Diagnostic]]:
    """All that is wrong with one text: syntax errors, or else what the checks find."""

    def run(text: str, file: str) -> list[Diagnostic]:
        try:
            tree = parse(text, file)
        except RewriteError as problem:
            return list(problem.diagnostics)
        return check(tree, vocabulary, OPSETS).found

    return run


@pytest.fixture(scope="session")
def expected() -> Callable[[str, str], list[Expectation]]:
    """The errors that a file says it has, in comments `# error: RW203 at 7:12`."""

    def read(text: str, file: str) -> list[Expectation]:
        return [(m[1], m[2] or file, int(m[3]), int(m[4])) for m in EXPECTED.finditer(text)]

    return read
