"""Where something cannot be written in the end is said at the beginning, before packs are read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rewrite.cli import main
from rewrite.cli.console import check_folder, check_places
from rewrite.errors import RewriteError

# The packs are none: this would be said first, were it looked at first.
COMMANDS = [
    "test none --json no/a",
    "test none --junit no/a",
    "coverage none --json no/a",
    "coverage none --html no/a.html",
    "coverage none --html file/a",
    "coverage none --suggest no/a.cases.yaml",
    "coverage none --mutate --json no/a",
    "coverage none --models . --json no/a",
    "lint none --json no/a",
    "lint none --sarif no/a",
    "verify none --json no/a",
    "verify none --out file/a",
    "verify none --out file",
    "verify none --pairs --json no/a",
    "explain none --target generic --node y --json no/a",
    "diff none none --json no/a",
    "run none -o no/a",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_said_first(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{command.split()[-1]}: error[RW003]: cannot write: ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def reason(check, path) -> str | None:
    try:
        check(path)
    except RewriteError as problem:
        return str(problem.diagnostics[0].message).removeprefix("cannot write: ")
    return None


def test_what_the_system_would_say(tmp_path):
    """As open() says it."""
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "link").symlink_to("new")
    cases = {
        "": errno.EISDIR,
        "file/a": errno.ENOTDIR,
        "no/a": errno.ENOENT,
        "circle": errno.ELOOP,
    }
    for name, number in cases.items():
        assert reason(check_places, tmp_path / name) == os.strerror(number)
        with pytest.raises(OSError, match=os.strerror(number)):
            (tmp_path / name).open("w")
    for name in ("file", "new", "link"):
        assert reason(check_places, tmp_path / name) is None
    assert reason(check_places, "-") is None
    assert reason(check_places, None) is None
    assert reason(check_places, "/dev/null") is None


def test_folders(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to("no")
    assert reason(check_folder, tmp_path) is None
    assert reason(check_folder, tmp_path / "a" / "b") is None
    assert reason(check_folder, tmp_path / "file") == os.strerror(errno.ENOTDIR)
    assert reason(check_folder, tmp_path / "file" / "a") == os.strerror(errno.ENOTDIR)
    assert reason(check_folder, tmp_path / "nowhere") == os.strerror(errno.ENOTDIR)
