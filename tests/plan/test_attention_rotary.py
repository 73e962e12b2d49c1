"""RotaryEmbedding and GroupQueryAttention through sessions.

Against the operators' texts in float64 (rewrite/ops) and onnxruntime. Turning a pair rounds a few
times: 1e-6; attention as in tests/codegen/test_attention.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from rewrite.codegen.isa import Isa
from rewrite.errors import RewriteError
from tests.codegen.harness import isas
from tests.plan.matmul_models import model, run

Array = np.ndarray[Any, np.dtype[Any]]
MACHINES = pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
DOMAIN = "com.microsoft"


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tables(rows: int, pairs: int, dtype: Any = np.float32) -> tuple[Array, Array]:
    angle = np.arange(rows)[:, None] / 100.0 ** (np.arange(pairs) / pairs)
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


# --- RotaryEmbedding -----------------------------------------------------------------------------


@MACHINES
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("pairs", [20, 7])
def test_turned_pairs(pairs: int, interleaved: int, isa: Isa) -> None:
    """With and without elements behind the pairs; heads in their own dimension and not."""
    cos, sin = tables(50, pairs)
    ids = np.array([[3, 4, 5], [40, 0, 49]], np.int64)
    arrays = {"x": normal(2, 4, 3, 40), "cos": cos, "sin": sin, "ids": ids}
    partial = {} if pairs == 20 else {"rotary_embedding_dim": 2 * pairs}
    node = helper.make_node(
        "RotaryEmbedding", list(arrays), ["y"], interleaved=interleaved, **partial
    )
    want = ReferenceEvaluator(model([node], arrays, ["y"], opset=23)).run(None, arrays)[0]
    np.testing.assert_allclose(run([node], arrays, isa=isa, opset=23)[0], want, rtol=0, atol=1e-6)
    flat = arrays | {"x": np.ascontiguousarray(arrays["x"].transpose(0, 2, 1, 3)).reshape(2, 3, -1)}
    node = helper.make_node(
        "RotaryEmbedding", list(flat), ["y"], interleaved=interleaved, num_heads=4, **partial
    )
    want = ReferenceEvaluator(model([node], flat, ["y"], opset=23)).run(None, flat)[0]
    np.testing.assert_allclose(run([node], flat, isa=isa, opset=23)[0], want, rtol=0, atol=1e-6)


def test_angles_of_each_row() -> None:
    arrays = {"x": normal(2, 4, 3, 16), "cos": normal(2, 3, 8), "sin": normal(2, 3, 8, seed=1)}
    node = helper.make_node("RotaryEmbedding", list(arrays), ["y"])
    want = ReferenceEvaluator(model([node], arrays, ["y"], opset=23)).run(None, arrays)[0]
    np.testing.assert_allclose(run([node], arrays, opset=23)[0], want, rtol=0, atol=1e-6)


def test_positions_out_of_range_are_a_fault() -> None:
    cos, sin = tables(5, 8)
    ids = np.array([[1, 5, 2]], np.int64)
    arrays = {"x": normal(1, 2, 3, 16), "cos": cos, "sin": sin, "ids": ids}
    node = helper.make_node("RotaryEmbedding", list(arrays), ["y"])
    for bad in (5, -1, 1 << 40):
        ids[0, 1] = bad
        with pytest.raises(RewriteError):
            run([node], arrays, opset=23)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("start", [False, True])
def test_turned_pairs_of_onnxruntime(start: bool, interleaved: int) -> None:
    ort = pytest.importorskip("onnxruntime")
    cos, sin = tables(50, 8)
    ids = np.array([7], np.int64) if start else np.array([[3, 4, 5], [40, 0, 49]], np.int64)
    arrays = {"x": normal(2, 3, 64), "ids": ids, "cos": cos, "sin": sin}
    node = helper.make_node(
        "RotaryEmbedding", list(arrays), ["y"], domain=DOMAIN, interleaved=interleaved
    )
    proto = model([node], arrays, ["y"])
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, arrays)[0]
    np.testing.assert_allclose(run([node], arrays)[0], want, rtol=0, atol=1e-6)


# --- GroupQueryAttention -------------------------------------------------------------------------

NAMES = ["q", "k", "v", "past_k", "past_v", "lengths", "total", "cos", "sin"]


def grouped(
    sequence: int, room: int, lengths: list[int], total: int, packed: bool = False
) -> dict[str, Array]:
    batch = len(lengths)
    cos, sin = tables(64, 8)
    found = {
        "q": normal(batch, sequence, 64),
        "k": normal(batch, sequence, 32, seed=1),
        "v": normal(batch, sequence, 32, seed=2),
        "past_k": normal(batch, 2, room, 16, seed=3),
        "past_v": normal(batch, 2, room, 16, seed=4),
        "lengths": np.array(lengths, np.int32) - 1,
        "total": np.array([total], np.int32),
        "cos": cos,
        "sin": sin,
    }
    if packed:
        found["q"] = np.concatenate([found["q"], found.pop("k"), found.pop("v")], 2)
    if room == 0:
        del found["past_k"], found["past_v"]
    return found


def check(arrays: dict[str, Array], isa: Isa | None = None, **attributes: Any) -> None:
    ort = pytest.importorskip("onnxruntime")
    if not attributes.get("do_rotary"):
        arrays = {n: a for n, a in arrays.items() if n not in ("cos", "sin")}
    names = [n if n in arrays else "" for n in NAMES]
    while not names[-1]:
        names.pop()
    node = helper.make_node(
        "GroupQueryAttention", names, ["y", "nk", "nv"], domain=DOMAIN, num_heads=4,
        kv_num_heads=2, **attributes,
    )  # fmt: skip
    proto = model([node], arrays, ["y", "nk", "nv"], ["total"])
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, {n: a for n, a in arrays.items() if n != "total"})
    for x, y in zip(run([node], arrays, ["total"], isa), want, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-5)


@MACHINES
@pytest.mark.parametrize("rotary", [0, 1])
def test_first_tokens(rotary: int, isa: Isa) -> None:
    check(grouped(5, 0, [5, 5], 5), isa, do_rotary=rotary)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [0, 1])
def test_next_tokens(rotary: int, packed: bool) -> None:
    check(grouped(1, 7, [8, 8], 8, packed), do_rotary=rotary)
    check(grouped(1, 7, [8, 3], 8, packed), do_rotary=rotary, rotary_interleaved=1)


def test_windows_and_softcap() -> None:
    check(grouped(6, 0, [6], 6), local_window_size=3)
    check(grouped(1, 9, [10], 10), local_window_size=4, softcap=2.0)


def test_a_scale() -> None:
    check(grouped(4, 0, [4, 4], 4), scale=0.4)
