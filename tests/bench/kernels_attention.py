"""Attention and recurrent layers beside onnxruntime: one thread, in turns, in CPU time.

    python tests/bench/kernels_attention.py [--seconds 1] [NAME...]

Attention: the kernel is called as a plan calls it, and a session of MultiHeadAttention. Recurrent
layers: whole runs of a session of one node on both sides. Prints microseconds of both,
onnxruntime's over ours, operations per second, and the largest difference of the outputs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rewrite.codegen.isa import native
from rewrite.graph import io
from rewrite.plan.specs.attention import (
    FEW,
    Attention,
    FewQueries,
    Integers,
    bits_of,
    blocks_of,
    scratch_of,
    scratch_of_few,
)
from rewrite.runtime.objects import objects_for
from rewrite.runtime.session import Options, Session
from tests.codegen.harness import SIGNATURE, address, aligned

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[], Array]
RNG = np.random.default_rng(0)
HEADS, HEAD = 12, 64


@dataclass(frozen=True)
class Case:
    """Ours and theirs, which give their outputs, and the operations that have to be done."""

    ours: Run
    theirs: Run
    flops: int


def theirs_of(model: onnx.ModelProto, feeds: dict[str, Array]) -> Run:
    """onnxruntime with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: np.asarray(session.run(None, feeds)[0])


def model_of(
    node: onnx.NodeProto, feeds: dict[str, Array], weights: dict[str, Array]
) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    output = helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph([node], "g", inputs, [output], constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


# --- attention -----------------------------------------------------------------------------------


def attention(queries: int, keys: int, causal: bool = False) -> Case:
    """Heads side by side in a row of hidden elements."""
    hidden = HEADS * HEAD
    shapes = ((queries, hidden), (keys, hidden), (keys, hidden))
    q, k, v = (aligned(s, np.float32, RNG.standard_normal(s)) for s in shapes)
    out = aligned((queries, hidden), np.float32)
    base = Attention("f32", HEAD, HEAD, right=causal)
    few = queries <= FEW
    spec = FewQueries(base) if few else base
    scratch = scratch_of_few(FewQueries(base), keys) if few else scratch_of(base, keys)
    integers = Integers(
        HEADS, 1, queries, keys, blocks_of(queries), 0, 0, 0, 0,
        *(0, HEAD, hidden) * 4, 0, 0, 0, bits_of(HEAD**-0.5), bits_of(1.0),
    )  # fmt: skip
    words = [address(a) for a in (q, k, v, out)] + integers.words()
    table = np.array(words, np.int64)
    room = aligned((scratch,), np.uint8)
    call = SIGNATURE(objects_for(native()).address(spec))
    items = HEADS * blocks_of(queries)
    kept = (q, k, v, out, table, room)

    def ours() -> Array:
        call(address(table), 0, items, address(room))
        return np.asarray(kept[3])

    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=HEADS,
        unidirectional=int(causal),
    )  # fmt: skip
    feeds = {"q": np.array(q)[None], "k": np.array(k)[None], "v": np.array(v)[None]}
    flops = 4 * HEADS * HEAD * queries * keys // (2 if causal else 1)
    return Case(ours, theirs_of(model_of(node, feeds, {}), feeds), flops)


# --- recurrent layers --------------------------------------------------------------------------

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(
    kind: str, steps: int, batch: int, size: int, hidden: int, directions: int = 1
) -> Case:
    def floats(*shape: int) -> Array:
        return (RNG.uniform(-1, 1, shape) / hidden**0.5).astype(np.float32)

    rows = GATES[kind] * hidden
    weights = {
        "w": floats(directions, rows, size),
        "r": floats(directions, rows, hidden),
        "b": floats(directions, 2 * rows),
    }
    node = helper.make_node(
        kind, ["x", "w", "r", "b"], ["y"], hidden_size=hidden,
        direction="bidirectional" if directions == 2 else "forward",
    )  # fmt: skip
    return in_sessions(node, {"x": floats(steps, batch, size)}, weights, size + hidden)


def quantized_lstm(steps: int, size: int, hidden: int) -> Case:
    rows = 4 * hidden
    weights: dict[str, Array] = {
        "w": RNG.integers(-127, 128, (2, size, rows)).astype(np.int8),
        "r": RNG.integers(-127, 128, (2, hidden, rows)).astype(np.int8),
        "b": RNG.uniform(-1, 1, (2, 2 * rows)).astype(np.float32),
        "ws": np.full(2, 0.002, np.float32),
        "rs": np.full(2, 0.002, np.float32),
        "wz": np.zeros(2, np.int8),
        "rz": np.zeros(2, np.int8),
    }
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", names, ["y"], domain="com.microsoft", hidden_size=hidden,
        direction="bidirectional",
    )  # fmt: skip
    x = RNG.standard_normal((steps, 1, size)).astype(np.float32)
    return in_sessions(node, {"x": x}, weights, size + hidden)


def in_sessions(
    node: onnx.NodeProto, feeds: dict[str, Array], weights: dict[str, Array], depth: int
) -> Case:
    model = model_of(node, feeds, weights)
    session = Session(io.load(model), Options(strict=True))
    steps, batch, _ = feeds["x"].shape
    rows = weights["b"].size // 2
    return Case(
        lambda: np.asarray(session.run(feeds)["y"]),
        theirs_of(model, feeds),
        2 * steps * batch * rows * depth,
    )


CASES: dict[str, Callable[[], Case]] = {
    **{f"attention {n}": partial(attention, n, n) for n in (128, 256, 512, 1024, 2048)},
    "attention 8192": lambda: attention(8192, 8192),
    "attention causal 1024": lambda: attention(1024, 1024, True),
    "attention 1x1024": lambda: attention(1, 1024),
    "lstm 1 step 128": lambda: recurrent("LSTM", 1, 1, 128, 128),
    "lstm 100x256 both": lambda: recurrent("LSTM", 100, 1, 256, 256, 2),
    "lstm 20x1024": lambda: recurrent("LSTM", 20, 1, 1024, 1024),
    "lstm 50x8x256": lambda: recurrent("LSTM", 50, 8, 256, 256),
    "gru 100x512 both": lambda: recurrent("GRU", 100, 1, 512, 512, 2),
    "gru 50x8x256": lambda: recurrent("GRU", 50, 8, 256, 256),
    "rnn 100x256": lambda: recurrent("RNN", 100, 1, 256, 256),
    "quantized lstm 100x256 both": lambda: quantized_lstm(100, 128, 256),
}


def least(case: Case, seconds: float) -> tuple[float, float]:
    """The least CPU seconds of both, run in turns."""
    best = [float("inf"), float("inf")]
    end = time.monotonic() + seconds
    while time.monotonic() < end or best[1] == float("inf"):
        for k, run in enumerate((case.ours, case.theirs)):
            start = time.thread_time()
            run()
            best[k] = min(best[k], time.thread_time() - start)
    return best[0], best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only cases whose names begin so")
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    print(f"{'':28} {'ours':>9} {'theirs':>9} {'ratio':>6} {'GFLOP/s':>8} {'apart':>8}")
    for name, make in CASES.items():
        if arguments.names and not any(name.startswith(n) for n in arguments.names):
            continue
        case = make()
        x, y = case.ours(), case.theirs()
        apart = float(np.abs(x.reshape(y.shape) - y).max())
        ours, theirs = least(case, arguments.seconds)
        print(
            f"{name:28} {ours * 1e6:9.0f} {theirs * 1e6:9.0f} {theirs / ours:6.2f} "
            f"{case.flops / ours / 1e9:8.1f} {apart:8.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
