"""Row programs by chance, against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.isa import Isa
from rewrite.plan.rows_draft import Draft
from rewrite.plan.view import View, broadcast, dense
from tests.codegen.test_rows import EPS, ISAS, NAMES, Array, call, guarded

BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum}
UNARY = {"Neg": np.negative, "Abs": np.abs, "Tanh": np.tanh}
REDUCTIONS = {"add": np.mean, "max": np.max, "min": np.min}  # of add the mean is taken


class _Random:
    """A random program on f32 with its value in float64, in the shape of the rows."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.draft = Draft()
        self.shape = tuple(int(n) for n in self.rng.integers(1, 24, 3))
        axes = [a for a in range(3) if self.rng.random() < 0.5]
        self.axes = tuple(axes) or (int(self.rng.integers(3)),)
        self.operands: list[tuple[Array, View]] = []
        self.values: list[tuple[int, Array]] = []
        for _ in range(int(self.rng.integers(1, 5))):
            self.operand()
        for _ in range(int(self.rng.integers(2, 14))):
            self.step()

    def operand(self) -> None:
        sizes = tuple(n if self.rng.random() < 0.7 else 1 for n in self.shape)
        order = tuple(int(a) for a in self.rng.permutation(3))
        memory = self.rng.uniform(-1, 1, [sizes[a] for a in order]).astype(np.float32)
        view = broadcast(dense("f32", sizes, order), self.shape)
        element = any(sizes[a] != 1 for a in self.axes)
        ref = self.draft.operand(len(self.operands), "f32", element)
        self.operands.append((memory, view))
        value = np.transpose(memory, np.argsort(order)).astype(np.float64)
        self.values.append((ref, np.broadcast_to(value, self.shape)))

    def pick(self) -> tuple[int, Array]:
        late = len(self.values) > 3 and self.rng.random() < 0.6
        first = len(self.values) - 3 if late else 0
        return self.values[int(self.rng.integers(first, len(self.values)))]

    def step(self) -> None:
        d, kind = self.draft, self.rng.random()
        x, value = self.pick()
        if kind < 0.3:
            name = str(self.rng.choice(sorted(REDUCTIONS)))
            folded = REDUCTIONS[name](value, axis=self.axes, keepdims=True)
            ref = d.fold(name, x, mean=name == "add")
            self.values.append((ref, np.broadcast_to(folded, self.shape)))
        elif kind < 0.5:
            name = str(self.rng.choice(sorted(UNARY)))
            self.values.append((d.step(name, x), UNARY[name](value)))
        else:
            name = str(self.rng.choice(sorted(BINARY)))
            y, other = self.pick()
            self.values.append((d.step(name, x, y), BINARY[name](value, other)))


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(isa: Isa, seed: int) -> None:
    """Programs, shapes, orders in memory and outputs by chance; values stay below 2^13."""
    made = _Random(seed)
    rng = made.rng
    chosen = [made.values[-1], *(v for v in made.values[:-1] if rng.random() < 0.2)]
    built = made.draft.finish([ref for ref, _ in chosen])
    operands = [made.operands[int(str(key))] for key in built.keys]
    outputs, checks = [], []
    for _ in chosen:
        order = tuple(int(a) for a in rng.permutation(3))
        memory, intact = guarded([made.shape[a] for a in order], np.float32)
        outputs.append((memory, dense("f32", made.shape, order)))
        checks.append((np.transpose(memory, np.argsort(order)), intact))
    elements = [True] * len(chosen)
    call(built, made.shape, made.axes, operands, outputs, elements, isa, splits=2)
    for (_, value), (found, intact) in zip(chosen, checks, strict=True):
        assert intact()
        np.testing.assert_allclose(found, value, atol=2000 * EPS * max(1, np.abs(value).max()))
