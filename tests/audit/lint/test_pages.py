"""The page of each check: its bad example is found, its good one is not, the docs say the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rewrite.audit.lint.pages import example, manifest
from rewrite.audit.lint.registry import Check, checks
from rewrite.audit.lint.run import lint_pack
from rewrite.audit.lint.subject import open_pack
from tests.audit.lint.packs import MANIFEST

ROOT = Path(__file__).resolve().parents[3]


def codes(folder: Path, check: Check, kind: str) -> list[str]:
    text = example(check, kind)
    (folder / "pack.yaml").write_text(manifest(check) or MANIFEST, encoding="utf-8")
    (folder / "page.rules").write_text(text, encoding="utf-8")
    return [finding.code for finding in lint_pack(open_pack(folder), checks()).findings]


@pytest.mark.parametrize("check", checks(), ids=lambda c: c.code)
def test_the_bad_example_is_found(check, tmp_path):
    assert set(codes(tmp_path, check, "bad")) == {check.code}


@pytest.mark.parametrize("check", checks(), ids=lambda c: c.code)
def test_nothing_is_found_in_the_good_example(check, tmp_path):
    assert codes(tmp_path, check, "good") == []


def test_pages_are_up_to_date():
    spec = importlib.util.spec_from_file_location("lint_pages", ROOT / "tools" / "lint_pages.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    expected = tool.expected()
    there = [*tool.FOLDER.glob("RW*.md"), tool.FOLDER / "README.md"]
    assert sorted(there) == sorted(expected)
    for path, text in expected.items():
        assert path.read_text(encoding="utf-8") == text, path


def test_each_code_is_of_one_check():
    found = [check.code for check in checks()]
    assert len(set(found)) == len(found)
    assert all(code.startswith("RW9") for code in found)
