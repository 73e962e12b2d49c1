"""Commands that change texts: the form of the file stays, and what others wrote meanwhile, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rewrite import files
from rewrite.cli import main
from rewrite.cli.replace import append, replace
from rewrite.errors import RewriteError

MANIFEST = "name: acme\ndoc: One rule.\nopset: [13, 18]\nexample_opset: 18\n"
RULES = '''# Kept.
rule absolute_of_scaled in clean {
  """|k x| = k |x|, for one k above 0."""
  match y = Abs(x * (k: const f32))
  where size(k) == 1, k > 0, k >= 0
  emit  y = Abs(x) * k
  claim equal(rtol=1e-6)
  example fires plain """
    g (float[2] x) => (float[2] y) <float[1] k = {3}> { a = Mul(x, k)  y = Abs(a) }
  """
  example rejects negative """
    g (float[2] x) => (float[2] y) <float[1] k = {-3}> { a = Mul(x, k)  y = Abs(a) }
  """
}
'''
CASES = """# Kept.
- rule: absolute_of_scaled
  name: zero
  before: |
    g (float[2] x) => (float[2] y) <float[1] k = {0}> { a = Mul(x, k)  y = Abs(a) }
  rejects:
"""


def pack(folder: Path, end: str = "\n", mark: str = "") -> Path:
    folder.mkdir(parents=True)
    texts = {"pack.yaml": MANIFEST, "signs.rules": RULES, "signs.cases.yaml": CASES}
    for name, text in texts.items():
        (folder / name).write_bytes((mark + text.replace("\n", end)).encode())
    return folder


FORMS = pytest.mark.parametrize(
    ("end", "mark"), [("\r\n", ""), ("\n", "\ufeff"), ("\r\n", "\ufeff")]
)


@FORMS
def test_fix_changes_one_line(end, mark, tmp_path, capsys):
    file = pack(tmp_path / "acme", end, mark) / "signs.rules"
    before = file.read_bytes()
    assert main(["lint", str(file.parent), "--fix", "-j", "1"]) == 0, capsys.readouterr()
    assert file.read_bytes() == before.replace(b"k > 0, k >= 0", b"k > 0")


@FORMS
def test_fmt_changes_one_line(end, mark, tmp_path):
    file = pack(tmp_path / "acme", end, mark) / "signs.rules"
    before = file.read_bytes()
    file.write_bytes(before.replace(b"  emit  y", b"  emit y"))
    assert main(["fmt", str(file)]) == 0
    assert file.read_bytes() == before


@FORMS
def test_update_changes_one_line(end, mark, tmp_path, capsys):
    file = pack(tmp_path / "acme", end, mark) / "signs.cases.yaml"
    before = file.read_bytes()
    assert main(["test", str(file.parent), "--update", "-j", "1"]) == 0, capsys.readouterr()
    assert file.read_bytes() == before.replace(b"rejects:", b"rejects: where")


def test_suggest_adds_lines_that_end_as_the_others(tmp_path, capsys):
    folder = pack(tmp_path / "acme", "\r\n")
    file = folder / "signs.cases.yaml"
    assert main(["test", str(folder), "--update", "-j", "1"]) == 0
    before = file.read_bytes()
    assert main(["coverage", str(folder), "--suggest", str(file), "-j", "1"]) == 0
    after = file.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\r\n") == after.count(b"\n") > before.count(b"\n")


@pytest.mark.parametrize(
    ("raw", "after", "wanted"),
    [
        ("a\r\nb\nc\r\n", "a\nx\nc\n", "a\r\nx\r\nc\r\n"),  # new lines end as the first one
        ("a\nb\r\nc\r\n", "a\nb\nx\nc\n", "a\nb\r\nx\nc\r\n"),
        ("a\r\nb", "a\nb\nc", "a\r\nb\r\nc"),
        ("a\r\nb\r\n", "a\n", "a\r\n"),
        ("a\r\n", "", ""),
        ("a\x0bb\r\nc\r\n", "a\x0bb\nd\n", "a\x0bb\r\nd\r\n"),  # no end of a line to anybody else
    ],
)
def test_line_ends_that_differ(raw, after, wanted, tmp_path):
    file = tmp_path / "a"
    file.write_bytes(raw.encode())
    replace(file, raw.replace("\r\n", "\n"), after)
    assert file.read_bytes().decode() == wanted


def test_what_somebody_else_wrote_meanwhile_stays(tmp_path):
    file = tmp_path / "a"
    file.write_text("new\n")
    for change in (replace, append):
        with pytest.raises(RewriteError, match="has changed since it was read"):
            change(file, "old\n", "mine\n")
    with pytest.raises(RewriteError, match="has changed since it was read"):
        append(file, "", "mine\n")  # there was none
    assert file.read_text() == "new\n"


def test_cases_that_change_while_they_are_run(tmp_path, monkeypatch, capsys):
    """Places in the text that was read are no places in the text that stands there now."""
    from rewrite.cli.commands import test as command

    file = pack(tmp_path / "acme") / "signs.cases.yaml"
    run = command._run

    def edited(*arguments):
        found = run(*arguments)
        file.write_text("# Somebody's.\n" + CASES)
        return found

    monkeypatch.setattr(command, "_run", edited)
    assert main(["test", str(file.parent), "--update", "-j", "1"]) == 1
    assert "has changed since it was read" in capsys.readouterr().err
    assert file.read_text() == "# Somebody's.\n" + CASES


def test_packs_of_one_name_are_all_updated(tmp_path):
    folders = [pack(tmp_path / name / "acme") for name in ("one", "two")]
    assert main(["test", *map(str, folders), "--update", "-j", "1"]) == 0
    for folder in folders:
        assert "rejects: where" in (folder / "signs.cases.yaml").read_text()


UNPRIVILEGED = """
import ctypes, os, sys
if os.geteuid() == 0:  # root may write everywhere, unless it gives that up
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, "-m", "rewrite", *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="root gives up its rights as Linux has it")
@pytest.mark.parametrize(
    "command", ["lint P --fix", "test P --update -j 1", "fmt P", "coverage P --suggest P -j 1"]
)
def test_a_file_that_may_not_be_written_is_not_replaced(command, tmp_path):
    """The folder may be written, so that a file of the same name could take its place."""
    folder = pack(tmp_path / "acme")
    rules = folder / "signs.rules"
    if command.startswith("fmt"):
        rules.write_text(RULES.replace("emit  y", "emit y"))
    if "--suggest" in command:
        cases = folder / "signs.cases.yaml"
        cases.write_text(CASES.replace("rejects:", "rejects: where"))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for path in before:
        path.chmod(0o444)
    arguments = [str(folder) if word == "P" else word for word in command.split()]
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done
    assert "error[RW003]: cannot write: Permission denied" in done.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_pack_that_could_not_be_made_is_not_half_there(tmp_path, monkeypatch, capsys):
    whole = files.whole

    def full(path, mode=None):
        if path.suffix == ".rules":
            raise OSError(28, os.strerror(28))
        return whole(path, mode)

    monkeypatch.setattr(files, "whole", full)
    assert main(["new", "pack", "acme", "--in", str(tmp_path)]) == 2
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(files, "whole", whole)
    assert main(["new", "pack", "acme", "--in", str(tmp_path)]) == 0


def test_a_name_that_is_no_text(tmp_path, monkeypatch, capsys):
    """Names of files are bytes; an address has each that is no ASCII as %XX (RFC 3986)."""
    monkeypatch.chdir(tmp_path)
    folder = pack(Path(os.fsdecode(b"odd\xff \xd0\xbf")))
    assert main(["lint", str(folder), "--sarif", "-", "-j", "1"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert '"uri": "odd%FF%20%D0%BF/signs.rules"' in out
