"""TopK: ranges of work items, memory around the outputs, the heap at its worst."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.specs.sort import TopK, scratch_bytes
from tests.codegen.harness import isas, run
from tests.codegen.test_rows import guarded

ISAS = pytest.mark.parametrize("isa", isas(), ids=lambda isa: str(isa.vector_bytes))


@ISAS
@pytest.mark.parametrize("shape", [(9, 1, 1), (4, 75, 1), (2, 6, 20), (3, 33, 7)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "s64"])
def test_ranges(isa: Isa, shape: tuple[int, int, int], dtype: str) -> None:
    """Any split of the items, and nothing written outside."""
    outer, n, inner = shape
    kind = {"f32": np.float32, "s64": np.int64}[dtype]
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(kind)
    for largest in (False, True):
        order = np.argsort(-x if largest else x, 1, kind="stable")
        for k in sorted({1, (n + 1) // 2, n}):
            values, values_intact = guarded((outer, k, inner), kind)
            places, places_intact = guarded((outer, k, inner), np.int64)
            spec = TopK(dtype, largest, inner == 1)
            words = [x, values, places, n, inner, k]
            scratch = scratch_bytes(spec, k)
            assert run(spec, words, outer * inner, isa=isa, splits=3, scratch=scratch) == 0
            assert values_intact()
            assert places_intact()
            assert np.array_equal(places, order[:, :k])
            assert np.array_equal(values, np.take_along_axis(x, order[:, :k], 1))


@ISAS
@pytest.mark.parametrize("kind", ["rising", "falling", "equal", "saw"])
def test_orders_that_are_hard_for_a_heap(isa: Isa, kind: str) -> None:
    n = 1000
    x = {
        "rising": np.arange(n), "falling": -np.arange(n), "equal": np.zeros(n),
        "saw": np.arange(n) % 7,
    }[kind].astype(np.float32)  # fmt: skip
    for k in (1, 2, 3, 64, 999, 1000):
        values, places = np.zeros(k, np.float32), np.zeros(k, np.int64)
        spec = TopK("f32", True, True)
        scratch = scratch_bytes(spec, k)
        assert run(spec, [x, values, places, n, 1, k], 1, isa=isa, scratch=scratch) == 0
        assert np.array_equal(places, np.argsort(-x, kind="stable")[:k])


def test_another_architecture() -> None:
    for dtype in ("f32", "s64"):
        text = to_assembly(generate(TopK(dtype, True, True), AARCH64, "top"), AARCH64)
        assert "ret" in text
