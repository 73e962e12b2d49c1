"""Elements between memory and registers: every type, strides, scalars and vectors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from rewrite.codegen.gather import load_at, runs, store_at
from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.memory import load, memory_type, register_type, store
from rewrite.codegen.transpose import transposed
from rewrite.codegen.value import Value
from rewrite.ops.dtypes import to_numpy
from tests.codegen.elements import NUMERIC, everything, same, sample
from tests.codegen.harness import isas
from tests.codegen.small import run_function

ISAS = isas()
by_isa = pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")


@by_isa
@pytest.mark.parametrize("lanes", [0, 1, 2, 4, 8, 16])
def test_every_type_comes_back(lanes: int, isa: Isa) -> None:
    count = max(1, lanes)
    for dtype in NUMERIC:
        every = everything(dtype)
        x = every[: every.size // count * count][:4096]
        y = np.zeros_like(x)
        write = partial(copy, isa=isa, dtype=dtype, lanes=lanes, size=x.size)
        run_function(f"memory_{dtype}_{lanes}_{isa.vector_bytes}", write, [x, y], isa)
        assert same(x, y).all(), dtype


def copy(f: Function, isa: Isa, dtype: str, lanes: int, size: int) -> None:
    name = memory_type(dtype)

    def turn(i: Value) -> None:
        value = load(f, isa, dtype, f.at(f.arg("p0"), i, name), lanes)
        assert value.type == register_type(dtype, lanes)
        store(f, isa, dtype, value, f.at(f.arg("p1"), i, name), lanes)

    f.loop(0, size, turn, step=max(1, lanes))


START, BACK, LANES = 60, 70, 8


@by_isa
@pytest.mark.parametrize("stride", [0, 1, 2, 3, 7, -1, -2])
def test_strides(stride: int, isa: Isa) -> None:
    for dtype in ("f32", "u8", "f16", "bool", "f64"):
        x, y = sample(dtype, 150), np.zeros(150, to_numpy(dtype))
        write = partial(spread, isa=isa, dtype=dtype, stride=stride)
        run_function(f"stride_{dtype}_{stride}_{isa.vector_bytes}", write, [x, y], isa)
        wanted = x[START + stride * np.arange(LANES)]
        assert np.array_equal(y[:LANES], wanted)
        assert np.array_equal(y[BACK + (stride or 1) * np.arange(LANES)], wanted)


def spread(f: Function, isa: Isa, dtype: str, stride: int) -> None:
    name = memory_type(dtype)
    value = load(f, isa, dtype, f.at(f.arg("p0"), START, name), LANES, stride)
    store(f, isa, dtype, value, f.arg("p1"), LANES)
    store(f, isa, dtype, value, f.at(f.arg("p1"), BACK, name), LANES, stride or 1)


def test_runs() -> None:
    assert list(runs([5, 6, 7, 8, 1, 2, 2, 9])) == [(0, 5, 4), (4, 1, 2), (6, 2, 1), (7, 9, 1)]
    assert list(runs(range(7))) == [(0, 0, 4), (4, 4, 2), (6, 6, 1)]


@by_isa
@pytest.mark.parametrize(
    "offsets", [[3], [0, 1, 2], [4, 4, 4, 4], [9, 8, 7, 6], [0, 1, 5, 6, 7, 20, 2], list(range(13))]
)
def test_offsets(offsets: list[int], isa: Isa) -> None:
    """Lanes without an offset hold the spare number, and nothing else is touched."""
    x, y = np.arange(32, dtype=np.float32), np.full(64, -1, np.float32)
    lanes = 16 if len(offsets) > 8 else 8 if len(offsets) > 4 else 4

    def write(f: Function) -> None:
        value = load_at(f, "float", f.arg("p0"), offsets, lanes, 7)
        store_at(f, value, f.arg("p1"), range(lanes))
        store_at(f, value, f.at(f.arg("p1"), 32, "float"), list(dict.fromkeys(offsets)))

    name = "_".join(map(str, offsets))
    run_function(f"offsets_{name}_{isa.vector_bytes}", write, [x, y], isa)
    assert y[: len(offsets)].tolist() == offsets
    assert np.all(y[len(offsets) : lanes] == 7)
    kept = list(dict.fromkeys(offsets))
    untouched = np.setdiff1d(np.arange(32), kept)
    assert np.all(y[32 + untouched] == -1)


@by_isa
@pytest.mark.parametrize(
    ("name", "count"),
    [("i8", 16), ("i16", 16), ("i16", 8), ("float", 16), ("float", 8), ("float", 4), ("i64", 8),
     ("i64", 4), ("double", 2), ("i8", 4)],
)  # fmt: skip
def test_transposed(name: str, count: int, isa: Isa) -> None:
    dtype = {"i8": np.uint8, "i16": np.uint16, "i64": np.uint64, "float": np.float32}
    x = np.arange(count * count).reshape(count, count).astype(dtype.get(name, np.float64))
    y = np.zeros_like(x)

    def write(f: Function) -> None:
        rows = [
            f.load(f"<{count} x {name}>", f.at(f.arg("p0"), i * count, name)) for i in range(count)
        ]
        for i, column in enumerate(transposed(f, rows)):
            f.store(column, f.at(f.arg("p1"), i * count, name))

    run_function(f"transposed_{name}_{count}_{isa.vector_bytes}", write, [x, y], isa)
    assert np.array_equal(y, x.T)
