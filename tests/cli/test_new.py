"""`rewrite new`: what it makes passes the checks, and it overwrites nothing."""

from __future__ import annotations

import pytest

from rewrite.cli import main
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_pack_passes_the_checks(here, capsys):
    assert main(["new", "pack", "acme-2"]) == 0
    assert capsys.readouterr().out.split() == ["acme-2/pack.yaml", "acme-2/example.rules"]
    for command in (["test"], ["lint"], ["fmt", "--check"], ["verify"]):
        assert main([*command, "acme-2"]) == 0, (command, capsys.readouterr())


def test_rules_pass_the_checks_together(here, capsys):
    main(["new", "pack", "acme"])
    for number in range(5):
        assert main(["new", "rule", f"rule_{number}", "--pack", "acme", "--phase", "fuse"]) == 0
    for command in (["test"], ["lint"], ["fmt", "--check"]):
        assert main([*command, "acme"]) == 0, (command, capsys.readouterr())


def test_a_rule_in_the_pack_of_this_folder(here, monkeypatch, capsys):
    main(["new", "pack", "acme"])
    monkeypatch.chdir(here / "acme")
    assert main(["new", "rule", "mine"]) == 0
    assert (here / "acme" / "mine.rules").read_text().startswith("rule mine in clean {")


def test_a_target_loads_and_finds_the_pack_beside_it(here, capsys):
    main(["new", "pack", "acme"])
    assert main(["new", "target", "acme-chip"]) == 0
    target = load_target(here / "acme-chip.yaml", vocabulary())
    assert target.packs == ("algebra", "fusion", str(here / "acme"))
    assert target.has("", "Conv", "f32")
    assert not target.has("", "Erf", "f32")
    assert target.groups


def test_a_target_with_packs_and_a_place(here, capsys):
    (here / "sub").mkdir()
    assert main(["new", "target", "chip", "--in", "sub", "--packs", "algebra, quant-fold"]) == 0
    assert load_target(here / "sub" / "chip.yaml", vocabulary()).packs == ("algebra", "quant-fold")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["pack", "Acme"], "RW750"),
        (["pack", "../acme"], "RW750"),
        (["rule", "a-b"], "RW750"),
        (["target", "a__b"], "RW750"),
        (["target", "a/b"], "RW750"),
        (["rule", "mine"], "RW752"),
        (["rule", "mine", "--pack", "nowhere"], "RW752"),
        (["pack", "acme", "--pack", "x"], "RW002"),
        (["rule", "acme", "--in", "x"], "RW002"),
        (["pack", "acme", "--in", "nowhere"], "RW003"),
    ],
)
def test_bad_questions(here, capsys, arguments, code):
    assert main(["new", *arguments]) == 2
    assert f"error[{code}]" in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_nothing_is_overwritten(here, capsys):
    main(["new", "pack", "acme"])
    main(["new", "rule", "mine", "--pack", "acme"])
    main(["new", "target", "chip"])
    before = {p: p.read_bytes() for p in here.rglob("*") if p.is_file()}
    for arguments in (
        ["pack", "acme"],
        ["rule", "mine", "--pack", "acme"],
        ["rule", "acme_example", "--pack", "acme"],
        ["target", "chip"],
    ):
        assert main(["new", *arguments]) == 2
        assert "error[RW751]" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in here.rglob("*") if p.is_file()} == before


def test_an_inherited_rule_is_not_made_again(here, capsys):
    main(["new", "pack", "acme"])
    manifest = here / "acme" / "pack.yaml"
    manifest.write_text(manifest.read_text().replace("# extends: [algebra]", "extends: [algebra]"))
    assert main(["new", "rule", "conv_batch_norm", "--pack", "acme"]) == 2
    assert "pack `algebra` has a rule `conv_batch_norm` already" in capsys.readouterr().err
