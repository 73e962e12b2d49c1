"""Operators that move elements, against numpy and the onnx reference evaluator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.codegen import harness
from tests.plan.movement_models import equal, run, same

RNG = np.random.default_rng(11)
DTYPES = [
    np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int16, np.uint16,
    np.int32, np.uint32, np.int64, np.uint64, np.bool_, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
]  # fmt: skip
ALL_DTYPES = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# --- views -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(24,), (6, 4), (2, 3, 2, 2), (1, 24, 1), (4, -1), (0, 0, 4)])
def test_reshape(shape: tuple[int, ...]) -> None:
    x = numbers(2, 3, 4)
    same("Reshape", [x, ints(*shape)], known=(1,))


def test_reshape_of_nothing() -> None:
    x = numbers(0, 3)
    same("Reshape", [x, ints(3, 0)], [lambda g, w: equal(g, w)][0], known=(1,), allowzero=1,
         want=[x.reshape(3, 0)])  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten(axis: int) -> None:
    same("Flatten", [numbers(2, 3, 4)], axis=axis)


def test_squeeze_and_unsqueeze() -> None:
    same("Squeeze", [numbers(1, 3, 1, 4), ints(0, 2)], known=(1,))
    same("Squeeze", [numbers(1, 3, 1, 4)])
    same("Unsqueeze", [numbers(3, 4), ints(0, -1)], known=(1,))


@pytest.mark.parametrize("perm", [(0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 17, 33), (5, 0, 2)])
def test_transpose(perm: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    same("Transpose", [x], perm=perm, want=[x.transpose(perm)])


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 2, 3, 4), (1,), (3, 1)])
def test_expand(shape: tuple[int, ...]) -> None:
    x = numbers(2, 1, 4) if len(shape) > 2 else numbers(3, 4)
    same("Expand", [x, ints(*shape)], known=(1,))


@ALL_DTYPES
def test_every_element_type(dtype: Any) -> None:
    """A copy, a transposed one, one with a fill value."""
    x = numbers(3, 5, dtype=dtype)
    if "float8" not in x.dtype.name:  # ONNX does not join those
        (got,) = run("Concat", [x, x], axis=1)
        equal(got, np.concatenate([x, x], 1))
        (got,) = run("Tile", [x, ints(2, 3)], known=(1,))
        equal(got, np.tile(x, (2, 3)))
    (got,) = run("Transpose", [x])
    equal(got, x.T)


def test_four_bits() -> None:
    for dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        x = RNG.integers(0, 8, (3, 4)).astype(dtype)
        equal(run("Transpose", [x])[0], x.T)
        equal(run("Reshape", [x, ints(2, 6)], known=(1,))[0], x.reshape(2, 6))


# --- parts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ((1, 0), (3, 4), None, None),
        ((-2,), (2**62,), (1,), None),
        ((0, 3), (5, 0), (0, 1), (2, -1)),
        ((-1,), (-(2**62),), (0,), (-2,)),
        ((9,), (1,), (1,), (-3,)),
        ((3,), (3,), (0,), None),
        ((4,), (1,), (0,), None),
        ((0,), (6,), (-1,), (4,)),
    ],
)
def test_slice(
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
) -> None:
    x = numbers(5, 6)
    operands = [x, ints(*starts), ints(*ends)]
    operands.append(None if axes is None else ints(*axes))
    if steps is not None:
        operands.append(ints(*steps))
    same("Slice", operands, known=(1, 2, 3, 4))
    same("Slice", operands)  # bounds that a run finds out


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_split(axis: int) -> None:
    x = numbers(5, 5, 5)
    same("Split", [x, ints(1, 0, 4)], known=(1,), outputs=3, axis=axis)
    same("Split", [x], outputs=2, axis=axis, num_outputs=2)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat(axis: int) -> None:
    shapes = [[2, 3, 4] for _ in range(4)]
    for size, shape in zip((1, 5, 0, 2), shapes, strict=True):
        shape[axis] = size
    same("Concat", [numbers(*s) for s in shapes], axis=axis)


@pytest.mark.parametrize("shape", [(3, 4), (9, 4), (4, 9), (8, 8), (5, 5), (0, 7)])
def test_center_crop_pad(shape: tuple[int, ...]) -> None:
    same("CenterCropPad", [numbers(5, 6), ints(*shape)], known=(1,))


def test_center_crop_pad_of_some_axes() -> None:
    same("CenterCropPad", [numbers(5, 6, 3), ints(2, 8)], known=(1,), axes=[2, 1])


# --- repetition and blocks ---------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [(1, 1), (2, 3), (3, 1), (0, 2)])
def test_tile(repeats: tuple[int, ...]) -> None:
    same("Tile", [numbers(3, 4), ints(*repeats)], known=(1,))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    same("DepthToSpace", [numbers(2, 12, 3, 5)], blocksize=2, mode=mode)


def test_space_to_depth() -> None:
    same("SpaceToDepth", [numbers(2, 3, 4, 6)], blocksize=2)


# --- padding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    "pads",
    [(0, 0, 0, 0), (1, 2, 0, 1), (3, 3, 3, 3), (0, -1, 2, 0), (-1, 0, -1, -2), (-1, 2, 0, 1)],
)
def test_pad(mode: str, pads: tuple[int, ...]) -> None:
    x = numbers(4, 5)
    before, after = pads[:2], pads[2:]
    cut = x[
        tuple(
            slice(max(-b, 0), n - max(-a, 0))
            for n, b, a in zip(x.shape, before, after, strict=True)
        )
    ]
    widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    want = np.pad(cut, widths, mode=mode)  # type: ignore[call-overload]
    same("Pad", [x, ints(*pads)], known=(1,), mode=mode, want=[want])


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pads_longer_than_the_data(mode: str) -> None:
    x = numbers(1, 3)
    want = np.pad(x, ((2, 0), (7, 8)), mode=mode)  # type: ignore[call-overload]
    same("Pad", [x, ints(2, 7, 0, 8)], known=(1,), mode=mode, want=[want])


@ALL_DTYPES
def test_pad_with_a_value(dtype: Any) -> None:
    x = numbers(3, 4, dtype=dtype)
    value = np.array(7).astype(dtype)
    want = np.full((6, 7), value)
    want[1:4, 0:4] = x
    operands = [x, ints(1, 0, 2, 3), value]
    same("Pad", operands, known=(1,), want=[want])
    same("Pad", operands, known=(1, 2), want=[want])


def test_pad_some_axes_and_nothing() -> None:
    x = numbers(2, 3, 4)
    same("Pad", [x, ints(1, 2), None, ints(-1)], known=(1, 3),
         want=[np.pad(x, ((0, 0), (0, 0), (1, 2)))])  # fmt: skip
    empty = numbers(0, 3)
    same("Pad", [empty, ints(2, 0, 0, 0)], known=(1,), want=[np.zeros((2, 3), np.float32)])


# --- triangles, images of columns, numbers out of nothing --------------------------------------


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [-3, -1, 0, 2, 9])
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 3), (1, 0, 4)])
def test_trilu(upper: int, diagonal: int, shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    x.reshape(-1)[:1] = np.nan
    want = (np.triu if upper else np.tril)(x, diagonal)
    same("Trilu", [x, np.array(diagonal)], known=(1,), upper=upper, want=[want])


def test_operators_of_onnx_runtime() -> None:
    x = numbers(3, 4)
    (got,) = run("Trilu", [x, np.array(1)], known=(1,), domain="com.microsoft")
    equal(got, np.triu(x, 1))
    (got,) = run("ExpandDims", [x, np.array(-2, np.int32)], known=(1,), domain="com.microsoft")
    equal(got, x[:, None])


def test_col2im() -> None:
    x = numbers(2, 3 * 4, 12)
    same("Col2Im", [x, ints(5, 4), ints(2, 2)], known=(1, 2))
    x = numbers(1, 2 * 6, 8)
    same("Col2Im", [x, ints(5, 5), ints(2, 3)], known=(1, 2), pads=[0, 1, 0, 0],
         strides=[2, 1], dilations=[2, 1])  # fmt: skip


def test_numbers_out_of_nothing() -> None:
    large = ints(300, 300)
    (got,) = run("ConstantOfShape", [large], known=(0,))
    equal(got, np.zeros((300, 300), np.float32))
    (got,) = run("EyeLike", [numbers(300, 301)], k=-2, dtype=1)
    equal(got, np.eye(300, 301, -2, np.float32))
    (got,) = run("Range", [np.array(n) for n in (5, 200_005, 2)], known=(0, 1, 2))
    equal(got, np.arange(5, 200_005, 2))
    (got,) = run("Range", [np.array(n, np.float32) for n in (1, -1, -0.25)])
    equal(got, np.arange(1, -1, -0.25, np.float32))


def test_dropout_drops_nothing() -> None:
    x = numbers(3, 4)
    got, mask = run("Dropout", [x], outputs=2)
    equal(got, x)
    equal(mask, np.ones((3, 4), bool))


@pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
def test_every_machine(isa: Any) -> None:
    same("Transpose", [numbers(3, 17, 40)], perm=(0, 2, 1), isa=isa)
    same("Pad", [numbers(3, 40), ints(1, 3, 2, 5)], known=(1,), mode="reflect", isa=isa)
    same("Concat", [numbers(3, 70), numbers(3, 5)], axis=1, isa=isa)
    backwards = [numbers(7, 40), ints(-1, 38), ints(-99, 2), ints(0, 1), ints(-1, -3)]
    same("Slice", backwards, known=(1, 2, 3, 4), isa=isa)
    same("DepthToSpace", [numbers(1, 8, 5, 19)], blocksize=2, isa=isa)
    same("Tile", [numbers(3, 17), ints(2, 3)], known=(1,), isa=isa)
    same("Trilu", [numbers(5, 33)], upper=0, isa=isa)
