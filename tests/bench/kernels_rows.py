"""Row programs, running totals and TopK beside onnxruntime: one thread, in turns, in CPU time.

    python tests/bench/kernels_rows.py [--seconds 1] [NAME...]

The kernel is called as a plan calls it, onnxruntime with its buffers bound. Prints microseconds of
both, onnxruntime's over ours, bytes moved per second, and the largest difference of the outputs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rewrite.codegen.isa import native
from rewrite.plan import rows_normalize
from rewrite.plan.rows_draft import Draft, Ref
from rewrite.plan.rows_layout import lay
from rewrite.plan.spec import Spec
from rewrite.plan.specs.reduce import ArgExtreme
from rewrite.plan.specs.scan import RunningTotal
from rewrite.plan.specs.sort import TopK, room_for, scratch_bytes
from rewrite.plan.view import broadcast, dense
from rewrite.runtime.objects import objects_for
from tests.codegen.harness import SIGNATURE, address, aligned

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[], object]
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """Ours and theirs, with their outputs, and the bytes that have to be moved."""

    ours: Run
    theirs: Run
    outputs: tuple[Array, Array]
    bytes: int


def floats(*shape: int) -> Array:
    return aligned(shape, np.float32, RNG.standard_normal(shape))


def kernel(spec: Spec, words: Sequence[Array | int], items: int, scratch: int) -> Run:
    """One call of a kernel over all its items."""
    call = SIGNATURE(objects_for(native()).address(spec))
    table = np.array([w if isinstance(w, int) else address(w) for w in words], np.int64)
    room = aligned((scratch + 64,), np.uint8)
    where = (address(table), address(room))
    return _keeping(lambda: call(where[0], 0, items, where[1]), table, room, *words)


def _keeping(run: Run, *things: object) -> Run:
    """The same, with what it points to."""

    def kept() -> object:
        return run() if things else None

    return kept


def session(
    nodes: Sequence[onnx.NodeProto], feeds: dict[str, Array], outputs: dict[str, Array], opset: int
) -> Run:
    """onnxruntime with one thread and bound buffers."""
    kind = helper.np_dtype_to_tensor_dtype
    given = [helper.make_tensor_value_info(n, kind(a.dtype), a.shape) for n, a in feeds.items()]
    asked = [helper.make_tensor_value_info(n, kind(a.dtype), a.shape) for n, a in outputs.items()]
    graph = helper.make_graph(list(nodes), "g", given, asked)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    made = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = made.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, address(array))
    return _keeping(lambda: made.run_with_iobinding(binding), feeds, outputs)


def row_case(
    write: Callable[[Draft, list[Ref]], Ref],
    feeds: dict[str, Array],
    axes: tuple[int, ...],
    nodes: Sequence[onnx.NodeProto],
    element: bool = True,
    opset: int = 17,
) -> Case:
    """A row program over operands that are broadcast to the first."""
    arrays = list(feeds.values())
    shape = arrays[0].shape
    d = Draft()
    refs = [d.operand(name, "f32", True) for name in feeds]
    built = d.finish([write(d, refs)])
    out_shape = tuple(1 if a in axes and not element else n for a, n in enumerate(shape))
    ours, theirs = floats(*out_shape), floats(*out_shape)
    views = [broadcast(dense("f32", a.shape), shape) for a in arrays]
    target = broadcast(dense("f32", out_shape), shape)
    laid = lay(built, shape, axes, views, [target], [element])
    run = kernel(laid.spec, [*arrays, ours, *laid.integers], laid.items, laid.scratch)
    moved = sum(a.nbytes for a in (*arrays, ours))
    return Case(run, session(nodes, feeds, {"y": theirs}, opset), (ours, theirs), moved)


def softmax(rows: int, n: int) -> Case:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    return row_case(
        lambda d, r: rows_normalize.softmax(d, r[0]), {"x": floats(rows, n)}, (1,), [node]
    )


def softmax_of_columns(n: int, columns: int) -> Case:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=0)
    return row_case(
        lambda d, r: rows_normalize.softmax(d, r[0]), {"x": floats(n, columns)}, (0,), [node]
    )


def _normalized(d: Draft, r: list[Ref]) -> Ref:
    y, _, _ = rows_normalize.standardized(d, d.step("Add", r[0], r[1]), 1e-5)
    return d.step("Add", d.step("Mul", y, r[2]), r[3])


def add_layer_norm(rows: int, n: int) -> Case:
    feeds = {"x": floats(rows, n), "s": floats(rows, n), "g": floats(n), "b": floats(n)}
    nodes = [
        helper.make_node("Add", ["x", "s"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "g", "b"], ["y"], epsilon=1e-5),
    ]
    return row_case(_normalized, feeds, (1,), nodes)


def skip_layer_norm(rows: int, n: int) -> Case:
    feeds = {"x": floats(rows, n), "s": floats(rows, n), "g": floats(n), "b": floats(n)}
    node = helper.make_node(
        "SkipLayerNormalization", list(feeds), ["y"], domain="com.microsoft", epsilon=1e-5
    )
    return row_case(_normalized, feeds, (1,), [node])


def reduction(name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> Case:
    node = helper.make_node(name, ["x"], ["y"], axes=axes, keepdims=1)
    if name == "ReduceMax":
        return row_case(
            lambda d, r: d.fold("max", r[0]), {"x": floats(*shape)}, axes, [node], False
        )
    return row_case(lambda d, r: d.mean(r[0]), {"x": floats(*shape)}, axes, [node], False)


def arg_max(rows: int, n: int) -> Case:
    x, ours, theirs = floats(rows, n), *(np.zeros((rows, 1), np.int64) for _ in range(2))
    run = kernel(ArgExtreme("f32", True, False, True), [x, ours, n, 1, 64], rows, 0)
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1)
    return Case(run, session([node], {"x": x}, {"y": theirs}, 13), (ours, theirs), x.nbytes)


def cum_sum(rows: int, n: int) -> Case:
    x, ours, theirs = floats(rows, n), floats(rows, n), floats(rows, n)
    spec = RunningTotal("f32", "add", False, False, True)
    run = kernel(spec, [x, ours, n, 1, 64], rows, 0)
    axis = np.array(1, np.int64)
    node = helper.make_node("CumSum", ["x", "axis"], ["y"])
    other = session([node], {"x": x, "axis": axis}, {"y": theirs}, 14)
    return Case(run, other, (ours, theirs), 2 * x.nbytes)


def top_k(rows: int, n: int, k: int) -> Case:
    x = floats(rows, n)
    ours, theirs = floats(rows, k), floats(rows, k)
    places, other_places = (np.zeros((rows, k), np.int64) for _ in range(2))
    spec, room = TopK("f32", True), room_for(n, k, native().lanes("f32"))
    run = kernel(spec, [x, ours, places, n, k, room], rows, scratch_bytes(spec, room))
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"])
    feeds = {"x": x, "k": np.array([k], np.int64)}
    other = session([node], feeds, {"v": theirs, "i": other_places}, 13)
    return Case(run, other, (ours, theirs), x.nbytes)


CASES: dict[str, Callable[[], Case]] = {
    "softmax 512x128": lambda: softmax(512, 128),
    "softmax 128x1024": lambda: softmax(128, 1024),
    "softmax 128x4096": lambda: softmax(128, 4096),
    "softmax 1000x49": lambda: softmax(1000, 49),
    "softmax 100000x3": lambda: softmax(100_000, 3),
    "softmax down 21x65536": lambda: softmax_of_columns(21, 65536),
    "add+layernorm 128x768": lambda: add_layer_norm(128, 768),
    "add+layernorm 512x1024": lambda: add_layer_norm(512, 1024),
    "skiplayernorm 128x768": lambda: skip_layer_norm(128, 768),
    "mean last 512x1024": lambda: reduction("ReduceMean", (512, 1024), (1,)),
    "mean first 512x1024": lambda: reduction("ReduceMean", (512, 1024), (0,)),
    "mean spatial 8x64x56x56": lambda: reduction("ReduceMean", (8, 64, 56, 56), (2, 3)),
    "mean spatial 2048x7x7": lambda: reduction("ReduceMean", (1, 2048, 7, 7), (2, 3)),
    "mean nhwc 8x56x56x64": lambda: reduction("ReduceMean", (8, 56, 56, 64), (1, 2)),
    "mean all 1000x1000": lambda: reduction("ReduceMean", (1000, 1000), (0, 1)),
    "mean of three 100000x3": lambda: reduction("ReduceMean", (100_000, 3), (1,)),
    "max last 512x1024": lambda: reduction("ReduceMax", (512, 1024), (1,)),
    "argmax 512x1000": lambda: arg_max(512, 1000),
    "cumsum 512x1024": lambda: cum_sum(512, 1024),
    "top 5 of 64x1000": lambda: top_k(64, 1000, 5),
    "top 300 of 1x33600": lambda: top_k(1, 33600, 300),
    "top 1000 of 4x1000": lambda: top_k(4, 1000, 1000),
}


def measured(case: Case, seconds: float) -> tuple[float, float]:
    """Median microseconds of CPU time, in turns."""
    runs = (case.ours, case.theirs)
    repeats = []
    for run in runs:
        run()
        begin = time.process_time_ns()
        for _ in range(10):
            run()
        repeats.append(max(1, int(3e7 / (time.process_time_ns() - begin + 1))))
    found: tuple[list[float], list[float]] = ([], [])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for run, count, times in zip(runs, repeats, found, strict=True):
            begin = time.process_time_ns()
            for _ in range(count):
                run()
            times.append((time.process_time_ns() - begin) / count / 1000)
    return float(np.median(found[0])), float(np.median(found[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of cases")
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    print(f"{'':28}{'ours µs':>10}{'ort µs':>10}{'ort/ours':>10}{'GB/s':>8}{'apart':>10}")
    for name, make in CASES.items():
        if options.names and not any(part in name for part in options.names):
            continue
        case = make()
        ours, theirs = measured(case, options.seconds)
        apart = np.max(np.abs(case.outputs[0].astype(float) - case.outputs[1]))
        speed = case.bytes / ours / 1000
        print(f"{name:28}{ours:10.1f}{theirs:10.1f}{theirs / ours:10.2f}{speed:8.1f}{apart:10.1e}")


if __name__ == "__main__":
    main()
