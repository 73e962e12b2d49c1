"""Cases of reported faults: a model, what it is fed, and its right values by exact arithmetic.

`check(case, target)` looks at the model as it is and as it is rewritten: the original has the right
value under the exact oracle; the rewritten one is valid ONNX and has it under the oracle and in
onnxruntime, codes off by no more than its ledger says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper, parser

import rewrite
from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.run import Oracle

Array = np.ndarray[Any, Any]
TARGETS = ("generic", "hexagon", "onnxruntime-cpu", "x86-avx2", "cortex-m")
PLAIN = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
FULL = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
ROUNDINGS = 1e-6  # a few roundings of float32, relative to the largest number


@dataclass(frozen=True)
class Case:
    name: str
    text: str  # without its header; tensors that are too long are declared and given apart
    feeds: dict[str, Array]
    expected: tuple[Array, ...]  # codes exactly; floats within `rtol`
    opset: int = 18
    tensors: dict[str, Array] = field(default_factory=dict)
    rtol: float = ROUNDINGS
    left: bool = False  # class `exact` leaves the model as it is, and onnxruntime gets it wrong

    def model(self) -> onnx.ModelProto:
        domains = f'"" : {self.opset}, "com.microsoft" : 1'
        # IR 4 is that of ONNX 1.5 (opset 10); from opset 21 on there are types of 4 bits.
        ir = 4 if self.opset <= 10 else 8 if self.opset < 21 else 10
        made = parser.parse_model(f"<ir_version: {ir}, opset_import: [{domains}]>\n{self.text}")
        for name, array in self.tensors.items():
            made.graph.initializer.append(tensor(array, name))
        onnx.checker.check_model(made)
        return made


def tensor(array: Array, name: str) -> onnx.TensorProto:
    """A constant; of 4 bits where its type is one of `ml_dtypes`."""
    kind = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4}.get(array.dtype.name)
    if kind is None:
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, kind, array.shape, array.astype(int).reshape(-1).tolist())


def rational(number: Any) -> Fraction:
    """The float32 next to a decimal, exactly."""
    return Fraction(float(np.float32(number)))


def quantized(real: Fraction, scale: Any, zero: int, dtype: Any) -> int:
    """Half to even, then the zero point, then saturation."""
    info = np.iinfo(dtype)
    return min(max(round(real / rational(scale)) + zero, int(info.min)), int(info.max))


def each(numbers: Any, scale: Any, zero: int, dtype: Any) -> Array:
    """The codes of an array of fractions."""
    given = np.asarray(numbers, object)
    flat = [quantized(Fraction(v), scale, zero, dtype) for v in given.reshape(-1)]
    return np.array(flat, dtype).reshape(given.shape)


def integers(array: Any) -> Array:
    """Python's integers: they do not wrap."""
    return np.asarray(array).astype(int).astype(object)


def product(a: Array, b: Array) -> Array:
    """The product of matrices of integers, one by one."""
    return np.array(
        [[sum(x * y for x, y in zip(row, column, strict=True)) for column in b.T] for row in a],
        object,
    )


def in_runtime(model: onnx.ModelProto, feeds: dict[str, Array], level: Any = PLAIN) -> list[Array]:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(output) for output in session.run(None, feeds)]


def in_oracle(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    outputs = Oracle(model).run(feeds).outputs.values()
    return [v.rounded() if isinstance(v, Real) else np.asarray(v) for v in outputs]


def agree(found: list[Array], case: Case) -> None:
    """The right values; no case lies so near to a tie that float32 could not tell."""
    assert len(found) == len(case.expected)
    for got, want in zip(found, case.expected, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype.kind == "f":
            atol = case.rtol * float(np.abs(want).max(initial=0.0))
            np.testing.assert_allclose(got, want, rtol=0, atol=atol)
        else:
            np.testing.assert_array_equal(got, want)


def check(case: Case, target: str) -> rewrite.Result:
    """The right values before and after; see above."""
    model = case.model()
    agree(in_oracle(model, case.feeds), case)
    result = rewrite.apply(model, target=target)
    exact = rewrite.apply(model, target=target, max_class="exact")
    assert exact.ledger.total.within("exact")
    for made in (result.model, exact.model):
        onnx.checker.check_model(made)
        agree(in_oracle(made, case.feeds), case)
        agree(in_runtime(made, case.feeds), case)
        if target == "onnxruntime-cpu" and not (case.left and made is exact.model):
            # For which it was made: what it does to it may spoil nothing.
            agree(in_runtime(made, case.feeds, FULL), case)
            no_kernel_saturates(made)
    return result


# --- what processors without VNNI do -----------------------------------------------------------

_PLACES = {
    "QLinearConv": (0, 3), "QLinearMatMul": (0, 3), "QGemm": (0, 3), "MatMulInteger": (0, 1),
    "ConvInteger": (0, 1), "MatMulIntegerToFloat": (0, 1), "DynamicQuantizeMatMul": (0, 1),
}  # fmt: skip


def no_kernel_saturates(model: onnx.ModelProto) -> None:
    """vpmaddubsw adds pairs of u8 by s8 products in 16 bits. Kernels of onnxruntime use it where
    the two operands are of different signedness; so weights there have to be small."""
    kinds = {v.name: v.type.tensor_type.elem_type for v in onnx_values(model)}
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    kinds |= {t.name: t.data_type for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in _PLACES:
            continue
        data, weights = (node.input[k] for k in _PLACES[node.op_type])
        if {kinds[data], kinds[weights]} != {TensorProto.UINT8, TensorProto.INT8}:
            continue
        assert kinds[weights] == TensorProto.INT8, f"{node.op_type} of s8 by u8"
        assert weights in held, f"{node.op_type} of u8 by computed s8"
        w = held[weights].astype(int)
        turned = any(a.name == "transB" and a.i for a in node.attribute)
        rows = w if "Conv" in node.op_type or turned else np.moveaxis(w, -1, 0)
        for row in rows.reshape(rows.shape[0], -1):
            ordered = np.sort(row)
            assert np.maximum(ordered[-2:], 0).sum() <= 128
            assert np.minimum(ordered[:2], 0).sum() >= -128


def onnx_values(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    return [*graph.input, *graph.value_info, *graph.output]
