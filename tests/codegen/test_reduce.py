"""Places of extremes: ranges of work items, memory around the outputs, other architectures."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.specs.reduce import ArgExtreme
from tests.codegen.harness import isas, run
from tests.codegen.test_rows import guarded

ISAS = pytest.mark.parametrize("isa", isas(), ids=lambda isa: str(isa.vector_bytes))
GROUP = 64


@ISAS
@pytest.mark.parametrize("shape", [(9, 1, 1), (9, 37, 1), (2, 6, 200), (3, 5, 7)], ids=str)
@pytest.mark.parametrize("hot", [None, "f32", "u8", "f16"])
@pytest.mark.parametrize("splits", [1, 4])
def test_ranges(isa: Isa, shape: tuple[int, int, int], hot: str | None, splits: int) -> None:
    """Any split of the items, and nothing written outside."""
    outer, n, inner = shape
    x = np.random.default_rng(1).integers(0, 5, shape).astype(np.int16)
    kinds = {None: np.int64, "f32": np.float32, "u8": np.uint8, "f16": np.float16}
    out, intact = guarded((outer, n, inner) if hot else (outer, inner), kinds[hot])
    out[...] = 9
    spec = ArgExtreme("s16", False, True, inner == 1, hot)
    items = outer if inner == 1 else outer * -(-inner // GROUP)
    assert run(spec, [x, out, n, inner, GROUP], items, isa=isa, splits=splits) == 0
    place = n - 1 - x[:, ::-1].argmin(1)
    wanted = np.arange(n)[None, :, None] == place[:, None, :] if hot else place
    assert intact()
    assert np.array_equal(out, wanted.astype(out.dtype))


@ISAS
def test_equal_elements_in_every_lane(isa: Isa) -> None:
    """The first of all, the last of all, whatever lane they are in."""
    for n in (1, 15, 16, 17, 33, 64, 70):
        x = np.zeros((1, n, 1), np.float32)
        out = np.zeros((1, 1), np.int64)
        for last in (False, True):
            spec = ArgExtreme("f32", True, last, True)
            assert run(spec, [x, out, n, 1, GROUP], 1, isa=isa) == 0
            assert out[0, 0] == (n - 1 if last else 0)


def test_another_architecture() -> None:
    for inner_one in (False, True):
        spec = ArgExtreme("f32", True, False, inner_one)
        assert "fcmgt" in to_assembly(generate(spec, AARCH64, "arg"), AARCH64)
