"""A graph written node by node, for models made by code.

In: operators in order. Out: a `ModelProto` that the checker accepts. Weights are drawn from a
generator of its own, so that the same calls give the same model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]

OPSET = 17


class Graph:
    """Names of values go in and out; every value is named after the operator that makes it."""

    def __init__(self, name: str, seed: int = 0, opset: int = OPSET) -> None:
        self.name = name
        self.opset = opset
        self.rng = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._count = 0

    def input(self, name: str, shape: Dims, dtype: int = TensorProto.FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, value: str, shape: Dims, dtype: int = TensorProto.FLOAT) -> None:
        self._outputs.append(helper.make_tensor_value_info(value, dtype, list(shape)))

    def op(
        self, name: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> str:
        """The first output; the others are named after it with .1, .2, ..."""
        first = self._fresh(name)
        made = [first, *(f"{first}.{k}" for k in range(1, outputs))]
        node = helper.make_node(name, inputs, made, name=first, domain=domain, **attributes)
        self._nodes.append(node)
        return first

    def constant(self, array: Any, hint: str = "c") -> str:
        name = self._fresh(hint)
        self._weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def scalar(self, number: float) -> str:
        return self.constant(np.float32(number))

    def normal(self, shape: Sequence[int], deviation: float, hint: str = "w") -> str:
        drawn = self.rng.standard_normal(tuple(shape), np.float32)
        return self.constant(drawn * np.float32(deviation), hint)

    def near_one(self, count: int, hint: str = "scale") -> str:
        return self.constant(self.rng.uniform(0.8, 1.2, count).astype(np.float32), hint)

    def build(self, metadata: Mapping[str, str] | None = None) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, self._weights
        )
        imports = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        helper.set_model_props(model, dict(metadata or {}))
        return model

    def _fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}_{self._count}"
