"""Attention operators through sessions: ONNX's against its reference evaluator, those of
com.microsoft against onnxruntime.

Tolerance: as in tests/codegen/test_attention.py; both sides sum in float32. float16 outputs differ
by the roundings of single steps of the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from rewrite.codegen.isa import Isa
from tests.codegen.harness import isas
from tests.plan.matmul_models import model, run

Array = np.ndarray[Any, np.dtype[Any]]
MACHINES = pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
NAMES = ["q", "k", "v", "mask", "past_k", "past_v", "lengths"]
RNG = np.random.default_rng(7)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def close(found: list[Array], want: list[Array], tolerance: float) -> None:
    assert len(found) == len(want)
    for x, y in zip(found, want, strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        np.testing.assert_allclose(
            x.astype(np.float64), y.astype(np.float64), rtol=0, atol=tolerance
        )


# --- ONNX ----------------------------------------------------------------------------------------


def check(
    arrays: dict[str, Array], outputs: int = 1, opset: int = 24, isa: Isa | None = None,
    tolerance: float = 1e-5, **attributes: Any,
) -> None:  # fmt: skip
    names = [n if n in arrays else "" for n in NAMES]
    while not names[-1]:
        names.pop()
    given = ["y", "present_k", "present_v"][:outputs]
    node = helper.make_node("Attention", names, given, **attributes)
    proto = model([node], arrays, given, opset=opset)
    want = ReferenceEvaluator(proto).run(None, arrays)
    close(run([node], arrays, isa=isa, opset=opset), want, tolerance)


def by_heads(
    q: int = 4, kv: int = 4, rows: int = 9, keys: int = 13, **kind: Any
) -> dict[str, Array]:
    return {
        "q": normal(2, q, rows, 16, **kind),
        "k": normal(2, kv, keys, 16, **kind),
        "v": normal(2, kv, keys, 24, **kind),
    }


def side_by_side(q: int = 4, kv: int = 4) -> dict[str, Array]:
    return {"q": normal(2, 9, q * 16), "k": normal(2, 13, kv * 16), "v": normal(2, 13, kv * 24)}


@MACHINES
def test_heads_in_a_dimension_of_their_own(isa: Isa) -> None:
    check(by_heads(), isa=isa)
    check(by_heads(q=6, kv=2), isa=isa)


@MACHINES
def test_heads_side_by_side(isa: Isa) -> None:
    check(side_by_side(), isa=isa, q_num_heads=4, kv_num_heads=4)
    check(side_by_side(6, 3), isa=isa, q_num_heads=6, kv_num_heads=3)


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_causal(opset: int) -> None:
    check(by_heads(), opset=opset, is_causal=1)


def test_windows() -> None:
    check(by_heads(), opset=25, left_window_size=2, right_window_size=1)
    check(by_heads(), opset=25, left_window_size=3, is_causal=1)


MASKS = [(9, 13), (1, 13), (2, 1, 1, 13), (2, 4, 9, 13), (4, 9, 13), (1, 1, 9, 7), (13,)]


@pytest.mark.parametrize("shape", MASKS, ids=str)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(shape: tuple[int, ...], kind: str) -> None:
    mask: Array = RNG.standard_normal(shape).astype(np.float32)
    check({**by_heads(), "mask": mask > -0.5 if kind == "bool" else mask})


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("offset", [0, 4, -2])
def test_a_known_mask_of_later_keys(offset: int, kind: str) -> None:
    seen = np.arange(13) <= np.arange(9)[:, None] + offset
    mask = seen if kind == "bool" else np.where(seen, 0, -np.inf).astype(np.float32)
    arrays = {**by_heads(), "mask": mask}
    node = helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"])
    want = ReferenceEvaluator(model([node], arrays, ["y"], opset=24)).run(None, arrays)
    close(run([node], arrays, ["mask"], opset=24), want, 1e-5)
    arrays |= {"past_k": normal(2, 4, 5, 16), "past_v": normal(2, 4, 5, 24)}
    seen = np.arange(18) <= np.arange(9)[:, None] + offset
    arrays["mask"] = seen if kind == "bool" else np.where(seen, 0, -np.inf).astype(np.float32)
    names = ["q", "k", "v", "mask", "past_k", "past_v"]
    node = helper.make_node("Attention", names, ["y", "present_k", "present_v"])
    outputs = list(node.output)
    want = ReferenceEvaluator(model([node], arrays, outputs, opset=24)).run(None, arrays)
    close(run([node], arrays, ["mask"], opset=24), want, 1e-5)


def test_masked_rows_are_zero() -> None:
    mask = np.ones((9, 13), bool)
    mask[4] = False
    check({**by_heads(), "mask": mask})


@pytest.mark.parametrize("causal", [0, 1])
def test_past_and_present(causal: int) -> None:
    arrays = {**by_heads(kv=2), "past_k": normal(2, 2, 5, 16), "past_v": normal(2, 2, 5, 24)}
    check(arrays, outputs=3, is_causal=causal)
    check({**arrays, "mask": normal(9, 18)}, outputs=3, is_causal=causal)


@pytest.mark.parametrize("causal", [0, 1])
def test_lengths(causal: int) -> None:
    arrays = {**by_heads(rows=3), "lengths": np.array([13, 2], np.int64)}
    check(arrays, is_causal=causal)
    check({**arrays, "mask": normal(3, 10)}, is_causal=causal)


def test_scale_and_softcap() -> None:
    check(by_heads(), scale=0.7)
    check({**by_heads(), "mask": normal(9, 13)}, scale=0.7, softcap=1.5)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_types(dtype: Any) -> None:
    arrays = {**by_heads(dtype=dtype), "mask": normal(9, 13, dtype=dtype)}
    check(arrays, tolerance=1e-6 if dtype == np.float64 else 4e-3)


def test_one_query_and_no_queries() -> None:
    check(by_heads(rows=1))
    check(by_heads(rows=1, keys=1), is_causal=1)
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    assert run([node], by_heads(rows=0), opset=24)[0].shape == (2, 4, 0, 24)


# --- com.microsoft -------------------------------------------------------------------------------


def check_microsoft(
    name: str, operands: dict[str, Array], outputs: list[str], const: list[str] | None = None,
    tolerance: float = 1e-5, **attributes: Any,
) -> None:  # fmt: skip
    """`operands` in order; names that start with `-` are absent ones."""
    ort = pytest.importorskip("onnxruntime")
    names = ["" if n.startswith("-") else n for n in operands]
    arrays = {n: a for n, a in operands.items() if not n.startswith("-")}
    node = helper.make_node(name, names, outputs, domain="com.microsoft", **attributes)
    given = [n for n in outputs if n]
    proto = model([node], arrays, given)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    close(run([node], arrays, const or []), session.run(given, arrays), tolerance)


NONE = np.zeros(0, np.float32)


def projected(sizes: int = 96) -> dict[str, Array]:
    return {"x": normal(2, 7, 20), "w": normal(20, sizes) / 5, "b": normal(sizes)}


@pytest.mark.parametrize("const", [[], ["w", "b"]], ids=["unknown", "known"])
def test_attention_projects(const: list[str]) -> None:
    check_microsoft("Attention", projected(), ["y"], const, num_heads=4)
    check_microsoft("Attention", projected(), ["y"], const, num_heads=4, unidirectional=1)


def test_attention_of_varied_sizes() -> None:
    check_microsoft("Attention", projected(64), ["y"], num_heads=4, qkv_hidden_sizes=[24, 24, 16])


def test_attention_gives_what_is_kept() -> None:
    operands = projected()
    check_microsoft("Attention", operands, ["y", "kept"], num_heads=4, unidirectional=1)
    operands |= {"-mask": NONE, "past": normal(2, 2, 4, 5, 8)}
    check_microsoft("Attention", operands, ["y", "kept"], num_heads=4, unidirectional=1)


MASK_FORMS = [
    np.array([7, 3], np.int32),
    np.array([7, 3, 1, 0], np.int32),
    (RNG.random((2, 7)) < 0.6).astype(np.int32),
    (RNG.random((2, 7, 7)) < 0.6).astype(np.int32),
]


@pytest.mark.parametrize("mask", MASK_FORMS, ids=lambda m: str(m.shape))
def test_attention_with_masks_of_integers(mask: Array) -> None:
    check_microsoft("Attention", {**projected(), "mask": mask}, ["y"], num_heads=4)
    operands = {**projected(), "mask": mask, "-past": NONE, "bias": normal(2, 4, 7, 7)}
    check_microsoft("Attention", operands, ["y"], num_heads=4)


def three(rows: int = 7, keys: int = 9) -> dict[str, Array]:
    return {"q": normal(2, rows, 32), "k": normal(2, keys, 32), "v": normal(2, keys, 48)}


def test_multi_head_attention() -> None:
    check_microsoft("MultiHeadAttention", three(), ["y"], num_heads=4)
    check_microsoft("MultiHeadAttention", three(), ["y"], num_heads=4, scale=0.3)
    operands = {**three(), "b": normal(112)}
    check_microsoft("MultiHeadAttention", operands, ["y"], num_heads=4)
    check_microsoft("MultiHeadAttention", operands, ["y"], ["b"], num_heads=4)


def test_multi_head_attention_of_an_encoder_by_heads() -> None:
    operands = {"q": normal(2, 7, 32), "k": normal(2, 4, 9, 8), "v": normal(2, 4, 9, 8)}
    check_microsoft("MultiHeadAttention", operands, ["y"], num_heads=4)


def test_multi_head_attention_with_a_past() -> None:
    operands = {
        "q": normal(2, 3, 32), "k": normal(2, 3, 32), "v": normal(2, 3, 32),
        "-b": NONE, "-m": NONE, "-e": NONE,
        "pk": normal(2, 4, 5, 8), "pv": normal(2, 4, 5, 8),
    }  # fmt: skip
    outputs = ["y", "nk", "nv"]
    check_microsoft("MultiHeadAttention", operands, outputs, num_heads=4, unidirectional=1)
    check_microsoft("MultiHeadAttention", operands, outputs, num_heads=4)


@pytest.mark.parametrize("extra", [False, True])
def test_multi_head_attention_with_masks(extra: bool) -> None:
    mask = (RNG.random((2, 9)) < 0.6).astype(np.int32)
    operands = {**three(), "-b": NONE, "mask": mask}
    if extra:
        operands["bias"] = normal(1, 4, 7, 9)
    check_microsoft("MultiHeadAttention", operands, ["y"], num_heads=4)


def test_multi_head_attention_gives_scores() -> None:
    """Before the softmax; onnxruntime does not infer their type."""
    arrays = {
        "q": normal(2, 1, 32), "k": normal(2, 4, 9, 8), "v": normal(2, 4, 9, 8), "b": normal(96),
        "n": np.array([3], np.int32), "beams": np.zeros((2, 1, 16), np.int32),
    }  # fmt: skip
    names = ["q", "k", "v", "b", "", "", "", "", "n", "beams"]
    node = helper.make_node(
        "MultiHeadAttention", names, ["y", "", "", "s"], domain="com.microsoft", num_heads=4
    )
    _, scores = run([node], arrays)
    q = (arrays["q"] + arrays["b"][:32]).reshape(2, 1, 4, 8).transpose(0, 2, 1, 3)
    want = q.astype(np.float64) @ arrays["k"].swapaxes(-1, -2) * 8**-0.5
    np.testing.assert_allclose(scores, want, rtol=0, atol=1e-5)


def test_multi_head_attention_in_float16() -> None:
    operands = {n: a.astype(np.float16) for n, a in three().items()}
    ort = pytest.importorskip("onnxruntime")
    node = helper.make_node(
        "MultiHeadAttention", list(operands), ["y"], domain="com.microsoft", num_heads=4
    )
    wide = {n: a.astype(np.float32) for n, a in operands.items()}
    proto = model([node], wide, ["y"])
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, wide)[0]
    found = run([node], operands)[0].astype(np.float32)
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3)


# --- QAttention --------------------------------------------------------------------------------


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("zero", [0, 3])
def test_attention_of_codes(zero: int, per_column: bool) -> None:
    columns = 96 if per_column else 1
    operands = {
        "x": RNG.integers(0, 256, (2, 7, 20)).astype(np.uint8),
        "w": RNG.integers(-100, 101, (20, 96)).astype(np.int8),
        "b": normal(96),
        "xs": np.array([0.02], np.float32),
        "ws": RNG.uniform(0.003, 0.006, columns).astype(np.float32),
        "mask": (RNG.random((2, 7)) < 0.7).astype(np.int32),
        "xz": np.array([120], np.uint8),
        "wz": np.full(columns, zero, np.int8),
    }
    const = ["w", "b", "ws", "wz"]
    check_microsoft("QAttention", operands, ["y"], const, 2e-5, num_heads=4)
    check_microsoft("QAttention", operands, ["y"], const, 2e-5, num_heads=4, unidirectional=1)
