"""Models of one product and what follows it, run by a session of any instruction set.

In: nodes, arrays. Out: what a session gives, all of it by kernels. `const` names operands that are
initializers; the others are inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rewrite.codegen.isa import Isa
from rewrite.graph import io
from rewrite.runtime.session import Options, Session

Array = np.ndarray[Any, np.dtype[Any]]


def model(
    nodes: Sequence[onnx.NodeProto],
    arrays: Mapping[str, Array],
    outputs: Sequence[str],
    const: Sequence[str] = (),
    opset: int = 21,
) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
        if name not in const
    ]
    graph = helper.make_graph(
        list(nodes),
        "g",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(arrays[name], name) for name in const],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run(
    nodes: Sequence[onnx.NodeProto],
    arrays: Mapping[str, Array],
    const: Sequence[str] = (),
    isa: Isa | None = None,
    opset: int = 21,
    threads: int = 1,
) -> list[Array]:
    """The outputs of the last node."""
    outputs = [name for name in nodes[-1].output if name]
    proto = model(nodes, arrays, outputs, const, opset)
    options = Options(threads=threads, strict=True, isa=isa)
    with Session(io.load(proto), options) as session:
        found = session.run({n: a for n, a in arrays.items() if n not in const})
        return [np.array(found[name]) for name in outputs]


def product_tolerance(a: Array, b: Array, eps: float) -> Array:
    """A bound on the error of any order of summation: K eps |a| |b| (Higham, section 3.5)."""
    k = a.shape[-1]
    left, right = np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64))
    return (k + 2) * eps * np.matmul(left, right) + 1e-300


def grouped(
    nodes: Sequence[onnx.NodeProto],
    arrays: Mapping[str, Array],
    const: Sequence[str] = (),
    isa: Isa | None = None,
) -> tuple[Array, list[str]]:
    """The nodes as one group: its output, and the labels of the kernels that ran."""
    out = nodes[-1].output[0]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    body = helper.make_function("rewrite", "group0", list(arrays), [out], list(nodes), opsets)
    call = helper.make_node("group0", list(arrays), [out], domain="rewrite")
    proto = model([call], arrays, [out], const)
    proto.functions.append(body)
    proto.opset_import.append(helper.make_opsetid("rewrite", 1))
    with Session(io.load(proto), Options(strict=True, isa=isa)) as session:
        found = np.array(session.run({n: a for n, a in arrays.items() if n not in const})[out])
        return found, [call.label for plan in session.plan for call in plan.calls]
