"""The tensor that a Constant node stands for, whichever attribute holds it.

In: a Constant node. Out: an onnx-ir tensor, or None where its value is a function's parameter.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from rewrite.graph.tensors import SparseTensor

_NUMBERS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def constant_of_node(node: ir.Node) -> ir.TensorProtocol | None:
    """`value`, `value_*` or `sparse_value` as one tensor (ONNX operator Constant)."""
    for name, attribute in node.attributes.items():
        if attribute.is_ref() or attribute.value is None:
            return None
        if name == "value":
            tensor: ir.TensorProtocol = attribute.value
            return tensor
        if name in _NUMBERS:
            return ir.tensor(np.array(attribute.value, _NUMBERS[name]))
        if name == "value_string":
            return _strings([attribute.value], ())
        if name == "sparse_value":
            return SparseTensor(attribute.value)
        if name == "value_strings":
            return _strings(attribute.value, (len(attribute.value),))
    return None


def _strings(values: object, shape: tuple[int, ...]) -> ir.StringTensor:
    items = [v if isinstance(v, bytes) else str(v).encode() for v in values]  # type: ignore[attr-defined]
    return ir.StringTensor(items, shape=ir.Shape(shape))
