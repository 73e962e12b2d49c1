"""Where output goes: links, devices, pipes, streams that are closed or full."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import onnx
import pytest

from rewrite.cli.console import write_text
from rewrite.graph import io
from tests.hostile.conftest import parse

MODEL = "g (float[4] x) => (float[4] y) { a = Relu(x)  b = Relu(a)  y = Identity(b) }"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(parse(MODEL), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_a_report_into_a_device_leaves_the_device(work, run):
    """As root a careless rename would put a file in its place."""
    told = run("apply", "m.onnx", "--target", "generic", "--dry-run", "--json", "/dev/null")
    assert told.status == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_report_into_a_pipe(work, run):
    os.mkfifo("pipe")
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(Path("pipe").read_text()))
    reader.start()
    assert run("apply", "m.onnx", "--target", "generic", "--dry-run", "--json", "pipe").status == 0
    reader.join(10)
    assert json.loads(found[0])["nodes_before"] == 3


def test_the_file_that_a_link_leads_to_is_written(work, run):
    (work / "there").mkdir()
    for name in ("o.onnx", "r.json"):
        (work / name).symlink_to(f"there/{name}")
    told = run("apply", "m.onnx", "--target", "generic", "-o", "o.onnx", "--json", "r.json")
    assert told.status == 0
    assert (work / "o.onnx").is_symlink()
    assert (work / "r.json").is_symlink()
    assert files(work / "there") == {"o.onnx", "r.json"}
    onnx.checker.check_model("there/o.onnx")


@pytest.mark.parametrize("option", ["-o", "--json", "--report", "--trace"])
@pytest.mark.parametrize("place", ["circle", "x" * 300, "no/x", "m.onnx/x", "."])
def test_places_that_cannot_be(work, run, option, place):
    (work / "circle").symlink_to("circle")
    before = files(work)
    assert run("apply", "m.onnx", "--target", "generic", option, place).code() == "RW003"
    assert files(work) == before


def test_a_model_with_a_name_too_long(work, run):
    assert run("apply", "x" * 300, "--target", "generic", "-o", "o.onnx").code() == "RW501"


def test_names_that_are_no_text(work, run):
    name = os.fsdecode(b"m\xff\n.onnx")
    Path("m.onnx").rename(name)
    told = run("apply", name, "--target", "generic", "--json", "r.json", "--report", "r.html")
    assert (told.status, told.err) == (0, "")
    assert json.loads(Path("r.json").read_text())["nodes_after"] == 1
    assert "\n.onnx" not in told.out


@pytest.mark.parametrize("existing", [False, True])
def test_nothing_is_left_of_a_text_that_cannot_be_written(tmp_path, monkeypatch, existing):
    place = tmp_path / "r.json"
    if existing:
        place.write_text("old")
    monkeypatch.setattr(os, "fdopen", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_text(place, "new")
    assert files(tmp_path) == ({"r.json"} if existing else set())
    assert not existing or place.read_text() == "old"


def test_nothing_is_left_of_a_model_that_is_interrupted(tmp_path, monkeypatch):
    loaded = io.load(parse(MODEL))
    monkeypatch.setattr("rewrite.graph.save._write_pieces", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        io.save(loaded, tmp_path / "o.onnx")
    assert files(tmp_path) == set()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


STREAMS = {
    "closed": (">&-", 0, ""),
    "full": (">/dev/full", 2, "standard output: error[RW003]"),
    "silent": ("2>&-", 0, ""),
}


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("how", STREAMS)
def test_streams_that_cannot_be_written(work, how):
    redirect, status, message = STREAMS[how]
    command = f"{sys.executable} -m rewrite targets {redirect}"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=env)
    assert done.returncode == status
    assert done.stderr.startswith(message)
    assert bool(message) == bool(done.stderr)


def test_names_in_models_cannot_speak_to_the_terminal(run, work):
    """A node's name holds what makes a terminal obey; every message stays on its line."""
    model = parse(MODEL)
    model.graph.node[1].input[0] = "gone\n\x1b[2Jaway"
    onnx.save(model, "m.onnx")
    told = run("apply", "m.onnx", "--target", "generic")
    assert told.code() == "RW505"
    assert [line[:8] for line in told.err.splitlines()] == ["m.onnx: ", "  page: "]
    assert "\x1b" not in told.err
