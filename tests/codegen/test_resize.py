"""Interpolation along axes, against the onnx reference evaluator (which computes in float64)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.lower.resize_tables import Axis, Method, blocks, coordinates, nearest, taps
from rewrite.plan.specs.resize import MOST_TAPS, ResizeLookup, ResizePass
from tests.codegen import harness

ISAS = pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
RNG = np.random.default_rng(7)
KINDS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "u8": np.uint8, "s8": np.int8, "s32": np.int32,
}  # fmt: skip


def reference(
    x: np.ndarray,
    scales: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
    roi: np.ndarray | None = None,
    **attributes: object,
) -> np.ndarray:
    """Resize as the reference evaluator computes it, in float64 where x is."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    feeds = {"x": x, "roi": roi, "scales": scales, "sizes": sizes}
    names = [n if feeds[n] is not None else "" for n in feeds]
    given = {n: v for n, v in feeds.items() if v is not None}
    types = {"x": kind, "roi": TensorProto.FLOAT, "scales": TensorProto.FLOAT}
    inputs = [
        helper.make_tensor_value_info(n, types.get(n, TensorProto.INT64), None) for n in given
    ]
    node = helper.make_node("Resize", names, ["y"], **attributes)
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "g", inputs, [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return np.asarray(ReferenceEvaluator(model).run(None, given)[0])


def one_axis(
    x: np.ndarray, axis: int, a: Axis, method: Method, dtype: str, isa: Isa, fill: float = 0.0
) -> np.ndarray:
    places, weights = taps(a, method)
    sums = "f64" if dtype in ("f64", "s32") else "f32"
    outer, inner = int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis + 1 :]))
    shape = (*x.shape[:axis], a.result, *x.shape[axis + 1 :])
    result = np.zeros(shape, x.dtype)
    count = places.shape[1]
    filled = bool((places < 0).any())
    spec = ResizePass(
        dtype, dtype, sums, count if count <= MOST_TAPS else 0,
        inner >= isa.lanes(sums), filled,
    )  # fmt: skip
    words = [
        x, np.where(places < 0, -1, places * inner), weights.astype(DTYPES[sums]),
        np.array([fill], x.dtype), result, count, a.result, inner, a.size * inner,
    ]  # fmt: skip
    assert harness.run(spec, words, outer * a.result, isa=isa, splits=3) == 0
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    ("scale", "size"),
    [
        (scale, size)
        for scale in (0.3, 0.5, 0.8, 1.0, 1.3, 2.0, 3.7)
        for size in (1, 2, 7)
        if int(size * scale) > 0  # something is left
    ],
)
def test_places_and_weights(kind: str, mode: str, scale: float, size: int) -> None:
    scale = float(np.float32(scale))
    m = int(size * scale)
    x = RNG.standard_normal(size)
    for antialias in (False, True):
        method = Method(mode, kind, antialias=antialias)
        places, weights = taps(Axis(size, m, scale), method)
        want = reference(
            x, np.array([scale], np.float32), mode=mode, antialias=int(antialias),
            coordinate_transformation_mode=kind,
        )  # fmt: skip
        at = coordinates(Axis(size, m, scale), kind)
        # The evaluator's window is another one where rounding alone keeps a place from being
        # whole: places are of float32 here, and of float64 there (cubic weights of float32).
        exact = scale in (0.5, 1.0, 2.0) and kind != "half_pixel_symmetric"
        sound = exact | (np.abs(at - np.round(at)) > 1e-5)
        found = (x[places] * weights).sum(1)
        np.testing.assert_allclose(found[sound], want[sound], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("scale", [0.25, 0.625, 1.0, 1.5, 2.0, 4.0])
def test_nearest_places(kind: str, rule: str, scale: float) -> None:
    """Scales without rounding: places in the middle are the same in float32 and float64."""
    size = 8
    scale = float(np.float32(scale))
    x = np.arange(float(size))
    want = reference(
        x, np.array([scale], np.float32), mode="nearest", nearest_mode=rule,
        coordinate_transformation_mode=kind,
    )  # fmt: skip
    places = nearest(Axis(size, int(size * scale), scale), Method("nearest", kind, rule))
    np.testing.assert_array_equal(places, want)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_weights_inside_only(mode: str) -> None:
    x = RNG.standard_normal(5)
    places, weights = taps(Axis(5, 8, 8 / 5), Method(mode, exclude_outside=True))
    want = reference(x, sizes=np.array([8]), mode=mode, exclude_outside=1)
    np.testing.assert_allclose((x[places] * weights).sum(1), want, atol=1e-5)


@ISAS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [1, 3, 16, 35])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_pass(isa: Isa, dtype: str, inner: int, mode: str) -> None:
    x = (RNG.standard_normal((3, 6, inner)) * 40).clip(-100, 100)
    x = np.abs(x).astype(DTYPES[dtype]) if dtype[0] == "u" else x.astype(DTYPES[dtype])
    got = one_axis(x, 1, Axis(6, 9, 1.5), Method(mode), dtype, isa)
    places, weights = taps(Axis(6, 9, 1.5), Method(mode))
    real = np.einsum("ortj,rt->orj", x[:, places].astype(np.float64), weights)
    if dtype[0] in "us":
        limits = np.iinfo(DTYPES[dtype])
        want = np.clip(np.round(real), limits.min, limits.max)
        # A sum within rounding of a half may fall to either side.
        close = np.abs(real - np.floor(real) - 0.5) < 1e-4
        assert ((got == want) | close).all()
        return
    eps = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype]
    largest = np.abs(x.astype(np.float64)).max()
    assert np.abs(got.astype(np.float64) - real).max() <= 8 * eps * largest


