"""Must hold 3: cost per node, and `apply` against an ONNX Runtime session on the same file.

    python tests/bench/speed.py [--rounds 5] [--large 100000] [--targets host,generic]

A chain MatMul→Add→Sigmoid→Mul→Identity of 10,000 and of `--large` nodes is rewritten with all
packs of each target loaded. Each measurement is a process of its own; the tools alternate within
one run, and medians and the spread (min–max) are printed, in seconds of processor time and of the
clock. Three things are measured:

- `call`: `rewrite.apply(path).save(out)` after import and a first call on a tiny model;
  `onnxruntime.InferenceSession(path)` at level ALL after import and a tiny session;
- `process`: `rewrite apply` from start to exit, and a Python process that makes the session;
- `help`: `rewrite --help`.

Exit status 1 if a bound does not hold: per-node ratio <= 1.3, call <= session, help < 0.3 s. Judged
is processor time: both tools run on one thread, and a busy machine stretches the clock alone.
Modules are compiled once, into a scratch folder, as an installer does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OURS = """
import json, sys, time
import rewrite
path, out, target, tiny = sys.argv[1:]
rewrite.apply(tiny, target=target).save(out)
start, clock = time.process_time(), time.perf_counter()
rewrite.apply(path, target=target).save(out)
print(json.dumps([time.process_time() - start, time.perf_counter() - clock]))
"""

THEIRS = """
import json, sys, time
import onnxruntime as ort
path, tiny = sys.argv[1:]
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.intra_op_num_threads = 1
ort.InferenceSession(tiny, options, providers=["CPUExecutionProvider"])
start, clock = time.process_time(), time.perf_counter()
ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
print(json.dumps([time.process_time() - start, time.perf_counter() - clock]))
"""

TARGETS = ("generic", "host", "hexagon", "x86-avx2", "onnxruntime-cpu")

Seconds = tuple[float, float]  # of the processor, of the clock


def chain(nodes: int, path: Path, width: int = 16) -> None:
    """Write the chain model: every fifth of it MatMul, Add, Sigmoid, Mul, Identity."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.1, (width, width)).astype(np.float32), "W"),
        numpy_helper.from_array(rng.normal(0, 1, width).astype(np.float32), "b"),
    ]
    body, value = [], "x"
    for i in range(nodes // 5):
        body += [
            helper.make_node("MatMul", [value, "W"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", "b"], [f"a{i}"]),
            helper.make_node("Sigmoid", [f"a{i}"], [f"s{i}"]),
            helper.make_node("Mul", [f"a{i}", f"s{i}"], [f"u{i}"]),
            helper.make_node("Identity", [f"u{i}"], [f"i{i}"]),
        ]
        value = f"i{i}"
    shape = [4, width]
    graph = helper.make_graph(
        body,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))


class Clocks:
    """All measurements by name, and the environment that they run in."""

    def __init__(self, bytecode: Path) -> None:
        self.found: dict[str, list[Seconds]] = {}
        self.environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def call(self, name: str, code: str, *arguments: object) -> None:
        """Note what a fresh interpreter measures itself."""
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True
        )
        busy, wall = json.loads(done.stdout.splitlines()[-1])
        self._note(name, (busy, wall))

    def process(self, name: str, command: Sequence[object]) -> None:
        """Note what a whole process takes."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command], env=self.environment, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
        self._note(name, (usage.ru_utime + usage.ru_stime, time.perf_counter() - start))

    def _note(self, name: str, seconds: Seconds) -> None:
        self.found.setdefault(name, []).append(seconds)

    def busy(self, name: str) -> float:
        """The median of the processor's seconds."""
        return statistics.median(busy for busy, _ in self.found[name])

    def wall(self, name: str) -> float:
        return statistics.median(wall for _, wall in self.found[name])

    def show(self, name: str) -> None:
        busy = [seconds for seconds, _ in self.found[name]]
        print(
            f"{name:52s} {self.busy(name):7.3f} s ({min(busy):.3f}–{max(busy):.3f})"
            f"   clock {self.wall(name):7.3f} s"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--targets", default=",".join(TARGETS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        targets = options.targets.split(",")
        return measure(Path(folder), options.rounds, options.large, targets)


def measure(folder: Path, rounds: int, large_nodes: int, targets: Sequence[str]) -> int:
    tiny, small, large = folder / "tiny.onnx", folder / "small.onnx", folder / "large.onnx"
    out = folder / "out.onnx"
    chain(5, tiny)
    chain(10_000, small)
    chain(large_nodes, large)
    cli = [sys.executable, "-m", "rewrite"]
    session = [sys.executable, "-c", THEIRS, small, tiny]
    warm, clocks = Clocks(folder / "bytecode"), Clocks(folder / "bytecode")
    for target in targets:
        warm.process("apply", [*cli, "apply", tiny, "--target", target, "-o", out])
    warm.process("session", [*session[:-2], tiny, tiny])
    for _ in range(rounds):
        clocks.call("session: call", THEIRS, small, tiny)
        clocks.process("session: process", session)
        clocks.process("help", [*cli, "--help"])
        for target in targets:
            clocks.call(f"{target}: call", OURS, small, out, target, tiny)
            clocks.call(f"{target}: call, {large_nodes:,} nodes", OURS, large, out, target, tiny)
            command = [*cli, "apply", small, "--target", target, "-o", out]
            clocks.process(f"{target}: process", command)
    print(f"{rounds} rounds, 10,000 nodes; median processor time (spread)")
    for name in clocks.found:
        clocks.show(name)
    held = [judge(clocks, target, large_nodes) for target in targets]
    return 0 if all(held) and clocks.busy("help") < 0.3 else 1


def judge(clocks: Clocks, target: str, large_nodes: int) -> bool:
    """Whether the bounds hold for a target, printed with what they are about."""
    ours, large = f"{target}: call", f"{target}: call, {large_nodes:,} nodes"
    against = clocks.busy(ours) / clocks.busy("session: call")
    clock = clocks.wall(ours) / clocks.wall("session: call")
    whole = clocks.busy(f"{target}: process") / clocks.busy("session: process")
    growth = (clocks.busy(large) / large_nodes) / (clocks.busy(ours) / 10_000)
    print(
        f"{target}: against the session {against:.2f} (bound 1; by the clock {clock:.2f}), whole "
        f"process {whole:.2f}; per node, {large_nodes:,} against 10,000: {growth:.2f} (bound 1.3)"
    )
    return against <= 1 and growth <= 1.3


if __name__ == "__main__":
    sys.exit(main())
