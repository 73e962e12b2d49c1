"""Values of ONNX Runtime's own operators, held against runs of its CPU provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rewrite.ops.dtypes import of_numpy
from rewrite.ops.evaluate import differs, evaluate, tolerance
from tests.ops.harness import Case, case, label, runtime_values

pytest.importorskip("onnxruntime")


def ms(name: str, *inputs: Any, **rest: Any) -> Case:
    return case(name, *inputs, domain="com.microsoft", **rest)


def whole(*items: Any, dtype: Any = np.int32) -> np.ndarray:
    return np.array(items, dtype)


def seeded(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


HEADS = {"num_heads": 2}
X, W, B = "f32 2,3,8", "f32 8,24", "f32 24"
RAW = whole([1, 1, 0], [1, 0, 0])
CUBE = seeded((2, 3, 3), 5, np.int8).astype(np.int32)

ATTENTION = [
    ms("Attention", X, W, B, **HEADS),
    ms("Attention", X, W, B, unidirectional=1, **HEADS),
    ms("Attention", X, W, B, RAW, **HEADS),
    ms("Attention", X, W, B, RAW, unidirectional=1, **HEADS),
    ms("Attention", X, W, B, RAW, mask_filter_value=-3.0, **HEADS),
    ms("Attention", X, W, B, whole(2, 3), **HEADS),
    ms("Attention", X, W, B, whole(2, 3, 1, 0), **HEADS),
    ms("Attention", X, W, B, CUBE, **HEADS),
    ms("Attention", X, W, B, CUBE, unidirectional=1, **HEADS),
    ms("Attention", X, W, B, None, "f32 2,2,2,5,4", out=2, **HEADS),
    ms("Attention", X, W, B, None, "f32 2,2,2,5,4", out=2, unidirectional=1, **HEADS),
    ms("Attention", X, W, B, whole(*[[1] * 7 + [0]] * 2), "f32 2,2,2,5,4", out=2, **HEADS),
    ms("Attention", X, W, B, whole([0], [0]), "f32 2,2,2,5,4", out=2, **HEADS),
    ms("Attention", X, W, B, None, None, "f32 2,2,3,3", **HEADS),
    ms("Attention", X, W, B, None, None, "f32 1,1,3,3", **HEADS),
    ms("Attention", X, W, B, scale=0.3, **HEADS),
    ms("Attention", X, W, **HEADS),
    ms("Attention", X, "f32 8,22", "f32 22", qkv_hidden_sizes=[8, 8, 6], **HEADS),
    *[ms("QAttention", seeded((2, 3, 8), 1, np.uint8), seeded((8, 24), 2, kind), "f32 24",
         np.float32(0.02), np.float32(0.01), mask, np.uint8(120), zero, past, out=1 + bool(past),
         data=1, unidirectional=causal, **HEADS)
      for kind, zero in ((np.int8, np.int8(3)), (np.uint8, np.uint8(130)))
      for mask, past, causal in ((None, None, 0), (RAW, None, 0), (None, None, 1),
                                 (None, "f32 2,2,2,5,4", 1))],
]  # fmt: skip

KEYS = ("f32 2,5,8", "f32 2,5,6")
SELF = (X, X, X)
PAST = ("f32 2,2,4,4", "f32 2,2,4,4")

MULTI_HEAD = [
    ms("MultiHeadAttention", X, *KEYS, **HEADS),
    ms("MultiHeadAttention", X, *KEYS, "f32 22", **HEADS),
    ms("MultiHeadAttention", X, *KEYS, None, whole([1, 1, 0, 1, 1], [0, 0, 0, 0, 1]), **HEADS),
    ms("MultiHeadAttention", X, *KEYS, None, whole(3, 5), **HEADS),
    ms("MultiHeadAttention", X, *KEYS, None, seeded((2, 3, 5), 3, np.int8).astype(np.int32),
       **HEADS),
    ms("MultiHeadAttention", X, *KEYS, None, None, "f32 1,2,3,5", **HEADS),
    ms("MultiHeadAttention", X, *KEYS, None, None, "f32 2,1,3,5", scale=0.7, **HEADS),
    ms("MultiHeadAttention", X, "f32 2,2,5,4", "f32 2,2,5,4", **HEADS),
    ms("MultiHeadAttention", *SELF, unidirectional=1, **HEADS),
    ms("MultiHeadAttention", *SELF, None, None, None, *PAST, out=3, **HEADS),
    ms("MultiHeadAttention", *SELF, "f32 24", None, "f32 2,2,3,7", *PAST, out=3, **HEADS),
    ms("MultiHeadAttention", *SELF, None, None, None, *PAST, out=3, unidirectional=1, **HEADS),
    ms("MultiHeadAttention", "f32 2,1,8", "f32 2,1,8", "f32 2,1,8", None, None, None, *PAST, out=3,
       **HEADS),
]  # fmt: skip

# The past in a buffer with room, one beam.
BEAM = (whole(2), np.zeros((2, 1, 5), np.int32))
ONE = ("f32 2,1,8",) * 3
MULTI_HEAD += [
    ms("MultiHeadAttention", *ONE, "f32 24", None, None, "f32 2,2,5,4", "f32 2,2,5,4", *BEAM,
       out=3, data=9, unidirectional=1, **HEADS),
    ms("MultiHeadAttention", "f32 2,1,8", "f32 2,2,5,4", "f32 2,2,5,4", "f32 24", None, None, None,
       None, *BEAM, out=1, data=9, **HEADS),
]  # fmt: skip

GROUPS = {"num_heads": 4, "kv_num_heads": 2}
CACHE = ("f32 9,4", "f32 9,4")


def grouped(sequence: int, past: int, length: int, **rest: Any) -> Case:
    """One batch of queries after `length` - `sequence` keys, in a buffer for `past`; 16 a head."""
    before = (f"f32 1,2,{past},16",) * 2 if past else (None, None)
    caches = ("f32 9,8",) * 2 if rest.get("do_rotary") else ()
    q, k = f"f32 1,{sequence},64", f"f32 1,{sequence},32"
    ends = (whole(length - 1), whole(length).reshape(()))
    given = {**GROUPS, **rest}
    return ms("GroupQueryAttention", q, k, k, *before, *ends, *caches, data=9, out=3, **given)


GROUPED = [
    grouped(3, 0, 3),
    grouped(1, 4, 5),
    grouped(1, 8, 5),
    grouped(1, 4, 5, local_window_size=2),
    grouped(3, 0, 3, local_window_size=2),
    grouped(3, 0, 3, softcap=1.5),
    grouped(3, 0, 3, scale=0.2),
    grouped(3, 0, 3, do_rotary=1),
    grouped(1, 4, 5, do_rotary=1),
    grouped(1, 8, 5, do_rotary=1, rotary_interleaved=1),
    ms("GroupQueryAttention", "f32 2,1,32", "f32 2,1,16", "f32 2,1,16", "f32 2,2,6,8",
       "f32 2,2,6,8", whole(4, 2), whole(5).reshape(()), data=9, out=3, **GROUPS),
    ms("GroupQueryAttention", "f32 1,3,64", None, None, None, None, whole(2),
       whole(3).reshape(()), data=9, out=3, **GROUPS),
]  # fmt: skip

PLACES = whole([0, 1, 2], [1, 2, 3], dtype=np.int64)
ROTARY = [
    ms("RotaryEmbedding", "f32 2,3,16", PLACES, *CACHE, **HEADS),
    ms("RotaryEmbedding", "f32 2,3,16", PLACES, *CACHE, interleaved=1),
    ms("RotaryEmbedding", "f32 2,2,3,8", PLACES, *CACHE),
    ms("RotaryEmbedding", "f32 2,3,16", whole(2, dtype=np.int64), *CACHE),
    ms("RotaryEmbedding", "f32 2,3,16", PLACES, "f32 9,2", "f32 9,2", num_heads=2,
       rotary_embedding_dim=4),
]  # fmt: skip

IDS = whole([0, 8, 3], [1, 1, 1])
TABLES = ("f32 9,8", "f32 5,8")
EMBEDDED = [
    ms("EmbedLayerNormalization", IDS, IDS % 2, *TABLES, "f32 2,8", "f32 8", "f32 8", data=9,
       out=2),
    ms("EmbedLayerNormalization", IDS, IDS % 2, *TABLES, "f32 2,8", "f32 8", "f32 8", RAW, data=9,
       out=2, epsilon=1e-3),
    ms("EmbedLayerNormalization", IDS, None, *TABLES, None, "f32 8", "f32 8", data=9, out=2),
    ms("EmbedLayerNormalization", IDS, None, *TABLES, None, "f32 8", "f32 8", None, IDS % 5, data=9,
       out=3),
]  # fmt: skip


def blocks(bits: int, k: int, n: int, block: int, zero: Any, *more: Any) -> Case:
    count = -(-k // block)
    packed = seeded((n, count, block * bits // 8), 1, np.uint8)
    scales = np.abs(seeded((n, count), 2)) * 0.1
    return ms("MatMulNBits", f"f32 2,3,{k}", packed, scales, zero, *more, K=k, N=n, bits=bits,
              block_size=block, data=1)  # fmt: skip


MATRICES = [
    blocks(4, 32, 5, 32, None),
    blocks(4, 80, 5, 32, None),
    blocks(4, 64, 5, 32, seeded((5, 1), 3, np.uint8)),
    blocks(4, 96, 5, 32, seeded((5, 2), 3, np.uint8)),
    blocks(4, 64, 5, 16, seeded((5, 4), 3)),
    blocks(8, 64, 5, 32, None),
    blocks(4, 32, 5, 32, None, None, "f32 5"),
    ms("Inverse", "f32 2,3,3"),
    ms("Inverse", "f64 4,4"),
    ms("Trilu", "f32 3,4"),
    ms("Trilu", "s64 2,3,4", whole(-1, dtype=np.int64), upper=0),
    ms("Trilu", "f32 3,4", whole(1, dtype=np.int64)),
    ms("ExpandDims", "f32 2,3", whole(-1)),
    ms("ExpandDims", "f32 2,3", whole(1)),
    *[ms("NhwcMaxPool", seeded((1, 6, 7, 3), 1, kind), kernel_shape=[3, 2], pads=[1, 0, 1, 1],
         strides=[2, 1]) for kind in (np.uint8, np.int8)],
]  # fmt: skip


def lstm(directions: int, kind: Any, *more: Any, per_channel: bool = False, **rest: Any) -> Case:
    """Steps 3, batch 2, 5 inputs, 4 hidden."""
    weights = [seeded((directions, rows, 16), rows, kind) for rows in (5, 4)]
    bias = seeded((directions, 32), 7) * 0.1
    length = (directions, 16) if per_channel else (directions,)
    scale, zero = np.full(length, 0.01, np.float32), np.full(length, 0 if per_channel else 3, kind)
    given = [*more, *[None] * (4 - len(more))]
    return ms("DynamicQuantizeLSTM", "f32 3,2,5", *weights, bias, *given, scale, zero, scale, zero,
              hidden_size=4, out=3, data=1, **rest)  # fmt: skip


RECURRENT = [
    lstm(1, np.int8),
    lstm(1, np.uint8),
    lstm(1, np.int8, per_channel=True),
    lstm(1, np.int8, direction="reverse"),
    lstm(2, np.int8, direction="bidirectional"),
    lstm(1, np.int8, None, "f32 1,2,4", "f32 1,2,4"),
    lstm(1, np.int8, whole(3, 2)),
    lstm(2, np.int8, whole(2, 3), direction="bidirectional"),
    lstm(1, np.int8, None, None, None, "f32 1,12"),
]

CASES = [*ATTENTION, *MULTI_HEAD, *GROUPED, *ROTARY, *EMBEDDED, *MATRICES, *RECURRENT]


@pytest.mark.parametrize("c", CASES, ids=[f"{k}-{label(c)}" for k, c in enumerate(CASES)])
def test_value(c: Case) -> None:
    expected = runtime_values(c, 1)
    assert expected is not None, "the runtime does not take the case"
    found = evaluate(c.domain, c.name, 1, c.inputs, c.attributes, c.n_outputs)
    assert found
    for mine, other in zip(found, expected, strict=True):
        error = tolerance(c.domain, c.name, of_numpy(mine.dtype) or "")
        assert error is not None
        assert differs(other, mine, error) is None


@pytest.mark.parametrize("dtype", [np.float16])
def test_float16(dtype: Any) -> None:
    """Computed wide and rounded once."""
    q, k, v = (seeded((1, 3, 8), s, dtype) for s in range(3))
    (half,) = evaluate("com.microsoft", "MultiHeadAttention", 1, [q, k, v], HEADS, 1)
    wide = [x.astype(np.float32) for x in (q, k, v)]
    (single,) = evaluate("com.microsoft", "MultiHeadAttention", 1, wide, HEADS, 1)
    assert half.dtype == dtype
    assert np.array_equal(half, single.astype(dtype))
