"""MatMul and Gemm through sessions: shapes, types, batches, transposes, fused groups."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from rewrite.codegen.isa import Isa
from tests.codegen.harness import isas
from tests.plan.matmul_models import grouped, product_tolerance, run

Array = np.ndarray[Any, np.dtype[Any]]
node = helper.make_node
RNG = np.random.default_rng(0)


def wide(isa: Isa) -> str:
    return str(isa.vector_bytes)


def numbers(shape: tuple[int, ...], kind: Any) -> Array:
    dtype = np.dtype(kind)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return RNG.standard_normal(shape).astype(dtype)


SHAPES = [
    ((13, 17), (17, 40)), ((17,), (17, 5)), ((3, 17), (17,)), ((17,), (17,)),
    ((2, 3, 5, 8), (8, 9)), ((2, 3, 5, 8), (3, 8, 9)), ((5, 8), (2, 8, 40)),
    ((1, 4, 7), (3, 7, 2)), ((7,), (2, 7, 3)), ((2, 3, 7), (7,)), ((3, 1, 6, 7), (1, 1, 7, 1)),
    ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((2, 0, 4), (4, 5)), ((0, 3, 4), (0, 4, 5)),
    ((2, 3, 0), (2, 0, 4)), ((3, 4), (4, 0)),
]  # fmt: skip


@pytest.mark.parametrize("isa", isas(), ids=wide)
def test_shapes(isa: Isa) -> None:
    """Vectors, broadcast batches, sizes of zero; factors known or not."""
    for (sa, sb), const in itertools.product(SHAPES, ((), ("b",), ("a",))):
        a, b = numbers(sa, np.float32), numbers(sb, np.float32)
        (y,) = run([node("MatMul", ["a", "b"], ["y"])], {"a": a, "b": b}, const, isa)
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
        assert y.dtype == np.float32
        assert y.shape == exact.shape
        assert (np.abs(y - exact) <= product_tolerance(a, b, 2.0**-24)).all(), (sa, sb, const)


FLOATS = {np.float32: 0.0, np.float64: 0.0, np.float16: 2.0**-11, ml_dtypes.bfloat16: 2.0**-8}
INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)
GEMMS = [
    (ta, tb, alpha, beta, c)
    for (ta, tb), (alpha, beta), c in itertools.product(
        ((0, 0), (0, 1), (1, 0), (1, 1)),
        ((1.0, 1.0), (3.0, 2.0)),
        (None, (40,), (1, 40), (13, 1), (13, 40), (1,), ()),
    )
]


@pytest.mark.parametrize("isa", isas(), ids=wide)
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS], ids=lambda k: np.dtype(k).name)
def test_gemm(isa: Isa, kind: Any) -> None:
    some = GEMMS if kind is np.float32 else GEMMS[::3]
    for number, (ta, tb, alpha, beta, c) in enumerate(some):
        a, b = numbers((13, 17), kind), numbers((17, 40), kind)
        arrays = {"a": a.T.copy() if ta else a, "b": b.T.copy() if tb else b}
        if c is not None:
            arrays["c"] = numbers(c, kind)
        const = [n for n in (("b", "c") if number % 2 else ()) if n in arrays]
        attributes = {"transA": ta, "transB": tb, "alpha": alpha, "beta": beta}
        (y,) = run([node("Gemm", list(arrays), ["y"], **attributes)], arrays, const, isa)
        assert y.dtype == np.dtype(kind)
        if kind in INTEGERS:
            exact = np.matmul(a, b) * np.dtype(kind).type(alpha)
            exact = exact + (0 if c is None else arrays["c"] * np.dtype(kind).type(beta))
            assert (y == exact).all()
            continue
        left, right = a.astype(np.float64), b.astype(np.float64)
        addend = 0 if c is None else beta * arrays["c"].astype(np.float64)
        product = alpha * np.matmul(left, right)
        eps = 2.0**-53 if kind is np.float64 else 2.0**-24
        bound = alpha * product_tolerance(a, b, eps)
        bound = bound + (FLOATS[kind] + 2 * eps) * 1.01 * (np.abs(product) + np.abs(addend))
        assert (np.abs(y.astype(np.float64) - (product + addend)) <= bound).all()


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS], ids=lambda k: np.dtype(k).name)
def test_matmul_of_types(kind: Any) -> None:
    a, b = numbers((2, 13, 17), kind), numbers((2, 17, 40), kind)
    (y,) = run([node("MatMul", ["a", "b"], ["y"])], {"a": a, "b": b})
    if kind in INTEGERS:
        assert (y == np.matmul(a, b)).all()
        return
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    bound = product_tolerance(a, b, 2.0**-53 if kind is np.float64 else 2.0**-24)
    assert (np.abs(y.astype(np.float64) - exact) <= bound + FLOATS[kind] * np.abs(exact)).all()


def test_integers_scaled_by_fractions_are_left_to_the_reference() -> None:
    arrays = {"a": numbers((2, 3), np.int32), "b": numbers((3, 2), np.int32)}
    with pytest.raises(Exception, match="RW804"):
        run([node("Gemm", ["a", "b"], ["y"], alpha=0.5)], arrays)


@pytest.mark.parametrize("turned", ["a", "b", "both"])
@pytest.mark.parametrize("rows", [1, 2, 5, 20])
@pytest.mark.parametrize("columns", [1, 33])
def test_transposed_views(turned: str, rows: int, columns: int) -> None:
    """A Transpose in front is a view; few rows and single columns have kernels of their own."""
    a, b = numbers((2, rows, 17), np.float32), numbers((2, 17, columns), np.float32)
    arrays = {"a": a, "b": b}
    nodes = []
    for name in "ab":
        if turned in (name, "both"):
            arrays[name] = arrays[name].swapaxes(1, 2).copy()
            nodes.append(node("Transpose", [name], [f"{name}t"], perm=[0, 2, 1]))
    operands = [f"{n}t" if turned in (n, "both") else n for n in "ab"]
    (y,) = run([*nodes, node("MatMul", operands, ["y"])], arrays)
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    assert (np.abs(y - exact) <= product_tolerance(a, b, 2.0**-24)).all()


CHAINS = [
    ((13, 17), (17, 40), (40,), (13, 40)), ((2, 3, 17), (17, 70), (70,), (2, 3, 70)),
    ((2, 5, 17), (2, 17, 9), (9,), (2, 1, 9)), ((4, 17), (17, 40), (4, 1), (1, 40)),
    ((17,), (17, 5), (5,), (5,)), ((3, 4, 17), (17, 6), (3, 1, 6), (4, 1)),
]  # fmt: skip


@pytest.mark.parametrize("isa", isas(), ids=wide)
@pytest.mark.parametrize("const", [(), ("b", "c")], ids=["inputs", "weights"])
def test_groups_are_one_product(isa: Isa, const: tuple[str, ...]) -> None:
    """Bias, activation, residual: small integers, so every order of sums is exact."""
    for shapes in CHAINS:
        arrays = {
            n: RNG.integers(-4, 5, s).astype(np.float32)
            for n, s in zip("abcr", shapes, strict=True)
        }
        product = np.matmul(arrays["a"], arrays["b"])
        bias = [node("MatMul", ["a", "b"], ["t"]), node("Add", ["c", "t"], ["u"])]
        y, labels = grouped(bias, {n: arrays[n] for n in "abc"}, const, isa)
        assert (y == product + arrays["c"]).all(), shapes
        assert set(labels) == {"MatMul+Add"}
        rest = [node("Relu", ["u"], ["v"]), node("Add", ["v", "r"], ["w"])]
        rest.append(node("Mul", ["w", "w"], ["y"]))
        y, labels = grouped([*bias, *rest], arrays, const, isa)
        assert (y == (np.maximum(product + arrays["c"], 0) + arrays["r"]) ** 2).all(), shapes
        assert set(labels) == {"MatMul+Add+Relu+Add+Mul"}
        square = [node("MatMul", ["a", "b"], ["t"]), node("Mul", ["t", "t"], ["u"])]
        y, _ = grouped(
            [*square, node("Add", ["u", "c"], ["y"])], {n: arrays[n] for n in "abc"}, const, isa
        )
        assert (y == product**2 + arrays["c"]).all(), "the sum is needed twice: no bias"


def random_chain(rng: np.random.Generator) -> tuple[list[Any], dict[str, Array], Array]:
    """A product of small integers and up to three steps: nodes, operands, the exact result."""
    sizes = [1, 2, 3, 5, 8, 9, 16, 17, 33, 64, 70]
    m, n = (int(rng.choice(sizes)) for _ in range(2))
    k = int(rng.choice([0, 1, 3, 16, 17, 40]))
    batch = [int(rng.integers(1, 4)) for _ in range(rng.integers(0, 3))]
    arrays, names, nodes = {}, [], []
    for name, rows in (("a", (m, k)), ("b", (k, n))):
        lead = [d if rng.random() < 0.7 else 1 for d in batch][rng.integers(0, len(batch) + 1) :]
        arrays[name] = rng.integers(-4, 5, (*lead, *rows)).astype(np.float32)
    found = np.matmul(arrays["a"], arrays["b"])
    for name in "ab":
        names.append(name)
        if rng.random() < 0.3:
            rank = arrays[name].ndim
            arrays[name] = arrays[name].swapaxes(-1, -2).copy()
            names[-1] = f"{name}t"
            order = [*range(rank - 2), rank - 1, rank - 2]
            nodes.append(node("Transpose", [name], [names[-1]], perm=order))
    nodes.append(node("MatMul", names, ["v"]))
    for i in range(rng.integers(0, 4)):
        shape = [d if rng.random() < 0.6 else 1 for d in found.shape]
        shape = shape[rng.integers(0, len(shape) + 1) :]
        other = arrays[f"c{i}"] = rng.integers(-3, 4, shape).astype(np.float32)
        name = str(rng.choice(["Add", "Mul", "Sub"]))
        operands = [nodes[-1].output[0], f"c{i}"]
        values = [found, other]
        if rng.random() < 0.3:
            operands.reverse()
            values.reverse()
        nodes.append(node(name, operands, [f"v{i}"]))
        found = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract}[name](*values)
    return nodes, arrays, found


@pytest.mark.parametrize("isa", isas(), ids=wide)
@pytest.mark.parametrize("seed", range(3))
def test_random_chains(isa: Isa, seed: int) -> None:
    """Batches that are broadcast, views, epilogues; every result is a float32 exactly."""
    rng = np.random.default_rng(seed)
    for _ in range(12):
        nodes, arrays, exact = random_chain(rng)
        const = [name for name in arrays if name != "a" and rng.random() < 0.5]
        y, _ = grouped(nodes, arrays, const, isa)
        assert y.shape == exact.shape
        assert (y == exact).all(), (nodes, const)


def test_results_do_not_run_over_their_factors() -> None:
    """Square products in a row, whose operands lie like their results; a residual may."""
    arrays = {n: RNG.integers(-2, 3, (24, 24)).astype(np.float32) for n in "abcd"}
    nodes = [
        node("Add", ["a", "a"], ["x"]), node("MatMul", ["x", "b"], ["y"]),
        node("MatMul", ["y", "c"], ["z"]), node("MatMul", ["z", "z"], ["w"]),
        node("Add", ["w", "d"], ["out"]),
    ]  # fmt: skip
    (y,) = run(nodes, arrays)
    z = 2 * arrays["a"] @ arrays["b"] @ arrays["c"]
    assert (y == z @ z + arrays["d"]).all()


def test_two_threads() -> None:
    a, b = numbers((150, 64), np.float32), numbers((64, 500), np.float32)
    nodes = [node("MatMul", ["a", "b"], ["y"])]
    one = run(nodes, {"a": a, "b": b}, ("b",))[0]
    two = run(nodes, {"a": a, "b": b}, ("b",), threads=2)[0]
    assert (one == two).all(), "a split changes nothing"
