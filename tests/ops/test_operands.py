"""Nodes that no run can succeed with: operands that do not fit each other, words nobody knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.ops.infer import InferenceError, infer
from rewrite.plan import segment
from rewrite.runtime.session import Session
from rewrite.schema import Type
from tests.plan.conv_models import model_of

X, W = "f32 1,2,6,6", "f32 3,2,3,3"
LSTM = ["f32 4,2,3", "f32 1,20,3", "f32 1,20,5"]
QKV = ["f32 2,3,5,4", "f32 2,3,7,4", "f32 2,3,7,4"]


def types_of(operands: Sequence[str | None]) -> list[Type | None]:
    found: list[Type | None] = []
    for text in operands:
        dtype, _, sizes = (text or "").partition(" ")
        shape = tuple(int(n) if n.isdigit() else n for n in sizes.split(",") if n)
        found.append(Type(dtype, shape) if text else None)
    return found


NEWER = {"CausalConvWithState", "LinearAttention", "TensorScatter"}

WRONG: list[tuple[str, Sequence[str | None], Mapping[str, Any], str]] = [
    ("Resize", [X, None, "f32 4"], {"mode": "area"}, "mode is `area`, not one of nearest"),
    ("Resize", [X, None, "f32 4"], {"nearest_mode": "up"}, "nearest_mode is `up`"),
    ("Resize", [X, "f32 2", "f32 4"], {"coordinate_transformation_mode": "tf_crop_and_resize"},
     "a region of 2 numbers, not 8"),
    ("Pad", [X, "s64 8"], {"mode": "mirror"}, "mode is `mirror`"),
    ("DepthToSpace", ["f32 1,4,2,2"], {"blocksize": 2, "mode": "X"}, "mode is `X`"),
    ("Gelu", ["f32 3"], {"approximate": "erf"}, "approximate is `erf`"),
    ("BitShift", ["u8 3", "u8 3"], {"direction": "left"}, "direction is `left`"),
    ("ScatterND", [X, "s64 1,2", "f32 1,6,6"], {"reduction": "avg"}, "reduction is `avg`"),
    ("Conv", [X, W], {"auto_pad": "SAME"}, "auto_pad is `SAME`"),
    ("Conv", [X, W, "f32 7"], {}, "`filters` is"),
    ("Conv", [X, W, "f32 1"], {}, "`filters` is"),
    ("ConvTranspose", [X, "f32 2,3,3,3"], {"group": 5}, "2 channels in 5 groups"),
    ("ConvTranspose", [X, "f32 2,3,3,3"], {"output_shape": [1]}, "output_shape [1]"),
    ("ConvTranspose", [X, "f32 2,3,3,3", "f32 2"], {}, "`filters` is"),
    ("ConvInteger", ["u8 1,2,6,6", "u8 3,2,3,3", None, "u8 2"], {}, "2 elements, not 3"),
    ("QLinearConv", ["u8 1,2,6,6", "f32", "u8", "u8 3,2,3,3", "f32 2", "u8 2", "f32", "u8"], {},
     "2 elements, not 3"),
    ("MatMulInteger", ["u8 3,5", "u8 5,3", "u8 2"], {}, "2 elements, not 3"),
    ("DeformConv", ["f32 1,2,5,5", "f32 3,2,2,2", "f32 1,6,4,4"], {}, "`offsets` is 6, not 8"),
    ("BatchNormalization", [X, "f32 2", "f32 2", "f32 3", "f32 2"], {}, "`channels` is 3, not 2"),
    ("InstanceNormalization", [X, "f32 3", "f32 2"], {}, "`channels` is 3, not 2"),
    ("GroupNormalization", ["f32 1,4,6", "f32 2", "f32 4"], {"num_groups": 2}, "is 2, not 4"),
    ("AffineGrid", ["f32 2,1,3", "s64 4"], {}, "a dimension is 1, not 2"),
    ("AffineGrid", ["f32 2,2,3", "s64 4,2"], {}, "is not [rank]"),
    ("AffineGrid", ["f32 2,2,3", "s64 3"], {}, "a tensor of rank 3"),
    ("MelWeightMatrix", ["s64", "s64", "s64 2", "f32", "f32"], {}, "2 elements, not 1"),
    ("LinearAttention", ["f32 2,3,16", "f32 2,3,8", "f32 2,3,8"],
     {"q_num_heads": 2, "kv_num_heads": 2}, "8 is not 4"),
    ("LinearAttention", ["f32 2,3,8", "f32 2,4,8", "f32 2,3,8"],
     {"q_num_heads": 2, "kv_num_heads": 2}, "`steps` is 4, not 3"),
    ("CausalConvWithState", ["f32 2,3,5", "f32 4,1,4"], {}, "`channels` is 4, not 3"),
    ("CausalConvWithState", ["f32 2,3,5", "f32 3,1,4", "f32 2"], {}, "`channels` is 2, not 3"),
    ("TensorScatter", ["f32 2,2,5,3", "f32 2,2,2,3", "s64 1"], {}, "`batch` is 1, not 2"),
    ("PRelu", [X, "f32 3,1,1"], {}, "a slope of 3 for 2"),
    ("OneHot", ["s64 3", "s64 2", "f32 2"], {}, "the depth has 2 elements"),
    ("OneHot", ["s64 3", "s64", "f32 3"], {}, "a dimension is 3, not 2"),
    ("Pad", [X, "s64 8", "f32 2"], {}, "2 elements, not 1"),
    ("Compress", [X, "bool"], {}, "is not [places]"),
    ("Slice", [X, "s64 2", "s64 2", "s64 1"], {}, "`axes` is 1, not 2"),
    ("NonMaxSuppression", ["f32 1,5,4", "f32 1,2,5", "s64 2"], {}, "2 elements, not 1"),
    ("LpPool", [X], {"kernel_shape": [2, 2], "p": 0}, "p is 0"),
    ("LRN", [X], {"size": 0}, "size is 0"),
    ("LpNormalization", [X], {"p": 3}, "p is 3"),
    ("GroupNormalization", [X, "f32 2", "f32 2"], {"num_groups": 0}, "num_groups is 0"),
    ("Softmax", [X], {"axis": 4}, "axis 4 is outside"),
    ("Hardmax", [X], {"axis": -5}, "axis -5 is outside"),
    ("GatherElements", [X, "s64 2,2"], {"axis": 2}, "rank 2 for data of rank 4"),
    ("GatherElements", ["f32 2,3", "s64 4,3"], {"axis": 1}, "4 indices along axis 0"),
    ("GatherND", ["f32 2,3", "s64 4,1"], {"batch_dims": 1}, "2 is not 4"),
    ("ScatterElements", ["f32 2,3", "s64 2,2", "f32 2,1"], {}, "operand 2"),
    ("ScatterElements", ["f32 2,3", "s64 2,4", "f32 2,4"], {}, "4 indices along axis 1"),
    ("ScatterND", [X, "s64 1,2", "f32 1,6,5"], {}, "operand 2"),
    ("Clip", ["f32 3", "f32 2"], {}, "2 elements, not 1"),
    *[("Einsum", ["f32 2,3"], {"equation": e}, words) for e, words in (
        ("i*", "`i*` is no equation"), ("i...j...", "is no equation"), ("....i", "is no equation"),
        ("ij->i->j", "is no equation"), ("ij->k", "`k` of the result is in no operand"),
        ("ij->ii", "`i` is twice in the result"),
    )],
    ("DFT", ["f32 2,8,3"], {}, "3 parts"),
    ("QuantizeLinear", ["f32 3,4", "f32 4", "s8 3"], {"axis": 1}, "operand 2"),
    ("LSTM", LSTM, {"hidden_size": 6}, "`gates` is 20, not 24"),
    ("LSTM", LSTM, {"hidden_size": 5, "direction": "back"}, "direction is `back`"),
    ("LSTM", LSTM, {"hidden_size": 5, "direction": "bidirectional"}, "`directions` is 1, not 2"),
    ("LSTM", LSTM, {"hidden_size": 5, "activations": ["Cube", "Tanh", "Tanh"]}, "no activation"),
    ("LSTM", LSTM, {"hidden_size": 5, "activations": ["Tanh"]}, "1 activations, not 3"),
    ("LSTM", [*LSTM, "f32 1,7"], {"hidden_size": 5}, "`biases` is 7, not 40"),
    ("LSTM", [*LSTM, None, "s32 3"], {"hidden_size": 5}, "`batch` is 3, not 2"),
    ("GRU", ["f32 4,2,3", "f32 1,15,3", "f32 1,15,5", None, None, "f32 1,3,5"],
     {"hidden_size": 5}, "`batch` is 3, not 2"),
    ("RNN", ["f32 4,2,3", "f32 1,5,4", "f32 1,5,5"], {"hidden_size": 5}, "`inputs` is 4, not 3"),
    ("Attention", ["f32 2,3,5,4", "f32 2,2,7,4", "f32 2,2,7,4"], {}, "3 heads of queries for 2"),
    ("Attention", ["f32 2,3,5,4", "f32 2,3,7,5", "f32 2,3,7,4"], {}, "`head` is 5, not 4"),
    ("Attention", ["f32 2,3,5,4", "f32 2,3,7,4", "f32 2,3,6,4"], {}, "`keys` is 6, not 7"),
    ("Attention", ["f32 3,5,4", *QKV[1:]], {}, "of several ranks"),
    ("Attention", ["f32 2,5,12", "f32 3,7,12", "f32 2,7,12"],
     {"q_num_heads": 3, "kv_num_heads": 3}, "`batch` is 3, not 2"),
    ("Attention", ["f32 2,5,12", "f32 2,7,9", "f32 2,7,9"],
     {"q_num_heads": 3, "kv_num_heads": 3}, "4 is not 3"),
    ("Attention", ["f32 2,5,12", "f32 2,7,12", "f32 2,7,12"], {}, "0 heads of queries"),
    ("Attention", [*QKV, "f32 4,7"], {}, "4 rows for 5"),
    ("Attention", [*QKV, "f32 5,8"], {}, "8 columns for 7"),
    ("GridSample", ["f32 1,2,4,4", "f32 2,3,3,2"], {}, "`batch` is 2, not 1"),
    ("GridSample", ["f32 1,2,4,4", "f32 1,3,3,3"], {}, "a dimension is 3, not 2"),
    ("NonMaxSuppression", ["f32 1,5,4", "f32 1,2,6"], {}, "`boxes` is 6, not 5"),
    ("NonMaxSuppression", ["f32 1,5,3", "f32 1,2,5"], {}, "a dimension is 3, not 4"),
    ("NegativeLogLikelihoodLoss", ["f32 3,5", "s64 4"], {}, "`n0` is 4, not 3"),
    ("SoftmaxCrossEntropyLoss", ["f32 3,5,2", "s64 3,2", "f32 4"], {}, "`n1` is 4, not 5"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operands", "attributes", "words"), WRONG)
def test_what_does_not_fit(
    name: str, operands: Sequence[str | None], attributes: Mapping[str, Any], words: str
) -> None:
    opset = 27 if name in NEWER else 23
    with pytest.raises(InferenceError) as caught:
        infer("", name, opset, types_of(operands), attributes)
    assert words in str(caught.value)


RIGHT: list[tuple[str, int, Sequence[str | None], Mapping[str, Any]]] = [
    ("Softmax", 11, ["f32 3"], {"axis": 1}),  # of no dimension: one element in each row
    ("BatchNormalization", 15, ["f32 5", "f32 1", "f32 1", "f32 1", "f32 1"], {}),
    ("GroupNormalization", 18, ["f32 1,4,6", "f32 2", "f32 2"], {"num_groups": 2}),
    ("PRelu", 16, ["f32 N,C,6", "f32 D,1"], {}),
    ("Conv", 22, ["f32 N,2,H,6", "f32 M,2,3,3", "f32 M"], {}),
    ("LSTM", 22, ["f32 S,B,3", "f32 1,20,3", "f32 1,20,5", None, "s32 C", "f32 1,B,5"],
     {"hidden_size": 5}),
    ("LSTM", 14, ["f32 2,4,3", *LSTM[1:], None, None, "f32 2,1,5"],
     {"hidden_size": 5, "layout": 1, "activations": ["sigmoid", "TANH", "Softplus"]}),
    ("Attention", 24, [*QKV, "f32 5,4"], {}),  # a mask of the first keys
    ("Attention", 23, [*QKV, "f32 5,9", "f32 2,3,2,4", "f32 2,3,2,4"], {}),
    ("QuantizeLinear", 23, ["f32 3,4", "f32", "s8 1"], {}),
    ("ConvInteger", 10, ["u8 1,2,6,6", "u8 3,2,3,3", "u8", "u8 1"], {}),
    ("ScatterND", 18, [X, "s64 0,1", "f32 0,2,6,6"], {}),
    ("Einsum", 12, ["f32 2,3", "f32 4,3,5"], {"equation": " ij, ...jk -> ...ik"}),
    ("Einsum", 12, ["f32 2,3"], {"equation": "ij->...ji"}),
    ("Einsum", 12, ["f32", "f32 3"], {"equation": ",i->i"}),
    ("GatherElements", 13, ["f32 2,3", "s64 2,9"], {"axis": 1}),
    ("Resize", 11, [X, "f32 0", "f32 4"], {"coordinate_transformation_mode": "asymmetric"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "opset", "operands", "attributes"), RIGHT)
def test_what_fits(
    name: str, opset: int, operands: Sequence[str | None], attributes: Mapping[str, Any]
) -> None:
    assert infer("", name, opset, types_of(operands), attributes) is not None


def test_a_session_refuses_and_can_be_used_again() -> None:
    """The bias comes with the run: one of three filters, then of two."""
    x, w = np.ones((1, 2, 4, 4), np.float32), np.ones((3, 2, 3, 3), np.float32)
    model = model_of([helper.make_node("Conv", ["x", "w", "b"], ["y"])],
                     {"x": x, "b": np.zeros(3, np.float32)}, {"w": w})  # fmt: skip
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "M"
    with Session(io.load(model)) as session:
        for wrong in (np.zeros(2, np.float32), np.zeros(1, np.float32)):
            with pytest.raises(RewriteError) as caught:
                session.run({"x": x, "b": wrong})
            assert caught.value.diagnostics[0].code == "RW802"
        found = session.run({"x": x, "b": np.arange(3, dtype=np.float32)})["y"]
    assert np.array_equal(found[0, :, 0, 0], [18, 19, 20])


def test_what_no_check_sees_is_an_error_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lowering that meets what it takes for granted not to be there."""

    def lower(low: object, op: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(segment, "_lowering", lambda cluster: lower)
    x = np.ones(3, np.float32)
    model = model_of([helper.make_node("Relu", ["x"], ["y"], name="n")], {"x": x}, {})
    with Session(io.load(model)) as session, pytest.raises(RewriteError) as caught:
        session.run({"x": x})
    (told,) = caught.value.diagnostics
    assert told.code == "RW802"
    assert told.message == "Relu does not take these operands: tuple index out of range"
    assert told.subject == "n"
