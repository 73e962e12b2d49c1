"""Reductions as a session runs them, against numpy in float64 or exact integers.

Tolerance: n summands make (log2 n + 4) roundings of float32 (rewrite/codegen/kernels/rows_along.py)
relative to the sum of the magnitudes; half floats are rounded once more.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.codegen.harness import isas
from tests.plan.conv_models import model_of, run_model

ISAS = isas()
NAMES = [str(isa.vector_bytes) for isa in ISAS]
EPS = 2.0**-24
HALF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 0.0, "float64": 0.0}

Array = np.ndarray[Any, np.dtype[Any]]
FORMULAS = {
    "ReduceSum": lambda x, a, k: x.sum(a, keepdims=k),
    "ReduceMean": lambda x, a, k: x.mean(a, keepdims=k),
    "ReduceProd": lambda x, a, k: x.prod(a, keepdims=k),
    "ReduceMax": lambda x, a, k: x.max(a, keepdims=k),
    "ReduceMin": lambda x, a, k: x.min(a, keepdims=k),
    "ReduceL1": lambda x, a, k: np.abs(x).sum(a, keepdims=k),
    "ReduceL2": lambda x, a, k: np.sqrt((x * x).sum(a, keepdims=k)),
    "ReduceSumSquare": lambda x, a, k: (x * x).sum(a, keepdims=k),
    "ReduceLogSum": lambda x, a, k: np.log(x.sum(a, keepdims=k)),
    "ReduceLogSumExp": lambda x, a, k: np.log(np.exp(x).sum(a, keepdims=k)),
}
AXES = [(0,), (1,), (-1,), (0, 2), (1, 2), (0, 1, 2), (0, 1)]


def reduce_model(
    name: str, x: Array, over: tuple[int, ...] | None, opset: int = 22, **attributes: Any
) -> onnx.ModelProto:
    known = {} if over is None else {"axes": np.array(over, np.int64)}
    node = helper.make_node(name, ["x", *known], ["y"], **attributes)
    return model_of([node], {"x": x}, known, opset=opset)


@pytest.mark.parametrize("name", sorted(FORMULAS))
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("keep", [0, 1])
def test_every_reduction_over_every_axis(name: str, axes: tuple[int, ...], keep: int) -> None:
    rng = np.random.default_rng(1)
    x = (rng.random((5, 7, 33)) + 0.5).astype(np.float32)
    x = np.sqrt(x) if name == "ReduceProd" else x
    wanted = FORMULAS[name](x.astype(np.float64), axes, bool(keep))
    for isa in ISAS:
        (y,) = run_model(reduce_model(name, x, axes, keepdims=keep), {"x": x}, isa)
        assert y.shape == wanted.shape
        count = np.prod([x.shape[a] for a in axes])
        rounds = count if name == "ReduceProd" else np.log2(count) + 8
        np.testing.assert_allclose(y, wanted, rtol=rounds * EPS, atol=8 * EPS)


@pytest.mark.parametrize("name", sorted(FORMULAS))
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_other_floats(name: str, kind: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    x = (np.random.default_rng(2).random((4, 50)) + 0.5).astype(dtype)
    x = np.sqrt(x) if name == "ReduceProd" else x
    (y,) = run_model(reduce_model(name, x, (1,)), {"x": x})
    wanted = FORMULAS[name](x.astype(np.float64), (1,), True)
    assert y.dtype == dtype
    rtol = HALF[kind] + (1e-14 if kind == "float64" else 60 * EPS)
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=rtol)


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"ReduceLogSumExp"}))
@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "uint64"])
def test_integers(name: str, kind: str) -> None:
    """Exact where nothing overflows; roots and logarithms cut off."""
    x = np.random.default_rng(3).integers(1, 4, (3, 5, 11)).astype(kind)
    (y,) = run_model(reduce_model(name, x, (1,)), {"x": x})
    exact = FORMULAS[name](x.astype(object) if name == "ReduceProd" else x, (1,), True)
    wanted = np.trunc(exact.astype(np.float64)) if exact.dtype == float else exact
    assert y.dtype == x.dtype
    assert np.array_equal(y, wanted.astype(kind))


@pytest.mark.parametrize("kind", ["int8", "uint8", "bool"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_extremes_of_bytes(kind: str, axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(-128, 128, (37, 75)).astype(np.int8).view(np.uint8)
    x = rng.random((37, 75)) < 0.03 if kind == "bool" else x.view(kind)
    for name, wanted in (("ReduceMax", x.max(axes)), ("ReduceMin", x.min(axes))):
        (y,) = run_model(reduce_model(name, x, axes, keepdims=0), {"x": x})
        assert np.array_equal(y, wanted)


@pytest.mark.parametrize("name", sorted(FORMULAS))
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("given", [False, True])
def test_no_axes(name: str, noop: int, given: bool) -> None:
    """All dimensions, or none; as the evaluator of the standard says."""
    x = (np.random.default_rng(5).random((3, 4)) + 0.5).astype(np.float32)
    model = reduce_model(name, x, () if given else None, noop_with_empty_axes=noop)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    (y,) = run_model(model, {"x": x})
    np.testing.assert_allclose(y, wanted, rtol=12 * EPS)


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_axes_as_attributes(name: str) -> None:
    """Opset 11, and a negative axis."""
    x = (np.random.default_rng(6).random((3, 4, 5)) + 0.5).astype(np.float32)
    model = reduce_model(name, x, None, opset=11, axes=[-2])
    (y,) = run_model(model, {"x": x})
    wanted = FORMULAS[name](x.astype(np.float64), (1,), True)
    np.testing.assert_allclose(y, wanted, rtol=12 * EPS, atol=4 * EPS)


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_empty_sets(name: str) -> None:
    x = np.zeros((2, 0, 4), np.float32)
    (y,) = run_model(reduce_model(name, x, (1,)), {"x": x})
    number = {
        "ReduceMean": np.nan, "ReduceProd": 1, "ReduceMax": -np.inf, "ReduceMin": np.inf,
        "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf,
    }.get(name, 0)  # fmt: skip
    np.testing.assert_array_equal(y, np.full((2, 1, 4), number, np.float32))


@pytest.mark.parametrize(
    "row",
    [
        [-np.inf, -np.inf, -np.inf], [np.inf, 0, -np.inf], [np.nan, 1, 2], [1000.0, 1000.0, 999.0],
        [-1000.0, -1001.0, -1000.0],
    ],
)  # fmt: skip
def test_log_sum_exp_neither_overflows_nor_loses_infinities(row: list[float]) -> None:
    x = np.array([row], np.float32)
    (y,) = run_model(reduce_model("ReduceLogSumExp", x, (1,), keepdims=0), {"x": x})
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        wanted = np.log(np.exp(wide).sum(1)).astype(np.float64)
    np.testing.assert_allclose(y, wanted, rtol=8 * EPS)


def test_prologue_and_epilogue_are_one_kernel() -> None:
    """sqrt(mean((x - b)^2)) with dimensions dropped, then pointwise operators on what is left."""
    rng = np.random.default_rng(7)
    x, b = rng.random((6, 70)).astype(np.float32), rng.random((6, 1)).astype(np.float32)
    scale = rng.random(6).astype(np.float32)
    nodes = [
        helper.make_node("Sub", ["x", "b"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["p"]),
        helper.make_node("ReduceMean", ["p", "axes"], ["m"], keepdims=0),
        helper.make_node("Sqrt", ["m"], ["r"]),
        helper.make_node("Mul", ["r", "scale"], ["y"]),
    ]
    known = {"axes": np.array([1], np.int64), "scale": scale, "two": np.array(2, np.float32)}
    (y,) = run_model(model_of(nodes, {"x": x, "b": b}, known), {"x": x, "b": b})
    wanted = np.sqrt(((x.astype(np.float64) - b) ** 2).mean(1)) * scale
    np.testing.assert_allclose(y, wanted, rtol=16 * EPS)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_reductions(threads: int) -> None:
    x = np.random.default_rng(8).random((64, 65, 300)).astype(np.float32)
    wide = x.astype(np.float64)
    for axes in ((2,), (0,), (1,), (0, 1, 2)):
        model = reduce_model("ReduceSum", x, axes, keepdims=0)
        (y,) = run_model(model, {"x": x}, threads=threads)
        np.testing.assert_allclose(y, wide.sum(axes), rtol=24 * EPS)


@pytest.mark.parametrize("name", ["GlobalAveragePool", "GlobalMaxPool"])
def test_pools_over_everything(name: str) -> None:
    x = np.random.default_rng(9).standard_normal((2, 5, 9, 7)).astype(np.float32)
    model = model_of([helper.make_node(name, ["x"], ["y"])], {"x": x}, {})
    (y,) = run_model(model, {"x": x})
    wide = x.astype(np.float64)
    find = np.mean if "Average" in name else np.max
    wanted = find(wide, (2, 3), keepdims=True)
    np.testing.assert_allclose(y, wanted, atol=16 * EPS)
