"""Attention kernels against numpy in float64.

Tolerance: scores are sums of `head` products in float32, so they are off by head 2^-24 times the
sum of magnitudes at most, which is below 3e-6 for these data; a power of two multiplies that by
its derivative, and the output is a weighted mean of values of magnitude 4 at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from rewrite.codegen.compile import to_object
from rewrite.codegen.isa import AARCH64, BASELINE, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.specs.attention import (
    Attention,
    FewQueries,
    Integers,
    bits_of,
    blocks_of,
    scratch_of,
    scratch_of_few,
)
from tests.codegen.harness import isas, run

Array = np.ndarray
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
TOLERANCE = {"f32": 1e-5, "f64": 1e-12, "f16": 3e-3, "bf16": 2e-2}
NAME = {np.dtype(t): n for n, t in TYPES.items()} | {np.dtype(bool): "bool"}
NEVER = -(1 << 40)


@dataclass
class Case:
    """Operands as (batch, heads, rows, elements), and how they are combined."""

    q: Array
    k: Array
    v: Array
    mask: Array | None = None
    lengths: Array | None = None
    left: int | None = None
    right: int | None = None
    offset: int = 0
    from_end: bool = False
    scale: float | None = None
    softcap: float = 0.0
    empty_is_zero: bool = True
    packed: bool = True  # heads side by side in memory


def expected(c: Case) -> Array:
    """The definition, in float64."""
    b, heads, rows, _ = c.q.shape
    group, keys = heads // c.k.shape[1], c.k.shape[2]
    q, k, v = (x.astype(np.float64) for x in (c.q, c.k, c.v))
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    score = np.einsum("bhid,bhjd->bhij", q, k) * (c.scale or c.q.shape[3] ** -0.5)
    if c.softcap:
        score = c.softcap * np.tanh(score / c.softcap)
    count = np.full(b, keys) if c.lengths is None else np.clip(c.lengths.astype(int), 0, keys)
    offset = count - rows if c.from_end else np.full(b, c.offset)
    ahead = np.arange(keys) - (np.arange(rows)[:, None] + offset[:, None, None, None])
    seen = np.arange(keys) < count[:, None, None, None]
    seen = seen & (ahead <= (keys + 99 if c.right is None else c.right))
    seen = seen & (ahead >= (NEVER if c.left is None else -c.left))
    if c.mask is not None and c.mask.dtype == bool:
        seen = seen & c.mask
    elif c.mask is not None:
        score = score + c.mask.astype(np.float64)
    score = np.where(seen, score, -np.inf)
    with np.errstate(all="ignore"):
        power = np.exp(score - score.max(-1, keepdims=True))
        p = power / power.sum(-1, keepdims=True)
    if c.empty_is_zero:
        p = np.where((score == -np.inf).all(-1, keepdims=True), 0, p)
    return np.asarray(p @ v)


def strided(x: Array, packed: bool) -> tuple[Array, tuple[int, int, int]]:
    """The operand as it lies in memory: heads side by side, or one after another."""
    if packed:
        x = np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    else:
        x = np.ascontiguousarray(x)
    strides = tuple(s // x.itemsize for s in x.strides[:3])
    return x, (strides[0], strides[1], strides[2])


def spec_of(c: Case) -> Attention:
    by_query = c.mask is not None and c.mask.shape[2] != 1
    return Attention(
        dtype=NAME[c.q.dtype],
        head=c.q.shape[3],
        value=c.v.shape[3],
        mask="" if c.mask is None else NAME[c.mask.dtype],
        mask_by_query=by_query or c.mask is None,
        left=c.left is not None,
        right=c.right is not None,
        lengths="" if c.lengths is None else {4: "s32", 8: "s64"}[c.lengths.itemsize],
        from_end=c.from_end,
        softcap=c.softcap != 0,
        empty_is_zero=c.empty_is_zero,
    )


def computed(c: Case, isa: Isa | None = None, splits: int = 1, few: bool = False) -> Array:
    b, heads, rows, head = c.q.shape
    kv_heads, keys, value = c.k.shape[1], c.k.shape[2], c.v.shape[3]
    (q, qs), (k, ks), (v, vs) = (strided(x, c.packed) for x in (c.q, c.k, c.v))
    o, os = strided(np.full((b, heads, rows, value), 7, c.q.dtype), c.packed)
    mask, ms = c.mask, (0, 0, 0)
    if mask is not None:
        mask = np.ascontiguousarray(mask)
        given = [
            0 if n == 1 else s // mask.itemsize
            for n, s in zip(mask.shape, mask.strides, strict=True)
        ]
        ms = (given[0], given[1], given[2])
    integers = Integers(
        heads, heads // kv_heads, rows, keys, blocks_of(rows), c.offset, c.left or 0,
        c.right or 0, 0, *qs, *ks, *vs, *os, *ms,
        bits_of(c.scale or head**-0.5), bits_of(c.softcap or 1.0),
    )  # fmt: skip
    spec = spec_of(c)
    operands = [x for x in (q, k, v, mask, c.lengths, o) if x is not None]
    items = b * heads * blocks_of(rows)
    kernel = FewQueries(spec) if few else spec
    scratch = scratch_of_few(kernel, keys) if few else scratch_of(spec, keys)
    words = [*operands, *integers.words()]
    status = run(kernel, words, items, isa=isa, splits=splits, scratch=scratch)
    assert status == 0
    return o


def check(c: Case, isa: Isa | None = None, splits: int = 1, few: bool = False) -> None:
    found = computed(c, isa, splits, few).astype(np.float64)
    want = expected(c)
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=0, atol=TOLERANCE[NAME[c.q.dtype]])


def operands(
    b: int = 1, heads: int = 2, rows: int = 5, keys: int = 7, head: int = 8, value: int = 8,
    kv_heads: int = 0, dtype: str = "f32", seed: int = 0,
) -> tuple[Array, Array, Array]:  # fmt: skip
    rng = np.random.default_rng(seed)
    shapes = (
        (b, heads, rows, head),
        (b, kv_heads or heads, keys, head),
        (b, kv_heads or heads, keys, value),
    )  # fmt: skip
    q, k, v = (rng.standard_normal(s).astype(TYPES[dtype]) for s in shapes)
    return q, k, v


# --- sizes, types, machines ---------------------------------------------------------------------

SIZES = [
    (1, 1, 1, 1, 1, 1),
    (2, 3, 37, 45, 19, 21),
    (1, 2, 32, 64, 64, 64),
    (1, 1, 33, 1, 40, 80),
    (2, 1, 3, 130, 96, 5),
]


@pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes(size: tuple[int, ...], isa: Isa) -> None:
    b, heads, rows, keys, head, value = size
    check(Case(*operands(b, heads, rows, keys, head, value)), isa, splits=3)


@pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
def test_types(dtype: str, isa: Isa) -> None:
    check(Case(*operands(1, 2, 35, 41, 20, 33, dtype=dtype)), isa)


def test_heads_one_after_another() -> None:
    check(Case(*operands(2, 3, 9, 11, 16, 16), packed=False))


def test_a_long_row_of_keys() -> None:
    check(Case(*operands(1, 1, 2, 3001, 16, 16)))


def test_other_machines_get_code() -> None:
    for isa in (AARCH64, BASELINE):
        for spec in (Attention("f32", 64, 64), Attention("bf16", 7, 9, mask="bool", right=True)):
            assert to_object(generate(spec, isa, "kernel"), isa, jit=False)


# --- what is seen ---------------------------------------------------------------------------------


@pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
@pytest.mark.parametrize("by_query", [True, False])
@pytest.mark.parametrize("kind", ["bool", "f32"])
def test_masks(kind: str, by_query: bool, isa: Isa) -> None:
    rng = np.random.default_rng(3)
    shape = (2, 3, 37 if by_query else 1, 45)
    mask = rng.random(shape) < 0.7 if kind == "bool" else rng.standard_normal(shape)
    mask[:, 0] = False if kind == "bool" else -np.inf
    mask[..., 3] = mask[..., 3] if kind == "bool" else -np.inf
    c = Case(*operands(2, 3, 37, 45, 24, 8), mask=mask.astype(bool if kind == "bool" else "f4"))
    check(c, isa, splits=2)


def test_a_mask_shared_by_batches_and_heads() -> None:
    rng = np.random.default_rng(4)
    mask = rng.standard_normal((1, 1, 37, 45)).astype(np.float32)
    check(Case(*operands(2, 3, 37, 45), mask=mask))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_masks_of_other_types(dtype: str) -> None:
    rng = np.random.default_rng(4)
    mask = rng.standard_normal((1, 2, 6, 20)).astype(TYPES[dtype])
    check(Case(*operands(1, 2, 6, 20, dtype=dtype), mask=mask))


@pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
@pytest.mark.parametrize("offset", [0, 5, -3])
def test_causal(offset: int, isa: Isa) -> None:
    check(Case(*operands(2, 2, 70, 75, 16, 16), right=0, offset=offset), isa)


@pytest.mark.parametrize("bounds", [(4, 0), (9, 3), (0, 0), (70, None), (3, None)], ids=str)
def test_windows(bounds: tuple[int, int | None]) -> None:
    left, right = bounds
    check(Case(*operands(1, 2, 70, 90, 16, 16), left=left, right=right, offset=6))


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_lengths(kind: type) -> None:
    lengths = np.array([9, 0, 33], kind)
    q, k, v = operands(3, 2, 6, 33, 16, 16)
    k[0, :, 9:], v[0, :, 9:] = np.nan, np.nan  # nothing behind the length is looked at
    check(Case(q, k, np.nan_to_num(v), lengths=lengths))
    check(Case(q, np.nan_to_num(k), np.nan_to_num(v), lengths=lengths, from_end=True, right=0))
    assert np.isfinite(computed(Case(q, k, v, lengths=lengths))).all()


def test_lengths_out_of_range_read_nothing_outside() -> None:
    check(Case(*operands(2, 2, 6, 9), lengths=np.array([1 << 30, -5], np.int32)))


def test_a_query_without_keys() -> None:
    mask = np.zeros((1, 1, 5, 7), bool)
    mask[0, 0, 2, 3] = True
    zero = computed(Case(*operands(), mask=mask))
    assert not zero[0, 0, 0].any()
    assert zero[0, 0, 2].any()
    nan = computed(Case(*operands(), mask=mask, empty_is_zero=False))
    assert np.isnan(nan[0, 0, 0]).all()
    assert np.isfinite(nan[0, 0, 2]).all()
    nothing = computed(Case(*operands(keys=7), lengths=np.array([0], np.int64)))
    assert not nothing.any()


def test_masked_infinities_weigh_nothing() -> None:
    """A weight of a masked key is exactly zero, and 0 inf is NaN as in numpy: only others see."""
    q, k, v = operands()
    v[..., 6, :] = 3e38
    mask = np.ones((1, 1, 1, 7), bool)
    mask[..., 6] = False
    check(Case(q, k, v, mask=mask))


def test_nan_stays_in_its_row() -> None:
    q, k, v = operands(rows=40)
    q[0, 0, 3, 2] = np.nan
    found = computed(Case(q, k, v))
    assert np.isnan(found[0, 0, 3]).all()
    assert np.isfinite(np.delete(found[0, 0], 3, 0)).all()
    assert np.isfinite(found[0, 1]).all()


def test_large_scores() -> None:
    q, k, v = operands(rows=9, keys=30)
    check(Case(q * 100, k * 100, v, scale=0.01))


# --- heads, scale, softcap ----------------------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_groups_of_heads(kv_heads: int) -> None:
    check(Case(*operands(2, 4, 35, 20, 16, 16, kv_heads=kv_heads)), splits=5)


@pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
def test_softcap(isa: Isa) -> None:
    mask = np.where(np.eye(5, 7) > 0, -np.inf, 0.5).astype(np.float32)[None, None]
    check(Case(*operands(), softcap=2.0, scale=0.9), isa)
    check(Case(*operands(), softcap=30.0, scale=30.0, mask=mask), isa)


# --- few queries ----------------------------------------------------------------------------------


@pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
@pytest.mark.parametrize("keys", [1, 16, 75])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_few_queries(dtype: str, keys: int, isa: Isa) -> None:
    c = Case(*operands(2, 4, 3, keys, 64, 160, kv_heads=2, dtype=dtype))
    check(c, isa, splits=3, few=True)


@pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
def test_what_few_queries_see(isa: Isa) -> None:
    given = operands(3, 2, 2, 75, 32, 16)
    mask = np.random.default_rng(1).random((3, 1, 2, 75)) < 0.7
    mask[1, 0, 1] = False
    added = np.where(mask, 0.3, -np.inf).astype(np.float32)
    lengths = np.array([75, 0, 20], np.int32)
    check(Case(*given, mask=mask), isa, few=True)
    check(Case(*given, mask=added[:, :, :1]), isa, few=True)
    check(Case(*given, right=0, offset=40), isa, few=True)
    check(Case(*given, left=9, right=3, offset=70), isa, few=True)
    check(Case(*given, right=0, offset=-1), isa, few=True)
    check(Case(*given, lengths=lengths, from_end=True, right=0), isa, few=True)
    check(Case(*given, softcap=2.0), isa, few=True)


def test_few_queries_without_keys() -> None:
    given = operands(1, 2, 2, 40, 32, 16)
    mask = np.zeros((1, 1, 1, 40), bool)
    assert not computed(Case(*given, mask=mask), few=True).any()
    nan = computed(Case(*given, mask=mask, empty_is_zero=False), few=True)
    assert np.isnan(nan).all()
