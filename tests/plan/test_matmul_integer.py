"""Products of bytes through sessions: every sign, zero point and instruction, exact."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from rewrite.codegen.isa import AVX2, BASELINE, Isa
from rewrite.plan.lower.matmul_bytes import scheme_of
from tests.codegen.test_gemm import machines, name_of
from tests.plan.matmul_models import grouped, model, run

Array = np.ndarray[Any, np.dtype[Any]]
node = helper.make_node
SIGNS = list(itertools.product((np.uint8, np.int8), (np.uint8, np.int8)))
RNG = np.random.default_rng(0)


def codes(kind: Any, *shape: int) -> Array:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max, shape, dtype=kind, endpoint=True)


def zeros(a: Any, b: Any, m: int, n: int) -> list[tuple[Array | None, Array | None]]:
    """None, one number, numbers that vanish when a sign is changed, one per row or column."""
    middle = {np.uint8: 128, np.int8: 0}
    return [
        (None, None),
        (np.array(7, a), None),
        (np.array(middle[a], a), np.array(middle[b], b)),
        (np.array([3], a), np.array(5, b)),
        (codes(a, m), codes(b, n)),
        (None, codes(b, n)),
    ]


CASES: list[tuple[tuple[int, int, int], tuple[str, ...]]] = [
    ((13, 17, 40), ()), ((13, 17, 40), ("b", "za", "zb")), ((1, 8, 33), ("b", "zb")),
    ((3, 0, 4), ()),
]  # fmt: skip


@pytest.mark.parametrize("isa", machines(), ids=name_of)
@pytest.mark.parametrize(("a_kind", "b_kind"), SIGNS)
def test_matmul_integer(isa: Isa, a_kind: Any, b_kind: Any) -> None:
    """Weights whose pairs may saturate 16 bits and weights whose pairs cannot."""
    for (m, k, n), known in CASES:
        for small, (za, zb) in itertools.product((False, True), zeros(a_kind, b_kind, m, n)):
            a, b = codes(a_kind, m, k), codes(b_kind, k, n)
            b = (b // 4).astype(b_kind) if small else b
            arrays = {"a": a, "b": b}
            arrays |= {} if za is None else {"za": za}
            arrays |= {} if zb is None else {"zb": zb}
            names = ["a", "b", *("" if n not in arrays else n for n in ("za", "zb"))]
            held = [name for name in known if name in arrays]
            (y,) = run([node("MatMulInteger", names, ["y"])], arrays, held, isa)
            left = a.astype(np.int64) - (0 if za is None else za.astype(np.int64).reshape(-1, 1))
            right = b.astype(np.int64) - (0 if zb is None else zb.astype(np.int64))
            assert y.dtype == np.int32
            assert (y == left @ right).all(), (m, k, n, known, za, zb, small)


def test_batches_and_vectors() -> None:
    for sa, sb in [((2, 3, 5, 8), (3, 8, 9)), ((5, 8), (2, 8, 9)), ((8,), (8, 3)), ((4, 8), (8,))]:
        a, b = codes(np.uint8, *sa), codes(np.int8, *sb)
        for za in (np.array(3, np.uint8), None):
            arrays = {"a": a, "b": b} | ({} if za is None else {"za": za})
            (y,) = run([node("MatMulInteger", list(arrays), ["y"])], arrays)
            exact = np.matmul(a.astype(np.int64) - (0 if za is None else 3), b.astype(np.int64))
            assert (y == exact).all()


@pytest.mark.parametrize("isa", machines(), ids=name_of)
def test_moving_factors(isa: Isa) -> None:
    """Both factors come with the run, one of them transposed: whole groups of K and not."""
    for (m, k, n), turned in itertools.product([(5, 64, 70), (9, 34, 32), (3, 7, 40)], (0, 1)):
        for a_kind, b_kind in SIGNS:
            a, b = codes(a_kind, 2, m, k), codes(b_kind, 2, k, n)
            arrays = {"a": a, "b": b.swapaxes(1, 2).copy() if turned else b}
            nodes = [node("Transpose", ["b"], ["bt"], perm=[0, 2, 1])] if turned else []
            nodes.append(node("MatMulInteger", ["a", "bt" if turned else "b"], ["y"]))
            (y,) = run(nodes, arrays, (), isa)
            assert (y == np.matmul(a.astype(np.int64), b.astype(np.int64))).all()


def test_sums_wrap_around() -> None:
    """K so large that the sum leaves 32 bits."""
    k = 1 << 16
    a, b = np.full((1, k), 255, np.uint8), np.full((k, 1), 255, np.uint8)
    (y,) = run([node("MatMulInteger", ["a", "b"], ["y"])], {"a": a, "b": b})
    assert int(y[0, 0]) == (255 * 255 * k + 2**31) % 2**32 - 2**31


def quantized(a_kind: Any, b_kind: Any, per_column: bool) -> tuple[dict[str, Array], Array, Array]:
    """Operands of QLinearMatMul, the exact sums, and the codes that they become."""
    m, k, n = 13, 33, 40
    size = (n,) if per_column else ()
    f = np.float32
    zero = codes(b_kind, *size) if b_kind is np.uint8 else np.zeros(size, b_kind)
    arrays = {
        "a": codes(a_kind, m, k), "as": np.array(0.02, f), "az": np.array(5, a_kind),
        "b": codes(b_kind, k, n), "bs": (RNG.random(size) * 0.01 + 0.001).astype(f).reshape(size),
        "bz": np.asarray(zero), "ys": np.array(0.3, f), "yz": np.array(9, a_kind),
    }  # fmt: skip
    left = arrays["a"].astype(np.int64) - 5
    sums = left @ (arrays["b"].astype(np.int64) - arrays["bz"].astype(np.int64))
    scale = f(0.02) * arrays["bs"] / f(0.3)
    info = np.iinfo(a_kind)
    rounded = np.rint(sums.astype(f) * scale).astype(np.int64) + 9
    return arrays, sums, np.clip(rounded, info.min, info.max).astype(a_kind)


@pytest.mark.parametrize("isa", machines(), ids=name_of)
@pytest.mark.parametrize(("a_kind", "b_kind"), SIGNS)
def test_qlinear_matmul(isa: Isa, a_kind: Any, b_kind: Any) -> None:
    for per_column, known in itertools.product((False, True), (False, True)):
        arrays, _, exact = quantized(a_kind, b_kind, per_column)
        nodes = [node("QLinearMatMul", list(arrays), ["y"])]
        const = [n for n in arrays if n != "a"] if known else []
        (y,) = run(nodes, arrays, const, isa)
        assert y.dtype == a_kind
        assert (y == exact).all()


@pytest.mark.parametrize("per_column", [False, True])
def test_as_onnxruntime(per_column: bool) -> None:
    arrays, _, _ = quantized(np.uint8, np.uint8, per_column)
    nodes = [node("QLinearMatMul", list(arrays), ["y"])]
    const = [n for n in arrays if n != "a"]
    proto = model(nodes, arrays, ["y"], const)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    (y,) = run(nodes, arrays, const)
    assert (y == peer.run(None, {"a": arrays["a"]})[0]).all()


@pytest.mark.parametrize(("a_kind", "b_kind"), SIGNS)
def test_sums_as_floats(a_kind: Any, b_kind: Any) -> None:
    for per_column in (False, True):
        arrays, sums, _ = quantized(a_kind, b_kind, per_column)
        bias = RNG.standard_normal(40).astype(np.float32)
        operands = {n: arrays[n] for n in ("a", "b", "as", "bs", "az", "bz")} | {"bias": bias}
        nodes = [node("MatMulIntegerToFloat", list(operands), ["y"], domain="com.microsoft")]
        exact = sums * (0.02 * arrays["bs"].astype(np.float64)) + bias
        for const in ([], [n for n in operands if n != "a"]):
            (y,) = run(nodes, operands, const)
            assert y.dtype == np.float32
            assert np.allclose(y, exact, rtol=4 * 2.0**-23, atol=2.0**-20)


def test_qgemm() -> None:
    """With a bias in units of the sums; to codes, and without a scale to floats."""
    for kind, turned in itertools.product((np.uint8, np.int8), (False, True)):
        arrays, sums, _ = quantized(kind, kind, True)
        c = RNG.integers(-999, 999, 40).astype(np.int32)
        b = arrays["b"].T.copy() if turned else arrays["b"]
        given = {"a": arrays["a"], "as": arrays["as"], "az": arrays["az"], "b": b}
        given |= {"bs": arrays["bs"], "bz": arrays["bz"], "c": c}
        whole = given | {"ys": arrays["ys"], "yz": arrays["yz"]}
        scale = np.float32(0.02) * arrays["bs"]
        info = np.iinfo(kind)
        rounded = np.rint((sums + c).astype(np.float32) * (scale / np.float32(0.3))) + 9
        exact = np.clip(rounded, info.min, info.max).astype(kind)
        for operands, wanted in ((whole, exact), (given, (sums + c).astype(np.float32) * scale)):
            nodes = [
                node("QGemm", list(operands), ["y"], domain="com.microsoft", transB=int(turned))
            ]
            for const in ([], [n for n in operands if n != "a"]):
                (y,) = run(nodes, operands, const)
                assert y.dtype == wanted.dtype
                assert (y == wanted).all()


def test_requantization_joins_the_product() -> None:
    """A group of MatMulInteger and what makes codes of its sums is one kernel."""
    a, b = codes(np.uint8, 13, 32), codes(np.int8, 32, 40)
    scale = (RNG.random(40) * 0.01).astype(np.float32)
    arrays = {
        "a": a,
        "b": b,
        "s": scale,
        "one": np.array(0.5, np.float32),
        "z": np.array(3, np.uint8),
    }
    nodes = [
        node("MatMulInteger", ["a", "b"], ["t"]), node("Cast", ["t"], ["u"], to=1),
        node("Mul", ["u", "s"], ["v"]), node("QuantizeLinear", ["v", "one", "z"], ["y"]),
    ]  # fmt: skip
    y, labels = grouped(nodes, arrays, ("b", "s", "one", "z"))
    sums = a.astype(np.int64) @ b.astype(np.int64)
    exact = np.clip(np.rint(sums.astype(np.float32) * scale / np.float32(0.5)) + 3, 0, 255)
    assert (y == exact).all()
    assert labels == ["MatMulInteger+Cast+Mul+QuantizeLinear"]


def test_instructions_are_proved() -> None:
    """vpmaddubsw only where no pair of the weights can leave 16 bits."""
    none = np.zeros(1, np.int64)
    safe, unsafe = np.full((4, 2), 64, np.int8), np.full((4, 2), 65, np.int8)
    for isa in (BASELINE, AVX2):  # no dot products of bytes, which need no proof
        assert scheme_of(isa, "u8", "s8", safe, none).form == "pairs16"
        assert scheme_of(isa, "u8", "s8", unsafe, none).form == "pairs"
        assert scheme_of(isa, "u8", "s8", None, none).form == "pairs"
