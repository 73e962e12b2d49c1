"""Inputs that are made up: one for every element type that ONNX has, else a reason."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rewrite.audit.feeds import PLANS, NoFeedsError, make_feeds

ELEMENT_TYPES = {n: e for n, e in TensorProto.DataType.items() if e != TensorProto.UNDEFINED}


def identity(elem: int) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, elem, [64]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph)


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_every_element_type_has_inputs(name: str) -> None:
    elem = ELEMENT_TYPES[name]
    x = make_feeds(identity(elem), PLANS[0], seed=0)["x"]
    assert x.dtype == helper.tensor_dtype_to_np_dtype(elem)
    assert x.shape == (64,)
    assert len({repr(v) for v in x.tolist()}) > 1, "all elements are equal"
    if x.dtype.kind not in "OUc":
        assert not np.isnan(x.astype(np.float64)).any()


def test_an_input_without_element_type_has_a_reason() -> None:
    with pytest.raises(NoFeedsError, match="element type 0"):
        make_feeds(identity(TensorProto.UNDEFINED), PLANS[0], seed=0)
