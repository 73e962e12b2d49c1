"""Attention written as products and Softmax, rewritten for the host and run as one kernel.

Against numpy in float64; the tolerance is that of tests/codegen/test_attention.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from rewrite.execution import compile_model
from rewrite.plan.attention import attention_of

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(3)


def graph(
    nodes: list[onnx.NodeProto], arrays: dict[str, Array], constants: dict[str, Array],
    opset: int = 18,
) -> onnx.ModelProto:  # fmt: skip
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in arrays.items()
    ]
    made = helper.make_graph(
        nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def softmax(scores: Array) -> Array:
    with np.errstate(all="ignore"):
        power = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(power / power.sum(-1, keepdims=True))


def check(
    nodes: list[onnx.NodeProto], arrays: dict[str, Array], constants: dict[str, Array],
    want: Array, opset: int = 18,
) -> None:  # fmt: skip
    proto = graph(nodes, arrays, constants, opset)
    with compile_model(proto, "host", strict=True) as session:
        found = session.run(arrays)["y"]
        kinds = [row.kind for row in session.profile().rows]
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5)
    assert "Attention" in kinds
    assert not {"Gemm", "Rows"} & set(kinds)


def node(name: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(name, inputs.split(), [output], **attributes)


def three(b: int = 2, h: int = 3, q: int = 9, k: int = 13) -> dict[str, Array]:
    shapes = {"q": (b, h, q, 16), "k": (b, h, k, 16), "v": (b, h, k, 24)}
    return {n: RNG.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def expected(arrays: dict[str, Array], scale: float, mask: Array | float = 0.0) -> Array:
    q, k, v = (arrays[n].astype(np.float64) for n in "qkv")
    return np.asarray(softmax(q @ k.swapaxes(-1, -2) * scale + mask) @ v)


TURN = node("Transpose", "k", "t", perm=[0, 1, 3, 2])
REST = [node("Softmax", "a", "p", axis=-1), node("MatMul", "p v", "y")]
HALF = {"s": np.array(0.5, np.float32)}


@pytest.mark.parametrize("opset", [11, 18])
def test_added_mask(opset: int) -> None:
    arrays = three()
    arrays["m"] = RNG.standard_normal((2, 1, 9, 13)).astype(np.float32)
    nodes = [TURN, node("MatMul", "q t", "d"), node("Mul", "d s", "c"), node("Add", "c m", "a")]
    check([*nodes, *REST], arrays, HALF, expected(arrays, 0.5, arrays["m"]), opset)


def test_quotient_and_no_mask() -> None:
    arrays = three()
    nodes = [TURN, node("MatMul", "q t", "d"), node("Div", "d s", "a")]
    check([*nodes, *REST], arrays, {"s": np.array([4.0], np.float32)}, expected(arrays, 0.25))


def test_factors_on_both_sides_and_heads_side_by_side() -> None:
    shapes = {"q": (2, 9, 3, 16), "k": (2, 13, 3, 16), "v": (2, 13, 3, 16)}
    arrays = {n: RNG.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    nodes = [
        node("Mul", "q s", "qs"), node("Mul", "k s", "ks"),
        node("Transpose", "qs", "qt", perm=[0, 2, 1, 3]),
        node("Transpose", "ks", "t", perm=[0, 2, 3, 1]),
        node("Transpose", "v", "vt", perm=[0, 2, 1, 3]),
        node("MatMul", "qt t", "a"), node("Softmax", "a", "p", axis=-1),
        node("MatMul", "p vt", "y"),
    ]  # fmt: skip
    turned = {n: a.transpose(0, 2, 1, 3) for n, a in arrays.items()}
    proto = graph(nodes, arrays, HALF)
    with compile_model(proto, "host", strict=True) as session:
        found = session.run(arrays)["y"]
    np.testing.assert_allclose(found, expected(turned, 0.25), rtol=0, atol=1e-5)


@pytest.mark.parametrize("blank", [-1e9, float(np.finfo(np.float32).min)])
def test_hidden_keys(blank: float) -> None:
    """A query whose keys are all hidden sees all of them alike, as Softmax of equal numbers."""
    arrays = three()
    hidden = RNG.random((2, 1, 9, 13)) < 0.4
    hidden[0, 0, 2] = True
    arrays["h"] = hidden
    nodes = [
        TURN, node("MatMul", "q t", "d"), node("Mul", "d s", "c"), node("Where", "h b c", "a"),
    ]  # fmt: skip
    q, k, v = (arrays[n].astype(np.float64) for n in "qkv")
    scores = np.where(hidden, blank, q @ k.swapaxes(-1, -2) * 0.5)
    want = np.asarray(softmax(scores) @ v)
    check([*nodes, *REST], arrays, {**HALF, "b": np.array(blank, np.float32)}, want)


def test_lowest_numbers_as_a_mask() -> None:
    arrays = three()
    lowest = np.finfo(np.float32).min
    arrays["m"] = np.where(RNG.random((2, 1, 1, 13)) < 0.4, lowest, 0).astype(np.float32)
    arrays["m"][1] = lowest
    nodes = [TURN, node("MatMul", "q t", "d"), node("Mul", "d s", "c"), node("Add", "c m", "a")]
    want = expected(arrays, 0.5, arrays["m"].astype(np.float64))
    want[1] = arrays["v"][1].astype(np.float64).mean(1, keepdims=True)
    check([*nodes, *REST], arrays, HALF, want)


def test_zeros_instead_of_nan() -> None:
    arrays = three()
    hidden = RNG.random((2, 1, 9, 13)) < 0.4
    hidden[0, 0, 2] = True
    arrays["h"] = hidden
    nodes = [
        TURN, node("MatMul", "q t", "d"), node("Mul", "d s", "c"), node("Where", "h b c", "a"),
        node("Softmax", "a", "p", axis=-1), node("IsNaN", "p", "i"), node("Where", "i z p", "w"),
        node("MatMul", "w v", "y"),
    ]  # fmt: skip
    constants = {
        **HALF, "b": np.array(-np.inf, np.float32), "z": np.array(0, np.float32),
    }  # fmt: skip
    want = np.nan_to_num(expected(arrays, 0.5, np.where(hidden, -np.inf, 0.0)))
    check(nodes, arrays, constants, want)


@pytest.mark.parametrize("known", [False, True])
def test_hidden_and_added(known: bool) -> None:
    """As GPT-2 is exported: later keys by a Where, padding by an addition."""
    arrays = three()
    seen = (np.arange(13) <= np.arange(9)[:, None] + 4)[None, None]
    lowest = float(np.finfo(np.float32).min)
    arrays["m"] = np.where(RNG.random((2, 1, 1, 13)) < 0.3, lowest, 0).astype(np.float32)
    arrays["m"][..., 0] = 0
    constants = {**HALF, "b": np.array(lowest, np.float32)}
    (constants if known else arrays)["h"] = seen
    nodes = [
        TURN, node("MatMul", "q t", "d"), node("Mul", "d s", "c"), node("Where", "h c b", "w"),
        node("Add", "w m", "a"),
    ]  # fmt: skip
    want = expected(arrays, 0.5, np.where(seen, 0, -np.inf) + arrays["m"])
    check([*nodes, *REST], arrays, constants, want)


@pytest.mark.parametrize("how", ["added", "hidden", "seen"])
@pytest.mark.parametrize("offset", [0, 4])
def test_known_masks_of_later_keys(offset: int, how: str) -> None:
    """They are not read: the kernel is told where to stop."""
    arrays = three()
    later = (np.arange(13) > np.arange(9)[:, None] + offset)[None, None]
    nodes = [TURN, node("MatMul", "q t", "d"), node("Mul", "d s", "c")]
    if how == "added":
        constants = {"m": np.where(later, -1e9, 0).astype(np.float32)}
        nodes.append(node("Add", "c m", "a"))
    else:
        constants = {"h": later if how == "hidden" else ~later, "b": np.array(-1e9, np.float32)}
        nodes.append(node("Where", "h b c" if how == "hidden" else "h c b", "a"))
    proto = graph([*nodes, *REST], arrays, {**HALF, **constants})
    with compile_model(proto, "host", strict=True) as session:
        found = session.run(arrays)["y"]
        rows = session.profile().rows
    want = expected(arrays, 0.5, np.where(later, -np.inf, 0.0))
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5)
    assert [row.kind for row in rows] == ["Attention"]


def test_three_dimensions() -> None:
    arrays = {n: a[0] for n, a in three().items()}
    turn = node("Transpose", "k", "t", perm=[0, 2, 1])
    nodes = [turn, node("MatMul", "q t", "d"), node("Mul", "d s", "a")]
    check([*nodes, *REST], arrays, HALF, expected(arrays, 0.5))


def test_other_operators_are_no_attention() -> None:
    assert isinstance(attention_of([_instance("Relu")]), str)


def _instance(name: str) -> Any:
    from rewrite.plan.instance import Instance
    from rewrite.plan.program import Op
    from rewrite.schema import Type

    kind = Type("f32", (2, 3))
    return Instance(Op("", name, 18, (0,), (1,), {}, name), (0,), (kind,), (None,), (kind,))
