"""Small quantized models, node by node, with inputs to run them on.

In: an opset, a seed. Out: `Graph`, which collects nodes, constants and feeds, and `Case`: a model
with the operator counts that a test of ONNX Runtime asserts after its own passes. In these counts
`Q` and `DQ` are QuantizeLinear and DequantizeLinear of either domain, `ms.X` is com.microsoft's X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

Array = NDArray[np.generic]
Counts = Mapping[str, int]

NUMPY = {
    "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "s32": np.int32,
    "s64": np.int64, "f32": np.float32, "f16": np.float16, "bool": np.bool_,
    "u4": ml_dtypes.uint4, "s4": ml_dtypes.int4,
}  # fmt: skip
ONNX = {
    "u8": TensorProto.UINT8, "s8": TensorProto.INT8, "u16": TensorProto.UINT16,
    "s16": TensorProto.INT16, "s32": TensorProto.INT32, "s64": TensorProto.INT64,
    "f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bool": TensorProto.BOOL,
    "u4": TensorProto.UINT4, "s4": TensorProto.INT4,
}  # fmt: skip


def limits(dtype: str) -> tuple[int, int]:
    """The least and the largest code."""
    bits = int(dtype[1:])
    low = 0 if dtype[0] == "u" else -(1 << (bits - 1))
    return low, low + (1 << bits) - 1


def middle(dtype: str) -> int:
    """The code above the middle of a type, which the tests use as zero point."""
    low, high = limits(dtype)
    return int((low + high) / 2) + 1  # C++ division, towards zero


def half(dtype: str) -> int:
    """Half the largest code."""
    return limits(dtype)[1] // 2


class Graph:
    """A model in the making. Values are names."""

    def __init__(self, opset: int, contrib: bool = False, seed: int = 5) -> None:
        self.opset = opset
        self.domain = "com.microsoft" if contrib else ""
        self.random = np.random.default_rng(seed)
        self.nodes: list[object] = []
        self.inputs: list[object] = []
        self.outputs: list[str] = []
        self.constants: list[TensorProto] = []
        self.feeds: dict[str, Array] = {}
        self._count = 0

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    # --- values --------------------------------------------------------------------------------

    def draw(self, shape: Sequence[int], dtype: str, low: float, high: float) -> Array:
        """Random numbers, both ends included for integers."""
        if dtype[0] in "us":
            codes = self.random.integers(int(low), int(high) + 1, shape)
            return codes.astype(NUMPY[dtype])
        return self.random.uniform(low, high, shape).astype(NUMPY[dtype])

    def input(
        self,
        shape: Sequence[int],
        dtype: str = "f32",
        low: float | None = None,
        high: float | None = None,
    ) -> str:
        """A graph input with a feed: codes of the whole type, floats from -1 to 1."""
        ends = limits(dtype) if dtype[0] in "us" else (-1.0, 1.0)
        ends = (ends[0] if low is None else low, ends[1] if high is None else high)
        return self.given(self.draw(shape, dtype, *ends), dtype)

    def given(self, array: Array, dtype: str) -> str:
        name = self._name("x")
        self.feeds[name] = array
        self.inputs.append(helper.make_tensor_value_info(name, ONNX[dtype], array.shape))
        return name

    def const(self, value: object, dtype: str = "f32") -> str:
        """An initializer."""
        name = self._name("c")
        array = np.asarray(value, NUMPY[dtype])
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(
        self, shape: Sequence[int], dtype: str, low: float | None = None, high: float | None = None
    ) -> str:
        ends = limits(dtype) if dtype[0] in "us" else (-0.1, 0.1)
        ends = (ends[0] if low is None else low, ends[1] if high is None else high)
        return self.const(self.draw(shape, dtype, *ends), dtype)

    # --- nodes ---------------------------------------------------------------------------------

    def node(
        self, op: str, *operands: str, n: int = 1, domain: str = "", **attributes: object
    ) -> str:
        """The only output of a node; `several` gives all."""
        return self.several(op, *operands, n=n, domain=domain, **attributes)[0]

    def several(
        self, op: str, *operands: str, n: int = 1, domain: str = "", **attributes: object
    ) -> list[str]:
        outputs = [self._name(op.lower()) for _ in range(n)]
        self.nodes.append(helper.make_node(op, operands, outputs, domain=domain, **attributes))
        return outputs

    def q(self, x: str, scale: object, zp: object, dtype: str, **attributes: object) -> str:
        operands = (x, self.const(scale), self.const(zp, dtype))
        return self.node("QuantizeLinear", *operands, domain=self.domain, **attributes)

    def dq(self, x: str, scale: object, zp: object, dtype: str, **attributes: object) -> str:
        operands = (x, self.const(scale), self.const(zp, dtype))
        return self.node("DequantizeLinear", *operands, domain=self.domain, **attributes)

    def qdq(self, x: str, scale: object, zp: object, dtype: str) -> str:
        return self.dq(self.q(x, scale, zp, dtype), scale, zp, dtype)

    def shape(self, *sizes: int) -> str:
        return self.const(sizes, "s64")

    def out(self, *names: str) -> Graph:
        self.outputs += names
        return self

    def proto(self) -> ModelProto:
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return _typed(model)


def _typed(model: ModelProto) -> ModelProto:
    """Outputs with the types that onnx, or for com.microsoft the sessions' own inference, finds."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for value, found in zip(model.graph.output, session.get_outputs(), strict=True):
        element = _ELEMENT[found.type]
        value.CopyFrom(helper.make_tensor_value_info(found.name, element, found.shape))
    return model


_ELEMENT = {
    "tensor(float)": TensorProto.FLOAT, "tensor(float16)": TensorProto.FLOAT16,
    "tensor(uint8)": TensorProto.UINT8, "tensor(int8)": TensorProto.INT8,
    "tensor(uint16)": TensorProto.UINT16, "tensor(int16)": TensorProto.INT16,
    "tensor(int32)": TensorProto.INT32, "tensor(int64)": TensorProto.INT64,
    "tensor(uint4)": TensorProto.UINT4, "tensor(int4)": TensorProto.INT4,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One model of a test. Any of `expected` is what a test asserts (on x86, or on Arm, where
    8-bit signed data are allowed). `strict`: going further than asserted does not meet it.
    `twin`: a model with the same outputs, which the runtime computes without saturation.
    `step`: the most that outputs may differ by, where tracing the graph does not tell."""

    name: str
    graph: Graph
    expected: tuple[Counts, ...]
    strict: bool = False
    twin: Graph | None = None
    step: float | None = None


Builder = Callable[[], Iterator[Case]]


@dataclass
class Registry:
    """Facts by the name of the test or helper, each with what builds its models."""

    builders: dict[str, Builder] = field(default_factory=dict)

    def fact(self, *names: str) -> Callable[[Builder], Builder]:
        def add(builder: Builder) -> Builder:
            for name in names:
                self.builders[name] = builder
            return builder

        return add


FACTS = Registry()
fact = FACTS.fact
