"""Models of one convolution or pool, and their values by numpy."""

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


def model_of(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array],
    known: Mapping[str, Array],
    outputs: Sequence[str] = ("y",),
    opset: int = 22,
) -> onnx.ModelProto:
    """`feeds` are inputs of the graph, `known` its initializers."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run_model(
    model: onnx.ModelProto, feeds: Mapping[str, Array], isa: Isa | None = None, threads: int = 1
) -> list[Array]:
    """All outputs, by kernels alone."""
    options = Options(strict=True, isa=isa, threads=threads)
    with Session(io.load(model), options) as session:
        return [np.array(v) for v in session.run(feeds).values()]


def convolved(
    x: Array,
    w: Array,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
) -> Array:
    """The convolution in float64, or int64 for integers: tap by tap."""
    kind = np.int64 if x.dtype.kind in "iu" else np.float64
    rank = x.ndim - 2
    widths = [(0, 0), (0, 0), *[(pads[i], pads[i + rank]) for i in range(rank)]]
    x, w = np.pad(x.astype(kind), widths), w.astype(kind)
    reach = [(w.shape[2 + i] - 1) * dilations[i] + 1 for i in range(rank)]
    out = [(x.shape[2 + i] - reach[i]) // strides[i] + 1 for i in range(rank)]
    parts = []
    c, m = x.shape[1] // group, w.shape[0] // group
    for g in range(group):
        total = np.zeros((x.shape[0], m, *out), kind)
        for at in np.ndindex(*w.shape[2:]):
            cut = tuple(
                slice(at[i] * dilations[i], at[i] * dilations[i] + (out[i] - 1) * strides[i] + 1,
                      strides[i])
                for i in range(rank)
            )  # fmt: skip
            here = x[(slice(None), slice(g * c, (g + 1) * c), *cut)]
            weight = w[(slice(g * m, (g + 1) * m), slice(None), *at)]
            total += np.einsum("mc,nc...->nm...", weight, here)
        parts.append(total)
    return np.concatenate(parts, 1)


def attributes(
    strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], group: int
) -> dict[str, Any]:
    return {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
