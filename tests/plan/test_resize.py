"""Resampling and Fourier transforms, against the onnx reference evaluator and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from rewrite.errors import RewriteError
from tests.codegen import harness
from tests.plan.conv_models import model_of, run_model
from tests.plan.movement_models import equal, reference, run, same

RNG = np.random.default_rng(13)
KINDS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]


def close(atol: float, rtol: float = 0.0) -> Any:
    def judge(got: np.ndarray, want: np.ndarray) -> None:
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol, atol)

    return judge


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# --- Resize ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 0.6, 1.7), (1, 1, 0.5, 1)])
def test_scales(kind: str, mode: str, scales: tuple[float, ...]) -> None:
    x = normal(2, 3, 5, 6)
    # Cubic weights sum up in magnitude to less than 2 per axis; the evaluator's are of float32.
    atol = 0 if mode == "nearest" else 2e-5
    same("Resize", [x, None, floats(*scales)], close(atol), known=(2,), mode=mode,
         coordinate_transformation_mode=kind)  # fmt: skip


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("outside", [0, 1])
def test_antialias(mode: str, outside: int) -> None:
    x = normal(1, 2, 30, 20)
    sizes = np.array([1, 2, 7, 9])
    same("Resize", [x, None, None, sizes], close(2e-5), known=(3,), mode=mode, antialias=1,
         exclude_outside=outside)  # fmt: skip


@pytest.mark.parametrize("rule", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest(rule: str) -> None:
    x = normal(1, 2, 6, 5)
    same("Resize", [x, None, floats(1, 1, 0.75, 2.5)], known=(2,), mode="nearest",
         nearest_mode=rule)  # fmt: skip


def test_sizes_are_products_in_float32() -> None:
    """0.7 is less than seven tenths in float32, and its product with 10 is 7 there."""
    x = normal(1, 1, 10, 10)
    operands = [x, None, floats(1, 1, 0.7, 0.7)]
    (want,) = reference("Resize", [x, None, None, np.array([1, 1, 7, 7])], mode="linear")
    (got,) = run("Resize", operands, known=(2,), mode="linear")
    assert got.shape == want.shape == (1, 1, 7, 7)
    close(1e-5)(got, want)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_of_some_axes(policy: str, mode: str) -> None:
    x = normal(2, 3, 4, 6)
    sizes = np.array([9, 7])
    operands = [x, None, None, sizes]
    want = reference("Resize", operands, mode=mode, axes=[2, 3], keep_aspect_ratio_policy=policy)
    same("Resize", operands, close(1e-5), mode=mode, axes=[2, 3], known=(3,), want=want,
         keep_aspect_ratio_policy=policy)  # fmt: skip
    same("Resize", operands, close(1e-5), mode=mode, axes=[2, 3], want=want,
         keep_aspect_ratio_policy=policy)  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop(mode: str) -> None:
    x = normal(1, 2, 6, 5)
    roi = floats(0, 0, 0.2, -0.4, 1, 1, 0.9, 1.3)
    same("Resize", [x, roi, None, np.array([1, 2, 4, 8])], close(2e-5), known=(1, 3), mode=mode,
         coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.5)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float16, np.float64, np.int32])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_element_types(dtype: Any, mode: str) -> None:
    x = RNG.integers(0, 100, (1, 3, 4, 5)).astype(dtype)
    atol = 0.5 if dtype == np.float16 and mode == "linear" else 0
    # A half is rounded to the even neighbour: weights of eighths are exact in any order of sums.
    same("Resize", [x, None, floats(1, 1, 2, 2)], close(atol), known=(2,), mode=mode)


@pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_few_channels_that_lie_innermost(isa: Any, channels: int, mode: str) -> None:
    x = normal(2, 40, 50, channels)
    same("Resize", [x, None, floats(1, 1.5, 0.8, 1)], close(2e-5), known=(2,), mode=mode, isa=isa)


def test_nothing_changes() -> None:
    x = normal(1, 2, 3, 4)
    same("Resize", [x, None, floats(1, 1, 1, 1)], known=(2,), mode="linear")


def test_upsample() -> None:
    x = normal(1, 2, 3, 4)
    for mode in ("nearest", "linear"):
        (got,) = run("Upsample", [x, floats(1, 1, 2, 3)], known=(1,), opset=9, mode=mode)
        want = reference("Resize", [x, None, floats(1, 1, 2, 3)], mode=mode, nearest_mode="floor",
                         coordinate_transformation_mode="asymmetric")[0]  # fmt: skip
        close(1e-6)(got, want)
        (got,) = run("Resize", [x, floats(1, 1, 2, 3)], known=(1,), opset=10, mode=mode)
        close(1e-6)(got, want)


# --- places that are data ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample(mode: str, padding: str, corners: int) -> None:
    x = normal(2, 3, 4, 5)
    grid = RNG.uniform(-1.6, 1.6, (2, 3, 4, 2)).astype(np.float32)
    same("GridSample", [x, grid], close(2e-5), mode=mode, padding_mode=padding,
         align_corners=corners)  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_of_volumes(mode: str, padding: str) -> None:
    x = normal(1, 2, 3, 4, 5)
    grid = RNG.uniform(-1.4, 1.4, (1, 2, 3, 2, 3)).astype(np.float32)
    same("GridSample", [x, grid], close(1e-5), mode=mode, padding_mode=padding)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_no_numbers(padding: str) -> None:
    """They may give anything, but read nothing outside."""
    x = normal(1, 1, 3, 3)
    grid = np.full((1, 2, 2, 2), np.nan, np.float32)
    grid[0, 0] = [[np.inf, -np.inf], [1e30, -1e30]]
    for mode in ("nearest", "linear", "cubic"):
        (got,) = run("GridSample", [x, grid], mode=mode, padding_mode=padding)
        assert got.shape == (1, 1, 2, 2)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 4, 3)])
def test_affine_grid(corners: int, size: tuple[int, ...]) -> None:
    rank = len(size) - 2
    theta = normal(2, rank, rank + 1)
    same("AffineGrid", [theta, np.array(size)], close(1e-5), known=(1,), align_corners=corners)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("kind", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_roi_align(mode: str, kind: str, ratio: int) -> None:
    x = normal(2, 3, 8, 9)
    low = RNG.uniform(-1, 9, (5, 2))
    rois = np.concatenate([low, low + RNG.uniform(0.5, 9, (5, 2))], 1).astype(np.float32)
    batches = np.array([0, 1, 1, 0, 1], np.int64)
    same("RoiAlign", [x, rois, batches], close(1e-5), output_height=3, output_width=2, mode=mode,
         sampling_ratio=ratio, spatial_scale=0.75, coordinate_transformation_mode=kind)  # fmt: skip


def test_max_roi_pool() -> None:
    x = normal(2, 2, 6, 7)
    rois = floats(0, 0, 0, 12, 10, 1, 3, 2, 7, 11, 1, 40, 40, 50, 50).reshape(3, 5)
    (got,) = run("MaxRoiPool", [x, rois], pooled_shape=[2, 3], spatial_scale=0.5)
    want = np.zeros((3, 2, 2, 3), np.float32)
    for r, (batch, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(c * 0.5 + 0.5)) for c in corners)
        h, w = max(y2 - y1 + 1, 1) / 2, max(x2 - x1 + 1, 1) / 3
        for i, j in np.ndindex(2, 3):
            rows = slice(*np.clip([int(i * h) + y1, int(np.ceil((i + 1) * h)) + y1], 0, 6))
            columns = slice(*np.clip([int(j * w) + x1, int(np.ceil((j + 1) * w)) + x1], 0, 7))
            part = x[int(batch), :, rows, columns]
            if part.size:
                want[r, :, i, j] = part.max((1, 2))
    equal(got, want)


def test_a_batch_that_is_not_there() -> None:
    x, rois = normal(2, 1, 4, 4), floats(0, 0, 2, 2).reshape(1, 4)
    with pytest.raises(RewriteError, match="index is out of range"):
        run("RoiAlign", [x, rois, np.array([2])])
    with pytest.raises(RewriteError, match="index is out of range"):
        run("MaxRoiPool", [x, floats(7, 0, 0, 2, 2).reshape(1, 5)], pooled_shape=[1, 1])


def test_a_region_without_end() -> None:
    x, rois = normal(1, 1, 4, 4), floats(0, 0, np.inf, 2).reshape(1, 4)
    with pytest.raises(RewriteError, match="too large size"):
        run("RoiAlign", [x, rois, np.array([0])], output_height=2, output_width=2)


def test_a_region_of_many_samples() -> None:
    """More than are kept at once."""
    x, rois = normal(1, 2, 90, 80), floats(1, 2, 78, 88, 3, 1, 9, 9).reshape(2, 4)
    batches = np.array([0, 0], np.int64)
    same("RoiAlign", [x, rois, batches], close(1e-4), output_height=2, output_width=3)
    same("RoiAlign", [x, rois, batches], close(1e-4), output_height=2, output_width=3, mode="max")


# --- signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 5, 16])
@pytest.mark.parametrize("inverse", [0, 1])
def test_dft(axis: int, parts: int, length: int | None, inverse: int) -> None:
    x = normal(7, 9, 3, parts)
    z = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    at = axis if axis >= 0 else axis + 1
    made = (np.fft.ifft if inverse else np.fft.fft)(z.astype(np.complex128), length, axis=at)
    want = np.stack([made.real, made.imag], -1).astype(np.float32)
    operands = [x, None if length is None else np.array(length), np.array(axis)]
    # A sum of 16 products of numbers up to 4.
    same("DFT", operands, close(16 * 4 * 2.0**-23), known=(1, 2), inverse=inverse, want=[want])


@pytest.mark.parametrize("length", [None, 8, 9])
def test_half_a_spectrum(length: int | None) -> None:
    x = normal(2, 8, 1)
    known = None if length is None else np.array(length)
    made = np.fft.rfft(x[..., 0].astype(np.float64), length, axis=1)
    want = np.stack([made.real, made.imag], -1).astype(np.float32)
    (got,) = run("DFT", [x, known, np.array(1)], known=(1, 2), onesided=1)
    close(1e-5)(got, want)
    (back,) = run("DFT", [want, known, np.array(1)], known=(1, 2), onesided=1, inverse=1)
    close(1e-5)(back, np.fft.irfft(made, length, axis=1)[..., None].astype(np.float32))


@pytest.mark.parametrize("onesided", [None, 0, 1])
@pytest.mark.parametrize("windowed", [True, False])
def test_stft(onesided: int | None, windowed: bool) -> None:
    x = normal(2, 100, 1)
    window = np.hanning(16).astype(np.float32) if windowed else None
    frames = np.stack([x[:, at : at + 16, 0] for at in range(0, 85, 7)], 1).astype(np.float64)
    made = np.fft.fft(frames if window is None else frames * window, axis=2)
    made = made if onesided == 0 else made[:, :, :9]
    want = np.stack([made.real, made.imag], -1).astype(np.float32)
    attributes = {} if onesided is None else {"onesided": onesided}
    operands = [x, np.array(7), window, np.array(16)]
    same("STFT", operands, close(2e-5), known=(1, 2, 3), want=[want], **attributes)


@pytest.mark.parametrize("name", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(name: str, periodic: int) -> None:
    size = np.array(17)
    want = reference(name, [size], periodic=periodic)
    for known in ((), (0,)):
        (got,) = run(name, [size], known=known, periodic=periodic)
        close(1e-6)(got, want[0])


@pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
def test_every_machine(isa: Any) -> None:
    x = normal(1, 3, 6, 40)
    same("Resize", [x, None, floats(1, 1, 2, 1.5)], close(1e-5), known=(2,), mode="linear", isa=isa)
    same("Resize", [x, None, floats(1, 1, 2, 2)], known=(2,), mode="nearest", isa=isa)
    grid = RNG.uniform(-1.6, 1.6, (1, 3, 4, 2)).astype(np.float32)
    same("GridSample", [x, grid], close(1e-5), mode="linear", isa=isa)
    signal = normal(2, 40, 1)
    same("DFT", [signal], close(1e-4), isa=isa)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(
    ("kind", "opset"), [("tf_crop_and_resize", 18), ("tf_half_pixel_for_nn", 11)]
)
def test_coordinates_of_tensorflow(mode: str, kind: str, opset: int) -> None:
    """By scales that are no quotients of sizes, as onnxruntime does it."""
    x = normal(1, 2, 6, 5)
    known = {"roi": floats(0, 0, 0.2, 0.1, 1, 1, 0.9, 1.3), "s": floats(1, 1, 0.7, 1.9)}
    node = helper.make_node("Resize", ["x", "roi", "s"], ["y"], mode=mode,
                            coordinate_transformation_mode=kind)  # fmt: skip
    model = model_of([node], {"x": x}, known, opset=opset)
    (y,) = run_model(model, {"x": x})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    np.testing.assert_allclose(y, session.run(None, {"x": x})[0], atol=2e-5)
