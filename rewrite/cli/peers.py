"""Times of one model in several runtimes, each in a process of its own, taking turns.

In: a model, feeds in an .npz file, the names of runtimes. Out: seconds per run of each. The parent
starts `python -m rewrite.cli.peers NAME ...` per runtime, which loads the model, waits for a number
of runs on stdin and answers with the times; so that all peers meet the same moments of a busy
machine, they run in turns with a pause between (onnxruntime's threads spin for some 45 ms).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rewrite.audit.runtimes import import_onnxruntime
from rewrite.errors import error

PAUSE = 0.1  # seconds between turns
START = 600.0  # seconds that a peer may take to load a model

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per run, one entry per turn; `start`: from the model's path to the first result."""

    name: str
    seconds: tuple[float, ...]
    start: float

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and the third quartile."""
        low, high = np.percentile(self.seconds, [25, 75])
        return float(low), float(high)


def _ours(model: str, feeds: dict[str, Any], threads: int, target: str | None) -> Run:
    from rewrite.cli.feeding import as_declared
    from rewrite.execution import compile_model

    session = compile_model(model, target, threads)
    given = as_declared(session, feeds)
    return lambda: session.run(given)


def _onnxruntime(model: str, feeds: dict[str, Any], threads: int) -> Run:
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def _openvino(model: str, feeds: dict[str, Any], threads: int) -> Run:
    import openvino

    # Where processors have bfloat16, the default would be to compute in that.
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    return lambda: request.infer(feeds)


def runner(name: str, model: str, feeds: dict[str, Any], threads: int) -> Run:
    """A function that runs the model once: `rewrite`, `rewrite:none`, a peer's name."""
    own, _, target = name.partition(":")
    if own == "rewrite":
        return _ours(model, feeds, threads, None if target == "none" else target or "host")
    if own == "onnxruntime":
        return _onnxruntime(model, feeds, threads)
    if own == "openvino":
        return _openvino(model, feeds, threads)
    raise error("RW708", f"there is no peer `{name}`", hint="known: onnxruntime, openvino")


def compare(
    model: Path,
    feeds: Path,
    names: Sequence[str],
    threads: int = 1,
    turns: int = 15,
    seconds: float = 0.2,
) -> list[Timing]:
    """Times of each runtime: `turns` turns of about `seconds` each. Raises RW708 where one
    cannot run the model."""
    peers = [_Peer(name, model, feeds, threads) for name in names]
    try:
        starts = [peer.ready() for peer in peers]
        counts = [max(1, int(seconds / peer.turn(1))) for peer in peers]
        taken: list[list[float]] = [[] for _ in peers]
        for _ in range(turns):
            for peer, count, times in zip(peers, counts, taken, strict=True):
                times.append(peer.turn(count))
                time.sleep(PAUSE)
    finally:
        for peer in peers:
            peer.close()
    return [
        Timing(name, tuple(times), start)
        for name, times, start in zip(names, taken, starts, strict=True)
    ]


class _Peer:
    """One runtime in its process."""

    def __init__(self, name: str, model: Path, feeds: Path, threads: int) -> None:
        self.name = name
        command = [sys.executable, "-m", "rewrite.cli.peers"]
        self._process = subprocess.Popen(
            [*command, name, str(model), str(feeds), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> float:
        return float(self._answer())

    def turn(self, count: int) -> float:
        """Seconds per run, the mean of `count` runs."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("peer "):
                return str(json.loads(line[5:]))
        self._process.wait(START)
        assert self._process.stderr is not None
        lines = self._process.stderr.read().splitlines()
        told = [line for line in lines if line.strip() and not line.startswith("hint: ")]
        why = told[-1].strip() if told else "it ended"
        raise error("RW708", f"{self.name} cannot run the model: {why}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _main(name: str, model: str, feeds_file: str, threads: str) -> None:
    """The peer's process: one line per turn."""
    with np.load(feeds_file, allow_pickle=False) as stored:
        feeds = {key: stored[key] for key in stored.files}
    start = time.perf_counter()
    run = runner(name, model, feeds, int(threads))
    run()
    _say(time.perf_counter() - start)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter()
        for _ in range(count):
            run()
        _say((time.perf_counter() - start) / count)


def _say(number: float) -> None:
    sys.stdout.write(f"peer {json.dumps(number)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(*sys.argv[1:])
