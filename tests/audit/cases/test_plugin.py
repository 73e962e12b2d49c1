"""The pytest plugin, in the repository of somebody who writes packs: pytest in a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

PACK = "name: acme\ndoc: A stranger's pack.\nopset: [7, 26]\nexample_opset: 18\n"
RULES = '''
rule relu_relu in clean {
  """Two Relus are one."""
  match y = Relu(Relu(x))
  emit  y = Relu(x)
  claim exact
  example fires plain """g (float[2] x) => (float[2] y) { m = Relu(x) y = Relu(m) }"""
  example rejects one """g (float[2] x) => (float[2] y) { y = Relu(x) }"""
}
rule abs_abs in clean {
  """Two magnitudes are one."""
  match y = Abs(Abs(x))
  emit  y = Abs(x)
  claim exact
  example fires """g (float[2] x) => (float[2] y) { m = Abs(x) y = Abs(m) }"""
  example rejects """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
}
'''
CASES = """\
- rule: relu_relu
  name: three
  before: g (float[2] x) => (float[2] y) { a = Relu(x) b = Relu(a) y = Relu(b) }
  fired: 3
"""
TEST = "def test_of_their_own():\n    import sys\n    assert 'onnx' not in sys.modules\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """A repository with a pack, one that extends it, a wrong one, and files that are no packs."""
    root = tmp_path_factory.mktemp("stranger")
    for name, extends, files in (
        ("acme", "", {"all.rules": RULES, "relu.cases.yaml": CASES}),
        ("child", "extends: [acme]\n", {"more.rules": "refine abs_abs with where rank(x) == 1\n"}),
        ("none", "extends: [acme]\n", {"more.rules": "refine abs_abs with where rank(x) == 5\n"}),
        ("broken", "", {"all.rules": RULES.replace("Relu(x)\n", "Rleu(x)\n", 1)}),
    ):
        (root / "packs" / name).mkdir(parents=True)
        (root / "packs" / name / "pack.yaml").write_text(PACK.replace("acme", name) + extends)
        for file, text in files.items():
            (root / "packs" / name / file).write_text(text)
    (root / "stackstorm").mkdir()
    (root / "stackstorm" / "pack.yaml").write_text("ref: another\nname: another kind of pack\n")
    (root / "test_theirs.py").write_text(TEST)
    return root


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    here = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(
        command, cwd=folder, env=here, text=True, capture_output=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def whole(repository) -> subprocess.CompletedProcess[str]:
    """All packs, in two processes, but for one test."""
    arguments = ("-v", "-n", "2", "--continue-on-collection-errors", "--junit-xml", "out.xml")
    target = ("--rewrite-target", "generic")
    return run(repository, *arguments, *target, "-k", "not one or abs_abs", "packs")


def test_every_test_of_a_pack_is_an_item(whole):
    lines = re.findall(r"^\[gw.*?(PASSED|FAILED|SKIPPED) (packs.*?) *$", whole.stdout, re.MULTILINE)
    found = {name.split(" <- ")[0].removeprefix("packs/"): outcome for outcome, name in lines}
    assert found == {
        "acme/pack.yaml::relu_relu::fires plain": "PASSED",
        "acme/pack.yaml::relu_relu::case three": "FAILED",
        "acme/pack.yaml::abs_abs::fires 1": "PASSED",
        "acme/pack.yaml::abs_abs::rejects 2": "PASSED",
        "child/pack.yaml::abs_abs::fires 1": "PASSED",
        "child/pack.yaml::abs_abs::rejects 2": "PASSED",
        "child/pack.yaml::abs_abs::fires and rejects": "PASSED",
        "none/pack.yaml::abs_abs::fires 1": "SKIPPED",
        "none/pack.yaml::abs_abs::rejects 2": "PASSED",
        "none/pack.yaml::abs_abs::fires and rejects": "FAILED",
    }
    assert whole.returncode == 1


def test_what_does_not_hold_is_told_without_a_traceback(whole):
    assert "relu.cases.yaml:4:10: error[RW716]: `relu_relu` fires 2 times, not 3" in whole.stdout
    assert "error[RW718]: the rule `abs_abs` has no test that fires: the cond" in whole.stdout
    assert "Traceback" not in whole.stdout
    assert "rewrite/audit" not in whole.stdout


def test_a_pack_that_does_not_load_is_an_error(whole):
    assert "ERROR packs/broken/pack.yaml" in whole.stdout
    assert "packs/broken/all.rules:5:13: error[RW203]" in whole.stdout


def test_junit(whole, repository):
    (suite,) = ElementTree.parse(repository / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("11", "2", "1")
    cases = {(case.get("classname"), case.get("name")): case for case in suite}
    wrong = cases["packs.acme.pack.yaml.relu_relu", "case three"]
    assert "error[RW716]" in str(wrong[0].text)


def test_one_test_by_its_name(repository):
    name = "packs/acme/pack.yaml::abs_abs::rejects 2"
    done = run(repository, "--rewrite-target", "generic", name)
    assert "1 passed" in done.stdout
    assert done.returncode == 0


def test_an_unknown_target(repository):
    done = run(repository, "packs/acme", "--rewrite-target", "chop")
    assert "error[RW401]: no target is called `chop`" in done.stdout
    assert done.returncode == 2


def test_what_is_no_pack_is_left_alone(repository):
    """Nor is anything loaded for it: their own test sees to that."""
    done = run(repository, "stackstorm", "test_theirs.py")
    assert "1 passed" in done.stdout
