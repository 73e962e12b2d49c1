"""Kernels for target `onnxruntime-cpu` against ONNX Runtime's level EXTENDED.

    python tests/bench/kernels.py [--match TEXT] [--runs 2] [--operators]

Over the real and derived models of the corpus (`$REWRITE_CORPUS`, else `../shared/models`): the
nodes that a session at level EXTENDED leaves (its optimized model, subgraphs included) and the
kernels that we leave (nodes, a function call counting one, constants none). The outputs of the
model before and after are compared on random inputs within the ledger. Exit status 1 where the
geometric mean of ours over theirs is above 1, or an output differs.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime as ort
from corpus import corpus
from leftovers import graphs, operator_name

import rewrite
from rewrite.audit.verify import compare


@dataclass(frozen=True)
class Row:
    """Kernels of one model: before, theirs, ours."""

    name: str
    before: int
    theirs: int
    ours: int
    equal: str

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def models(folder: Path) -> list[Path]:
    """The real and the derived models."""
    return sorted([*(folder / "real").glob("*.onnx"), *(folder / "derived").glob("*.onnx")])


def operators(model: onnx.ModelProto) -> Counter[str]:
    """Kernels by operator, subgraphs included, constants left out."""
    nodes = (node for graph in graphs(model) for node in graph.node)
    return Counter(operator_name(node) for node in nodes if node.op_type != "Constant")


def extended(path: Path) -> onnx.ModelProto:
    """What a session at level EXTENDED makes of the model."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "optimized.onnx"
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(out)
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return onnx.load(out)


def measure(path: Path, runs: int, show: bool) -> Row:
    """One model: both tools, and the comparison of ours with the original."""
    before = onnx.load(path)
    theirs = operators(extended(path))
    result = rewrite.apply(path, target="onnxruntime-cpu")
    ours = operators(result.model)
    if show:
        print(path.name)
        for name in sorted(theirs.keys() | ours.keys(), key=lambda n: theirs[n] - ours[n]):
            print(f"    {name:45s} theirs {theirs[name]:4d} ours {ours[name]:4d}")
    verdict = compare(path, result.model, runs, result.ledger) if runs else None
    equal = "not run" if verdict is None else verdict.status
    if verdict is not None and not verdict.ok:
        equal += f" ({verdict.reason})"
    counts = [sum(operators(before).values()), sum(theirs.values()), sum(ours.values())]
    return Row(path.name, counts[0], counts[1], counts[2], equal)


def main() -> int:
    parser = argparse.ArgumentParser(description="kernels left, against ONNX Runtime's EXTENDED")
    parser.add_argument("--match", default="", help="only models whose name has this text")
    parser.add_argument("--runs", type=int, default=2, help="random runs per model (0: none)")
    parser.add_argument("--operators", action="store_true", help="list the operators left")
    options = parser.parse_args()
    folder = corpus()
    if folder is None:
        print("no corpus: set REWRITE_CORPUS")
        return 1
    chosen = [path for path in models(folder) if options.match in path.name]
    rows, crashed = [], []
    for path in chosen:
        try:
            rows.append(measure(path, options.runs, options.operators))
        except Exception as crash:  # noqa: BLE001 - reported, and the other models go on
            crashed.append(path.name)
            print(f"{path.name}: {crash!r:.300}")
    for row in rows:
        print(
            f"{row.name:32s} before {row.before:5d} theirs {row.theirs:5d} ours {row.ours:5d} "
            f"ratio {row.ratio:.3f} outputs {row.equal}"
        )
    if not rows:
        print("no model was measured")
        return 1
    mean = math.exp(sum(math.log(row.ratio) for row in rows) / len(rows))
    print(f"geometric mean of ours over theirs: {mean:.3f}")
    differs = [row.name for row in rows if row.equal.startswith("different")]
    return 0 if mean <= 1.0 and not differs and not crashed else 1


if __name__ == "__main__":
    sys.exit(main())
