"""Running totals: ranges of work items, memory around the outputs, a result over its operand."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.specs.scan import RunningTotal
from tests.codegen.harness import isas, run
from tests.codegen.test_rows import guarded

ISAS = pytest.mark.parametrize("isa", isas(), ids=lambda isa: str(isa.vector_bytes))
GROUP = 64


def wanted_of(x: np.ndarray, exclusive: bool, reverse: bool) -> np.ndarray:
    y = x[:, ::-1] if reverse else x
    total = np.cumsum(y, 1, dtype=x.dtype)
    total = total - y if exclusive else total
    return total[:, ::-1] if reverse else total


@ISAS
@pytest.mark.parametrize("shape", [(9, 1, 1), (9, 75, 1), (2, 6, 200), (3, 5, 7)], ids=str)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_ranges(isa: Isa, shape: tuple[int, int, int], exclusive: bool, reverse: bool) -> None:
    """Any split of the items, nothing written outside, in place as well; exact in integers."""
    outer, n, inner = shape
    spec = RunningTotal("s32", "add", exclusive, reverse, inner == 1)
    items = outer if inner == 1 else outer * -(-inner // GROUP)
    x = np.random.default_rng(1).integers(-(2**31), 2**31, shape).astype(np.int32)
    wanted = wanted_of(x, exclusive, reverse)
    y, intact = guarded(shape, np.int32)
    assert run(spec, [x, y, n, inner, GROUP], items, isa=isa, splits=4) == 0
    assert intact()
    assert np.array_equal(y, wanted)
    assert run(spec, [x, x, n, inner, GROUP], items, isa=isa) == 0
    assert np.array_equal(x, wanted)


def test_another_architecture() -> None:
    for inner_one in (False, True):
        spec = RunningTotal("f32", "add", False, True, inner_one)
        assert "fadd" in to_assembly(generate(spec, AARCH64, "scan"), AARCH64)
