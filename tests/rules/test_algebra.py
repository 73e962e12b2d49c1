"""The pack `algebra` as a whole: chains of operators against numpy, whatever rules meet in them.

The right values come from numpy on the original chain; the rewritten model runs in onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SOME = settings(max_examples=60, deadline=None, derandomize=True)
FEW = settings(max_examples=30, deadline=None, derandomize=True)
Array = np.ndarray[Any, Any]


def _number(value: float) -> str:
    return str(value)


def _chain(start: str, result: str, initializers: list[str], nodes: list[str], last: str) -> str:
    held = f"<{', '.join(initializers)}>" if initializers else ""
    body = "\n".join(nodes)
    return f"g ({start} x) => ({result} y) {held} {{ {body}\n y = Identity({last}) }}"


# --- Relu, Clip, Min, Max ----------------------------------------------------------------------

BOUND = st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 6.0])
LATTICE = st.lists(
    st.one_of(
        st.tuples(st.just("Relu")),
        st.tuples(st.just("Clip"), st.none() | BOUND, st.none() | BOUND),
        st.tuples(st.sampled_from(["Min", "Max"]), BOUND),
    ),
    min_size=1,
    max_size=5,
)


@SOME
@given(steps=LATTICE, dtype=st.sampled_from(["float", "double"]))
def test_clamps(rewrite: Callable[..., Any], steps: list[tuple[Any, ...]], dtype: str) -> None:
    """min(max(x, lo), hi), hi last, is what every step means (Clip-13)."""
    kind = {"float": np.float32, "double": np.float64}[dtype]
    x = np.linspace(-8, 8, 65).astype(kind)
    right, held, nodes, last = x, [], [], "x"
    for i, (op, *bounds) in enumerate(steps):
        names = []
        for j, bound in enumerate(bounds):
            if bound is not None:
                held.append(f"{dtype} b{i}_{j} = {{{bound}}}")
            names.append("" if bound is None else f"b{i}_{j}")
        nodes.append(f"v{i} = {op}({', '.join([last, *names]).rstrip(', ')})")
        last = f"v{i}"
        right = _clamped(op, right, bounds)
    found = rewrite(_chain(f"{dtype}[65]", f"{dtype}[65]", held, nodes, last))
    np.testing.assert_array_equal(found.run(x=x)[0], right)
    # Whatever the chain was, one clamp says it, or two where its bounds cross.
    assert len(found.ops) <= 2
    assert rewrite(found.model).rules == []


def _clamped(op: str, x: Array, bounds: list[float | None]) -> Array:
    if op == "Relu":
        return np.maximum(x, 0)
    if op in ("Min", "Max"):
        assert bounds[0] is not None
        return (np.minimum if op == "Min" else np.maximum)(x, x.dtype.type(bounds[0]))
    low, high = bounds
    x = x if low is None else np.maximum(x, x.dtype.type(low))
    return x if high is None else np.minimum(x, x.dtype.type(high))


# --- Slice -------------------------------------------------------------------------------------

PLACE = st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63) + 1])
SLICES = st.lists(
    st.tuples(st.sampled_from([0, 1, -1]), PLACE, PLACE, st.sampled_from([1, 1, 2, 3, -1, -2])),
    min_size=2,
    max_size=4,
)


@SOME
@given(steps=SLICES)
def test_slices(rewrite: Callable[..., Any], steps: list[tuple[int, int, int, int]]) -> None:
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    right, held, nodes, last = x, [], [], "x"
    for i, step in enumerate(steps):
        names = [f"{n}{i}" for n in "abks"]
        order = (step[1], step[2], step[0], step[3])
        held += [f"int64[1] {n} = {{{v}}}" for n, v in zip(names, order, strict=True)]
        nodes.append(f"v{i} = Slice({', '.join([last, *names])})")
        last = f"v{i}"
        right = _sliced(right, *step)
    rows, columns = right.shape
    found = rewrite(_chain("float[5,7]", f"float[{rows},{columns}]", held, nodes, last))
    np.testing.assert_array_equal(found.run(x=x)[0], right)
    assert len(found.ops) <= 1


def _sliced(x: Array, axis: int, start: int, end: int, step: int) -> Array:
    """Slice-13 by indices: the elements that its clamping rule visits."""
    n = x.shape[axis]
    start, end = (v + n if v < 0 else v for v in (start, end))
    if step > 0:
        first, last = min(max(start, 0), n), min(max(end, 0), n)
    else:
        first, last = min(max(start, 0), n - 1), min(max(end, -1), n - 1)
    return np.take(x, np.arange(first, last, step, dtype=np.int64), axis)


# --- Reshape, Squeeze, Unsqueeze, Flatten --------------------------------------------------------

SHAPES = [(24,), (2, 12), (12, 2), (2, 3, 4), (4, 6), (1, 24), (2, 1, 12), (3, 1, 8), (1, 2, 3, 4)]


@SOME
@given(data=st.data())
def test_reshapes(rewrite: Callable[..., Any], data: st.DataObject) -> None:
    """All of them keep the elements in order: only the last shape counts."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    shape, held, nodes, last = (2, 3, 4), [], [], "x"
    for i in range(data.draw(st.integers(2, 5))):
        op, operand, attributes, shape = data.draw(_reshaping(shape))
        if operand is not None:
            held.append(f"int64[{len(operand)}] s{i} = {{{','.join(map(str, operand))}}}")
        inputs = f"{last}, s{i}" if operand is not None else last
        nodes.append(f"v{i} = {op} {attributes} ({inputs})")
        last = f"v{i}"
    sizes = ",".join(map(str, shape))
    # Abs at both ends, so that nothing is between an input and an output.
    text = f"g (float[2,3,4] x) => (float[{sizes}] y) <{', '.join(held)}> {{ w = Abs(x) "
    text += "\n".join(nodes).replace("(x", "(w") + f"\n y = Neg({last}) }}"
    found = rewrite(text)
    np.testing.assert_array_equal(found.run(x=x)[0], -x.reshape(shape))
    assert len(found.ops) <= 3


