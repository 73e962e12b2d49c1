"""Encoders of ai.onnx.ml: types only.

In: `Call`. Out: types. Their kernels differ between runtimes, so nothing is computed here.
"""

from __future__ import annotations

from rewrite.ops.call import Call, Types
from rewrite.ops.registry import op
from rewrite.schema import Type

# The attribute that holds the results, and their element type (onnx/defs/traditionalml).
_RESULTS = {"values_strings": "string", "values_int64s": "s64", "values_floats": "f32"}


@op("LabelEncoder", domain="ai.onnx.ml", kind="text", shape_class="first")
def label_encoder(call: Call) -> Types:
    """For each element the value at its key"""
    x = call.type(0)
    for attribute, dtype in _RESULTS.items():
        if call.attributes.get(attribute) is not None:
            return (Type(dtype, x.shape),)
    return (Type(None, x.shape),)