@ISAS
def test_many_taps(isa: Isa) -> None:
    x = RNG.standard_normal((2, 50, 20)).astype(np.float32)
    got = one_axis(x, 1, Axis(50, 7, 0.14), Method("linear", antialias=True), "f32", isa)
    want = reference(
        x.astype(np.float64), np.array([1, 0.14, 1], np.float32), mode="linear", antialias=1
    )
    np.testing.assert_allclose(got, want, atol=1e-5)


@ISAS
@pytest.mark.parametrize("inner", [1, 20])
def test_cropped(isa: Isa, inner: int) -> None:
    x = RNG.standard_normal((2, 5, inner)).astype(np.float32)
    axis = Axis(5, 8, 1.6, (-0.3, 1.2))
    method = Method("linear", "tf_crop_and_resize")
    got = one_axis(x, 1, axis, method, "f32", isa, fill=7.5)
    want = reference(
        x.astype(np.float64), sizes=np.array([2, 8, inner]), mode="linear",
        roi=np.array([0, -0.3, 0, 1, 1.2, 1], np.float32), extrapolation_value=7.5,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    assert (want == 7.5).any()
    np.testing.assert_allclose(got, want, atol=1e-5)


# Lanes are permuted by numbers in a register from 256 bits on.
@pytest.mark.parametrize(
    "isa",
    [isa for isa in harness.isas() if isa.lanes("f32") >= 8],
    ids=lambda isa: str(isa.vector_bytes),
)
@pytest.mark.parametrize("dtype", ["f32", "f16", "u8"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(("size", "result"), [(40, 80), (100, 61), (64, 45), (33, 100)])
def test_rows_by_permutations(isa: Isa, dtype: str, mode: str, size: int, result: int) -> None:
    lanes = isa.lanes("f32")
    axis = Axis(size, result, result / size)
    places, weights = taps(axis, Method(mode))
    found = blocks(places, weights, size, lanes)
    assert found is not None
    x = (np.abs(RNG.standard_normal((5, size))) * 40).astype(DTYPES[dtype])
    got, whole = guarded((5, result), DTYPES[dtype])
    spec = ResizeLookup(dtype, dtype, places.shape[1], lanes)
    words = [x, *found, got, len(found[0]), result, size]
    assert harness.run(spec, words, 5, isa=isa, splits=2) == 0
    real = np.einsum("rot,ot->ro", x.astype(np.float64)[:, places], weights)
    step = {"f32": 2.0**-23, "f16": 2.0**-10, "u8": 0.0}[dtype] * 8 * x.max()
    if dtype == "u8":
        real, step = np.clip(real, 0, 255), 0.5 + 1e-3
    assert np.abs(got.astype(np.float64) - real).max() <= step
    assert (whole[:64] == 0x3C).all()
    assert (whole[-64:] == 0x3C).all()


def guarded(shape: tuple[int, ...], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = harness.aligned((count + 128,), np.uint8, 0x3C)
    return whole[64 : 64 + count].view(dtype).reshape(shape), whole


def test_neighbours_too_far_from_each_other() -> None:
    places, weights = taps(Axis(100, 20, 0.2), Method("linear"))
    assert blocks(places, weights, 100, 8) is None


def test_an_infinity_stays_beside_its_place() -> None:
    x = np.array([1, np.inf, 3, np.nan, 5], np.float32).reshape(1, 5, 1)
    got = one_axis(x, 1, Axis(5, 5, 1.0), Method("linear"), "f32", harness.isas()[0])
    np.testing.assert_array_equal(got, x)


def test_another_machine() -> None:
    spec = ResizePass("f16", "f16", "f32", 2, True, True)
    assert "ret" in to_assembly(generate(spec, AARCH64, "kernel"), AARCH64)
