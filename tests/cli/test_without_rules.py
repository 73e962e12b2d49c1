"""Packs that have no rules of their own, and packs in which much is wrong, at every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrite.cli import main

RULE = '''rule twice in clean {
  """Once is enough."""
  match y = Relu(Relu(x))
  emit  y = Relu(x)
  claim exact
  example fires plain """g (float[2] x) => (float[2] y) { r = Relu(x)  y = Relu(r) }"""
  example rejects single """g (float[2] x) => (float[2] y) { y = Relu(x) }"""
}
'''
PATTERN = "pattern twice(x) = Relu(Relu(x))\n"


@pytest.fixture
def at(tmp_path, monkeypatch, capsys):
    """Makes packs, and runs commands at them: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    pack("base", rules=RULE)
    pack("refined", "extends: [base]\n")
    pack("disabled", "extends: [base]\ndisable: [twice]\n")
    pack("patterns", rules=PATTERN)
    pack("empty")

    def run(command: str) -> tuple[int, str, str]:
        status = main(command.split())
        return status, *capsys.readouterr()

    return run


def pack(name: str, more: str = "", rules: str = "") -> None:
    folder = Path(name)
    folder.mkdir()
    (folder / "pack.yaml").write_text(f"name: {name}\ndoc: One.\nopset: [13, 18]\n{more}")
    if rules:
        (folder / "a.rules").write_text(rules)


COMMANDS = [
    "test {} -j 1",
    "lint {}",
    "coverage {} -j 1",
    "coverage {} -j 1 --mutate",
    "verify {} -j 1",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pack_with_nothing_in_it(at, command):
    status, out, err = at(command.format("empty"))
    assert (status, out) == (2, "")
    assert "error[RW301]: the pack `empty` has no rules" in err


@pytest.mark.parametrize("name", ["disabled", "patterns"])
@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("test {} -j 1", 1, "error[RW719]: there are no tests"),
        ("coverage {} -j 1", 0, "0 of 0 items are shown (100.0 %)"),
        ("coverage {} -j 1 --fail-under 100", 0, "{}: no rules of its own"),
        ("coverage {} -j 1 --suggest", 0, "0 cases show 0 more items"),
        ("coverage {} -j 1 --mutate", 0, "0 of 0 mutants are killed"),
        ("verify {} -j 1", 1, "error[RW735]: there are no rules to verify"),
        ("verify {} -j 1 --pairs", 1, "error[RW735]: there are no rules to verify"),
    ],
)
def test_a_pack_without_rules(at, name, command, status, said):
    found, out, err = at(command.format(name))
    assert found == status
    assert said.format(name) in out + err


@pytest.mark.parametrize(
    "command",
    ["test", "coverage", "coverage --mutate", "verify", "coverage --suggest --target host"],
)
@pytest.mark.parametrize("name", ["base", "refined", "disabled"])
def test_a_rule_that_is_not_there(at, command, name):
    status, out, err = at(f"{command} --rule thrice {name} -j 1")
    assert (status, out) == (2, "")
    assert "error[RW004]: none of the packs has a rule `thrice`" in err


@pytest.mark.parametrize("command", ["coverage", "coverage --mutate"])
def test_a_rule_that_counts_elsewhere(at, command):
    status, _, err = at(f"{command} --rule twice refined -j 1")
    assert status == 2
    assert "error[RW004]: `twice` is a rule of the pack `base`, and counts there" in err
    assert at("test --rule twice refined -j 1")[0] == 0


@pytest.mark.parametrize("command", [c for c in COMMANDS if "lint" not in c])
def test_packs_that_do_not_load_are_told_together(at, command):
    pack("first", rules=RULE.replace("claim exact", "claim exactly"))
    pack("second", rules=RULE.replace("twice in clean", "twice in never"))
    status, out, err = at(command.format("base first second"))
    assert (status, out) == (2, "")
    assert "first/a.rules:5:" in err
    assert "second/a.rules:1:" in err


BROKEN = RULE.replace("Relu(x)\n  claim", "Rleu(x)\n  claim") + RULE.replace(
    "twice", "thrice"
).replace("  example rejects", "  # example rejects").replace("(Relu(x))", "(Relu(x), z, z)")
CASES = """- rule: twice
  name: a
  before: |
    g (float[2] x) => (float[2] y) { y = Relu(x) }
  rejects: operatr
- rule: twice
  nmae: b
  before: |
    g (float[2] x) => (float[2] y) { y = Relu(x) }
  fired: 0
"""


@pytest.mark.parametrize(
    "command", ["test {} -j 1", "coverage {} -j 1", "coverage {} -j 1 --mutate"]
)
def test_all_that_is_wrong_with_rules_and_cases_is_said_at_once(at, command):
    pack("broken", rules=BROKEN)
    Path("broken/a.cases.yaml").write_text(CASES)
    status, out, err = at(command.format("broken"))
    assert (status, out) == (2, "")
    said = [row for row in err.splitlines() if ": error[" in row]
    places = [row.split(": ")[0].rpartition(":")[0] for row in said]
    assert sorted(places) == sorted(
        [
            "broken/a.rules:4",  # Rleu
            "broken/a.rules:9",  # no example that rejects
            "broken/a.rules:11",  # too many operands
            "broken/a.cases.yaml:5",  # operatr
            "broken/a.cases.yaml:6",  # no name
            "broken/a.cases.yaml:7",  # nmae
            "broken/a.cases.yaml:10",  # 0
        ]
    )


def test_one_name_for_a_case_and_for_an_opset_of_another(at):
    cases = """- rule: twice
  name: a
  opset: [13, 18]
  before: |
    g (float[2] x) => (float[2] y) { y = Relu(x) }
  rejects: operator
- rule: twice
  name: a, opset 18
  before: |
    g (float[2] x) => (float[2] y) { y = Relu(x) }
  rejects: operator
"""
    Path("base/a.cases.yaml").write_text(cases)
    status, _, err = at("test base -j 1")
    assert status == 2
    assert (
        "base/a.cases.yaml:8:9: error[RW712]: two cases of `twice` are called `a, opset 18`" in err
    )
    assert "base/a.cases.yaml:2:9: the first one" in err
