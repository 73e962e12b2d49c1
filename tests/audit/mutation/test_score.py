"""The mutation score: what kills a mutant, survivors that are explained, the command."""

from __future__ import annotations

import json

import pytest

from rewrite.cli import main

MANIFEST = "name: acme\ndoc: A pack.\nopset: [14, 26]\n"
# A guard that no test shows, one that tests show, and a number that only numbers show.
RULE = '''
rule scaled in fold {
  """c x / d is (c / d) x."""
  match y = (x: f32) * (c: const) / (d: const)
  where size(c) == 1, size(d) == 1
  emit  y = x * (c / d)
  claim equal(rtol=1e-5)
  example fires plain """
    g (float[2,3] x) => (float[2,3] y) <float c = {6}, float d = {2}>
    { m = Mul(x, c)  y = Div(m, d) }
  """
  example rejects several """
    g (float[2,3] x) => (float[2,3] y) <float[3] c = {6,5,4}, float d = {2}>
    { m = Mul(x, c)  y = Div(m, d) }
  """
}
'''


@pytest.fixture
def pack(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "acme"
    folder.mkdir()
    (folder / "pack.yaml").write_text(MANIFEST)
    (folder / "a.rules").write_text(RULE)
    return folder


def scored(capsys, *arguments):
    status = main(["coverage", "acme", "--mutate", "-j", "1", "--json", "-", *arguments])
    (report,) = json.loads(capsys.readouterr().out)
    return status, report, {row["mutant"] for row in report["survivors"]}


def test_what_kills_and_what_survives(pack, capsys):
    status, report, survivors = scored(capsys)
    assert status == 1
    # `several` says that c is one number; nothing says it of d, and nothing that m is used once.
    assert "drop condition: size(c) == 1" not in survivors
    assert "drop condition: size(d) == 1" in survivors
    assert "share inner value: (x: f32) * (c: const)" in survivors
    # 6 / 2 and 2 / 6, 6 * 2: the numbers differ
    assert not survivors & {"swap operands: c / d", "other sign: c / d"}
    assert report["killed"] + len(survivors) == report["mutants"]
    assert report["by"]["numbers"] >= 2


def test_explained_survivors(pack, capsys):
    _, _, survivors = scored(capsys)
    rows = [
        f"- {{rule: scaled, mutant: {json.dumps(key)}, because: a reason}}\n" for key in survivors
    ]
    (pack / "survivors.yaml").write_text("".join(rows))
    status, report, _ = scored(capsys)
    assert status == 0
    assert {row["because"] for row in report["survivors"]} == {"a reason"}
    assert report["stale"] == []


def test_several_at_once_and_a_stale_one(pack, capsys):
    text = "- {rule: scaled, mutant: 'share*', because: sharing changes no number}\n"
    text += "- {rule: scaled, mutant: 'off by one: 3', because: it is none any more}\n"
    (pack / "survivors.yaml").write_text(text)
    status, report, _ = scored(capsys)
    assert status == 1
    because = {row["mutant"]: row["because"] for row in report["survivors"]}
    assert because["share inner value: (x: f32) * (c: const)"] == "sharing changes no number"
    assert report["stale"] == ["no mutant `off by one: 3` of `scaled` survives"]


def test_a_test_that_the_rule_fails_kills_nothing(pack, capsys):
    text = RULE.replace("c = {6,5,4}, float d", "c = {6}, float d", 1).replace(
        "float[3] c", "float c"
    )
    (pack / "a.rules").write_text(text)  # `several` must not fire, and does
    _, _, survivors = scored(capsys)
    assert "drop condition: size(c) == 1" in survivors


def test_the_text(pack, capsys):
    assert main(["coverage", "acme", "--mutate", "--fail-under", "99"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("acme: ")
    assert any(": scaled: drop condition: size(d) == 1" in line for line in lines)
    assert "mutants are killed" in lines[-1]


@pytest.mark.parametrize(
    "text",
    [
        "rule: scaled\n",
        "- scaled\n",
        "- {rule: scaled, mutant: x}\n",
        "- {rule: scaled, mutant: x, because: ''}\n",
        "- {rule: scaled, mutant: [x], because: y}\n",
        "- {rule: scaled, mutant: x, because: y, extra: z}\n",
    ],
)
def test_explanations_that_are_none(pack, capsys, text):
    (pack / "survivors.yaml").write_text(text)
    assert main(["coverage", "acme", "--mutate"]) == 2
    assert "acme/survivors.yaml:1:" in (told := capsys.readouterr().err)
    assert "error[RW725]" in told


PATTERN = '''
pattern halved(x) = x / 2

rule half in fold {
  """x / 2 is x / 2."""
  match y = halved(x: f32)
  emit  y = x * 0.5
  claim exact
  example fires plain """
    g (float[2] x) => (float[2] y) <float c = {2}> { y = Div(x, c) }
  """
  example rejects third """
    g (float[2] x) => (float[2] y) <float c = {3}> { y = Div(x, c) }
  """
}
'''
USER = '''
rule half_of_negated in fold {
  """-x / 2 is x * -0.5."""
  match y = halved(-x)
  where dtype(x) == f32
  emit  y = x * -0.5
  claim exact
  example fires plain """
    g (float[2] x) => (float[2] y) <float c = {2}> { n = Neg(x)  y = Div(n, c) }
  """
  example rejects double """
    g (double[2] x) => (double[2] y) <double c = {2}> { n = Neg(x)  y = Div(n, c) }
  """
}
'''


def test_patterns_of_an_extended_pack_count_there(pack, capsys):
    (pack / "a.rules").write_text(USER)
    (pack / "pack.yaml").write_text(MANIFEST + "extends: [base]\n")
    base = pack.parent / "base"
    base.mkdir()
    (base / "pack.yaml").write_text(MANIFEST.replace("acme", "base"))
    (base / "a.rules").write_text(PATTERN)
    _, _, survivors = scored(capsys)
    # No example of `half_of_negated` divides by another number; one of `half` does.
    assert "share inner value: -x" in survivors
    assert "widen literal: 2" not in survivors


def test_explanations_that_cannot_be_read(pack, capsys):
    path = pack / "survivors.yaml"
    makes = {
        "it is not a file": path.mkdir,
        "the file leads out of the pack's folder": lambda: path.symlink_to("/dev/zero"),
        "not UTF-8 text": lambda: path.write_bytes(b"- \xff\n"),
    }
    for words, make in makes.items():
        make()
        assert main(["coverage", "acme", "--mutate"]) == 2
        assert f"error[RW709]: {words}" in capsys.readouterr().err
        path.rmdir() if path.is_dir() else path.unlink()
