"""Packs of one file, linted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rewrite.audit.lint.finding import Finding
from rewrite.audit.lint.run import lint_pack, wanted
from rewrite.audit.lint.subject import open_pack
from tests.audit.lint.packs import MANIFEST

Lint = Callable[..., tuple[Finding, ...]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str, manifest: str = MANIFEST) -> Path:
        (tmp_path / "pack.yaml").write_text(manifest, encoding="utf-8")
        (tmp_path / "page.rules").write_text(text, encoding="utf-8")
        return tmp_path

    return written


@pytest.fixture
def lint(write: Callable[[str], Path]) -> Lint:
    """The findings of the codes given, all without."""

    def found(text: str, *codes: str, ignore: Sequence[str] = ()) -> tuple[Finding, ...]:
        return lint_pack(open_pack(write(text)), wanted(codes, ignore)).findings

    return found
