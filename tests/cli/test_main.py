"""The frame around the commands: usage, exit status, what goes to which stream, start-up time."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rewrite.cli import main
from rewrite.cli.commands import targets
from rewrite.errors import Diagnostic, RewriteError, Span, error

REWRITE = [sys.executable, "-m", "rewrite"]
PAGES = Path(__file__).resolve().parents[2] / "docs" / "errors"


def test_help_starts_fast():
    """0.3 s are promised. Counted is processor time, which a busy machine does not stretch as far
    as the clock; tests/bench/speed.py looks at the clock."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*REWRITE, "--help"], capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0
        assert "apply" in done.stdout
    assert min(spent) < 0.3


def test_help_imports_no_heavy_library():
    code = "import sys, rewrite.cli as c; c._parser(); print([m for m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(eval(done.stdout))
    assert not loaded & {"numpy", "onnx", "onnx_ir", "lark", "yaml", "rich", "llvmlite"}


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("rewrite 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        ["apply"],
        ["apply", "m.onnx"],
        ["apply", "m.onnx", "--target", "generic", "--max-class", "precise"],
        ["apply", "m.onnx", "--target", "generic", "--verify", "0"],
        ["apply", "m.onnx", "--target", "generic", "--verify", "x"],
        ["aply"],
        ["fmt"],
        ["targets", "a", "b"],
    ],
)
def test_wrong_usage_is_one_message_and_status_2(arguments, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, second, third = err.splitlines()
    assert first.startswith("error[RW002]: ")
    assert second.startswith("  hint: rewrite")
    assert second.endswith("--help")
    assert third.startswith("  page: ")


def test_an_argument_too_many_points_to_the_help_of_its_command(capsys):
    assert main(["new", "target", "chip", "--packs", "a", "b"]) == 2
    first, second, _ = capsys.readouterr().err.splitlines()
    assert first == "error[RW002]: unrecognized arguments: b"
    assert second == "  hint: rewrite new --help"


def test_no_command_prints_help(capsys):
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_errors_show_the_line_they_are_about(tmp_path, monkeypatch, capsys):
    file = tmp_path / "a.yaml"
    file.write_text("one\ntwo words\n")

    def run(_):
        raise error("RW406", "no good", Span(str(file), 2, 5, 2, 10), hint="try another")

    monkeypatch.setattr(targets, "run", run)
    monkeypatch.chdir(tmp_path)
    assert main(["targets"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{file}:2:5: error[RW406]: no good",
        "    2 | two words",
        "      |     ^^^^^",
        "  hint: try another",
        f"  page: {PAGES / 'RW406.md'}",
    ]


def test_each_page_is_named_once_where_it_is(tmp_path, monkeypatch, capsys):
    def run(_):
        file = str(tmp_path / "a.yaml")
        codes = ("RW405", "RW406", "RW405", "RW499")
        spans = (Span(file, line, 1, line, 2) for line in range(1, 5))
        raise RewriteError(tuple(map(Diagnostic, codes, "abcd", spans)))

    monkeypatch.setattr(targets, "run", run)
    monkeypatch.chdir(PAGES.parent)
    assert main(["targets"]) == 2
    place = tmp_path / "a.yaml"
    assert capsys.readouterr().err.splitlines() == [
        f"{place}:1:1: error[RW405]: a",
        f"{place}:2:1: error[RW406]: b",
        "  page: errors/RW406.md",
        f"{place}:3:1: error[RW405]: c",
        "  page: errors/RW405.md",
        f"{place}:4:1: error[RW499]: d",  # no page is there
    ]


def test_many_problems_without_a_place_are_one_message(monkeypatch, capsys):
    def run(_):
        faults = (Diagnostic("RW507", f"'{n}' twice", subject="m.onnx") for n in "abc")
        raise RewriteError(tuple(faults))

    monkeypatch.setattr(targets, "run", run)
    assert main(["targets"]) == 2
    first, page = capsys.readouterr().err.splitlines()
    assert first == "m.onnx: error[RW507]: 'a' twice (and 2 more)"
    assert page.endswith("RW507.md")


def test_a_fault_is_one_line_and_no_traceback(monkeypatch, capsys):
    def run(_):
        return {}["missing"]

    monkeypatch.setattr(targets, "run", run)
    monkeypatch.delenv("REWRITE_DEBUG", raising=False)
    assert main(["targets"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error[RW009]: unexpected KeyError: 'missing'")
    assert "Traceback" not in out + err


def test_a_fault_can_be_debugged(monkeypatch):
    monkeypatch.setattr(targets, "run", lambda _: {}["missing"])
    monkeypatch.setenv("REWRITE_DEBUG", "1")
    with pytest.raises(KeyError):
        main(["targets"])


def test_an_interrupt_is_no_traceback(monkeypatch, capsys):
    def run(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(targets, "run", run)
    assert main(["targets"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_reader_that_goes_away(tmp_path):
    """stdout is closed before anything is written."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*REWRITE, "targets"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def test_a_terminal_that_cannot_show_every_sign(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "doc: Größe × 2.\npacks: []\nopset: [7, 18]\ngroups: false\noperators: all\n", "utf-8"
    )
    done = subprocess.run(
        [*REWRITE, "targets", "mine.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mine: Gr??e ? 2.")


def test_the_schema_of_the_wheel_is_json():
    from rewrite import resources

    assert json.loads((resources.folder("targets") / "schema.json").read_text())["title"]