@st.composite
def _reshaping(
    draw: Callable[..., Any], shape: tuple[int, ...]
) -> tuple[str, list[int] | None, str, tuple[int, ...]]:
    op = draw(st.sampled_from(["Reshape", "Reshape", "Flatten", "Squeeze", "Unsqueeze"]))
    if op == "Reshape":
        after = draw(st.sampled_from(SHAPES))
        written = list(after)
        for i, size in enumerate(after):
            if i < len(shape) and shape[i] == size and draw(st.booleans()):
                written[i] = 0
        if draw(st.booleans()):
            written[draw(st.integers(0, len(after) - 1))] = -1
        return op, written, "", after
    if op == "Flatten":
        axis = draw(st.integers(0, len(shape)))
        after = (math.prod(shape[:axis]), math.prod(shape[axis:]))
        return op, None, f"<axis = {axis}>", after
    if op == "Squeeze":
        ones = [i for i, size in enumerate(shape) if size == 1]
        axes = draw(st.lists(st.sampled_from(ones), unique=True)) if ones else []
        after = tuple(size for i, size in enumerate(shape) if i not in axes)
        return op, [a - len(shape) if draw(st.booleans()) else a for a in axes], "", after
    place = draw(st.integers(0, len(shape)))
    return op, [place], "", (*shape[:place], 1, *shape[place:])


# --- Transpose -----------------------------------------------------------------------------------

ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "Relu": lambda a: np.maximum(a, 0),
    "Abs": np.abs,
    "Neg": np.negative,
    "Floor": np.floor,
}


