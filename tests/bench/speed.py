"""Cost per node, and `apply` against an ONNX Runtime session on the same file.

    python tests/bench/speed.py [--rounds 5] [--large 100000] [--target host]

A chain MatMul→Add→Sigmoid→Mul→Identity of 10,000 and of `--large` nodes is rewritten with all
packs of the target loaded. Each measurement is a process of its own; the two tools alternate
within one run, medians and the spread (min–max) are printed. Three clocks:

- `call`: `rewrite.apply(path).save(out)` after import and a first call on a tiny model;
  `onnxruntime.InferenceSession(path)` at level ALL after import and a tiny session;
- `process`: `rewrite apply` from start to exit, and a Python process that makes the session;
- `help`: `rewrite --help`.

Exit status 1 if a bound does not hold: per-node ratio <= 1.3, call <= session, help < 0.3 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OURS = """
import json, sys, time
import rewrite
path, out, target, tiny = sys.argv[1:]
rewrite.apply(tiny, target=target).save(out)
start = time.perf_counter()
result = rewrite.apply(path, target=target)
result.save(out)
seconds = time.perf_counter() - start
parts = result.stats["seconds"]
print(json.dumps({"seconds": seconds, "kernels": result.stats["kernels_after"], "parts": parts}))
"""

THEIRS = """
import json, sys, time
import onnxruntime as ort
path, tiny = sys.argv[1:]
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.intra_op_num_threads = 1
ort.InferenceSession(tiny, options, providers=["CPUExecutionProvider"])
start = time.perf_counter()
ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


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


def run(code: str, *arguments: object) -> dict[str, object]:
    """The JSON that a fresh interpreter prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def wall(command: list[str]) -> float:
    """Seconds that a whole process takes."""
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - start


def show(name: str, seconds: list[float]) -> float:
    middle = statistics.median(seconds)
    print(f"{name:44s} {middle:8.3f} s   ({min(seconds):.3f}–{max(seconds):.3f})")
    return middle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--target", default="host")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), options.rounds, options.large, options.target)


def measure(folder: Path, rounds: int, large_nodes: int, target: str) -> int:
    tiny, small, large = folder / "tiny.onnx", folder / "small.onnx", folder / "large.onnx"
    out = folder / "out.onnx"
    chain(5, tiny)
    chain(10_000, small)
    chain(large_nodes, large)
    cli = [sys.executable, "-m", "rewrite"]
    clocks: dict[str, list[float]] = {}

    def note(name: str, seconds: object) -> None:
        clocks.setdefault(name, []).append(float(str(seconds)))

    for _ in range(rounds):
        note("ours", run(OURS, small, out, target, tiny)["seconds"])
        note("theirs", run(THEIRS, small, tiny)["seconds"])
        note("large", run(OURS, large, out, target, tiny)["seconds"])
        note("ours process", wall([*cli, "apply", str(small), "--target", target, "-o", str(out)]))
        note("theirs process", wall([sys.executable, "-c", THEIRS, str(small), str(tiny)]))
        note("help", wall([*cli, "--help"]))
    print(f"{rounds} rounds, target {target}; median (spread)")
    ours = show("rewrite.apply, 10,000 nodes, call", clocks["ours"])
    theirs = show("onnxruntime session ALL, 10,000 nodes, call", clocks["theirs"])
    big = show(f"rewrite.apply, {large_nodes:,} nodes, call", clocks["large"])
    show("rewrite apply, 10,000 nodes, process", clocks["ours process"])
    show("onnxruntime session, 10,000 nodes, process", clocks["theirs process"])
    start = show("rewrite --help, process", clocks["help"])
    ratio = (big / large_nodes) / (ours / 10_000)
    print(f"per-node cost, {large_nodes:,} against 10,000 nodes: {ratio:.2f} (bound 1.3)")
    print(f"apply against session: {ours / theirs:.2f} (bound 1)")
    return 0 if ratio <= 1.3 and ours <= theirs and start < 0.3 else 1


if __name__ == "__main__":
    sys.exit(main())
