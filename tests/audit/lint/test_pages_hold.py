"""The good example of each page keeps its own promises."""

from __future__ import annotations

import pytest

from rewrite.audit.lint.pages import example, manifest
from rewrite.audit.lint.registry import checks
from rewrite.cli import main
from tests.audit.lint.packs import MANIFEST


@pytest.mark.parametrize("check", checks(), ids=lambda c: c.code)
def test_the_good_example_holds(check, tmp_path, capsys):
    (tmp_path / "pack.yaml").write_text(manifest(check) or MANIFEST, encoding="utf-8")
    (tmp_path / "page.rules").write_text(example(check, "good"), encoding="utf-8")
    assert main(["test", str(tmp_path)]) == 0, capsys.readouterr().out
