"""Kernels of convolutions and pools on their own: ranges of work items, machines that are not here.

What they compute is tested through whole models (tests/plan/test_conv*.py, test_pool.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, AVX2, BASELINE
from rewrite.codegen.kernel import generate
from rewrite.codegen.kernels.conv_after import pieces
from rewrite.plan.conv_packing import Panels, packed_array, padded_bias
from rewrite.plan.conv_tiling import tallest_tile, tiles_of, vectors_for
from rewrite.plan.conv_window import offsets, starts
from rewrite.plan.spec import Body, Spec, Step
from rewrite.plan.specs.conv import After, Along, Conv
from rewrite.plan.specs.conv_depthwise import Depthwise
from rewrite.plan.specs.conv_dot import ConvDot
from rewrite.plan.specs.conv_pad import ConvPad
from rewrite.plan.specs.conv_winograd import Winograd
from rewrite.plan.specs.pool import Lrn, Pool, Unpool
from tests.codegen.harness import aligned, isas, run

RELU = After(
    "f32",
    Body(("f32", "f32"), (Step("", "Add", (0, 1), "f32"), Step("", "Relu", (2,), "f32")), (3,)),
    (Along("f32", True, True),),
)
CODES = After("u8", None, (Along("f64", True, False), Along("s32", False, False)), "u8")
SPECS: dict[str, Spec] = {
    "conv": Conv("plain", "f32", "f32", "f32", 2, (6, 5, 4), 3, RELU, True),
    "words": Conv("words", "s16", "s16", "s32", 2, (4,), 0, CODES),
    "depthwise": Depthwise("f32", "f32", 3, 2, 1, 4, 5, RELU),
    "depthwise of bytes": Depthwise("u8", "f32", 5, 1, 2, 4, 3, CODES),
    "dot": ConvDot("plain", "f32", "f32", "f32", 3, 2, True, RELU),
    "winograd": Winograd(2, "plain", "f32", 2, (6, 4), 4, 5, RELU),
    "winograd of bytes": Winograd(4, "words", "u8", 2, (4, 3), 8, 0, CODES),
    "winograd of bytes one by one": Winograd(4, "plain", "s8", 2, (4, 3), 8, 0, CODES),
    "pad": ConvPad("u8", "u8", "planes", 3, 1),
    "largest": Pool("f32", "f32", "max", None, "", True, 1, After("f32")),
    "lrn": Lrn("f32", 2, 2, 0.1, 0.75, 1.0),
    "unpool": Unpool("f16"),
}


@pytest.mark.parametrize("isa", [AARCH64, AVX2, BASELINE], ids=["aarch64", "avx2", "v2"])
@pytest.mark.parametrize("name", SPECS)
def test_code_for_other_machines(name: str, isa) -> None:
    assert to_assembly(generate(SPECS[name], isa, "k"), isa)


def test_sums_are_fused_on_arm() -> None:
    text = to_assembly(generate(SPECS["conv"], AARCH64, "k"), AARCH64)
    assert "fmla" in text
    bytes_ = Conv("arm_dot", "s8", "s8", "s32", 2, (8,), 0, CODES)
    assert "sdot" in to_assembly(generate(bytes_, AARCH64, "k"), AARCH64)


@pytest.mark.parametrize("isa", isas(), ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize("channels", [21, 64])
def test_any_split_of_the_work(splits: int, channels: int, isa) -> None:
    """A 3 by 3 convolution of two images without borders, in ranges, against numpy."""
    rng = np.random.default_rng(0)
    x = aligned((2, 9, 8, 5), np.float32, rng.standard_normal((2, 9, 8, 5)))
    w = rng.standard_normal((channels, 5, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(channels).astype(np.float32)
    lanes = isa.lanes("f32")
    vectors = vectors_for(isa, channels, lanes)
    panels = Panels(1, channels, vectors * lanes)
    tiles = tiles_of(7 * 6, tallest_tile(isa, vectors))
    spec = Conv("plain", "f32", "f32", "f32", vectors, tiles.heights, panels.tail, After("f32"))
    out = aligned((2, 7, 6, channels), np.float32, np.nan)
    packed = np.ascontiguousarray(packed_array(panels, w.reshape(channels, 5, 9)))
    words = [
        x, packed, padded_bias(panels, bias),
        starts((1, 7, 6), (360, 40, 5)), offsets((1, 3, 1), (360, 40, 5)), out,
        42, tiles.height, tiles.whole, tiles.code, tiles.count, 2, panels.count, 1, channels, 5,
        360, 42 * channels, channels, 3, 15,
    ]  # fmt: skip
    items = 2 * -(-tiles.count // 2) * panels.count
    size = tiles.height * panels.columns * 4
    assert run(spec, words, items, isa=isa, splits=splits, scratch=2 * size) == 0
    view = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (1, 2))
    exact = np.einsum("nyxcij,mcij->nyxm", view, w.astype(np.float64)) + bias
    assert np.allclose(out, exact, rtol=1e-5, atol=1e-5)


def test_tiles_cover_every_image() -> None:
    for tallest in (4, 6, 14):
        for pixels in range(1, 200):
            tiles = tiles_of(pixels, tallest)
            assert tiles.height * tiles.whole + sum(tiles.others) == pixels
            assert max(tiles.heights) <= tallest
            code, found = tiles.code, []
            while code:
                found.append(code & 15)
                code >>= 4
            assert tuple(found) == tiles.others


@pytest.mark.parametrize("widest", [1, 4, 16])
def test_pieces_are_neighbours(widest: int) -> None:
    for count in range(70):
        at = 0
        for first, lanes in pieces(count, widest):
            assert first == at
            assert lanes <= widest
            at += max(1, lanes)
        assert at == count
