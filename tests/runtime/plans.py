"""Small kernels of known behaviour, and plans made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.value import Value
from rewrite.plan.spec import DIVISION_BY_ZERO, Call, Place, Plan, Spec
from rewrite.plan.view import View, dense


@dataclass(frozen=True, slots=True)
class AddNumber(Spec):
    """y = x + number, in f32. Words: x, y. Items: elements."""

    number: float


@emits(AddNumber)
def _add_number(k: Kernel, spec: AddNumber) -> None:
    f, x, y = k.f, k.pointer(0), k.pointer(1)

    def one(i: Value) -> None:
        f.store(f.load("float", f.at(x, i, "float")) + spec.number, f.at(y, i, "float"))

    f.loop(k.begin, k.end, one)


@dataclass(frozen=True, slots=True)
class Combine(Spec):
    """z = x a + y, in f32. Words: x, y, z, a (an integer). Items: elements."""


@emits(Combine)
def _combine(k: Kernel, spec: Combine) -> None:
    f, x, y, z = k.f, k.pointer(0), k.pointer(1), k.pointer(2)
    a = f.cast("sitofp", k.integer(3), "float")

    def one(i: Value) -> None:
        left = f.load("float", f.at(x, i, "float")) * a
        f.store(left + f.load("float", f.at(y, i, "float")), f.at(z, i, "float"))

    f.loop(k.begin, k.end, one)


@dataclass(frozen=True, slots=True)
class Divide(Spec):
    """y = 1000 / x in s32, and a fault where x is 0. Words: x, y. Items: elements."""


@emits(Divide)
def _divide(k: Kernel, spec: Divide) -> None:
    f, x, y = k.f, k.pointer(0), k.pointer(1)

    def one(i: Value) -> None:
        by = f.load("i32", f.at(x, i, "i32"))
        zero = f.compare("==", by, 0)
        k.fault(DIVISION_BY_ZERO, zero)
        f.store(f.binary("sdiv", 1000, f.select(zero, 1, by)), f.at(y, i, "i32"))

    f.loop(k.begin, k.end, one)


@dataclass(frozen=True, slots=True)
class Reverse(Spec):
    """Each row of `width` f32 backwards, by way of scratch. Words: x, y. Items: rows."""

    width: int


@emits(Reverse)
def _reverse(k: Kernel, spec: Reverse) -> None:
    f, x, y, n = k.f, k.pointer(0), k.pointer(1), spec.width

    def row(i: Value) -> None:
        def out(j: Value) -> None:
            f.store(f.load("float", f.at(x, i * n + j, "float")), f.at(k.scratch, j, "float"))

        def back(j: Value) -> None:
            f.store(
                f.load("float", f.at(k.scratch, (n - 1) - j, "float")), f.at(y, i * n + j, "float")
            )

        f.loop(0, n, out)
        f.loop(0, n, back)

    f.loop(k.begin, k.end, row)


@dataclass(frozen=True, slots=True)
class Delay(Spec):
    """y = x after `turns` turns of a loop that takes about a nanosecond each. Items: elements."""

    turns: int


@emits(Delay)
def _delay(k: Kernel, spec: Delay) -> None:
    f, x, y = k.f, k.pointer(0), k.pointer(1)

    def one(i: Value) -> None:
        def turn(_: Value, value: Value) -> Value:
            return f.binary("xor", value * 3, 5)

        found = f.loop(0, spec.turns, turn, [f.load("i32", f.at(x, i, "i32"))])[0]
        number = f.cast("sitofp", f.binary("and", found, 0), "float")
        f.store(f.load("float", f.at(x, i, "float")) + number, f.at(y, i, "float"))

    f.loop(k.begin, k.end, one)


# --- plans --------------------------------------------------------------------------------------


def chain(
    count: int,
    specs: Sequence[Spec],
    *,
    dtype: str = "f32",
    items: int | None = None,
    grain: int = 10**9,
    scratch: int = 0,
    bytes_: int = 0,
) -> Plan:
    """One spec after the other on tensors of `count` elements, over two places of the arena."""
    view = dense(dtype, (count,))
    room = -(-4 * count // 64) * 64
    calls = []
    for k, spec in enumerate(specs):
        source = Place("input", 0) if k == 0 else Place("arena", 0, (k % 2) * room)
        last = k == len(specs) - 1
        target = Place("output", 0) if last else Place("arena", 0, ((k + 1) % 2) * room)
        calls.append(
            Call(
                spec,
                (source, target),
                count if items is None else items,
                grain=grain,
                scratch=scratch,
                nodes=(f"node {k}",),
                label=f"step {k}",
                bytes=bytes_,
            )
        )
    return Plan(tuple(calls), 2 * room, (), (view,), (view,))


def view(*shape: int, dtype: str = "f32") -> View:
    return dense(dtype, shape)


def numbers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)
