"""Models of one operator, run by kernels alone and by the onnx reference evaluator.

    same("Slice", [x, starts, ends], known=(1, 2))

compares the two. Besides the operands as they are, the first one is also given as a transposed
view, so that kernels meet strides; operands in `known` are initializers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rewrite.codegen.isa import Isa
from rewrite.graph import io
from rewrite.runtime.session import Options, Session

Array = np.ndarray[Any, np.dtype[Any]]
Judge = Callable[[Array, Array], None]


def model_of(
    name: str,
    operands: Sequence[Array | None],
    known: Sequence[int] = (),
    outputs: int = 1,
    opset: int = 24,
    domain: str = "",
    transposed: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """Inputs `i0`, `i1`, …, outputs `o0`, …; `transposed`: input 0 is the reverse of operand 0."""
    given = {f"i{k}": x for k, x in enumerate(operands) if x is not None}
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(operands)]
    nodes = []
    if transposed:
        nodes.append(helper.make_node("Transpose", ["i0"], ["t"]))
        names[0] = "t"
    results = [f"o{k}" for k in range(outputs)]
    nodes.append(helper.make_node(name, names, results, domain=domain, **attributes))
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
            )
            for n, x in given.items() if int(n[1:]) not in known
        ],
        [onnx.ValueInfoProto(name=r) for r in results],
        [numpy_helper.from_array(x, n) for n, x in given.items() if int(n[1:]) in known],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def by_kernels(
    model: onnx.ModelProto, operands: Sequence[Array | None], isa: Isa | None = None
) -> list[Array]:
    """Outputs of a session that refuses operators without kernels."""
    names = {v.name for v in model.graph.input}
    feeds = {f"i{k}": x for k, x in enumerate(operands) if f"i{k}" in names}
    with Session(io.load(model), Options(strict=True, isa=isa)) as session:
        return [np.array(v) for v in session.run(feeds).values()]


def run(
    name: str, operands: Sequence[Array | None], isa: Isa | None = None, **rest: Any
) -> list[Array]:
    return by_kernels(model_of(name, operands, **rest), operands, isa)


def reference(name: str, operands: Sequence[Array | None], **rest: Any) -> list[Array]:
    """Outputs of the reference evaluator; of the operands as they are."""
    rest.pop("known", None)
    model = model_of(name, operands, **rest)
    feeds = {f"i{k}": x for k, x in enumerate(operands) if x is not None}
    return [np.asarray(v) for v in ReferenceEvaluator(model).run(None, feeds)]


def equal(got: Array, want: Array) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def same(
    name: str,
    operands: Sequence[Array | None],
    judge: Judge = equal,
    want: Sequence[Array] | None = None,
    isa: Isa | None = None,
    **rest: Any,
) -> None:
    """Kernels agree with the reference, on the operands as they are and on a transposed view."""
    if want is None:
        want = reference(name, operands, **rest)
    first = operands[0]
    assert first is not None
    turned = [np.ascontiguousarray(first.T), *operands[1:]]
    found = [
        run(name, operands, isa, **rest),
        by_kernels(model_of(name, turned, transposed=True, **rest), turned, isa),
    ]
    for outputs in found:
        assert len(outputs) == len(want)
        for g, w in zip(outputs, want, strict=True):
            judge(g, w)
