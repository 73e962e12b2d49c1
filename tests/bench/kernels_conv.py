"""Convolutions and pools beside onnxruntime: one thread, turn by turn, in CPU time.

    python tests/bench/kernels_conv.py [--seconds 2] [--fast-math] [NAME...]

Each case is a chain of equal layers, so that neither side's conversions at the edges of the graph
count for much. Prints microseconds per layer, of our kernels alone too (without conversions at the
edges), billions of operations per second, and onnxruntime's time over ours.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rewrite.graph import io
from rewrite.runtime.session import Options, Session

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(0)

# layers, size, channels of the layers in turn, kernel, stride, depthwise
FLOATS: dict[str, tuple[int, tuple[int, int], tuple[int, ...], int, int, bool]] = {
    "3x3 56.64": (4, (56, 56), (64, 64), 3, 1, False),
    "3x3 28.128": (4, (28, 28), (128, 128), 3, 1, False),
    "3x3 14.256": (4, (14, 14), (256, 256), 3, 1, False),
    "3x3 7.512": (4, (7, 7), (512, 512), 3, 1, False),
    "1x1 56.64-256": (4, (56, 56), (64, 256), 1, 1, False),
    "1x1 28.128-512": (4, (28, 28), (128, 512), 1, 1, False),
    "1x1 14.256-1024": (4, (14, 14), (256, 1024), 1, 1, False),
    "1x1 7.512-2048": (4, (7, 7), (512, 2048), 1, 1, False),
    "3x3 s2 56.128": (1, (56, 56), (128, 128), 3, 2, False),
    "7x7 s2 224.3-64": (1, (224, 224), (3, 64), 7, 2, False),
    "3x3 s2 320.3-16": (1, (320, 320), (3, 16), 3, 2, False),
    "3x3 80.24-24": (4, (80, 80), (24, 24), 3, 1, False),
    "3x3 40.96-24": (4, (40, 40), (96, 24), 3, 1, False),
    "dw3 112.32": (4, (112, 112), (32, 32), 3, 1, True),
    "dw3 56.144": (4, (56, 56), (144, 144), 3, 1, True),
    "dw3 14.384": (4, (14, 14), (384, 384), 3, 1, True),
    "dw3 7.960": (4, (7, 7), (960, 960), 3, 1, True),
    "dw3 s2 112.64": (1, (112, 112), (64, 64), 3, 2, True),
    "dw5 40.192": (4, (40, 40), (192, 192), 5, 1, True),
    "dw5 20.384": (4, (20, 20), (384, 384), 5, 1, True),
    "dw5 12x80.240": (4, (12, 80), (240, 240), 5, 1, True),
}


def float_chain(name: str) -> tuple[onnx.ModelProto, dict[str, Array], int, int]:
    """The model, its feeds, layers, operations per layer."""
    layers, size, channels, kernel, stride, depthwise = FLOATS[name]
    nodes, known, flops = [], {}, 0
    now, at = "x", size
    for i in range(layers):
        c, m = channels[i % 2], channels[(i + 1) % 2]
        group = c if depthwise else 1
        w = RNG.standard_normal((m, c // group, kernel, kernel)) * np.sqrt(
            2 / (c // group * kernel**2)
        )
        known[f"w{i}"] = w.astype(np.float32)
        known[f"b{i}"] = RNG.standard_normal(m).astype(np.float32) * np.float32(0.1)
        nodes.append(helper.make_node(
            "Conv", [now, f"w{i}", f"b{i}"], [f"c{i}"], kernel_shape=[kernel] * 2,
            pads=[kernel // 2] * 4, strides=[stride] * 2, group=group,
        ))  # fmt: skip
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        now, at = f"r{i}", ((at[0] - 1) // stride + 1, (at[1] - 1) // stride + 1)
        flops += 2 * at[0] * at[1] * m * (c // group) * kernel**2
    x = RNG.standard_normal((1, channels[0], *size)).astype(np.float32)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [onnx.ValueInfoProto(name=now)], [numpy_helper.from_array(a, n) for n, a in known.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, {"x": x}, layers, flops


def byte_chain(name: str) -> tuple[onnx.ModelProto, dict[str, Array], int, int]:
    """The same in QLinearConv, u8 by s8."""
    layers, size, channels, kernel, stride, depthwise = FLOATS[name]
    nodes, known, flops = [], {}, 0
    now, at = "x", size
    for i in range(layers):
        c, m = channels[i % 2], channels[(i + 1) % 2]
        group = c if depthwise else 1
        taps = c // group * kernel**2
        known[f"w{i}"] = RNG.integers(-63, 64, (m, c // group, kernel, kernel)).astype(np.int8)
        known[f"b{i}"] = RNG.integers(-2000, 2000, m).astype(np.int32)
        known[f"xs{i}"] = np.float32(0.02)
        known[f"xz{i}"] = np.uint8(120)
        known[f"ws{i}"] = (0.01 * RNG.uniform(0.5, 1.5, m)).astype(np.float32)
        known[f"wz{i}"] = np.zeros(m, np.int8)
        known[f"ys{i}"] = np.float32(0.02 * 0.01 * 36 * np.sqrt(taps) * 74 * 4 / 255)
        known[f"yz{i}"] = np.uint8(120)
        names = [f"{n}{i}" for n in ("xs", "xz", "w", "ws", "wz", "ys", "yz", "b")]
        nodes.append(helper.make_node(
            "QLinearConv", [now, *names], [f"c{i}"], kernel_shape=[kernel] * 2,
            pads=[kernel // 2] * 4, strides=[stride] * 2, group=group,
        ))  # fmt: skip
        now, at = f"c{i}", ((at[0] - 1) // stride + 1, (at[1] - 1) // stride + 1)
        flops += 2 * at[0] * at[1] * m * taps
    x = RNG.integers(0, 256, (1, channels[0], *size)).astype(np.uint8)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
        [onnx.ValueInfoProto(name=now)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in known.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, {"x": x}, layers, flops


def ours(
    model: onnx.ModelProto, feeds: dict[str, Array], fast_math: bool = False
) -> tuple[Callable[[], list[Array]], Session]:
    session = Session(io.load(model), Options(strict=True, fast_math=fast_math))
    return lambda: list(session.run(feeds).values()), session


def kernels(session: Session, feeds: dict[str, Array]) -> float:
    """Seconds in kernels other than copies: the least of each over some runs."""
    least: dict[int, float] = {}
    for _ in range(30):
        # Not always at one point of a slice of the scheduler's.
        time.sleep(RNG.uniform(0, 2e-3))
        for i, row in enumerate(session.profile(feeds, 1).rows):
            if row.kind != "Pointwise":
                least[i] = min(least.get(i, float("inf")), row.nanoseconds * 1e-9)
    return sum(least.values())


def peer(model: onnx.ModelProto, feeds: dict[str, Array]) -> Callable[[], list[Array]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, feeds)


def compare(functions: list[Callable[[], list[Array]]], seconds: float) -> list[float]:
    """The least CPU seconds of each, turn by turn."""
    for function in functions:
        function()
        function()
    best = [float("inf")] * len(functions)
    until = time.monotonic() + seconds
    turns = 0
    while time.monotonic() < until or turns < 10:
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
        turns += 1
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--fast-math", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    titles = ("ours", "kernels", "peer", "GF/s", "peer/ours")
    print(f"{'case':21s} " + " ".join(f"{t:>9s}" for t in titles) + "  error")
    for kind, chain in (("f32", float_chain), ("u8", byte_chain)):
        for name in FLOATS:
            full = f"{kind} {name}"
            if given.names and not any(n in full for n in given.names):
                continue
            model, feeds, layers, flops = chain(name)
            (mine, session), other = ours(model, feeds, given.fast_math), peer(model, feeds)
            a, b = (f()[0].astype(np.float64) for f in (mine, other))
            error = np.abs(a - b).max() / np.abs(b).max()
            here, there = compare([mine, other], given.seconds)
            alone = kernels(session, feeds)
            print(
                f"{full:21s} {here / layers * 1e6:7.0f}us {alone / layers * 1e6:7.0f}us "
                f"{there / layers * 1e6:7.0f}us "
                f"{flops / here / 1e9:9.0f} {there / here:9.2f}  {error:.0e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
