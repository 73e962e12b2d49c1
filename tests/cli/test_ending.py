"""A command that is asked to end leaves no process and no file behind, and its status says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RULE = '''
rule again_{n} in clean{over} {{
  """Twice Relu is once."""
  match y = Relu(Relu(x))
  emit  y = Relu(x)
  claim exact
  example fires plain """g (float[2] x) => (float[2] y) {{ r = Relu(x)  y = Relu(r) }}"""
  example rejects single """g (float[2] x) => (float[2] y) {{ y = Relu(x) }}"""
}}
'''
RULES = 60

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="processes are looked up in Linux's /proc"
)


@pytest.fixture(scope="module")
def packs(tmp_path_factory) -> Path:
    """Two packs that every command is at work on for a while."""
    folder = tmp_path_factory.mktemp("packs")
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "pack.yaml").write_text(f"name: {name}\ndoc: Two.\nopset: [13, 18]\n")
        text = "".join(
            RULE.format(n=n, over=f" over again_{n + 1}" if n + 1 < RULES else "")
            for n in range(RULES)
        )
        (folder / name / "many.rules").write_text(text)
    return folder


def children(pid: int) -> set[int]:
    """The processes below one that have not ended."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = {int(word) for word in task.read_text().split()}
        except OSError:  # it has just ended
            continue
        found |= below.union(*(children(child) for child in below))
    return {child for child in found if lives(child)}


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] not in "ZX"


def soon(what) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


def asked(number: int, arguments: list[str], packs: Path, tmp_path: Path):
    """What becomes of a command that is at work in several processes, and those of them that are
    left. Only the command itself is asked."""
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "rewrite", *arguments],
        cwd=packs,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    below: set[int] = set()
    try:
        assert soon(lambda: below.update(children(process.pid)) or below), "it is over already"
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
        assert soon(lambda: not any(map(lives, below)))
    finally:
        process.kill()
        for child in filter(lives, below):
            os.kill(child, signal.SIGKILL)
    assert list((tmp_path / "temporary").iterdir()) == []
    return process.returncode, told.decode()


COMMANDS = [
    "test one two -j 2",
    "coverage one two -j 2",
    "coverage one two -j 2 --mutate",
    "lint one two -j 2",
    "verify one two -j 2 --out found",
    "verify one two -j 2 --out found --pairs",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_sigterm(command, packs, tmp_path):
    assert asked(signal.SIGTERM, command.split(), packs, tmp_path) == (143, "")
    assert sorted(path.name for path in packs.iterdir()) == ["one", "two"]


@pytest.mark.parametrize("command", [COMMANDS[3], COMMANDS[5]])
def test_an_interrupt_of_the_command_alone(command, packs, tmp_path):
    """Not from a terminal, which would interrupt all of its processes."""
    assert asked(signal.SIGINT, command.split(), packs, tmp_path) == (130, "interrupted\n")


def test_a_terminal_that_closes(packs, tmp_path):
    assert asked(signal.SIGHUP, COMMANDS[0].split(), packs, tmp_path) == (129, "")


def test_a_file_that_is_being_written(tmp_path):
    """A second signal, as `timeout` sends it, does not cut short what is cleared away."""
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from rewrite import files\n"
        "from rewrite.cli import ending\n"
        "ending.in_order()\n"
        "with files.whole(Path('a')) as stream:\n"
        "    stream.write(b'half')\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    finally:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_nohup_stays_in_force():
    code = (
        "import os, signal\n"
        "from rewrite.cli import ending\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "ending.in_order()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "print('here')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"here\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_language_server_does_not_wait_for_its_editor(number):
    pytest.importorskip("pygls")
    started = subprocess.Popen(
        [sys.executable, "-m", "rewrite", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with started as process:
        assert process.stdin is not None
        assert process.stdout is not None
        body = (
            '{"jsonrpc":"2.0","id":1,"method":"initialize",'
            '"params":{"processId":null,"rootUri":null,"capabilities":{}}}'
        )
        process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"Content-")  # it is at work
        process.send_signal(number)
        assert process.wait(30) == -number
