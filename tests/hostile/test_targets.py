"""Target files from strangers."""

from __future__ import annotations

import os
import signal

import pytest

BASE = "doc: D\npacks: [algebra]\nopset: [7, 26]\ngroups: true\noperators: all\n"


@pytest.fixture(autouse=True)
def never_for_ever():
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the tool waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", "a b", "T", "..", "x/y"])
def test_a_parent_is_a_name_and_no_path(tmp_path, run, name):
    file = tmp_path / "t.yaml"
    file.write_text(f'{BASE}extends: "{name}"\n')
    assert run("targets", file).code() == "RW408"


def test_a_long_line_of_parents(tmp_path, run):
    for i in range(2000):
        (tmp_path / f"n{i}.yaml").write_text(f"{BASE}extends: n{i + 1}\n")
    assert run("targets", tmp_path / "n0.yaml").code() == "RW409"


@pytest.mark.parametrize("kind", ["pipe", "device", "circle", "folder"])
def test_what_is_no_file(tmp_path, run, kind):
    place = tmp_path / "t.yaml"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero" if kind == "device" else "t.yaml")
    assert run("targets", place).code() == "RW402"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: " + "[" * 3000, "RW402"),
        ("doc: &d [*d]\n" + BASE.split("\n", 1)[1], "RW404"),
        ('doc: !!python/object/apply:os.system ["true"]\n' + BASE.split("\n", 1)[1], "RW404"),
        (BASE + "vector_bytes: " + "9" * 5000, "RW404"),
        (BASE + "---\n" + BASE, "RW402"),
        (BASE + "# " + "x" * (2 << 20), "RW402"),
        (b"\xff\xfe\0", "RW402"),
    ],
)
def test_text_that_is_no_target(tmp_path, run, text, code):
    file = tmp_path / "t.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert run("targets", file).code() == code


def test_a_target_cannot_speak_to_the_terminal(tmp_path, run):
    file = tmp_path / "t.yaml"
    file.write_text(BASE.replace("doc: D", 'doc: "a\\e[2Jb\\u202e"'))
    told = run("targets", file)
    assert told.status == 0
    assert all(c.isprintable() or c == "\n" for c in told.out)
