"""Nodes of com.microsoft that no run can succeed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rewrite.ops.infer import InferenceError, infer
from tests.ops.test_operands import types_of

QKV = ["f32 2,5,12", "f32 2,7,12", "f32 2,7,15"]
GROUPS = ["f32 2,1,32", "f32 2,1,16", "f32 2,1,16", "f32 2,2,9,8", "f32 2,2,9,8", "s32 2", "s32"]
BITS = {"K": 32, "N": 5, "bits": 4, "block_size": 16}
EMBED = ["s32 2,3", "s32 2,3", "f32 9,8", "f32 5,8", "f32 2,8", "f32 8", "f32 8"]
BY_RANGE = ["f32 1", "s8 1", "f32 1", "s8 1"]
MHA, GQA, LSTM = "MultiHeadAttention", "GroupQueryAttention", "DynamicQuantizeLSTM"


def changed(operands: Sequence[str | None], index: int, text: str) -> list[str | None]:
    return [text if i == index else given for i, given in enumerate(operands)]


WRONG: list[tuple[str, Sequence[str | None], Mapping[str, Any], str]] = [
    (MHA, changed(QKV, 2, "f32 2,6,15"), {"num_heads": 3}, "`keys` is 6, not 7"),
    (MHA, changed(QKV, 1, "f32 1,7,12"), {"num_heads": 3}, "`batch` is 1, not 2"),
    (MHA, QKV, {"num_heads": 0}, "num_heads is 0"),
    (MHA, [*QKV, "f32 38"], {"num_heads": 3}, "`biases` is 38, not 39"),
    (MHA, [*QKV, None, "s32 3"], {"num_heads": 3}, "3 lengths for 2 sequences"),
    (MHA, [*QKV, None, None, "f32 1,3,5,6"], {"num_heads": 3}, "6 elements along axis 3, not 7"),
    (MHA, [*QKV, None, None, None, "f32 2,2,4,4", "f32 2,3,4,5"], {"num_heads": 3},
     "`heads` is 2, not 3"),
    ("Attention", ["f32 2,5,12", "f32 11,36"], {"num_heads": 3}, "`inputs` is 11, not 12"),
    ("QAttention", ["u8 2,5,12", "s8 12,36", "f32 30", "f32", "f32"], {"num_heads": 3},
     "`width` is 30, not 36"),
    (GQA, changed(GROUPS, 4, "f32 2,2,8,8"), {"num_heads": 4, "kv_num_heads": 2},
     "`room` is 8, not 9"),
    (GQA, changed(GROUPS, 1, "f32 2,2,16"), {"num_heads": 4, "kv_num_heads": 2},
     "`steps` is 2, not 1"),
    (GQA, changed(GROUPS, 5, "s32 1"), {"num_heads": 4, "kv_num_heads": 2}, "`batch` is 1, not 2"),
    (GQA, [*GROUPS, "f32 50,4", "f32 40,4"], {"num_heads": 4, "kv_num_heads": 2},
     "`places` is 40, not 50"),
    ("RotaryEmbedding", ["f32 2,5,24", "s64 1", "f32 50,4", "f32 40,4"], {}, "`places` is 40"),
    ("BiasGelu", ["f32 2,3", "f32 4"], {}, "`bias` is 4, not 3"),
    ("FastGelu", ["f32 2,3", "f32 1"], {}, "`bias` is 1, not 3"),
    ("DynamicQuantizeMatMul", ["f32 3,5", "u8 5,4", "f32 3", "u8 3"], {}, "3 elements, not 4"),
    ("MatMulIntegerToFloat", ["u8 3,5", "u8 5,4", "f32", "f32", "u8", "u8", "f32 3"], {},
     "`columns` is 3, not 4"),
    ("QGemm", ["u8 3,5", "f32", "u8", "s8 4,5", "f32 5", "s8 5"], {"transB": 1},
     "5 elements, not 4"),
    ("MatMulNBits", ["f32 3,32", "u8 5,2,7", "f32 10"], BITS, "`bytes` is 7, not 8"),
    ("MatMulNBits", ["f32 3,31", "u8 5,2,8", "f32 10"], BITS, "31 elements, not 32"),
    ("MatMulNBits", ["f32 3,32", "u8 5,2,8", "f32 9"], BITS, "9 elements of scales, not 10"),
    ("MatMulNBits", ["f32 3,32", "u8 5,2,8", "f32 10", "u8 4"], BITS, "zero points, not 5"),
    ("MatMulNBits", ["f32 3,32", "u8 5,2,8", "f32 10"], {**BITS, "block_size": 0},
     "block_size is 0"),
    ("EmbedLayerNormalization", changed(EMBED, 1, "s32 2,2"), {}, "`steps` is 2, not 3"),
    ("EmbedLayerNormalization", changed(EMBED, 3, "f32 5,7"), {}, "`hidden` is 7, not 8"),
    ("EmbedLayerNormalization", [*EMBED, "s32 1,3"], {}, "`batch` is 1, not 2"),
    (LSTM, ["f32 4,2,3", "s8 1,3,20", "s8 1,5,19", None, None, None, None, None, *BY_RANGE],
     {"hidden_size": 5}, "`gates` is 19, not 20"),
    ("QLinearSoftmax", ["u8 2,3", "f32", "u8", "f32", "u8"], {"axis": 5}, "axis 5 is outside"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operands", "attributes", "words"), WRONG)
def test_what_does_not_fit(
    name: str, operands: Sequence[str | None], attributes: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        infer("com.microsoft", name, 1, types_of(operands), attributes)
    assert words in str(caught.value)


RIGHT: list[tuple[str, Sequence[str | None], Mapping[str, Any]]] = [
    (MHA, [*QKV, "f32 39", "s32 8", "f32 1,1,5,7"], {"num_heads": 3}),
    (MHA, ["f32 2,5,12", "f32 2,3,7,4", "f32 2,3,7,5"], {"num_heads": 3}),
    (MHA, ["f32 B,S,12", "f32 B,T,12", "f32 B,T,12", None, None, "f32 1,3,S,U"], {"num_heads": 3}),
    (GQA, GROUPS, {"num_heads": 4, "kv_num_heads": 2}),
    (GQA, ["f32 2,1,64", None, None, *GROUPS[3:]], {"num_heads": 4, "kv_num_heads": 2}),
    ("MatMulNBits", ["f32 B,32", "u8 5,2,8", "f32 5,2", "u8 5,1"], BITS),
    ("QGemm", ["u8 3,5", "f32", "u8", "s8 4,5", "f32 4", "s8 4"], {"transB": 1}),
    ("EmbedLayerNormalization", ["s32 B,S", None, "f32 9,8", "f32 5,8", None, *EMBED[5:],
                                 None, "s32 1,S"], {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operands", "attributes"), RIGHT)
def test_what_fits(
    name: str, operands: Sequence[str | None], attributes: Mapping[str, Any]
) -> None:
    assert infer("com.microsoft", name, 1, types_of(operands), attributes) is not None
