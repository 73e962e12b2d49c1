"""`rewrite lint`: paths, exit status, JSON, SARIF, --fix, --diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rewrite.cli import main
from tests.audit.lint.packs import MANIFEST, rule

BAD = rule("  match y = Add(x, z)\n  emit  y = Abs(Abs(x))\n  claim exact")
WORSE = rule(
    "  match y = Neg(x: f32)  # \N{GRINNING FACE}\n  where dtype(x) == f32, dtype(x) == f32\n"
    "  emit  y = Abs(Abs(x))\n  claim exact"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packs below one folder, where the command is run."""
    for name, text in (("bad", BAD), ("worse", WORSE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pack.yaml").write_text(MANIFEST.replace("page", name))
        (tmp_path / name / f"{name}.rules").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    return main(["lint", "-j", "1", "--select", "RW91,RW921", *arguments])


def test_findings_are_told_with_their_place_and_page(folder, capsys):
    assert run("bad") == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("bad/bad.rules:3:20: warning[RW921]: the operand `z` is bound")
    assert shown[2].strip() == "|                    ^"
    assert shown[-1] == "1 pack: 1 finding, 1 of them for --fix"
    assert any("RW921.md" in line for line in shown)


def test_a_folder_of_packs_and_several_paths(folder, capsys):
    assert run(".") == 1
    assert capsys.readouterr().out.endswith("2 packs: 3 findings, 3 of them for --fix\n")
    assert run("bad", "bad", "worse") == 1
    assert capsys.readouterr().out.endswith("2 packs: 3 findings, 3 of them for --fix\n")


def test_jobs_change_nothing(folder, capsys):
    run(".")
    one = capsys.readouterr().out
    main(["lint", "-j", "2", "--select", "RW91,RW921", "."])
    assert capsys.readouterr().out == one


def test_select_and_ignore(folder, capsys):
    assert main(["lint", ".", "-j", "1", "--select", "RW921", "--ignore", "RW92"]) == 2
    assert "--select and --ignore leave no check" in capsys.readouterr().err
    assert run("worse", "--ignore", "RW911,RW913") == 0
    assert capsys.readouterr().out == "1 pack: nothing found\n"
    assert main(["lint", ".", "--select", "W1"]) == 2


def test_fix_writes_and_diff_shows(folder, capsys):
    before = (folder / "bad" / "bad.rules").read_text()
    assert run("bad", "--diff") == 1
    shown = capsys.readouterr().out
    assert "-  match y = Add(x, z)\n+  match y = Add(x, _)\n" in shown
    assert (folder / "bad" / "bad.rules").read_text() == before
    assert run("bad", "--fix") == 0
    assert (folder / "bad" / "bad.rules").read_text() == before.replace("x, z", "x, _")
    assert run("bad") == 0


def test_a_fix_with_which_the_pack_does_not_load_is_not_made(folder, capsys, monkeypatch):
    before = (folder / "bad" / "bad.rules").read_text()
    broken = {"bad/bad.rules": before.replace("match", "mtach")}
    monkeypatch.setattr("rewrite.audit.lint.fixes.fixed", lambda texts, findings: broken)
    for option in ("--fix", "--diff"):
        assert run("bad", option) == 1
        shown = capsys.readouterr()
        assert "fixed" not in shown.out
        assert "mtach" not in shown.out
        assert "bad is not fixed: it would not load (RW1" in shown.err
        assert (folder / "bad" / "bad.rules").read_text() == before


def test_a_fix_of_a_pack_that_extends_the_one_beside_it(folder):
    manifest = folder / "bad" / "pack.yaml"
    manifest.write_text(manifest.read_text() + "extends: [other]\n")
    (folder / "worse").rename(folder / "other")
    other = folder / "other" / "pack.yaml"
    other.write_text(other.read_text().replace("worse", "other"))
    rules = folder / "other" / "worse.rules"
    rules.write_text(rules.read_text().replace("rule r ", "rule other_r "))
    assert run("bad", "--fix") == 0
    assert "Add(x, _)" in (folder / "bad" / "bad.rules").read_text()


def test_json(folder, capsys):
    assert run("bad", "--json", "-") == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["code"] == "RW921"
    assert (found["file"], found["line"], found["column"]) == ("bad/bad.rules", 3, 20)
    assert (found["pack"], found["subject"], found["fixable"]) == ("bad", "r", True)


def test_fix_and_json_on_stdout(folder, capsys):
    assert run("bad", "--fix", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == {"findings": []}
    assert run("bad", "--diff", "--json", "-") == 2


def test_bad_input(folder, capsys):
    assert run("nowhere") == 2
    assert "RW004" in capsys.readouterr().err
    (folder / "bad" / "bad.rules").write_text("rule r in\n")
    assert run("bad") == 2
    assert "error[RW1" in capsys.readouterr().err


# --- SARIF: what the standard demands of the parts that are written (2.1.0, section 3)


def sarif(*arguments: str) -> dict[str, Any]:
    run(*arguments, "--sarif", "out.sarif")
    log: dict[str, Any] = json.loads(Path("out.sarif").read_text(encoding="utf-8"))
    return log


def test_the_log_has_the_structure_of_the_standard(folder):
    log = sarif(".")
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    (one,) = log["runs"]
    driver = one["tool"]["driver"]
    assert isinstance(driver["name"], str)
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for shown in driver["rules"]:
        assert shown["shortDescription"]["text"].endswith(".")
        assert shown["defaultConfiguration"]["level"] in ("error", "warning")
        assert shown["name"].isidentifier()
    base = one["originalUriBaseIds"]["ROOT"]["uri"]
    assert base.startswith("file://")
    assert base.endswith("/")
    assert len(one["results"]) == 3
    for result in one["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
        for location in (*result["locations"], *result.get("relatedLocations", ())):
            check_location(location["physicalLocation"])
        for fix in result["fixes"]:
            for changed in fix["artifactChanges"]:
                assert changed["artifactLocation"]["uri"]
                for replacement in changed["replacements"]:
                    check_region(replacement["deletedRegion"])
                    assert isinstance(replacement["insertedContent"]["text"], str)


def check_location(place: dict[str, Any]) -> None:
    artifact = place["artifactLocation"]
    assert artifact["uriBaseId"] == "ROOT"
    assert Path(artifact["uri"]).is_file()  # relative to where the command runs
    check_region(place["region"])


def check_region(region: dict[str, int]) -> None:
    assert all(isinstance(value, int) and value >= 1 for value in region.values())
    start = (region["startLine"], region["startColumn"])
    assert start <= (region["endLine"], region["endColumn"])


def test_columns_count_utf16_units(folder):
    text = (folder / "worse" / "worse.rules").read_text(encoding="utf-8")
    moved = text.replace("  where ", "  where  # \N{GRINNING FACE}\n  ").replace(
        '"""x becomes y."""', '"""\N{GRINNING FACE} x becomes y."""'
    )
    moved = moved.replace("# \N{GRINNING FACE}\n  dtype", "dtype")
    (folder / "worse" / "worse.rules").write_text(moved, encoding="utf-8")
    (one,) = sarif("worse")["runs"]
    for result in one["results"]:
        region = result["locations"][0]["physicalLocation"]["region"]
        row = moved.split("\n")[region["startLine"] - 1]
        units = row.encode("utf-16-le")[2 * (region["startColumn"] - 1) :].decode("utf-16-le")
        assert units.startswith("dtype(x) == f32")
