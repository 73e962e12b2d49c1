"""Packs from strangers: what the file system and text can do to the tool."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import onnx
import pytest

from rewrite.errors import Diagnostic, Span, render
from rewrite.lang.pack import load_pack
from rewrite.match.vocabulary import vocabulary
from tests.hostile.conftest import parse, rule

GOOD = rule("a = Relu(x)\n y = Relu(a)", "y = Relu(x)").replace(
    'fires """x"""', 'fires """g (float[4] x) => (float[4] y) { a = Relu(x)  y = Relu(a) }"""'
)
BAD = GOOD.replace("emit y = Relu(x)", "emit y = Reluu(x)")


@pytest.fixture
def apply(run, tmp_path: Path):
    """apply(pack): what the command says of a pack."""
    model = tmp_path / "m.onnx"
    onnx.save(parse("g (float[4] x) => (float[4] y) { y = Abs(x) }"), model)
    return lambda pack: run("apply", model, "--target", "generic", "--dry-run", "--rules", pack)


@pytest.fixture(autouse=True)
def never_for_ever():
    """A pipe that nobody writes to must not stop the tool."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the tool waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)


NO_PACKS = ["nothing", "m.onnx", "a\0b", "a" * 5000, "", "circle", "/dev/null"]


@pytest.mark.parametrize("name", NO_PACKS)
def test_what_is_no_folder_of_a_pack(apply, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "circle").symlink_to("circle")
    told = apply(name)
    assert told.code() == "RW301"
    assert len(told.err) < 12_000


def test_a_name_nearly_right_gets_a_hint(apply):
    assert "did you mean `algebra`?" in apply("algebr").err


def test_a_folder_of_files_named_otherwise(apply, make_pack):
    folder = make_pack(None)
    (folder / "a.rule").write_text(GOOD)
    told = apply(folder)
    assert told.code() == "RW301"
    assert "end in `.rules`" in told.err


@pytest.mark.parametrize("file", ["a.rules", "pack.yaml"])
def test_a_pipe_is_refused_and_not_waited_for(apply, make_pack, file):
    folder = make_pack(GOOD)
    (folder / file).unlink()
    os.mkfifo(folder / file)
    assert apply(folder).code() == "RW301"


@pytest.mark.parametrize("file", ["a.rules", "pack.yaml"])
def test_nothing_of_a_file_outside_is_shown(apply, make_pack, tmp_path, file):
    secret = tmp_path / "secret"
    secret.write_text("name: hunter2\n")
    folder = make_pack(GOOD)
    (folder / file).unlink()
    (folder / file).symlink_to(secret)
    told = apply(folder)
    assert told.code() == "RW314"
    assert "hunter2" not in told.err


def test_a_circle_of_links_in_a_pack(apply, make_pack):
    folder = make_pack(GOOD)
    (folder / "b.rules").symlink_to("b.rules")
    assert apply(folder).code() == "RW314"


@pytest.mark.parametrize("file", ["a.rules", "pack.yaml", "."])
def test_what_may_not_be_read(apply, make_pack, file):
    folder = make_pack(GOOD)
    (folder / file).chmod(0)
    if os.access(folder / file, os.R_OK):
        pytest.skip("who runs the tests may read files without permissions, as root may: no error")
    try:
        assert apply(folder).code() == "RW301"
    finally:
        (folder / file).chmod(0o700)


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        (GOOD.replace("Relu(a)", "Relu(a\0)", 1).encode(), "RW112", ":4:12"),
        (GOOD.replace("\n", "\r").encode(), "RW112", ":1:"),
        (GOOD.encode("utf-16"), "RW112", ":1:1"),
        (GOOD.replace("Test.", "Té.").encode("latin-1"), "RW112", ":2:1"),
        (GOOD.replace("Test.", "T\u202e.").encode(), "RW112", ":2:6"),
        (GOOD.replace("Test.", "T\x1b[2J.").encode(), "RW112", ":2:6"),
        (b"\xef\xbb\xbf" + BAD.encode(), "RW203", ":6:11"),
        (BAD.replace("\n", "\r\n").encode(), "RW203", ":6:11"),
    ],
)
def test_odd_characters_are_placed(apply, make_pack, data, code, place):
    told = apply(make_pack(data))
    assert told.code() == code
    assert f"a.rules{place}" in told.err
    assert all(c.isprintable() or c == "\n" for c in told.err)