@SOME
@given(data=st.data())
def test_transposes(rewrite: Callable[..., Any], data: st.DataObject) -> None:
    """Transposes, functions of elements and constants between them; at most one Transpose stays."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 11.5
    right, held, nodes, last = x, [], [], "x"
    for i in range(data.draw(st.integers(2, 6))):
        op = data.draw(st.sampled_from(["Transpose", "Transpose", *ELEMENTWISE, "Add", "Sub"]))
        inputs = last
        attributes = ""
        if op == "Transpose":
            perm = data.draw(st.permutations(range(3)))
            attributes = f"<perm = [{','.join(map(str, perm))}]>"
            right = right.transpose(perm)
        elif op in ELEMENTWISE:
            right = ELEMENTWISE[op](right)
        else:
            shape = tuple(s if data.draw(st.booleans()) else 1 for s in right.shape)
            shape = shape[data.draw(st.integers(0, 3)) :]
            c = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) + 0.5
            values = ",".join(map(str, c.reshape(-1)))
            dims = f"[{','.join(map(str, shape))}]" if shape else ""
            held.append(f"float{dims} c{i} = {{{values}}}")
            first = op == "Sub" or data.draw(st.booleans())
            inputs = f"c{i}, {last}" if first else f"{last}, c{i}"
            right = c - right if op == "Sub" else right + c
        nodes.append(f"v{i} = {op} {attributes} ({inputs})")
        last = f"v{i}"
    sizes = ",".join(map(str, right.shape))
    found = rewrite(_chain("float[2,3,4]", f"float[{sizes}]", held, nodes, last))
    np.testing.assert_allclose(found.run(x=x)[0], right, rtol=1e-6, atol=1e-5)
    assert found.ops.count("Transpose") <= 1


# --- Chains of + - * / ---------------------------------------------------------------------------

AFFINE = st.lists(
    st.tuples(
        st.sampled_from(["Add", "Sub", "Mul", "Div"]),
        st.sampled_from([0.5, 2.0, -1.0, 3.0, 0.1, -7.0]),
        st.booleans(),
        st.sampled_from(["", "[3]", "[1,1]"]),
    ),
    min_size=1,
    max_size=5,
)


@SOME
@given(steps=AFFINE)
def test_affine_chains(
    rewrite: Callable[..., Any], steps: list[tuple[str, float, bool, str]]
) -> None:
    """(a x + b) / (c x + d) computed in float64; one constant of each kind is left."""
    x = np.linspace(1.0, 2.0, 12).reshape(4, 3)
    right, held, nodes, last = x, [], [], "x"
    worst = np.abs(x)  # the largest magnitude met on the way: rounding is relative to it
    for i, (op, value, first, shape) in enumerate(steps):
        count = 3 if shape == "[3]" else 1
        c = np.full(count, value) + np.arange(count) * 0.25
        held.append(f"float{shape} c{i} = {{{','.join(map(str, c))}}}")
        left, other = (c, right) if first else (right, c)
        with np.errstate(all="ignore"):
            right = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op](
                left, other
            )
        worst = np.maximum(worst, np.abs(right))
        inputs = f"c{i}, {last}" if first else f"{last}, c{i}"
        nodes.append(f"v{i} = {op}({inputs})")
        last = f"v{i}"
    if not np.isfinite(right).all() or worst.max() > 1e4 or np.abs(right).min() < 1e-3:
        return
    found = rewrite(_chain("float[4,3]", "float[4,3]", held, nodes, last))
    scale = float(worst.max()) ** 2
    np.testing.assert_allclose(
        found.run(x=x.astype(np.float32))[0], right, rtol=1e-4, atol=1e-5 * scale
    )
    assert len(found.ops) <= max(1, len(steps))


# --- Constants next to Conv, ConvTranspose, Gemm, MatMul ------------------------------------------

CONTRACTIONS = {
    "Conv": ("float[2,4,4,4]", "Conv <group = {g}, pads = [{p},{p},{p},{p}]> ({x}, W, B)"),
    "ConvTranspose": ("float[2,4,4,4]", "ConvTranspose <group = {g}> ({x}, W, B)"),
}
AROUND = ["", "[4]", "[4,1]", "[4,1,1]", "[1,4,1,1]", "[1,1,4,1]", "[2,1,1,1]"]


@FEW
@given(data=st.data())
def test_constants_around_convolutions(
    rewrite: Callable[..., Any], run: Callable[..., Any], data: st.DataObject
) -> None:
    """Constants of every shape that broadcasts, before and after; only some are per channel."""
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    op = data.draw(st.sampled_from(sorted(CONTRACTIONS)))
    group, pad = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.sampled_from([0, 1]))
    weight = (4, 4 // group, 1, 1) if pad == 0 or op != "Conv" else (4, 4 // group, 3, 3)
    held = [
        _initializer("W", random.normal(size=weight)),
        _initializer("B", random.normal(size=4)),
    ]
    nodes, last = [], "x"
    middle = data.draw(st.integers(0, 2))
    for i in range(4):
        if i == middle:
            call = CONTRACTIONS[op][1].format(g=group, p=pad, x=last)
            nodes.append(f"v{i} = {call}")
        else:
            kind = data.draw(st.sampled_from(["Add", "Mul", "Sub", "Div"]))
            shape = data.draw(st.sampled_from(AROUND))
            sizes = [int(s) for s in shape.strip("[]").split(",") if s]
            held.append(_initializer(f"c{i}", random.uniform(0.5, 2, size=sizes)))
            nodes.append(f"v{i} = {kind}({last}, c{i})")
        last = f"v{i}"
    text = _chain(CONTRACTIONS[op][0], "float[2,4,4,4]", held, nodes, last)
    found = rewrite(text)
    x = random.normal(size=(2, 4, 4, 4)).astype(np.float32)
    right = run(found.before, {"x": x})[0]
    scale = float(np.abs(right).max())
    np.testing.assert_allclose(found.run(x=x)[0], right, rtol=0, atol=2e-5 * scale)


def _initializer(name: str, values: Any) -> str:
    array = np.asarray(values, dtype=np.float32)
    sizes = f"[{','.join(map(str, array.shape))}]" if array.ndim else ""
    return f"float{sizes} {name} = {{{','.join(repr(float(v)) for v in array.reshape(-1))}}}"


@FEW
@given(data=st.data())
def test_constants_around_matrices(
    rewrite: Callable[..., Any], run: Callable[..., Any], data: st.DataObject
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    op = data.draw(st.sampled_from(["MatMul", "Gemm", "Left"]))
    held = [_initializer("W", random.normal(size=(4, 4)))]
    nodes, last = [], "x"
    middle = data.draw(st.integers(0, 2))
    for i in range(4):
        if i == middle and op == "Gemm":
            held.append(_initializer("C", random.normal(size=4)))
            t = data.draw(st.sampled_from([0, 1]))
            nodes.append(f"v{i} = Gemm <alpha = 0.5, beta = 2.0, transB = {t}> ({last}, W, C)")
        elif i == middle:
            operands = f"W, {last}" if op == "Left" else f"{last}, W"
            nodes.append(f"v{i} = MatMul({operands})")
        else:
            kind = data.draw(st.sampled_from(["Add", "Mul", "Sub", "Div"]))
            sizes = data.draw(st.sampled_from([(), (4,), (1, 4), (4, 1), (4, 4)]))
            held.append(_initializer(f"c{i}", random.uniform(0.5, 2, size=sizes)))
            nodes.append(f"v{i} = {kind}({last}, c{i})")
        last = f"v{i}"
    found = rewrite(_chain("float[4,4]", "float[4,4]", held, nodes, last))
    x = random.normal(size=(4, 4)).astype(np.float32)
    right = run(found.before, {"x": x})[0]
    scale = float(np.abs(right).max())
    np.testing.assert_allclose(found.run(x=x)[0], right, rtol=0, atol=2e-5 * scale)


# --- Cast ----------------------------------------------------------------------------------------

TYPES = {
    "float": (1, np.float32), "uint8": (2, np.uint8), "int8": (3, np.int8), "int16": (5, np.int16),
    "int32": (6, np.int32), "int64": (7, np.int64), "float16": (10, np.float16),
    "double": (11, np.float64),
}  # fmt: skip


@SOME
@given(
    first=st.sampled_from(sorted(TYPES)),
    rest=st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4),
)
def test_casts(rewrite: Callable[..., Any], first: str, rest: list[str]) -> None:
    """Values that every type on the way can represent apart from their fraction."""
    x = np.array([0, 1, 2, 3.5, 7.25, 100.5]).astype(TYPES[first][1])
    right, nodes, last = x, [], "x"
    for i, name in enumerate(rest):
        nodes.append(f"v{i} = Cast <to = {TYPES[name][0]}> ({last})")
        right = right.astype(TYPES[name][1])
        last = f"v{i}"
    found = rewrite(_chain(f"{first}[6]", f"{rest[-1]}[6]", [], nodes, last))
    np.testing.assert_array_equal(found.run(x=x)[0], right)
    assert len(found.ops) <= len(rest)


# --- Termination ----------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [40])
def test_long_chains_end(rewrite: Callable[..., Any], depth: int) -> None:
    """Forty of everything collapse, and nothing is left to do afterwards."""
    steps = [
        "Identity(%s)", "Add(%s, c)", "Mul(%s, c)", "Neg(%s)", "Transpose(%s)", "Relu(%s)",
        "Transpose(%s)", "Clip(%s, c)", "Reshape(%s, s)", "Flatten(%s)",
    ]  # fmt: skip
    nodes, last = [], "x"
    for i in range(depth):
        nodes.append(f"v{i} = {steps[i % len(steps)] % last}")
        last = f"v{i}"
    held = ["float c = {0.5}", "int64[3] s = {3,1,3}"]
    found = rewrite(_chain("float[3,3]", "float[3,3]", held, nodes, last))
    assert found.journal.stop.reason == "fixpoint"
    assert "Transpose" not in found.ops
    assert "Reshape" not in found.ops
    assert rewrite(found.model).rules == []
