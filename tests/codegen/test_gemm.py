"""Kernels of matrix products on their own: every instruction set, form, height and split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa, native
from rewrite.codegen.kernel import generate
from rewrite.plan.packing import (
    TileShape,
    narrow_shape,
    offsets,
    padded,
    panels,
    tile_shape,
)
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.specs.gemm import Gemm, Operand, PackPanels, row_schedule
from tests.codegen.harness import aligned, isas, run

Array = np.ndarray[Any, np.dtype[Any]]
NUMPY = {
    "f32": np.float32, "f64": np.float64, "s32": np.int32, "u32": np.uint32, "s64": np.int64,
    "u64": np.uint64, "s8": np.int8, "u8": np.uint8, "s16": np.int16, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}  # fmt: skip


def without(*prefixes: str) -> Isa:
    """This machine without the features that begin so."""
    names = [n[1:] for n in native().features if n.startswith("+")]
    return native(tuple(sorted(n for n in names if n.startswith(prefixes))))


def machines() -> list[Isa]:
    """Those of the harness, and VNNI in narrow vectors, and AVX-512 without VNNI."""
    found = [*isas()]
    if native().has("avx512f") and native().has("avxvnni"):
        found.append(without("avx512"))
    if native().has("avx512vnni"):
        found.append(without("avx512vnni", "avxvnni"))
    return list(dict.fromkeys(found))


def name_of(isa: Isa) -> str:
    vnni = "-vnni" if isa.has("avx512vnni") or isa.has("avxvnni") else ""
    return f"{isa.vector_bytes}{vnni}"


@dataclass
class Product:
    """Operands of one call, with guards around the output."""

    spec: Gemm
    a: Array  # [batch, M, K in the kernel's form], rows may be farther apart
    b: Array  # [batch or 1, K, N]
    group: int = 1
    bias: Array | None = None
    extra: tuple[tuple[Array, tuple[int, int, int]], ...] = ()  # data and strides b, m, n

    def run(self, isa: Isa, splits: int) -> Array:
        batch, m, _ = self.a.shape
        n, columns = self.b.shape[-1], self.spec.columns
        packed = panels(self.b.astype(NUMPY[self.spec.b]), columns, self.group)
        count, steps = packed.shape[-4], packed.shape[-3]
        total, out_type = NUMPY[self.spec.total], NUMPY[self.spec.out]
        out = np.full((batch, m, n + 3), 77).astype(out_type)
        init = np.zeros(columns, total) if self.bias is None else padded(self.bias, columns)
        panel = steps * columns * self.group
        item = self.a.itemsize
        b_stride = 0 if self.b.shape[0] == 1 else count * panel
        strides = [(self.a.strides[0] // item,), (b_stride,), (m * (n + 3),)]
        table = offsets((batch,), *strides, *((s[0],) for _, s in self.extra))
        rows = row_schedule(m, self.spec.heights)
        words: list[Array | int] = [self.a, packed, init.astype(total), table, table]
        words += [x for x, _ in self.extra]
        words += [out, n, steps, self.a.strides[1] // item, panel, n + 3]
        words += [0 if self.bias is None else columns, rows.height, rows.whole, rows.code]
        words += [rows.tiles, 2, 0, *(s[1] for _, s in self.extra)]
        scratch = max(self.spec.heights) * columns * np.dtype(total).itemsize
        items = batch * rows.tiles * count
        assert run(self.spec, words, items, isa=isa, splits=splits, scratch=scratch) == 0
        assert (out[..., n:] == np.asarray(77).astype(out_type)).all(), "written beyond the rows"
        return out[..., :n]


def plain_spec(isa: Isa, dtype: str, n: int = 1000, **more: Any) -> Gemm:
    total = {"f16": "f32", "bf16": "f32"}.get(dtype, dtype)
    tile = tile_shape(isa, total, n)
    made = {"form": "plain", "a": total, "b": dtype, "total": total, "out": dtype} | more
    return Gemm(columns=tile.columns, heights=tile.heights, **made)


def numbers(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    kind = np.dtype(NUMPY[dtype])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    return rng.standard_normal(shape).astype(kind)


def apart(a: Array, gap: int) -> Array:
    """The same rows, `gap` elements farther apart."""
    wide = aligned((*a.shape[:-1], a.shape[-1] + gap), a.dtype)
    wide[...] = 0
    found: Array = wide[..., : a.shape[-1]]
    found[...] = a
    return found


SHAPES = [(1, 1, 1), (1, 5, 70), (2, 8, 16), (3, 17, 33), (7, 3, 1), (12, 9, 31), (29, 4, 65)]


@pytest.mark.parametrize("isa", machines(), ids=name_of)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_floats(isa: Isa, dtype: str) -> None:
    """Within K eps |a| |b|, and one rounding of the result."""
    rng = np.random.default_rng(0)
    spec = plain_spec(isa, dtype)
    for m, k, n in SHAPES:
        a = apart(numbers(rng, dtype, 2, m, k).astype(NUMPY[spec.a]), 3)
        b = numbers(rng, dtype, 2, k, n)
        bias = rng.standard_normal(n).astype(NUMPY[spec.total])
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64)) + bias
        size = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64)) + abs(bias)
        eps = 2.0**-53 if dtype == "f64" else 2.0**-24
        last = {"f16": 2.0**-11, "bf16": 2.0**-8}.get(dtype, 0.0)
        bound = (k + 2) * eps * size + last * np.abs(exact) * 1.01 + 2.0**-25
        for splits in (1, 3):
            found = Product(spec, a, b, bias=bias).run(isa, splits).astype(np.float64)
            assert (np.abs(found - exact) <= bound).all(), (m, k, n)


@pytest.mark.parametrize("isa", machines(), ids=name_of)
@pytest.mark.parametrize("dtype", ["s32", "u32", "s64", "u64"])
def test_integers_wrap_around(isa: Isa, dtype: str) -> None:
    rng = np.random.default_rng(1)
    spec = plain_spec(isa, dtype)
    for m, k, n in SHAPES:
        a, b = apart(numbers(rng, dtype, 1, m, k), 1), numbers(rng, dtype, 1, k, n)
        assert (Product(spec, a, b).run(isa, 2) == np.matmul(a, b)).all()


def byte_forms(isa: Isa) -> list[tuple[str, str, str, int]]:
    """Form, element types, group."""
    found = [("plain", "u8", "s8", 1), ("plain", "s8", "u8", 1)]
    if isa.arch == "x86_64":
        found += [("pairs", "s16", "u8", 2), ("pairs", "s16", "s8", 2)]
        found += [("pairs16", "u8", "s8", 4), ("pairs16", "s8", "u8", 4)]
        if isa.has("avx512vnni") or isa.has("avxvnni"):
            found += [("dot", "u8", "s8", 4), ("dot", "s8", "u8", 4)]
    return found


@pytest.mark.parametrize("isa", machines(), ids=name_of)
def test_bytes_are_exact(isa: Isa) -> None:
    """All codes, also the largest; pairs16 only where its sums of pairs fit 16 bits."""
    rng = np.random.default_rng(2)
    for form, a_type, b_type, group in byte_forms(isa):
        spec = plain_spec(isa, "s32", form=form, a=a_type, b=b_type)
        for m, k, n in SHAPES:
            k = -(-k // group) * group
            a, b = numbers(rng, a_type, 1, m, k), numbers(rng, b_type, 1, k, n)
            a[:, :1] = np.iinfo(a.dtype).max
            a[:, -1:] = np.iinfo(a.dtype).min
            if a_type == "s16":
                a = numbers(rng, "u8", 1, m, k).astype(np.int16) - 128
            if form == "pairs16":
                b = (b // 2).astype(b.dtype)
            exact = np.matmul(a.astype(np.int64), b.astype(np.int64))
            for splits in (1, 3):
                found = Product(spec, a, b, group).run(isa, splits)
                assert (found == exact).all(), (form, a_type, b_type, m, k, n)


@pytest.mark.parametrize("isa", machines(), ids=name_of)
@pytest.mark.parametrize("long", [False, True])
def test_epilogue(isa: Isa, long: bool) -> None:
    """relu(sum + row) * x - column, with every pattern of strides; exact in small integers."""
    rng = np.random.default_rng(3)
    steps = [
        Step("", "Add", (0, 1), "f32"), Step("", "Relu", (4,), "f32"),
        Step("", "Mul", (5, 2), "f32"), Step("", "Sub", (6, 3), "f32"),
    ]  # fmt: skip
    if long:  # more than stand side by side
        for _ in range(3):
            steps.append(Step("", "Add", (3 + len(steps), Constant("f32", 1.0)), "f32"))
    body = Body(("f32",) * 4, tuple(steps), (3 + len(steps),))
    operands = (Operand("f32", 1), Operand("f32", 1), Operand("f32", 0))
    spec = plain_spec(isa, "f32", body=body, operands=operands)
    for m, k, n in SHAPES:
        a = rng.integers(-8, 9, (2, m, k)).astype(np.float32)
        b = rng.integers(-8, 9, (1, k, n)).astype(np.float32)
        row = rng.integers(-9, 9, n).astype(np.float32)
        x = rng.integers(-9, 9, (2, m, n)).astype(np.float32)
        column = rng.integers(-9, 9, (m, 1)).astype(np.float32)
        exact = np.maximum(np.matmul(a, b) + row, 0) * x - column + (3 if long else 0)
        extra = ((row, (0, 0, 1)), (x, (m * n, n, 1)), (column, (0, 1, 0)))
        for splits in (1, 4):
            assert (Product(spec, a, b, extra=extra).run(isa, splits) == exact).all()


@pytest.mark.parametrize("isa", machines(), ids=name_of)
def test_epilogue_of_another_type(isa: Isa) -> None:
    """Sums in s32, bytes in memory."""
    rng = np.random.default_rng(4)
    steps = (
        Step("", "Max", (0, Constant("s32", 0)), "s32"),
        Step("", "Min", (1, Constant("s32", 200)), "s32"),
        Step("", "Cast", (2,), "u8", (("saturate", 1),), 21),
    )
    spec = plain_spec(isa, "s32", out="u8", body=Body(("s32",), steps, (3,)))
    for m, k, n in SHAPES:
        a, b = (rng.integers(-9, 9, s).astype(np.int32) for s in ((1, m, k), (1, k, n)))
        exact = np.clip(np.matmul(a, b), 0, 200)
        assert (Product(spec, a, b).run(isa, 2) == exact).all()


@pytest.mark.parametrize("isa", machines(), ids=name_of)
def test_division_by_zero_is_a_fault(isa: Isa) -> None:
    """In an element, not in what pads a row."""
    body = Body(("s32", "s32"), (Step("", "Div", (0, 1), "s32"),), (2,))
    spec = plain_spec(isa, "s32", body=body, operands=(Operand("s32", 1),))
    tile = tile_shape(isa, "s32", 1000)
    a, b = np.full((1, 2), 6, np.int32), np.ones((2, 5), np.int32)
    packed = panels(b, tile.columns)
    for bad in (False, True):
        by = np.array([1, 2, 3, 4, 0 if bad else 6], np.int32)
        out = np.zeros((1, 5), np.int32)
        none = np.zeros(4, np.int64)
        words = [a, packed, np.zeros(tile.columns, np.int32), none, none, by, out]
        words += [5, 2, 2, 0, 5, 0, 1, 1, 0, 1, 1, 0, 0]
        status = run(spec, words, 1, isa=isa, scratch=4096)
        assert status == (2 if bad else 0)
        assert out.tolist() == [[12, 6, 4, 3, 0 if bad else 2]]


def as_it_lies(isa: Isa, spec: Gemm, a: Array, b: Array, splits: int) -> Array:
    """out = a @ b, `b` [K, N] in memory as its strides say."""
    (m, k), n = a.shape, b.shape[1]
    item, columns = b.itemsize, spec.columns
    row = b.strides[0] // item if spec.right == "rows" else b.strides[1] // item
    panel = columns if spec.right == "rows" else columns * row
    out = np.full((m, n + 2), 77).astype(NUMPY[spec.out])
    rows = row_schedule(m, spec.heights)
    none = np.zeros(3, np.int64)
    words: list[Array | int] = [a, b, np.zeros(columns, NUMPY[spec.total]), none, none]
    words += [out, n, k, a.strides[0] // a.itemsize, panel, n + 2, 0, rows.height, rows.whole]
    words += [rows.code, rows.tiles, 1, row]
    scratch = (max(spec.heights) + k) * columns * 8
    items = rows.tiles * -(-n // columns)
    assert run(spec, words, items, isa=isa, splits=splits, scratch=scratch) == 0
    assert (out[:, n:] == np.asarray(77).astype(out.dtype)).all()
    return out[:, :n]


@pytest.mark.parametrize("isa", machines(), ids=name_of)
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "f16"])
@pytest.mark.parametrize("right", ["rows", "narrow", "columns"])
def test_matrices_as_they_lie(isa: Isa, dtype: str, right: str) -> None:
    """Rows and columns farther apart than they are long, ends of panels, ends of vectors."""
    rng = np.random.default_rng(6)
    total = "f32" if dtype == "f16" else dtype
    tile = tile_shape(isa, total, 1000)
    if right == "narrow":
        tile = narrow_shape(isa, total, 1000)
    if right == "columns":
        tile = TileShape((1,), max(isa.lanes(total), 8))
    spec = Gemm(
        form="plain", a=total, b=dtype, total=total, out=total, columns=tile.columns,
        heights=tile.heights, right="columns" if right == "columns" else "rows",
    )  # fmt: skip
    for m, k, n in [*SHAPES, (3, 37, 130), (2, 0, 5)]:
        a = rng.integers(-9, 10, (m, k)).astype(NUMPY[total])
        b = rng.integers(-9, 10, (k, n)).astype(NUMPY[dtype])
        exact = a.astype(np.int64) @ b.astype(np.int64)
        held = apart(b.T, 3).T if right == "columns" else apart(b, 3)
        for splits in (1, 3):
            assert (as_it_lies(isa, spec, a, held, splits) == exact).all(), (m, k, n)


def test_special_numbers() -> None:
    """Infinity and NaN go where arithmetic takes them, into no other element."""
    spec = plain_spec(native(), "f32")
    a = np.ones((1, 9, 4), np.float32)
    a[0, 2, 1], a[0, 3, 0], a[0, 4, 3] = np.inf, np.nan, -np.inf
    b = np.ones((1, 4, 37), np.float32)
    b[0, 1, 5] = 0.0
    with np.errstate(invalid="ignore"):
        exact = np.matmul(a, b)
    np.testing.assert_array_equal(Product(spec, a, b).run(native(), 1), exact)


@pytest.mark.parametrize("isa", isas(), ids=name_of)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_panels_of_moving_matrices(isa: Isa, size: int) -> None:
    """What the kernel packs is what numpy packs, straight, transposed and scattered."""
    rng = np.random.default_rng(5)
    kind = np.dtype(f"u{size}")
    for batch, k, n in [((2,), 5, 35), ((), 64, 32), ((2,), 37, 45), ((3, 2), 1, 1)]:
        for group in (1, 2, 4):
            for turned in range(3):
                shape = (*batch, n, k) if turned else (*batch, k, n)
                whole = rng.integers(0, 250, (*shape[:-1], shape[-1] * 2)).astype(kind)
                view = whole[..., ::2] if turned == 2 else whole[..., : shape[-1]]
                view = view.swapaxes(-1, -2) if turned else view
                wanted = panels(view, 16, group)
                found = np.full(wanted.shape, 99, kind)
                strides = [s // size for s in view.strides]
                own = [s // size for s in found.strides[: len(batch)]]
                table = offsets(batch, strides[:-2], own)
                near = "n" if strides[-1] == 1 else "k" if strides[-2] == 1 else ""
                spec = PackPanels(size, 16, group, 0, near)
                items = int(np.prod(batch, dtype=int)) * -(-n // 16)
                words = [view, table, found, n, k, strides[-2], strides[-1]]
                run(spec, words, items, isa=isa, splits=2)
                assert (found == wanted).all()


def test_instructions() -> None:
    """The instructions that the designs are made of."""
    full = native()
    cases = [(AARCH64, plain_spec(AARCH64, "f32"), "fmla")]
    dots = {"form": "arm_dot", "a": "s8", "b": "s8"}
    cases.append((AARCH64, plain_spec(AARCH64, "s32", **dots), "sdot"))
    if full.has("avx512vnni"):
        cases.append((full, plain_spec(full, "s32", form="dot", a="u8", b="s8"), "vpdpbusd"))
    if full.fma:
        cases.append((full, plain_spec(full, "f32"), "vfmadd231ps"))
    for isa, spec, wanted in cases:
        text = to_assembly(generate(spec, isa, "k"), isa)
        assert wanted in text
        loops = [line for line in text.splitlines() if wanted in line]
        assert not any("rsp" in line for line in loops), "accumulators are kept in registers"
