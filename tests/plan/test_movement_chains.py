"""Views of views: random chains of operators that move elements, between operators that compute.

Every step is mirrored in numpy; all numbers are small integers, so that every result is exact in
float32 whatever the order of sums.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from rewrite.graph import io
from rewrite.runtime.session import Options, Session

Array = np.ndarray[Any, np.dtype[Any]]


class Chain:
    """A graph under construction: nodes, and the value of every tensor."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.known: list[onnx.TensorProto] = []
        self.values: dict[str, Array] = {}

    def constant(self, array: Any) -> str:
        name = f"c{len(self.known)}"
        self.known.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def numbers(self, *shape: int) -> Array:
        return self.rng.integers(-3, 4, shape).astype(np.float32)

    def add(self, value: Array, name: str, *operands: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(name, list(operands), [output], **attributes))
        self.values[output] = np.ascontiguousarray(value, np.float32)
        return output

    def axis(self, x: Array) -> int:
        return self.choose.randrange(x.ndim)


def transpose(c: Chain, name: str, x: Array) -> str:
    perm = c.choose.sample(range(x.ndim), x.ndim)
    return c.add(x.transpose(perm), "Transpose", name, perm=perm)


def reshape(c: Chain, name: str, x: Array) -> str:
    left, shape = x.size, []
    while left > 1 and len(shape) < 3:
        shape.append(c.choose.choice([d for d in range(1, left + 1) if left % d == 0]))
        left //= shape[-1]
    shape.append(left)
    c.choose.shuffle(shape)
    return c.add(x.reshape(shape), "Reshape", name, c.constant(np.array(shape)))


def slice_(c: Chain, name: str, x: Array) -> str:
    axis, step = c.axis(x), c.choose.choice([1, 2, -1, -2])
    size = x.shape[axis]
    start = c.choose.randrange(size)
    end = size if step > 0 else -size - 1
    places = [slice(None)] * x.ndim
    places[axis] = slice(start, None, step)
    bounds = [c.constant(np.array([n])) for n in (start, end, axis, step)]
    return c.add(x[tuple(places)], "Slice", name, *bounds)


def expand(c: Chain, name: str, x: Array) -> str:
    shape = [n if n > 1 else c.choose.choice([1, 3]) for n in x.shape]
    if len(shape) < 4:
        shape.insert(0, 2)
    return c.add(np.broadcast_to(x, shape), "Expand", name, c.constant(np.array(shape)))


def unsqueeze(c: Chain, name: str, x: Array) -> str:
    axis = c.choose.randrange(x.ndim + 1) if x.ndim < 4 else None
    if axis is None:
        return c.add(x.reshape(-1), "Reshape", name, c.constant(np.array([-1])))
    return c.add(np.expand_dims(x, axis), "Unsqueeze", name, c.constant(np.array([axis])))


def pad(c: Chain, name: str, x: Array) -> str:
    widths = [c.choose.choice([0, 0, 1, 2]) for _ in range(2 * x.ndim)]
    mode = c.choose.choice(["constant", "edge"])
    pairs = list(zip(widths[: x.ndim], widths[x.ndim :], strict=True))
    value = np.pad(x, pairs, mode=mode)  # type: ignore[call-overload]
    return c.add(value, "Pad", name, c.constant(np.array(widths)), mode=mode)


def tile(c: Chain, name: str, x: Array) -> str:
    repeats = [c.choose.choice([1, 1, 2]) for _ in x.shape]
    return c.add(np.tile(x, repeats), "Tile", name, c.constant(np.array(repeats)))


def concat(c: Chain, name: str, x: Array) -> str:
    axis = c.axis(x)
    return c.add(np.concatenate([x, x], axis), "Concat", name, name, axis=axis)


def gather(c: Chain, name: str, x: Array) -> str:
    axis = c.axis(x)
    places = c.rng.integers(-x.shape[axis], x.shape[axis], 2)
    return c.add(np.take(x, places, axis), "Gather", name, c.constant(places), axis=axis)


def scatter(c: Chain, name: str, x: Array) -> str:
    places = c.rng.integers(0, x.shape[0], (2, 1))
    updates = c.numbers(2, *x.shape[1:])
    value = x.copy()
    np.add.at(value, places[:, 0], updates)
    given = c.constant(places), c.constant(updates)
    return c.add(value, "ScatterND", name, *given, reduction="add")


def relu(c: Chain, name: str, x: Array) -> str:
    return c.add(np.maximum(x, 0), "Relu", name)


def add(c: Chain, name: str, x: Array) -> str:
    other = c.numbers(x.shape[-1])
    return c.add(x + other, "Add", name, c.constant(other))


def total(c: Chain, name: str, x: Array) -> str:
    axis = c.axis(x)
    value = np.clip(x.sum(axis, keepdims=True), -9, 9)
    made = c.add(x.sum(axis, keepdims=True), "ReduceSum", name, c.constant(np.array([axis])))
    bounds = c.constant(np.float32(-9)), c.constant(np.float32(9))
    return c.add(value, "Clip", made, *bounds)


def product(c: Chain, name: str, x: Array) -> str:
    if x.ndim < 2:
        return relu(c, name, x)
    weight = c.numbers(x.shape[-1], c.choose.choice([1, 3, 16]))
    made = c.add(x @ weight, "MatMul", name, c.constant(weight))
    bounds = c.constant(np.float32(-9)), c.constant(np.float32(9))
    return c.add(np.clip(x @ weight, -9, 9), "Clip", made, *bounds)


def convolution(c: Chain, name: str, x: Array) -> str:
    """1x1, whose result has its channels innermost."""
    if x.ndim != 4:
        return add(c, name, x)
    weight = c.numbers(c.choose.choice([1, 4]), x.shape[1], 1, 1)
    value = np.einsum("nchw,oc->nohw", x, weight[:, :, 0, 0])
    made = c.add(value, "Conv", name, c.constant(weight))
    bounds = c.constant(np.float32(-9)), c.constant(np.float32(9))
    return c.add(np.clip(value, -9, 9), "Clip", made, *bounds)


STEPS: list[Callable[[Chain, str, Array], str]] = [
    transpose, reshape, slice_, expand, unsqueeze, pad, tile, concat, gather, scatter, relu, add,
    total, product, convolution,
]  # fmt: skip
MOST = 20_000  # elements of a tensor


def model_of(seed: int) -> tuple[onnx.ModelProto, Array, dict[str, Array]]:
    c = Chain(seed)
    shape = [c.choose.choice([1, 2, 3, 5, 8, 17]) for _ in range(c.choose.choice([2, 3, 4]))]
    x = c.numbers(*shape)
    recent: list[tuple[str, Array]] = [("x", x)]
    for _ in range(c.choose.randint(4, 12)):
        name, value = c.choose.choice(recent[-3:])
        if value.size < MOST:
            made = c.choose.choice(STEPS)(c, name, value)
            recent.append((made, c.values[made]))
    wanted = {recent[-1][0], *c.choose.sample([n for n, _ in recent[1:]], 2)}
    outputs = {n: c.values[n] for n in c.values if n in wanted}
    graph = helper.make_graph(
        c.nodes, "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        c.known,
    )  # fmt: skip
    imports = [helper.make_opsetid("", 22)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), x, outputs


@pytest.mark.parametrize("seed", range(60))
def test_chain(seed: int) -> None:
    model, x, want = model_of(seed)
    with Session(io.load(model), Options(strict=True)) as session:
        for _ in range(2):  # what a run leaves behind does not disturb the next
            got = session.run({"x": x})
            for name, value in want.items():
                np.testing.assert_array_equal(got[name], value)
