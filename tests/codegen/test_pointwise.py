"""Pointwise kernels over every way in which operands can lie, against numpy.

Outputs lie between guards that must stay as they are; operands end where their memory ends.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, AVX2, BASELINE, Isa
from rewrite.codegen.kernel import generate
from rewrite.ops.dtypes import to_numpy
from rewrite.plan.pointwise import pointwise
from rewrite.plan.spec import Body, Constant, Pointwise
from rewrite.plan.view import View, broadcast, dense, permute, sliced
from tests.codegen.bodies import step
from tests.codegen.elements import sample
from tests.codegen.harness import isas, run

ISAS = isas()
by_isa = pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
ADD = Body(("f32", "f32"), (step("Add", (0, 1), "f32"),), (2,))
LONG = Body(
    ("f32", "f32"),
    (
        step("Mul", (0, Constant("f32", 0.5)), "f32"),
        step("Add", (2, 1), "f32"),
        step("Abs", (3,), "f32"),
        step("Sqrt", (4,), "f32"),
        step("Sub", (5, 0), "f32"),
    ),
    (6,),
)


def long_value(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sqrt(np.abs(a * np.float32(0.5) + b)) - a


@dataclass
class Laid:
    """An array in some order of dimensions: its memory, its view, its elements."""

    memory: np.ndarray
    view: View

    @property
    def array(self) -> np.ndarray:
        item = self.memory.itemsize
        return np.lib.stride_tricks.as_strided(
            self.memory, self.view.shape, [item * s for s in self.view.strides]
        )


def laid(shape: Sequence[int], order: Sequence[int] | None = None, dtype: str = "f32") -> Laid:
    view = dense(dtype, shape, order)
    count = max(view.size, 1)
    if dtype[0] == "c":
        parts = sample("f64", 2 * count, len(shape))
        return Laid((parts[:count] + 1j * parts[count:]).astype(to_numpy(dtype)), view)
    return Laid(sample(dtype, count, len(shape)), view)


def widened(shape: Sequence[int], to: Sequence[int]) -> Laid:
    """Broadcast."""
    small = laid(shape)
    return Laid(small.memory, broadcast(small.view, to))


def computed(
    body: Body,
    operands: Sequence[Laid],
    order: Sequence[int] | None,
    isa: Isa | None,
    splits: int = 1,
) -> np.ndarray:
    """The result, in the order given, between guards."""
    shape = operands[0].view.shape
    view = dense(body.dtype(body.results[0]), shape, order)
    dtype = to_numpy(view.dtype)
    raw = np.zeros(view.size + 128, dtype)
    raw.view(np.uint8)[:] = 77
    inside = raw[64 : 64 + view.size]
    spec, items, _ = pointwise(shape, [o.view for o in operands], [view], body)
    assert run(spec, [*(o.memory for o in operands), inside], items, isa=isa, splits=splits) == 0
    assert np.all(raw[:64].view(np.uint8) == 77)
    assert np.all(raw[64 + view.size :].view(np.uint8) == 77)
    return Laid(inside, view).array


@by_isa
@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 63, 64, 100, 1000])
def test_one_dimension(n: int, isa: Isa) -> None:
    x, y = laid((n,)), laid((n,))
    assert np.array_equal(computed(ADD, [x, y], None, isa, 3), x.array + y.array)
    one = widened((1,), (n,))
    assert np.array_equal(computed(ADD, [x, one], None, isa), x.array + one.array)


@by_isa
@pytest.mark.parametrize("n", [2, 3, 5, 8, 16, 17, 31, 33, 64, 100])
def test_two_dimensions(n: int, isa: Isa) -> None:
    """Rows, columns and transposed operands."""
    for m in (1, 2, 7, 20, 67):
        x = laid((m, n))
        for other in ((m, n), (1, n), (m, 1), (1, 1)):
            y = widened(other, (m, n))
            assert np.array_equal(computed(ADD, [x, y], None, isa, 2), x.array + y.array)
        turned = laid((m, n), (1, 0))
        found = computed(ADD, [x, turned], None, isa, 2)
        assert np.array_equal(found, x.array + turned.array)
        found = computed(LONG, [turned, x], (1, 0), isa, 3)
        assert np.array_equal(found, long_value(turned.array, x.array))


SHAPES = ((2, 3, 4, 5), (3, 1, 7, 3), (5, 2, 2, 2), (2, 8, 3, 33), (1, 16, 5, 16))


@by_isa
@pytest.mark.parametrize("shape", SHAPES)
def test_four_dimensions(shape: tuple[int, ...], isa: Isa) -> None:
    """Per channel, channels last, and operands in other orders than the output."""
    x = laid(shape)
    channel = widened((shape[1], 1, 1), shape)
    last = laid(shape, (0, 2, 3, 1))
    for y, order in itertools.product((channel, last), (None, (0, 2, 3, 1))):
        found = computed(LONG, [x, y], order, isa, 2)
        assert np.array_equal(found, long_value(x.array, y.array))


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_moves_between_all_orders(order: tuple[int, ...]) -> None:
    for shape in ((3, 4, 5, 6), (2, 16, 3, 17), (16, 2, 33, 8)):
        x = laid(shape)
        found = computed(Body(("f32",), (), (0,)), [x], order, ISAS[0], 3)
        assert np.array_equal(found, x.array)


@by_isa
@pytest.mark.parametrize(
    "dtype", ["u8", "bool", "f16", "bf16", "s64", "f64", "c64", "c128", "s4", "f8e4m3fn"]
)
def test_moves_keep_bits(dtype: str, isa: Isa) -> None:
    shape = (35, 50)
    view = dense(dtype, shape, (1, 0))
    width = to_numpy(dtype).itemsize
    rng = np.random.default_rng(6)
    raw = rng.integers(0, 256, view.size * width).astype(np.uint8)
    x = Laid(raw.view(to_numpy(dtype)), view)
    found = computed(Body((dtype,), (), (0,)), [x], None, isa, 2)
    assert found.tobytes() == np.ascontiguousarray(x.array).tobytes()


def test_moves_of_one_width_are_one_kernel() -> None:
    shape = (4, 6)
    made = []
    for dtype in ("f32", "s32", "u32"):
        body = Body((dtype,), (), (0,))
        made.append(pointwise(shape, [dense(dtype, shape)], [dense(dtype, shape)], body))
    assert made[0] == made[1] == made[2]


@by_isa
def test_mixed_types(isa: Isa) -> None:
    """Narrow and wide elements in one program; a mask; several outputs."""
    shape = (3, 37)
    body = Body(
        ("u8", "f32", "f16", "bool"),
        (
            step("Cast", (0,), "f32", to=1),
            step("Mul", (4, 1), "f32"),
            step("Cast", (2,), "f32", to=1),
            step("Where", (3, 5, 6), "f32"),
            step("Greater", (7, Constant("f32", 1.0)), "bool"),
        ),
        (7, 8),
    )
    operands = [laid(shape, dtype=d) for d in body.dtypes]
    a, b, c, d = (o.array for o in operands)
    views = [dense("f32", shape), dense("bool", shape)]
    outputs = [np.zeros(shape, np.float32), np.zeros(shape, bool)]
    spec, items, _ = pointwise(shape, [o.view for o in operands], views, body)
    assert run(spec, [*(o.memory for o in operands), *outputs], items, isa=isa, splits=2) == 0
    wanted = np.where(d, a.astype(np.float32) * b, c.astype(np.float32))
    assert np.array_equal(outputs[0], wanted)
    assert np.array_equal(outputs[1], wanted > 1)


@by_isa
def test_slices(isa: Isa) -> None:
    """Strides other than one, backwards, and outputs inside larger tensors."""
    whole = dense("f32", (9, 40))
    memory = sample("f32", whole.size)
    table = memory.reshape(9, 40)
    for starts, sizes, steps in (
        ((1, 2), (4, 19), (2, 2)), ((8, 39), (9, 40), (-1, -1)), ((0, 5), (9, 7), (1, 3)),
    ):  # fmt: skip
        view, skipped = sliced(whole, starts, sizes, steps)
        spec, items, _ = pointwise(
            sizes, [view], [dense("f32", sizes)], Body(("f32",), (step("Neg", (0,), "f32"),), (1,))
        )
        out = np.zeros(sizes, np.float32)
        assert run(spec, [memory[skipped:], out], items, isa=isa) == 0
        rows = starts[0] + steps[0] * np.arange(sizes[0])
        columns = starts[1] + steps[1] * np.arange(sizes[1])
        assert np.array_equal(out, -table[np.ix_(rows, columns)])
        target = np.zeros((9, 40), np.float32)
        spec, items, _ = pointwise(
            sizes, [dense("f32", sizes)], [view], Body(("f32",), (step("Neg", (0,), "f32"),), (1,))
        )
        assert run(spec, [out, target.reshape(-1)[skipped:]], items, isa=isa, splits=2) == 0
        assert np.array_equal(target[np.ix_(rows, columns)], -out)
        assert np.count_nonzero(target) == np.count_nonzero(out)


@by_isa
@pytest.mark.parametrize("shape", [(1,), (7,), (33,), (5, 3), (3, 20), (2, 3, 4), (20, 17)])
def test_nothing_is_read_beyond_the_operands(shape: tuple[int, ...], isa: Isa) -> None:
    """Operands and the output lie at the very end of mapped memory, and at its start."""
    size = int(np.prod(shape))
    for at_end in (True, False):
        arrays = [_at_edge(size, at_end) for _ in range(3)]
        for k, array in enumerate(arrays):
            array[:] = np.arange(size) + k
        views = [dense("f32", shape), dense("f32", shape, tuple(reversed(range(len(shape)))))]
        spec, items, _ = pointwise(shape, views, [dense("f32", shape)], ADD)
        assert run(spec, arrays, items, isa=isa) == 0
        other = np.arange(size, dtype=np.float32).reshape(shape[::-1]).T + 1
        wanted = np.arange(size, dtype=np.float32).reshape(shape) + other
        assert np.array_equal(arrays[2].reshape(shape), wanted)


_MAPPED: list[mmap.mmap] = []


def _at_edge(size: int, at_end: bool) -> np.ndarray:
    """Floats beside a page that must not be touched."""
    import ctypes

    page = mmap.PAGESIZE
    region = mmap.mmap(-1, 3 * page)
    _MAPPED.append(region)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (0, 2):
        assert libc.mprotect(ctypes.c_void_p(start + guard * page), page, 0) == 0
    raw = np.frombuffer(region, np.uint8)[page : 2 * page]
    return raw[page - 4 * size :].view(np.float32) if at_end else raw[: 4 * size].view(np.float32)


@by_isa
def test_in_place(isa: Isa) -> None:
    """The output may lie where an operand lies."""
    for shape in ((1003,), (5, 37), (40, 3)):
        x, y = laid(shape), widened((shape[-1],), shape)
        wanted = x.array + y.array
        spec, items, _ = pointwise(shape, [x.view, y.view], [x.view], ADD)
        assert run(spec, [x.memory, y.memory, x.memory], items, isa=isa, splits=3) == 0
        assert np.array_equal(x.array, wanted)


# --- canonical form -----------------------------------------------------------------------------


def spec_of(shape: Sequence[int], views: Sequence[View], order: object = None) -> Pointwise:
    return pointwise(shape, views, [dense("f32", shape, order)], ADD)[0]  # type: ignore[arg-type]


def test_sizes_share_code() -> None:
    """Whole tensors of any shape, and any number of rows, are one kernel."""
    flat = [spec_of(s, [dense("f32", s)] * 2) for s in ((7,), (3, 4), (2, 1, 5, 6), (1,), ())]
    assert len(set(flat)) == 1
    assert flat[0].shape == (0,)
    rows = [
        spec_of(s, [dense("f32", s), broadcast(dense("f32", (8,)), s)])
        for s in ((3, 8), (5, 2, 8), (100, 1, 8))
    ]
    assert len(set(rows)) == 1
    last = (0, 2, 3, 1)
    shape = (2, 3, 4, 5)
    assert spec_of(shape, [dense("f32", shape, last)] * 2, last) == flat[0]


def test_dimensions_are_ordered_and_merged() -> None:
    shape = (2, 3, 4, 5)
    spec = spec_of(shape, [dense("f32", shape), broadcast(dense("f32", (3, 1, 1)), shape)])
    assert spec.shape == (0, 3, 20)
    assert spec.operands[1].strides == (0, 1, 0)
    turned = permute(dense("f32", (5, 4)), (1, 0))
    spec = spec_of((4, 5), [turned, turned])
    assert spec.shape == (0, 5)
    assert spec.operands[0].strides == (1, 4)


def test_work_items() -> None:
    shape = (6, 8)
    views = [dense("f32", shape), broadcast(dense("f32", (8,)), shape)]
    _, items, grain = pointwise(shape, views, [dense("f32", shape)], ADD)
    assert items == 6
    assert grain >= 1
    _, items, _ = pointwise(shape, [dense("f32", shape)] * 2, [dense("f32", shape)], ADD)
    assert items == 48


@by_isa
def test_complex_numbers(isa: Isa) -> None:
    """They are chosen and moved."""
    for dtype in ("c64", "c128"):
        x = laid((5, 9), dtype=dtype)
        y = laid((5, 9), (1, 0), dtype)
        mask = laid((5, 9), dtype="bool")
        body = Body(("bool", dtype, dtype), (step("Where", (0, 1, 2), dtype),), (3,))
        found = computed(body, [mask, x, y], None, isa, 2)
        assert np.array_equal(found, np.where(mask.array, x.array, y.array))
        body = Body((dtype,), (step("Identity", (0,), dtype), step("Identity", (1,), dtype)), (2,))
        assert np.array_equal(computed(body, [y], None, isa), y.array)


def test_moves_of_several_widths() -> None:
    shape = (3, 21)
    x, y = laid(shape, dtype="f32"), laid(shape, (1, 0), "f16")
    outputs = [np.zeros(shape, np.float16), np.zeros(shape, np.float32)]
    body = Body(("f32", "f16"), (), (1, 0))
    views = [dense("f16", shape), dense("f32", shape)]
    spec, items, _ = pointwise(shape, [x.view, y.view], views, body)
    assert run(spec, [x.memory, y.memory, *outputs], items, splits=2) == 0
    assert np.array_equal(outputs[0], y.array)
    assert np.array_equal(outputs[1], x.array)


def test_no_operands() -> None:
    """A program of constants fills its output."""
    body = Body((), (step("Add", (Constant("s32", 3), Constant("s32", 4)), "s32"),), (0,))
    out = np.zeros(101, np.int32)
    spec, items, _ = pointwise((101,), [], [dense("s32", (101,))], body)
    assert run(spec, [out], items, splits=2) == 0
    assert np.all(out == 7)


def test_few_rows_are_divided() -> None:
    """Three long rows are more than three work items; each element is still computed once."""
    for shape, expected in (((3, 224 * 224), 16), ((3, 50177), 3), ((2, 64), 2)):
        row = broadcast(dense("f32", (shape[0], 1)), shape)
        items = pointwise(shape, [dense("f32", shape), row], [dense("f32", shape)], ADD)[1]
        assert items == expected
        x, y = laid(shape), widened((shape[0], 1), shape)
        assert np.array_equal(computed(ADD, [x, y], None, None, 3), x.array + y.array)
    shape = (50176, 3)
    x, y = laid(shape, (1, 0)), widened((3,), shape)
    assert np.array_equal(computed(ADD, [x, y], (1, 0), None, 5), x.array + y.array)


@pytest.mark.parametrize("isa", [AARCH64, AVX2, BASELINE], ids=["aarch64", "avx2", "baseline"])
def test_other_machines(isa: Isa) -> None:
    """The same kernels in code for machines that are not here, with their vector instructions."""
    shape = (3, 40)
    spec = spec_of(shape, [dense("f32", shape), broadcast(dense("f32", (40,)), shape)])
    text = to_assembly(generate(spec, isa, "k"), isa)
    found = {AARCH64: "fadd\tv", AVX2: "vaddps", BASELINE: "addps"}[isa]
    assert found in text
