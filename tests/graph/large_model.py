"""Makes a model larger than memory allows to copy: external data that takes no disk itself.

The data file is a hole of the wanted size (`truncate`), so all weights are zero; reading and
writing it costs what real weights cost.
"""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto, helper

SIDE = 4096  # a weight is SIDE x SIDE float32: 64 MB


def make_large(path: Path, size: int) -> int:
    """Write a model of about `size` bytes: MatMul, Add, Relu, one after the other."""
    weight = SIDE * SIDE * 4
    count = max(1, size // weight)
    nodes, tensors, x = [], [], "x"
    for i in range(count):
        tensors.append(_external(f"w{i}", [SIDE, SIDE], path.name + ".data", i * weight, weight))
        tensors.append(helper.make_tensor(f"b{i}", TensorProto.FLOAT, [SIDE], [0.5] * SIDE))
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]))
        nodes.append(helper.make_node("Relu", [f"a{i}"], [f"r{i}"]))
        x = f"r{i}"
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, SIDE])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, SIDE])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    with path.with_name(path.name + ".data").open("wb") as stream:
        stream.truncate(count * weight)
    return count * weight


def _external(name: str, dims: list[int], location: str, offset: int, length: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor
