"""TopK: ranges of work items, memory around the outputs, orders at their worst."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.ops.dtypes import to_numpy
from rewrite.plan.specs.sort import TopK, room_for, scratch_bytes
from tests.codegen.harness import isas, run
from tests.codegen.test_rows import guarded

ISAS = pytest.mark.parametrize("isa", isas(), ids=lambda isa: str(isa.vector_bytes))


@ISAS
@pytest.mark.parametrize("shape", [(9, 1), (4, 75), (40, 6), (21, 33), (3, 500)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "s64"])
def test_ranges(isa: Isa, shape: tuple[int, int], dtype: str) -> None:
    """Any split of the items, and nothing written outside."""
    rows, n = shape
    kind = {"f32": np.float32, "s64": np.int64}[dtype]
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(kind)
    for largest in (False, True):
        order = np.argsort(-x if largest else x, 1, kind="stable")
        for k in sorted({1, (n + 1) // 2, n}):
            values, values_intact = guarded((rows, k), kind)
            places, places_intact = guarded((rows, k), np.int64)
            spec = TopK(dtype, largest)
            room = room_for(n, k, isa.lanes("s32"))
            words = [x, values, places, n, k, room]
            scratch = scratch_bytes(spec, room)
            assert run(spec, words, rows, isa=isa, splits=3, scratch=scratch) == 0
            assert values_intact()
            assert places_intact()
            assert np.array_equal(places, order[:, :k])
            assert np.array_equal(values, np.take_along_axis(x, order[:, :k], 1))


@ISAS
@pytest.mark.parametrize("dtype", ["f32", "f64", "u8", "s64"])
@pytest.mark.parametrize("kind", ["rising", "falling", "equal", "saw", "random"])
def test_orders_of_every_kind(isa: Isa, kind: str, dtype: str) -> None:
    n = 1000
    x = {
        "rising": np.arange(n), "falling": n - np.arange(n), "equal": np.zeros(n),
        "saw": np.arange(n) % 7, "random": np.random.default_rng(3).integers(0, 200, n),
    }[kind].astype(to_numpy(dtype))  # fmt: skip
    order = np.argsort(-x.astype(np.float64), kind="stable")
    for k in (1, 2, 3, 17, 64, 300, 999, 1000):
        values, places = np.zeros(k, x.dtype), np.zeros(k, np.int64)
        spec = TopK(dtype, True)
        room = room_for(n, k, isa.lanes("s32"))
        words, scratch = [x, values, places, n, k, room], scratch_bytes(spec, room)
        assert run(spec, words, 1, isa=isa, scratch=scratch) == 0
        assert np.array_equal(places, order[:k])


@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
def test_there_is_room_for_a_vector_behind_what_stays(lanes: int) -> None:
    for n in (1, 2, 7, 31, 64, 65, 100, 1000, 1 << 20):
        for k in {1, 2, 15, 16, 17, n // 2, n - 1, n} & set(range(1, n + 1)):
            room = room_for(n, k, lanes)
            assert room & (room - 1) == 0
            assert room >= lanes
            assert room >= n or room >= k + lanes


def test_another_architecture() -> None:
    for dtype in ("f32", "s64"):
        text = to_assembly(generate(TopK(dtype, True), AARCH64, "top"), AARCH64)
        assert "ret" in text
