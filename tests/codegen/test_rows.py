"""Row programs against numpy in float64, on every instruction set that this machine has.

A sum of n float32 elements may be off by (log2 n + a few) roundings of its largest partial sums;
`tolerance` allows for that and for the roundings of the steps behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan import rows_normalize
from rewrite.plan.rows import overwrites
from rewrite.plan.rows_draft import Built, Draft
from rewrite.plan.rows_layout import Laid, lay
from rewrite.plan.specs.rows import EXP_BELOW
from rewrite.plan.view import View, broadcast, dense, permute
from tests.codegen.harness import isas, run

ISAS = isas()
NAMES = [f"{isa.vector_bytes}" for isa in ISAS]
EPS = 2.0**-24
LENGTHS = [0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 65, 100, 257, 1000, 4096, 9001]

Array = np.ndarray


def guarded(shape: Sequence[int], dtype: object) -> tuple[Array, Callable[[], bool]]:
    """An output with memory around it, and whether that memory is as it was."""
    count, edge = int(np.prod(shape)) * np.dtype(dtype).itemsize, 320
    whole = np.full(count + 2 * edge, 77, np.uint8)
    inner = whole[edge : edge + count].view(dtype).reshape(tuple(shape))

    def intact() -> bool:
        return bool((whole[:edge] == 77).all() and (whole[edge + count :] == 77).all())

    return inner, intact


def call(
    built: Built,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    operands: Sequence[tuple[Array, View]],
    outputs: Sequence[tuple[Array, View]],
    elements: Sequence[bool],
    isa: Isa,
    splits: int = 1,
) -> Laid:
    """One kernel call on arrays."""
    laid = lay(built, shape, axes, [v for _, v in operands], [v for _, v in outputs], elements)
    arrays = [a for a, _ in (*operands, *outputs)]
    status = run(
        laid.spec, [*arrays, *laid.integers], laid.items, isa=isa, splits=splits,
        scratch=laid.scratch,
    )  # fmt: skip
    assert status == 0
    return laid


def matrix(rows: int, n: int, dtype: str = "f32") -> View:
    return dense(dtype, (rows, n))


def per_row(rows: int, n: int, dtype: str = "f32") -> View:
    return broadcast(dense(dtype, (rows, 1)), (rows, n))


def softmax_program(dtype: str = "f32") -> Built:
    d = Draft()
    x = d.cast(d.operand("x", dtype, True), "f64" if dtype == "f64" else "f32")
    return d.finish([d.cast(rows_normalize.softmax(d, x), dtype)])


def softmax_value(x: Array, axis: int) -> Array:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        raised = np.exp(wide - wide.max(axis, keepdims=True))
        return raised / raised.sum(axis, keepdims=True)


def layer_program() -> Built:
    """LayerNormalization of x + skip; the sum, the mean and the inverse deviation as well."""
    d = Draft()
    x, skip = d.operand("x", "f32", True), d.operand("skip", "f32", True)
    scale, bias = d.operand("scale", "f32", True), d.operand("bias", "f32", True)
    total = d.step("Add", x, skip)
    y, mean, inverse = rows_normalize.standardized(d, total, 1e-5)
    y = d.step("Add", d.step("Mul", y, scale), bias)
    return d.finish([y, total, mean, inverse])


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("n", LENGTHS)
def test_softmax_of_rows(isa: Isa, n: int) -> None:
    x = (4 * np.random.default_rng(n).standard_normal((5, n))).astype(np.float32)
    y, intact = guarded((5, n), np.float32)
    view = matrix(5, n)
    call(softmax_program(), (5, n), (1,), [(x, view)], [(y, view)], [True], isa, splits=2)
    assert intact()
    if n:
        depth = np.ptp(x)  # x - top is rounded, and the exponential multiplies that
        np.testing.assert_allclose(y, softmax_value(x, 1), rtol=(16 + np.log2(n) + depth) * EPS)


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("n", LENGTHS[1:])
def test_normalization_with_four_outputs(isa: Isa, n: int) -> None:
    rng = np.random.default_rng(n)
    x, skip = (rng.standard_normal((4, n)).astype(np.float32) + 3 for _ in range(2))
    scale, bias = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    full, line, one = matrix(4, n), broadcast(dense("f32", (n,)), (4, n)), per_row(4, n)
    y, intact = guarded((4, n), np.float32)
    total, mean, inverse = (np.zeros(s, np.float32) for s in ((4, n), (4, 1), (4, 1)))
    call(
        layer_program(), (4, n), (1,),
        [(x, full), (skip, full), (scale, line), (bias, line)],
        [(y, full), (total, full), (mean, one), (inverse, one)],
        [True, True, False, False], isa, splits=3,
    )  # fmt: skip
    assert intact()
    summed = (x + skip).astype(np.float64)
    assert np.array_equal(total, x + skip)
    centre = summed.mean(1, keepdims=True)
    deviation = np.sqrt(summed.var(1, keepdims=True) + 1e-5)
    few = (8 + np.log2(n)) * EPS
    np.testing.assert_allclose(mean, centre, rtol=few)
    # The deviation of one element is sqrt(1e-5): what the mean is off by weighs 300 times as much.
    slack = few * np.abs(centre) / deviation
    np.testing.assert_allclose(inverse, 1 / deviation, rtol=few + float(slack.max()))
    wanted = (summed - centre) / deviation * scale + bias
    assert np.all(np.abs(y - wanted) <= 8 * few * (1 + np.abs(wanted)) + 2 * slack * np.abs(scale))


def layouts() -> list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """(name, shape, row axes, order in memory)"""
    return [
        ("last", (2, 3, 37), (2,), (0, 1, 2)),
        ("middle", (2, 37, 3), (1,), (0, 1, 2)),
        ("middle wide", (2, 7, 101), (1,), (0, 1, 2)),
        ("middle of many", (3, 300, 17), (1,), (0, 1, 2)),
        ("first", (19, 5, 70), (0,), (0, 1, 2)),
        ("two last", (3, 5, 33), (1, 2), (0, 1, 2)),
        ("outer and inner", (3, 5, 33), (0, 2), (0, 1, 2)),
        ("all", (3, 5, 33), (0, 1, 2), (0, 1, 2)),
        ("none", (3, 5), (), (0, 1)),
        ("channels last, per channel", (2, 70, 4, 5), (2, 3), (0, 2, 3, 1)),
        ("channels last, all but the batch", (2, 21, 4, 5), (1, 2, 3), (0, 2, 3, 1)),
        ("transposed", (40, 50), (1,), (1, 0)),
        ("of size 1", (40, 1, 7), (1,), (0, 1, 2)),
        ("short", (3, 70, 5), (2,), (0, 1, 2)),
        ("short with gaps", (70, 3, 5), (1, 2), (1, 0, 2)),
    ]


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("layout", layouts(), ids=lambda case: case[0])
def test_layouts(isa: Isa, layout: tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]):
    """Softmax over dimensions of a tensor that lies in some order, written in another."""
    _, shape, axes, order = layout
    rng = np.random.default_rng(1)
    memory = rng.standard_normal([shape[a] for a in order]).astype(np.float32)
    x = np.transpose(memory, np.argsort(order))
    built = softmax_program()
    for out_order in (order, tuple(range(len(shape)))):
        y_memory, intact = guarded([shape[a] for a in out_order], np.float32)
        y = np.transpose(y_memory, np.argsort(out_order))
        operands = [(memory, dense("f32", shape, order))]
        outputs = [(y_memory, dense("f32", shape, out_order))]
        call(built, shape, axes, operands, outputs, [True], isa, splits=2)
        assert intact()
        wanted = softmax_value(x, axes) if axes else np.ones(shape)
        np.testing.assert_allclose(y, wanted, rtol=30 * EPS)


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
def test_kept_values_across_lanes(isa: Isa) -> None:
    """Softmax down a column, with a row of factors and one factor per column, into float16."""
    rng = np.random.default_rng(2)
    n, columns = 29, 83
    x = rng.standard_normal((n, columns)).astype(np.float32)
    down = rng.standard_normal((n, 1)).astype(np.float32)
    side = rng.standard_normal((1, columns)).astype(np.float32)
    d = Draft()
    value = d.step("Mul", d.operand("x", "f32", True), d.operand("down", "f32", True))
    value = d.step("Mul", value, d.operand("side", "f32", False))
    built = d.finish([d.cast(rows_normalize.softmax(d, value), "f16")])
    shape = (n, columns)
    y, intact = guarded(shape, np.float16)
    laid = call(
        built, shape, (0,),
        [
            (x, dense("f32", shape)),
            (down, broadcast(dense("f32", (n, 1)), shape)),
            (side, broadcast(dense("f32", (1, columns)), shape)),
        ],
        [(y, dense("f16", shape))], [True], isa,
    )  # fmt: skip
    assert laid.spec.across
    assert laid.spec.kept
    assert intact()
    wanted = softmax_value(x.astype(np.float64) * down * side, 0)
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=2.0**-10, atol=2.0**-24)


FOLDED = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "s32": np.int32, "s64": np.int64, "u32": np.uint32, "u64": np.uint64, "s8": np.int8,
    "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "bool": np.bool_,
}  # fmt: skip


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("dtype", sorted(FOLDED))
@pytest.mark.parametrize("axis", [0, 1])
def test_largest_and_smallest(isa: Isa, dtype: str, axis: int) -> None:
    rng = np.random.default_rng(3)
    shape = (70, 131)
    kind = np.dtype(FOLDED[dtype])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        x = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    else:
        x = rng.standard_normal(shape)
        x = x > 2 if dtype == "bool" else x.astype(kind)
    d = Draft()
    value = d.operand("x", dtype, True)
    built = d.finish([d.fold("max", value), d.fold("min", value)])
    kept = tuple(1 if a == axis else s for a, s in enumerate(shape))
    found = [guarded(kept, kind) for _ in range(2)]
    view = broadcast(dense(dtype, kept), shape)
    outputs = [(y, view) for y, _ in found]
    call(built, shape, (axis,), [(x, dense(dtype, shape))], outputs, [False] * 2, isa, splits=2)
    for (y, intact), wanted in zip(found, (x.max(axis), x.min(axis)), strict=True):
        assert intact()
        assert np.array_equal(y.reshape(-1), wanted)


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("dtype", ["s32", "s64", "u32", "u64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_integers_wrap_around(isa: Isa, dtype: str, axis: int) -> None:
    kind = np.dtype(FOLDED[dtype])
    limits = np.iinfo(kind)
    x = np.random.default_rng(4).integers(limits.min, limits.max, (19, 37), kind, endpoint=True)
    d = Draft()
    value = d.operand("x", dtype, True)
    built = d.finish([d.fold("add", value), d.fold("mul", value), d.mean(value)])
    kept = tuple(1 if a == axis else s for a, s in enumerate(x.shape))
    found = [np.zeros(kept, kind) for _ in range(3)]
    view = broadcast(dense(dtype, kept), x.shape)
    outputs = [(y, view) for y in found]
    call(built, x.shape, (axis,), [(x, dense(dtype, x.shape))], outputs, [False] * 3, isa)
    total = np.add.reduce(x, axis, dtype=kind)
    count = x.shape[axis]
    assert np.array_equal(found[0].reshape(-1), total)
    assert np.array_equal(found[1].reshape(-1), np.multiply.reduce(x, axis, dtype=kind))
    towards_zero = [int(t) // count if t >= 0 else -(-int(t) // count) for t in total]
    assert found[2].reshape(-1).tolist() == towards_zero


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("axis", [0, 1])
def test_long_sums_are_accurate(isa: Isa, axis: int) -> None:
    """One accumulator would be off by n roundings."""
    n = 1_000_003
    x = np.random.default_rng(5).random((1, n)).astype(np.float32) + 1
    x = np.broadcast_to(x.reshape((n, 1) if axis == 0 else (1, n)), (n, 1) if axis == 0 else (1, n))
    d = Draft()
    built = d.finish([d.fold("add", d.operand("x", "f32", True))])
    y = np.zeros(1, np.float32)
    view = View("f32", x.shape, (0, 0))
    call(built, x.shape, (axis,), [(x, dense("f32", x.shape))], [(y, view)], [False], isa)
    assert abs(float(y[0]) / float(x.astype(np.float64).sum()) - 1) < 40 * EPS


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("axis", [0, 1])
def test_no_elements(isa: Isa, axis: int) -> None:
    """What changes no other value, and NaN for the mean."""
    shape = (0, 3) if axis == 0 else (3, 0)
    d = Draft()
    x = d.operand("x", "f32", True)
    built = d.finish([d.fold(c, x) for c in ("add", "mul", "min", "max")] + [d.mean(x)])
    found = [np.full(3, 7, np.float32) for _ in range(5)]
    view = View("f32", shape, (0, 1) if axis == 0 else (1, 0))
    empty = np.zeros(shape, np.float32)
    outputs = [(y, view) for y in found]
    call(built, shape, (axis,), [(empty, dense("f32", shape))], outputs, [False] * 5, isa)
    with np.errstate(all="ignore"):
        wanted = [0, 1, np.inf, -np.inf, np.nan]
    for y, number in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(y, np.full(3, number, np.float32))


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("n", [1, 5, 16, 40, 200])
@pytest.mark.parametrize("across", [False, True])
def test_special_values(isa: Isa, n: int, across: bool) -> None:
    """NaN at every place, infinities, rows of infinities."""
    rng = np.random.default_rng(6)
    rows = n + 4
    x = rng.standard_normal((rows, n)).astype(np.float32)
    for k in range(n):
        x[k, k] = np.nan
    x[n, :] = -np.inf
    x[n + 1, 0] = np.inf
    x[n + 2, n - 1] = -np.inf
    memory = np.ascontiguousarray(x.T) if across else x
    view = dense("f32", (rows, n), (1, 0) if across else (0, 1))
    y_memory, intact = guarded(memory.shape, np.float32)
    call(softmax_program(), (rows, n), (1,), [(memory, view)], [(y_memory, view)], [True], isa)
    assert intact()
    y = y_memory.T if across else y_memory
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(y, softmax_value(x, 1), rtol=30 * EPS)
    d = Draft()
    value = d.operand("x", "f32", True)
    built = d.finish([d.fold("max", value), d.fold("min", value)])
    found = [np.zeros((rows, 1), np.float32) for _ in range(2)]
    one = per_row(rows, n)
    call(built, (rows, n), (1,), [(memory, view)], [(z, one) for z in found], [False] * 2, isa)
    assert np.array_equal(found[0][:, 0], x.max(1), equal_nan=True)
    assert np.array_equal(found[1][:, 0], x.min(1), equal_nan=True)


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_softmax_of_other_floats(isa: Isa, dtype: str) -> None:
    kind = np.dtype(FOLDED[dtype])
    x = np.random.default_rng(7).standard_normal((3, 77)).astype(kind)
    y, intact = guarded((3, 77), kind)
    view = matrix(3, 77, dtype)
    call(softmax_program(dtype), (3, 77), (1,), [(x, view)], [(y, view)], [True], isa)
    assert intact()
    ulp = {"f16": 2.0**-10, "bf16": 2.0**-7, "f64": 1e-14}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), softmax_value(x, 1), rtol=ulp, atol=2.0**-24)


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
def test_operands_of_any_stride(isa: Isa) -> None:
    """Every second element from the end, a transposed operand, one per row of a wider table."""
    rng = np.random.default_rng(8)
    wide = rng.standard_normal((6, 2 * 45)).astype(np.float32)
    turned = rng.standard_normal((45, 6)).astype(np.float32)
    table = rng.standard_normal((6, 4)).astype(np.float32)
    d = Draft()
    total = d.step("Add", d.operand("a", "f32", True), d.operand("b", "f32", True))
    total = d.step("Mul", total, d.operand("c", "f32", False))
    built = d.finish([d.step("Sub", total, d.mean(total))])
    shape = (6, 45)
    y, intact = guarded(shape, np.float32)
    operands = [
        (wide[:, ::-2], View("f32", shape, (90, -2))),
        (turned, permute(dense("f32", (45, 6)), (1, 0))),
        (table, View("f32", shape, (4, 0))),
    ]
    call(built, shape, (1,), operands, [(y, dense("f32", shape))], [True], isa, splits=2)
    assert intact()
    value = (wide[:, ::-2].astype(np.float64) + turned.T) * table[:, :1]
    wanted = value - value.mean(1, keepdims=True)
    np.testing.assert_allclose(y, wanted, atol=20 * EPS * np.abs(value).max())


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("n", [5, 64, 301])
def test_result_over_its_operand(isa: Isa, n: int) -> None:
    """Each element is read before something is written in its place."""
    x = np.random.default_rng(9).standard_normal((7, n)).astype(np.float32)
    wanted = softmax_value(x, 1)
    view = matrix(7, n)
    call(softmax_program(), (7, n), (1,), [(x, view)], [(x, view)], [True], isa)
    np.testing.assert_allclose(x, wanted, rtol=30 * EPS)


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
def test_exponential_of_what_is_not_positive(isa: Isa) -> None:
    """Within (3 + |x| / 4) roundings; subnormal results within two of their units."""
    grid = np.concatenate([-np.linspace(0, 110, 200_001), -np.logspace(-45, 2, 5000)])
    special = [0.0, -0.0, -np.inf, np.nan, -87.33655, -103.97209, -104.0, -1e38]
    x = np.concatenate([grid, special]).astype(np.float32).reshape(1, -1)
    y = np.zeros_like(x)
    d = Draft()
    value = d.operand("x", "f32", True)
    built = d.finish([d.step(EXP_BELOW, value, domain="rewrite")])
    view = matrix(*x.shape)
    call(built, x.shape, (1,), [(x, view)], [(y, view)], [True], isa)
    with np.errstate(all="ignore"):
        wanted = np.exp(x.astype(np.float64))
        allowed = (3 + np.abs(x) / 4) * EPS * wanted + 2.0**-148
    assert np.isnan(y[0, -5])
    usual = np.isfinite(x[0])
    assert np.all(np.abs(y - wanted)[0, usual] <= allowed[0, usual])
    assert y[0, -6] == 0


def test_what_may_be_overwritten() -> None:
    """Not what is read after the first write: a factor of every element, a factor that lies as the
    only row."""
    view, line = matrix(4, 20), broadcast(dense("f32", (20,)), (4, 20))
    soft = lay(softmax_program(), (4, 20), (1,), [view], [view], [True]).spec
    assert soft.homes == (0,)
    assert overwrites(soft) == {1}
    d = Draft()
    x, factor = d.operand("x", "f32", True), d.operand("factor", "f32", True)
    built = d.finish([d.step("Mul", rows_normalize.softmax(d, x), factor)])
    one = matrix(1, 20)
    for shape, operands, wanted in (
        ((4, 20), [view, view], set()),
        ((4, 20), [view, line], {2}),
        ((1, 20), [one, one], set()),
    ):
        scaled = lay(built, shape, (1,), operands, [matrix(*shape)], [True]).spec
        assert scaled.homes == (0,)
        assert overwrites(scaled) == wanted
    normalized = lay(
        layer_program(),
        (4, 20),
        (1,),
        [view, view, line, line],
        [view, view, per_row(4, 20), per_row(4, 20)],
        [True, True, False, False],
    ).spec
    # The sum, which is written first, is read again in its own place, and its operands are not.
    assert normalized.homes == (1,)
    assert overwrites(normalized) == {4, 5}


@pytest.mark.parametrize("isa", ISAS, ids=NAMES)
@pytest.mark.parametrize("n", [5, 64, 301])
def test_two_results_over_two_operands(isa: Isa, n: int) -> None:
    """The normalized sum over one summand, the sum over the other."""
    rng = np.random.default_rng(10)
    x, skip = (rng.standard_normal((7, n)).astype(np.float32) for _ in range(2))
    scale, bias = np.ones(n, np.float32), np.zeros(n, np.float32)
    total = x + skip
    wide = total.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    full, line, one = matrix(7, n), broadcast(dense("f32", (n,)), (7, n)), per_row(7, n)
    rest = [(np.zeros(7, np.float32), one) for _ in range(2)]
    laid = call(
        layer_program(), (7, n), (1,),
        [(x, full), (skip, full), (scale, line), (bias, line)],
        [(skip, full), (x, full), *rest], [True, True, False, False], isa,
    )  # fmt: skip
    assert overwrites(laid.spec) == {4, 5}
    assert np.array_equal(x, total)
    np.testing.assert_allclose(skip, wanted, atol=40 * EPS * np.abs(wanted).max())


def test_one_code_for_all_sizes() -> None:
    """Sizes are words."""
    built = softmax_program()
    specs = {
        lay(built, (r, n), (1,), [matrix(r, n)], [matrix(r, n)], [True]).spec
        for r, n in ((2, 3), (128, 1024), (5, 77))
    }
    assert len(specs) == 1


def test_another_architecture() -> None:
    """The same generators write NEON."""
    view = matrix(3, 100)
    laid = lay(softmax_program(), (3, 100), (1,), [view], [view], [True])
    text = to_assembly(generate(laid.spec, AARCH64, "rows"), AARCH64)
    assert "fmla" in text
