"""Files that cannot be taken, and data files out of reach: one clear error each, no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphkit import FLOAT, codes, model, parsed, relu, value, with_weight
from onnx import TensorProto, helper

from rewrite.errors import RewriteError
from rewrite.graph import io

# --- files -------------------------------------------------------------------------------------


def test_missing_file(tmp_path: Path):
    assert codes(tmp_path / "nothing.onnx") == ["RW501"]


def test_folder(tmp_path: Path):
    assert codes(tmp_path) == ["RW501"]


def test_pipe(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.onnx")
    assert codes(tmp_path / "pipe.onnx") == ["RW501"]


def test_name_that_no_file_can_have():
    assert codes("a\0b") == ["RW501"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(relu().SerializeToString())
    path.chmod(0)
    assert codes(path) == ["RW501"]


@pytest.mark.parametrize(
    "data",
    [b"", b"hello, this is text\n" * 20, b"\x00" * 100, b"\xff" * 100, b"PK\x03\x04" + b"zip" * 50,
     b"{}", b"\x08\x08"],
)  # fmt: skip
def test_not_onnx(tmp_path: Path, data: bytes):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert codes(path) == ["RW502"]


def test_cut_off_at_every_length(tmp_path: Path):
    """A prefix of a model is either no model, or what is left of it is refused or valid."""
    proto = relu()
    proto.graph.initializer.append(helper.make_tensor("w", FLOAT, [4], [1, 2, 3, 4]))
    data = proto.SerializeToString()
    path = tmp_path / "m.onnx"
    allowed = {"RW502", "RW503", "RW504", "RW505", "RW508", "RW510"}
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert refusal(path) <= allowed


def refusal(path: Path) -> set[str]:
    """The codes of the errors, if any."""
    try:
        io.load(path)
    except RewriteError as failure:
        return {d.code for d in failure.diagnostics}
    return set()


def test_random_damage_never_ends_in_a_traceback(tmp_path: Path):
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17, "my": 1]>
      g (bool c, float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 2}>
      { a = Add (x, w)
        y = If (c) <then_branch = t () => (float[N, 2] r) { r = my.f (a) },
                    else_branch = e () => (float[N, 2] r) { r = Relu (a) }> }
      <opset_import: ["": 17], domain: "my"> f (a) => (b) { b = Neg (a) }""")
    data = proto.SerializeToString()
    path = tmp_path / "m.onnx"
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(600):
        damaged = bytearray(data)
        for _ in range(int(random.integers(1, 4))):
            damaged[int(random.integers(len(data)))] = int(random.integers(256))
        path.write_bytes(damaged)
        refused += bool(refusal(path))
    assert 300 < refused < 600


# --- external data -----------------------------------------------------------------------------


def external(location: str, offset: object = 0, length: object = 16) -> TensorProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        if text is not None:
            tensor.external_data.add(key=key, value=str(text))
    return tensor


def written(folder: Path, tensor: TensorProto) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(with_weight(tensor).SerializeToString())
    return path


@pytest.mark.parametrize(
    ("offset", "length", "code"),
    [(1, 16, "RW509"), (0, 12, "RW508"), (0, 20, "RW508"), (-4, 16, "RW509"), (2**70, 16, "RW509"),
     ("x", 16, "RW509"), (4, None, "RW509")],
)  # fmt: skip
def test_external_data_beyond_the_file(tmp_path: Path, offset, length, code):
    (tmp_path / "d.bin").write_bytes(b"\0" * 16)
    assert codes(written(tmp_path, external("d.bin", offset, length))) == [code]


def test_external_data_missing(tmp_path: Path):
    assert codes(written(tmp_path, external("d.bin"))) == ["RW509"]
    (tmp_path / "d.bin").mkdir()
    assert codes(written(tmp_path, external("d.bin"))) == ["RW509"]
    assert codes(written(tmp_path, external(""))) == ["RW509"]
    assert codes(written(tmp_path, external("a\0b"))) == ["RW509"]
    os.mkfifo(tmp_path / "pipe")
    assert codes(written(tmp_path, external("pipe"))) == ["RW509"]


def test_external_data_outside_the_folder(tmp_path: Path):
    (tmp_path / "secret.bin").write_bytes(b"\0" * 16)
    folder = tmp_path / "models"
    folder.mkdir()
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "a/../../secret.bin"):
        assert codes(written(folder, external(location))) == ["RW509"]
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    assert codes(written(folder, external("link.bin"))) == ["RW509"]
    (folder / "linked").symlink_to(tmp_path, target_is_directory=True)
    assert codes(written(folder, external("linked/secret.bin"))) == ["RW509"]


def test_external_data_of_attributes_is_looked_at_too(tmp_path: Path):
    node = helper.make_node("Constant", [], ["c"])
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, t=external("../x.bin"))
    proto = model([node, helper.make_node("Neg", ["c"], ["y"])], [], [value("y", (4,))])
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert codes(path) == ["RW509"]


def test_external_data_of_a_model_in_memory_has_no_folder():
    assert codes(with_weight(external("d.bin"))) == ["RW509"]


def test_strings_and_sparse_values_in_files(tmp_path: Path):
    (tmp_path / "d.bin").write_bytes(b"\0" * 16)
    text = external("d.bin", 0, None)
    text.data_type = TensorProto.STRING
    assert codes(written(tmp_path, text)) == ["RW508"]
    proto = model([helper.make_node("Relu", ["w"], ["y"])], [], [value("y", (2, 2))])
    indices = onnx.numpy_helper.from_array(np.int64([0, 1, 2, 3]), "i")
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(external("d.bin"), indices, [2, 2])
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert codes(path) == ["RW509"]


def ir_model(initializer: ir.Value) -> ir.Model:
    node = ir.Node("", "Neg", [initializer])
    node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    node.outputs[0].shape = ir.Shape([4])
    graph = ir.Graph(
        [], node.outputs, nodes=[node], initializers=[initializer], opset_imports={"": 17}, name="g"
    )
    return ir.Model(graph, ir_version=8)


def test_onnx_ir_model_with_an_initializer_without_value():
    assert codes(ir_model(ir.Value(name="w"))) == ["RW508"]


def test_onnx_ir_model_with_external_data(tmp_path: Path):
    (tmp_path / "d.bin").write_bytes(np.float32([1, 2, 3, 4]).tobytes())

    def held(location: str, offset: int = 0) -> ir.Model:
        float32, shape = ir.DataType.FLOAT, ir.Shape([4])
        tensor = ir.ExternalTensor(
            location, offset, 16, float32, shape=shape, name="w", base_dir=tmp_path
        )
        return ir_model(ir.Value(name="w", const_value=tensor))

    loaded = io.load(held("d.bin"))
    array = loaded.facts.array(loaded.model.graph.initializers["w"])
    assert array is not None
    assert array.tolist() == [1, 2, 3, 4]
    with pytest.raises(RewriteError, match="RW514"):
        io.save(loaded, tmp_path / "d.bin")
    io.save(loaded, tmp_path / "out.onnx")
    onnx.checker.check_model(str(tmp_path / "out.onnx"))
    assert codes(held("d.bin", 4)) == ["RW509"]
    assert codes(held("../d.bin")) == ["RW509"]


def test_onnx_ir_model_with_a_dangling_value():
    x, gone = ir.Value(name="x"), ir.Value(name="gone")
    node = ir.Node("", "Add", [x, gone])
    graph = ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 17}, name="g")
    assert codes(ir.Model(graph, ir_version=8)) == ["RW505"]
