"""Matrix products, ours against onnxruntime's, one thread each, in one interleaved run.

    python -m tests.bench.kernels_native [--seconds 1] [--cpu 1] [float | bytes | tails] ...

In: shapes M x K x N. Out: a table: medians in operations per second, and the median of the ratios
of neighbouring measurements. Both run a model of one operator with its output array given: ours the
plan that a session made, onnxruntime by a binding. Time is that of the thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from rewrite.graph import io
from rewrite.runtime.device import CpuDevice
from rewrite.runtime.session import Session

Array = np.ndarray[Any, np.dtype[Any]]
Case = tuple[str, onnx.ModelProto, dict[str, Array], int]

FLOATS = (
    (128, 768, 3072), (128, 768, 768), (128, 3072, 768), (196, 1024, 512), (3136, 64, 256),
    (512, 512, 512), (1024, 1024, 1024), (16, 64, 64), (1, 768, 768), (1, 768, 3072),
    (7, 768, 768), (128, 768, 1000), (197, 768, 768), (128, 768, 12), (4096, 256, 1),
)  # fmt: skip
BYTES = (
    (128, 768, 3072), (128, 768, 768), (128, 3072, 768), (196, 1024, 512), (3136, 64, 256),
    (512, 512, 512), (1, 768, 3072),
)  # fmt: skip
_RNG = np.random.default_rng(0)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Array],
    weights: dict[str, Array],
    output: tuple[int, tuple[int, ...]],
) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, kind(a.dtype), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", *output)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _floats(*shape: int) -> Array:
    return _RNG.standard_normal(shape).astype(np.float32)


def float_cases() -> list[Case]:
    found = []
    for m, k, n in FLOATS:
        feeds = {"a": _floats(m, k)}
        nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
        made = _model(nodes, feeds, {"b": _floats(k, n)}, (TensorProto.FLOAT, (m, n)))
        found.append((f"f32 {m}x{k}x{n}", made, feeds, 2 * m * k * n))
    return found


def moving_cases() -> list[Case]:
    """Right factors that are not known, straight and transposed, in batches."""
    found = []
    shapes = ((12, 128, 64, 128), (12, 128, 128, 64), (1, 512, 512, 512), (12, 1, 64, 512))
    for batch, m, k, n in shapes:
        for turned in (False, True):
            b = _floats(batch, n, k) if turned else _floats(batch, k, n)
            feeds = {"a": _floats(batch, m, k), "b": b}
            node = helper.make_node(
                "FusedMatMul", ["a", "b"], ["y"], domain="com.microsoft", transB=int(turned)
            )
            made = _model([node], feeds, {}, (TensorProto.FLOAT, (batch, m, n)))
            name = f"f32 {batch}x{m}x{k}x{n}" + (" B'" if turned else "") + " moving"
            found.append((name, made, feeds, 2 * batch * m * k * n))
    return found


def byte_cases() -> list[Case]:
    """u8 by s8 and u8 by u8, requantized."""
    found = []
    for m, k, n in BYTES:
        for signed in (True, False):
            kind = np.int8 if signed else np.uint8
            low = -127 if signed else 0
            weights: dict[str, Array] = {
                "as": np.array(0.02, np.float32), "az": np.array(7, np.uint8),
                "b": _RNG.integers(low, 128, (k, n)).astype(kind),
                "bs": np.array(0.01, np.float32), "bz": np.array(0 if signed else 64, kind),
                "ys": np.array(0.4, np.float32), "yz": np.array(128, np.uint8),
            }  # fmt: skip
            feeds = {"a": _RNG.integers(0, 256, (m, k)).astype(np.uint8)}
            node = helper.make_node("QLinearMatMul", ["a", *weights], ["y"])
            made = _model([node], feeds, weights, (TensorProto.UINT8, (m, n)))
            name = f"u8 by {'s8' if signed else 'u8'} {m}x{k}x{n}"
            found.append((name, made, feeds, 2 * m * k * n))
    return found


def ours(model: onnx.ModelProto, feeds: dict[str, Array]) -> Callable[[], Array]:
    """The plan of a session, without what a session does around it."""
    session = Session(io.load(model))
    given = {name: _aligned(array) for name, array in feeds.items()}
    out = _aligned(session.run(given)["y"])
    instance = CpuDevice().load(session.plan[0])
    inputs = [given[port.name] for port in session.inputs]

    def run() -> Array:
        instance.run(inputs, [out])
        return out

    return run


def peer(model: onnx.ModelProto, feeds: dict[str, Array]) -> Callable[[], Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    out = np.asarray(session.run(None, feeds)[0])
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, _aligned(array))
    value = onnxruntime.OrtValue.ortvalue_from_numpy(out)
    binding.bind_ortvalue_output("y", value)

    def run() -> Array:
        session.run_with_iobinding(binding)
        return out

    run()
    out = np.asarray(value.numpy())

    return run


def _aligned(array: Array) -> Array:
    """A copy that begins at a cache line, as arrays between kernels do."""
    room = np.empty(array.nbytes + 64, np.uint8)
    skip = -room.ctypes.data % 64
    made = room[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def measure(functions: list[Callable[[], Array]], seconds: float) -> Array:
    """Seconds of this thread, a row for each turn: other programs do not count."""
    repeats = []
    for function in functions:
        function()
        start = time.perf_counter()
        function()
        repeats.append(max(1, int(2e-4 / (time.perf_counter() - start))))
    turns: list[list[float]] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(turns) < 9:
        turn = []
        for function, count in zip(functions, repeats, strict=True):
            start = time.thread_time()
            for _ in range(count):
                function()
            turn.append((time.thread_time() - start) / count)
        turns.append(turn)
    return np.array(turns)


def report(case: Case, seconds: float) -> None:
    name, model, feeds, work = case
    functions = [ours(model, feeds), peer(model, feeds)]
    mine, theirs = functions[0](), functions[1]()
    far = np.abs(mine.astype(np.float64) - theirs.astype(np.float64)).max()
    times = measure(functions, seconds)
    speed = work / np.median(times, axis=0) / 1e9
    ratio = float(np.median(times[:, 1] / times[:, 0]))
    print(
        f"{name:28s} ours {speed[0]:8.1f} G/s   onnxruntime {speed[1]:8.1f} G/s   "
        f"ratio {ratio:5.2f}   difference {far:.2g}",
        flush=True,
    )


_KINDS = {"float": float_cases, "moving": moving_cases, "bytes": byte_cases}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("kinds", nargs="*", help=", ".join(_KINDS))
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--cpu", type=int, default=1)
    given = parser.parse_args()
    os.sched_setaffinity(0, {given.cpu})
    for kind in given.kinds or _KINDS:
        for case in _KINDS[kind]():
            report(case, given.seconds)


if __name__ == "__main__":
    main()
