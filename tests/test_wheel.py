"""A wheel installed in an empty environment finds the shipped packs and targets."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True
    )


def call(*command: object, cwd: Path) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """An environment with the wheel; its dependencies are those of the running one."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    call(*build, "--directory", folder / "dist", cwd=ROOT)
    (wheel,) = (folder / "dist").glob("onnx_rewrite-*.whl")
    call(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    call(*install, "--no-deps", "--no-index", wheel, cwd=folder)
    # The path of a folder in a .pth file adds its packages, but not what its own .pth files add:
    # an editable install of this checkout stays out.
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv"


def test_the_package_is_the_installed_one(environment, tmp_path):
    code = "import rewrite.resources as r; print(r.folder('rules'), r.folder('targets'))"
    for path in call(environment / "bin" / "python", "-c", code, cwd=tmp_path).split():
        assert Path(path).is_relative_to(environment)


def test_targets_are_listed_from_an_empty_folder(environment, tmp_path):
    listed = call(environment / "bin" / "rewrite", "targets", cwd=tmp_path)
    names = [line.split()[0] for line in listed.splitlines()]
    assert names == sorted(path.stem for path in (ROOT / "targets").glob("*.yaml"))


def test_rules_are_listed_from_an_empty_folder(environment, tmp_path):
    listed = call(environment / "bin" / "rewrite", "rules", cwd=tmp_path)
    packs = [line.split(":")[0] for line in listed.splitlines() if not line.startswith(" ")]
    assert packs == sorted(path.parent.name for path in (ROOT / "rules").glob("*/pack.yaml"))


def test_tests_of_packs_schemas_and_the_grammar_of_editors_are_installed(environment, tmp_path):
    code = "import rewrite.resources as r; print(r.folder('rules'))"
    rules = Path(call(environment / "bin" / "python", "-c", code, cwd=tmp_path).strip())
    for pattern in ("*/*.cases.yaml", "*/survivors.yaml", "schema.json"):
        here = {path.relative_to(ROOT / "rules") for path in (ROOT / "rules").glob(pattern)}
        assert here
        assert here == {path.relative_to(rules) for path in rules.glob(pattern)}
    assert (rules.parent / "docs" / "editors" / "rewrite.tmLanguage.json").is_file()


def test_a_report_is_drawn_from_an_empty_folder(environment, tmp_path):
    """The parts of the page travel inside of the package."""
    code = (
        'import onnx; onnx.save(onnx.parser.parse_model(\'<ir_version: 8, opset_import: ["": 17]> '
        "g (float[2] x) => (float[2] y) { y = Relu(x) }'), 'm.onnx')"
    )
    call(environment / "bin" / "python", "-c", code, cwd=tmp_path)
    options = ["--target", "host", "--dry-run", "--report", "m.html"]
    call(environment / "bin" / "rewrite", "apply", "m.onnx", *options, cwd=tmp_path)
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert "<canvas" in page
    assert "class Painter" in page


def test_messages_name_the_page_that_explains_them(environment, tmp_path):
    """The page of every code is there, and the message of one says where."""
    told = run(environment / "bin" / "rewrite", "rules", "nosuch", cwd=tmp_path)
    assert told.returncode == 2
    (row,) = [line for line in told.stderr.splitlines() if line.startswith("  page: ")]
    page = Path(row.removeprefix("  page: "))
    assert page.is_relative_to(environment)
    assert page.read_text(encoding="utf-8").startswith("# RW004: ")
    installed = {path.name for path in page.parent.glob("*.md")}
    assert installed == {path.name for path in (ROOT / "docs" / "errors").glob("*.md")}
    assert (page.parents[1] / "language.md").is_file()
