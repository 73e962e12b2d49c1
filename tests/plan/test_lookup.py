"""Groups that are tables, through sessions: exact, and one kernel each."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from rewrite.codegen.isa import Isa
from rewrite.graph import io
from rewrite.runtime.session import Options, Session
from tests.codegen.harness import isas

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(2)
MACHINES = pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")


def grouped(x: Array, table: Array, offset: Array | None, transposed: bool) -> onnx.ModelProto:
    """The group that rules make of a table, behind a Transpose if that is asked for."""
    nodes = [helper.make_node("Cast", ["code"], ["wide"], to=onnx.TensorProto.INT32)]
    if offset is not None:
        nodes.append(helper.make_node("Add", ["wide", "offset"], ["place"]))
    at = "wide" if offset is None else "place"
    nodes.append(helper.make_node("Gather", ["table", at], ["y"], axis=0))
    operands = ["code", "table"] + (["offset"] if offset is not None else [])
    body = helper.make_function(
        "rewrite.host", "QLookup", operands, ["y"], nodes, [helper.make_opsetid("", 18)]
    )
    calls = [helper.make_node("QLookup", operands, ["y"], domain="rewrite.host")]
    if transposed:
        calls[0].input[0] = "turned"
        calls.insert(0, helper.make_node("Transpose", ["code"], ["turned"], perm=[0, 2, 1]))
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    constants = {"table": table} | ({} if offset is None else {"offset": offset})
    graph = helper.make_graph(
        calls,
        "g",
        [helper.make_tensor_value_info("code", kind, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("rewrite.host", 1)]
    return helper.make_model(graph, functions=[body], opset_imports=opsets, ir_version=8)


def check(x: Array, table: Array, offset: Array | None, isa: Isa, transposed: bool = False) -> None:
    proto = grouped(x, table, offset, transposed)
    with Session(io.load(proto), Options(strict=True, isa=isa)) as session:
        found = session.run({"code": x})["y"]
        kernels = [row.label for row in session.profile().rows]
    seen = x.transpose(0, 2, 1) if transposed else x
    place = seen.astype(np.int64) + (0 if offset is None else offset)
    np.testing.assert_array_equal(found, table[place])
    assert sum("Gather" in label for label in kernels) == 1
    assert not any(label in ("Cast", "Add") for label in kernels)


@MACHINES
@pytest.mark.parametrize("transposed", [False, True])
def test_tables(transposed: bool, isa: Isa) -> None:
    unsigned = RNG.integers(0, 256, (2, 3, 50)).astype(np.uint8)
    signed = unsigned.view(np.int8)
    table = RNG.integers(0, 256, 256).astype(np.uint8)
    check(unsigned, table, None, isa, transposed)
    check(signed, table, np.array(128, np.int32), isa, transposed)
    check(signed, table.astype(np.float32), None, isa, transposed)


@MACHINES
@pytest.mark.parametrize("transposed", [False, True])
def test_a_table_for_each_channel(transposed: bool, isa: Isa) -> None:
    x = RNG.integers(-128, 128, (2, 3, 50)).astype(np.int8)
    channels = 50 if transposed else 3
    table = RNG.integers(0, 256, 256 * channels).astype(np.uint8)
    offset = (128 + 256 * np.arange(channels)).astype(np.int32).reshape(1, channels, 1)
    check(x, table, offset, isa, transposed)


@MACHINES
def test_a_table_for_each_index_of_another_dimension(isa: Isa) -> None:
    x = RNG.integers(-128, 128, (2, 3, 50)).astype(np.int8)
    table = RNG.integers(0, 256, 256 * 50).astype(np.uint8)
    check(x, table, (128 + 256 * np.arange(50)).astype(np.int32), isa)
    check(x, table, (128 + 256 * np.arange(2)).astype(np.int32).reshape(2, 1, 1), isa)
