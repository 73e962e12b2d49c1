"""The writer of LLVM text: what is written computes what it says."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.ir import Function, Module
from rewrite.codegen.types import bits, element, is_float, lanes, like, literal, suffix, vector
from rewrite.codegen.value import Value
from tests.codegen.small import run_function


def integers(name: str, write: object, *inputs: int) -> int:
    """A function of integers: `write(f, *values)` gives its result."""
    x = np.array(inputs or (0,), np.int64)

    def body(f: Function) -> Value:
        values = [f.load("i64", f.at(f.arg("p0"), i, "i64")) for i in range(len(inputs))]
        return write(f, *values)  # type: ignore[operator, no-any-return]

    return run_function(f"ir_{name}", body, [x])


def test_types() -> None:
    assert lanes("<8 x float>") == 8
    assert lanes("i32") == 0
    assert element("<4 x i16>") == "i16"
    assert like("<4 x i16>", "float") == "<4 x float>"
    assert vector("float", 0) == "float"
    assert bits("<4 x double>") == 64
    assert is_float("<2 x half>")
    assert not is_float("i8")
    assert suffix("<8 x float>") == "v8f32"
    assert suffix("i1") == "i1"


def test_literals_are_exact() -> None:
    assert literal(0.1, "float") == "0x3FB99999A0000000"
    assert literal(float("inf"), "float") == "0x7FF0000000000000"
    assert literal(1e39, "float") == "0x7FF0000000000000"
    assert literal(255, "i8") == "-1"
    assert literal(0x80000000, "i32") == "-2147483648"
    assert literal(True, "i1") == "true"
    assert literal(1, "<4 x i32>") == "splat (i32 1)"


def test_integers_known_while_writing_cost_nothing() -> None:
    f = Module("m").function("k", [("i64", "n")])
    n = f.arg("n")
    before = len(f.text())
    assert f.add(2, 3) == 5
    assert f.mul(n, 0) == 0
    assert f.mul(n, 1) is n
    assert f.add(n, 0) is n
    assert f.divide(n, 1) is n
    assert f.remainder(n, 1) == 0
    assert len(f.text()) == before


def test_arithmetic() -> None:
    assert integers("plus", lambda f, x, y: x * 3 + y - 1, 5, 7) == 21
    assert integers("reversed", lambda f, x: 10 - x, 3) == 7
    assert integers("negated", lambda f, x: f.neg(x), 3) == -3
    assert integers("divided", lambda f, x: f.divide(x, 4) * 10 + f.remainder(x, 4), 11) == 23


@pytest.mark.parametrize(
    ("sign", "values"),
    [("<", [1, 0, 0]), ("<=", [1, 1, 0]), (">", [0, 0, 1]), (">=", [0, 1, 1]), ("==", [0, 1, 0]),
     ("!=", [1, 0, 1])],
)  # fmt: skip
def test_comparisons(sign: str, values: list[int]) -> None:
    name = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}[sign]
    for x, wanted in zip((-1, 2, 5), values, strict=True):

        def write(f: Function, v: Value) -> Value:
            return f.cast("zext", f.compare(sign, v, 2), "i64")

        assert integers(f"{name}_{x % 7}", write, x) == wanted


def test_unsigned_and_nan() -> None:
    def unsigned(f: Function, x: Value) -> Value:
        return f.cast("zext", f.compare("<", x, 2, signed=False), "i64")

    assert integers("unsigned", unsigned, -1) == 0
    x = np.array([np.nan], np.float32)

    def ordered(f: Function) -> Value:
        v = f.load("float", f.arg("p0"))
        less = f.cast("zext", f.compare("<", v, 1.0), "i64")
        unordered = f.cast("zext", f.compare("<", v, 1.0, ordered=False), "i64")
        unequal = f.cast("zext", f.compare("!=", v, v), "i64")
        return less + unordered * 10 + unequal * 100

    assert run_function("ir_nan", ordered, [x]) == 110


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("step", [1, 3])
def test_loops(n: int, step: int) -> None:
    """With a bound known while writing, and with one that is not."""
    wanted = sum(i + 1 for i in range(0, n, step))

    def known(f: Function) -> Value:
        return f.loop(0, n, lambda i, t: f.add(t, f.add(i, 1)), [f.const(0, "i64")], step)[0]

    def unknown(f: Function, stop: Value) -> Value:
        return f.loop(0, stop, lambda i, t: t + (i + 1), [f.const(0, "i64")], step)[0]

    assert run_function(f"ir_known_{n}_{step}", known, [np.zeros(1)]) == wanted
    assert integers(f"unknown_{n}_{step}", unknown, n) == wanted


def test_nested_loops_and_branches() -> None:
    def write(f: Function, n: Value) -> Value:
        def outer(i: Value, total: Value) -> Value:
            def inner(j: Value, t: Value) -> Value:
                odd = f.compare("==", f.remainder(f.add(i, j), 2), 1)
                return f.if_(odd, lambda: t + 100, lambda: t + 1, 1)[0]

            return f.loop(0, i, inner, [total])[0]

        return f.loop(0, n, outer, [f.const(0, "i64")])[0]

    wanted = sum(100 if (i + j) % 2 else 1 for i in range(6) for j in range(i))
    assert integers("nested", write, 6) == wanted


def test_while() -> None:
    """Steps of Collatz's sequence."""

    def write(f: Function, x: Value) -> Value:
        def turn(v: Value, count: Value) -> tuple[Value, Value, Value]:
            even = f.compare("==", f.remainder(v, 2), 0)
            v = f.select(even, f.divide(v, 2), v * 3 + 1)
            return f.compare("!=", v, 1), v, count + 1

        return f.while_(turn, [x, f.const(0, "i64")])[1]

    assert integers("while", write, 27) == 111


def test_vectors() -> None:
    x = np.arange(8, dtype=np.float32)
    y = np.zeros(24, np.float32)

    def write(f: Function) -> Value:
        v = f.load("<8 x float>", f.arg("p0"))
        f.store(f.shuffle(v, v, [7, 6, 5, 4, 8, 9, 10, 11]), f.arg("p1"))
        third = f.insert(f.splat(2.5, v.type), f.extract(v, 3), 1)
        f.store(f.fma(v, third, 1.0), f.at(f.arg("p1"), 8, "float"))
        f.store(f.cast("sitofp", f.iota("<8 x i32>"), v.type), f.at(f.arg("p1"), 16, "float"))
        total = f.reduce(v, f.add)
        return f.cast("fptosi", total, "i64")

    assert run_function("ir_vectors", write, [x, y]) == 28
    assert y[:8].tolist() == [7, 6, 5, 4, 0, 1, 2, 3]
    assert y[8:16].tolist() == [1, 4, 6, 8.5, 11, 13.5, 16, 18.5]
    assert y[16:].tolist() == list(range(8))


def test_tables_slots_and_functions() -> None:
    def write(f: Function, i: Value) -> Value:
        table = f.module.table(np.array([10, 20, 30], np.int64))
        g = f.module.function("twice", [("i64", "x")], returns="i64", internal=True)
        g.ret(g.arg("x") * 2)
        slot = f.slot("i64")
        f.initialize(slot, "i64", 5)
        found = f.load("i64", f.at(f.global_(table), i, "i64"))
        return f.call("twice", "i64", found) + f.load("i64", slot)

    assert integers("table", write, 2) == 65