@pytest.mark.parametrize(
    ("row", "column", "end", "carets"),
    [
        ("emit\ty =\tRelu(x)", 10, 14, "    \t   \t^^^^"),
        ("日本語 foo", 5, 8, "       ^^^"),
        ("日本語 foo", 1, 4, "^^^^^^"),
        ("e\u0301 foo", 4, 7, "  ^^^"),
        ("a\x1b[31m foo", 7, 10, "      ^^^"),
        ("foo", 4, 4, "   ^"),
    ],
)
def test_the_caret_stands_below(row, column, end, carets):
    """As wide as a terminal shows it: tabs kept, wide characters two columns, marks none."""
    shown = render(Diagnostic("RW203", "m", Span("f", 1, column, 1, end)), row)
    assert shown.splitlines()[2] == "      | " + carets
    assert "\x1b" not in shown


def test_crlf_and_a_byte_order_mark_change_nothing(make_pack):
    plain = load_pack(make_pack(GOOD), vocabulary())
    odd = b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()
    dos = load_pack(make_pack(odd, "dos"), vocabulary())
    assert [r.name for r in dos.rules] == [r.name for r in plain.rules]


def test_large_patterns_are_refused_before_they_cost_anything(apply, make_pack):
    told = apply(make_pack(rule(f"y = {nested('x', 12)}", "y = Identity(x)")))
    assert told.code() == "RW313"


def nested(innermost: str, levels: int) -> str:
    """Every level has two branches, each with all of the level below."""
    for _ in range(levels):
        innermost = f"Neg(Abs({innermost}) | Relu({innermost}))"
    return innermost


def test_what_every_branch_binds_is_bound(make_pack):
    """However many ways there are: seven choices inside each other are 128."""
    folder = make_pack(rule(f"y = {nested('x', 7)}", "y = Abs(x)"))
    assert load_pack(folder, vocabulary()).rules


def test_a_name_bound_in_all_branches_but_one_is_refused(apply, make_pack):
    pattern = nested("x", 7)[::-1].replace("x", "z", 1)[::-1]
    assert apply(make_pack(rule(f"y = {pattern}", "y = Abs(x)"))).code() == "RW224"


def test_lets_that_nest_too_deep(apply, make_pack):
    lets = "let a0 = 1 " + " ".join(f"a{i + 1} = a{i} + 1" for i in range(2000))
    text = rule("y = Relu(x)", "y = Abs(x)", middle=lets + "\n where a2000 == 3")
    assert apply(make_pack(text)).code() == "RW110"


def test_a_long_row_is_shown_around_its_place():
    row = "日" * 1000 + "Reluu" + "x" * 1_000_000
    shown = render(Diagnostic("RW203", "m", Span("f", 1, 1001, 1, 1006)), row).splitlines()
    assert len(shown[1]) < 200
    before, found, _ = shown[1].partition("Reluu")
    assert found
    columns = len(before) + before.count("日")
    assert shown[2] == " " * 5 + " | " + " " * (columns - 8) + "^^^^^"


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", "/dev/null"])
def test_names_of_no_rule(run, name):
    assert run("rules", name).code() == "RW004"


def test_formatting_goes_on_after_files_that_cannot_be_read(run, tmp_path):
    (tmp_path / "a.rules").write_bytes(b"\xff")
    os.mkfifo(tmp_path / "b.rules")
    (tmp_path / "c.rules").mkdir()
    (tmp_path / "d.rules").write_text(GOOD.replace("emit  ", "emit"))
    told = run("fmt", tmp_path)
    assert told.status == 2
    assert "RW005" in told.err
    assert "(and 2 more)" in told.err
    assert "formatted" in told.out
