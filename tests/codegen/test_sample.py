"""Sampling kernels and transforms: every split of the work gives the same and touches no more.

What they compute is held against the onnx evaluator in tests/plan/test_resize.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.spec import BAD_SIZE, INDEX_OUT_OF_RANGE, Spec
from rewrite.plan.specs.resize import GridSample, grid_scratch
from rewrite.plan.specs.signal import COLUMNS, Dft
from rewrite.plan.specs.window import ROI_SCRATCH, MaxRoiPool, RoiAlign
from tests.codegen import harness

ISAS = pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
RNG = np.random.default_rng(14)
GUARD = 0x77


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def splits_agree(
    spec: Spec,
    before: list[Any],
    shape: tuple[int, ...],
    after: list[int],
    items: int,
    isa: Isa,
    scratch: int = 0,
) -> np.ndarray:
    """The result, computed whole and in parts."""
    found = []
    for splits in (1, 3, items):
        count = 4 * int(np.prod(shape))
        whole = harness.aligned((count + 128,), np.uint8, GUARD)
        result = whole[64 : 64 + count].view(np.float32).reshape(shape)
        words = [*before, result, *after]
        status = harness.run(spec, words, items, isa=isa, splits=splits, scratch=scratch)
        assert status == 0
        assert (whole[:64] == GUARD).all()
        assert (whole[-64:] == GUARD).all()
        found.append(result.copy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    return found[0]


@ISAS
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(isa: Isa, mode: str, padding: str) -> None:
    """More points than a block, places far outside among them; a constant picture stays constant
    where nothing else comes in."""
    x = np.full((2, 3, 5, 6), 2.5, np.float32)
    grid = RNG.uniform(-3, 3, (2, 75, 2)).astype(np.float32)
    grid[0, :2] = [[np.nan, 0], [1e30, -np.inf]]
    grid[1, :20] *= 0.03
    spec = GridSample("f32", "f32", "f32", 2, mode, padding, False)
    got = splits_agree(spec, [x, grid], (2, 3, 75), [2, 3, 5, 6, 75], 150, isa, grid_scratch(spec))
    inside = (np.abs(grid) < 0.1).all(-1) if padding == "zeros" else np.isfinite(grid).all(-1)
    inside &= (np.abs(grid) < 10).all(-1)
    assert inside.sum() >= 20
    inside = np.broadcast_to(inside[:, None], got.shape)
    np.testing.assert_allclose(got[inside], 2.5, rtol=1e-5)


@ISAS
@pytest.mark.parametrize("greatest", [False, True])
def test_roi_align(isa: Isa, greatest: bool) -> None:
    x = np.full((2, 3, 6, 7), 1.5, np.float32)
    rois = np.array([[0, 0, 5, 4], [1, 2, 3, 5], [2, 2, 2, 2]], np.float32)
    batches, scale = np.array([0, 1, -1]), np.ones((), np.float32)
    spec = RoiAlign("f32", "s64", greatest, False)
    before, after = [x, rois, batches, scale], [2, 3, 6, 7, 2, 3, 0]
    got = splits_agree(spec, before, (3, 3, 2, 3), after, 3, isa, ROI_SCRATCH)
    assert (got <= 1.5 + 1e-5).all()
    if not greatest:
        np.testing.assert_allclose(got, 1.5, rtol=1e-5)


def test_regions_that_cannot_be() -> None:
    x, scale = normal(1, 1, 4, 4), np.ones((), np.float32)
    rois = np.array([[0, 0, 3, 3], [0, 0, np.inf, 3]], np.float32)
    spec = RoiAlign("f32", "s32", False, True)
    for which, batch, status in ((0, 1, INDEX_OUT_OF_RANGE), (1, 0, BAD_SIZE)):
        result = np.full((1, 1, 2, 2), 7, np.float32)
        words = [x, rois[which], np.array([batch], np.int32), scale, result, 1, 1, 4, 4, 2, 2, 0]
        assert harness.run(spec, words, 1, scratch=ROI_SCRATCH) == status
        assert (result == 7).all()


@ISAS
def test_max_roi_pool(isa: Isa) -> None:
    x = normal(2, 2, 6, 7)
    rois = np.array([[0, 0, 0, 6, 5], [1, -9, -9, 99, 99], [1, 50, 50, 60, 60]], np.float32)
    before, after = [x, rois, np.ones((), np.float32)], [2, 2, 6, 7, 1, 1]
    got = splits_agree(MaxRoiPool("f32"), before, (3, 2, 1, 1), after, 3, isa)
    np.testing.assert_array_equal(got[:2, :, 0, 0], x.max((2, 3)))
    np.testing.assert_array_equal(got[2], 0)


@ISAS
@pytest.mark.parametrize("columns", [1, 5, 16, 33])
def test_dft(isa: Isa, columns: int) -> None:
    """Sums over any tables: lines of a batch lie beside each other."""
    x = normal(2, 9, 3, 2)
    width = columns + -columns % COLUMNS
    cosine, sine = normal(9, width), normal(9, width)
    steps = [9 * 3 * 2, 2, 3 * 2, columns * 3 * 2, 2, 3 * 2]
    got = splits_agree(
        Dft("f32", "f32", True, True), [x, cosine, sine], (2, columns, 3, 2),
        [9, columns, width, 3, *steps], 6, isa,
    )  # fmt: skip
    z = x[..., 0].astype(np.float64) + 1j * x[..., 1]
    table = (cosine - 1j * sine.astype(np.float64))[:, :columns]
    want = np.einsum("bjl,jk->bkl", z, table)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, atol=1e-4)


@pytest.mark.parametrize(
    "spec",
    [
        GridSample("f16", "f32", "f32", 3, "linear", "zeros", True),
        RoiAlign("f64", "s64", True, True),
        MaxRoiPool("f16"),
        Dft("f32", "f32", False, True),
    ],
)
def test_another_machine(spec: Spec) -> None:
    assert "ret" in to_assembly(generate(spec, AARCH64, "kernel"), AARCH64)
