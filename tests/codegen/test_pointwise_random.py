"""Pointwise kernels over random views: orders, slices, steps, broadcasts, splits of the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from rewrite.plan.pointwise import pointwise
from rewrite.plan.spec import Body
from rewrite.plan.view import View, broadcast, dense, sliced
from tests.codegen.bodies import step
from tests.codegen.elements import sample
from tests.codegen.harness import isas, run

ISAS = isas()
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 31, 32, 33, 40, 64, 70)
MOST = 60_000
Rng = np.random.Generator


@dataclass
class Operand:
    """Memory, a view of it, and the offset of the view's first element."""

    memory: np.ndarray
    view: View
    offset: int = 0

    @property
    def array(self) -> np.ndarray:
        return self.seen(self.memory, self.view)

    @property
    def start(self) -> np.ndarray:
        return self.memory[self.offset :]

    def seen(self, memory: np.ndarray, view: View) -> np.ndarray:
        steps = [s * memory.itemsize for s in view.strides]
        return np.lib.stride_tricks.as_strided(memory[self.offset :], view.shape, steps)


def filled(rng: Rng, view: View, whole: View, offset: int = 0) -> Operand:
    return Operand(sample(view.dtype, max(whole.size, 1), int(rng.integers(1 << 20))), view, offset)


def ordered(rng: Rng, dtype: str, shape: tuple[int, ...]) -> Operand:
    view = dense(dtype, shape, tuple(rng.permutation(len(shape))))
    return filled(rng, view, view)


def spread(rng: Rng, dtype: str, shape: tuple[int, ...]) -> Operand:
    first = int(rng.integers(0, len(shape) + 1))
    small = dense(dtype, [n if rng.random() < 0.6 else 1 for n in shape[first:]])
    return filled(rng, broadcast(small, shape), small)


def cut(rng: Rng, dtype: str, shape: tuple[int, ...]) -> Operand:
    """Part of a larger tensor, steps of any sign."""
    steps = [int(rng.choice([1, 1, 2, -1, 3])) for _ in shape]
    reach = [abs(s) * (n - 1) for n, s in zip(shape, steps, strict=True)]
    before = [int(rng.integers(0, 3)) for _ in shape]
    sizes = [r + 1 + b + int(rng.integers(0, 2)) for r, b in zip(reach, before, strict=True)]
    whole = dense(dtype, sizes, tuple(rng.permutation(len(shape))))
    starts = [b + (r if s < 0 else 0) for b, r, s in zip(before, reach, steps, strict=True)]
    view, offset = sliced(whole, starts, shape, steps)
    return filled(rng, view, whole, offset)


def moved(rng: Rng) -> tuple[Body, Callable[..., np.ndarray]]:
    dtype = str(rng.choice(["f32", "u8", "f16", "f64", "bool"]))
    return Body((dtype,), (), (0,)), lambda a: a


def summed(rng: Rng) -> tuple[Body, Callable[..., np.ndarray]]:
    del rng
    steps = (step("Add", (0, 1), "f32"), step("Mul", (2, 0), "f32"))
    return Body(("f32", "f32"), steps, (3,)), lambda a, b: (a + b) * a


def mixed(rng: Rng) -> tuple[Body, Callable[..., np.ndarray]]:
    del rng
    steps = (
        step("Cast", (0,), "f32", to=1),
        step("Add", (3, 1), "f32"),
        step("Where", (2, 4, 1), "f32"),
    )
    body = Body(("u8", "f32", "bool"), steps, (5,))
    return body, lambda a, b, c: np.where(c, a.astype(np.float32) + b, b)


@pytest.mark.parametrize("seed", range(100))
def test_random_views(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape: tuple[int, ...] = (MOST, 2)
    while np.prod(shape) > MOST:
        shape = tuple(int(n) for n in rng.choice(SIZES, int(rng.integers(1, 6))))
    body, reference = (moved, summed, mixed)[seed % 3](rng)
    makers = (ordered, spread, cut)
    operands = [makers[rng.integers(0, 3)](rng, d, shape) for d in body.dtypes]
    out = (ordered, cut)[rng.integers(0, 2)](rng, body.dtype(body.results[0]), shape)
    before = out.memory.copy()
    spec, items, _ = pointwise(shape, [o.view for o in operands], [out.view], body)
    words = [*(o.start for o in operands), out.start]
    isa, splits = ISAS[rng.integers(0, len(ISAS))], int(rng.integers(1, 5))
    assert run(spec, words, items, isa=isa, splits=splits) == 0
    wanted = reference(*(o.array for o in operands))
    assert np.array_equal(out.array, wanted)
    touched = np.zeros(out.memory.shape, np.uint8)
    out.seen(touched, View("u8", shape, out.view.strides))[...] = 1
    assert np.array_equal(out.memory[touched == 0], before[touched == 0])
