"""Files: external data, large models, whole or not at all, inputs untouched."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from graphkit import ELEMENT_TYPES, FLOAT, element_type, model, value
from model_diff import differences
from onnx import TensorProto, helper, numpy_helper

from rewrite.errors import RewriteError
from rewrite.graph import io, wire
from rewrite.graph import save as saving


def codes(action, *arguments) -> list[str]:
    with pytest.raises(RewriteError) as caught:
        action(*arguments)
    return [d.code for d in caught.value.diagnostics]


def digests(folder: Path) -> dict[str, str]:
    return {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.is_file()
    }


def weights(*sizes: int) -> list[TensorProto]:
    random = np.random.default_rng(1)
    return [
        numpy_helper.from_array(random.standard_normal(n).astype(np.float32), f"w{i}")
        for i, n in enumerate(sizes)
    ]


def sums(*sizes: int) -> onnx.ModelProto:
    """y = x + sum(w0) + sum(w1) + ..."""
    nodes, last = [], "x"
    for i, _ in enumerate(sizes):
        nodes.append(helper.make_node("ReduceSum", [f"w{i}"], [f"s{i}"], keepdims=0))
        nodes.append(helper.make_node("Add", [last, f"s{i}"], [f"a{i}"]))
        last = f"a{i}"
    return model(nodes, [value("x", ())], [value(last, ())], weights(*sizes))


def external_model(folder: Path, proto: onnx.ModelProto, name: str = "m.onnx") -> Path:
    path = folder / name
    onnx.save(proto, path, save_as_external_data=True, location=f"{name}.bin", size_threshold=0)
    return path


def result(path: Path) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(path))
    return session.run(None, {"x": np.array(1, np.float32)})


def test_small_model_is_one_file(tmp_path: Path):
    proto = sums(3, 5)
    io.save(io.load(proto), tmp_path / "out.onnx")
    assert list(digests(tmp_path)) == ["out.onnx"]
    assert differences(proto, onnx.load(tmp_path / "out.onnx")) == []


def test_saving_is_deterministic(tmp_path: Path):
    for name in ("a.onnx", "b.onnx"):
        io.save(io.load(sums(3, 2**19)), tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_large_tensors_inside_the_message_are_streamed(tmp_path: Path):
    """2 MB each: notes while in memory, data in the file; also in attributes and subgraphs."""
    proto = sums(2**19, 7, 2**19)
    held = numpy_helper.from_array(np.arange(2**19, dtype=np.float32), "held")
    constant = helper.make_node("Constant", [], ["k"], value=held)
    branch = helper.make_graph(
        [helper.make_node("ReduceMax", ["inner"], ["r"], keepdims=0)],
        "t",
        [],
        [value("r", ())],
        [numpy_helper.from_array(np.arange(2**19, dtype=np.float32), "inner")],
    )
    other = helper.make_graph(
        [helper.make_node("ReduceMax", ["k"], ["q"], keepdims=0)], "e", [], [value("q", ())]
    )
    choose = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=other)
    proto.graph.node.extend([constant, choose])
    proto.graph.input.append(value("c", (), TensorProto.BOOL))
    proto.graph.output.append(value("z", ()))
    source, made = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(proto.SerializeToString())
    for threshold in (saving.LARGE, 1 << 40):
        loaded = io.load(source)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(saving, "LARGE", threshold)
            io.save(loaded, made)
        assert differences(proto, onnx.load(made)) == []


def test_large_files_are_read_without_their_tensor_data(tmp_path: Path, monkeypatch):
    proto = sums(2**19, 7, 2**18)
    source, made = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(proto.SerializeToString())
    monkeypatch.setattr(io, "WHOLE", 0)
    loaded = io.load(source)
    assert loaded.notes == []
    tensors = [v.const_value for v in loaded.model.graph.initializers.values()]
    assert [type(t).__name__ for t in tensors] == [
        "MappedTensor", "MessageTensor", "MappedTensor",
    ]  # fmt: skip
    expected = numpy_helper.to_array(proto.graph.initializer[0])
    found = loaded.facts.array(loaded.model.graph.initializers["w0"])
    assert found is not None
    assert np.array_equal(found, expected)
    io.save(loaded, made)
    assert differences(proto, onnx.load(made)) == []
    assert differences(proto, io.to_proto(loaded)) == []


def test_external_data_gets_a_file_of_its_own_again(tmp_path: Path):
    source = external_model(tmp_path, sums(300, 5, 2**16))
    before = digests(tmp_path)
    out = tmp_path / "elsewhere"
    out.mkdir()
    loaded = io.load(source)
    io.save(loaded, out / "out.onnx")
    assert digests(tmp_path) == before
    assert sorted(digests(out)) == ["out.onnx", "out.onnx.data"]
    assert differences(onnx.load(source), onnx.load(out / "out.onnx")) == []
    assert result(out / "out.onnx") == result(source)
    tensors = onnx.load(out / "out.onnx", load_external_data=False).graph.initializer
    for tensor in tensors:
        entries = {e.key: e.value for e in tensor.external_data}
        assert entries["location"] == "out.onnx.data"
        size = 4 * tensor.dims[0]
        assert int(entries["offset"]) % (4096 if size >= 4096 else 16) == 0
        assert int(entries["length"]) == size


def test_external_data_of_a_constant_node(tmp_path: Path):
    held = numpy_helper.from_array(np.arange(4, dtype=np.float32), "held")
    node = helper.make_node("Constant", [], ["k"], value=held)
    add = helper.make_node("Add", ["x", "k"], ["y"])
    proto = model([node, add], [value("x", ())], [value("y", (4,))])
    path = tmp_path / "m.onnx"
    onnx.save(
        proto, path, save_as_external_data=True, location="d", size_threshold=0,
        convert_attribute=True,
    )  # fmt: skip
    loaded = io.load(path)
    array = loaded.facts.array(next(iter(loaded.model.graph)).outputs[0])
    assert array is not None
    assert array.tolist() == [0, 1, 2, 3]
    io.save(loaded, tmp_path / "out.onnx")
    assert result(tmp_path / "out.onnx")[0].tolist() == [1, 2, 3, 4]


def test_four_bit_external_data(tmp_path: Path):
    tensor = helper.make_tensor("w", TensorProto.INT4, [3], [1, -2, 7])
    packed = TensorProto(name="w", data_type=TensorProto.INT4, dims=[3], raw_data=b"\xe1\x07")
    proto = model(
        [helper.make_node("Identity", ["w"], ["y"])], [], [value("y", (3,), TensorProto.INT4)],
        [packed], opset=23, ir_version=10,
    )  # fmt: skip
    path = external_model(tmp_path, proto)
    loaded = io.load(path)
    array = loaded.facts.array(loaded.model.graph.initializers["w"])
    assert array is not None
    assert (
        array.astype(np.int32).tolist() == numpy_helper.to_array(tensor).astype(np.int32).tolist()
    )
    io.save(loaded, tmp_path / "out.onnx")
    assert differences(onnx.load(path), onnx.load(tmp_path / "out.onnx")) == []


def test_what_does_not_fit_into_a_message_goes_into_a_data_file(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(saving, "LIMIT", 1 << 20)
    proto = sums(2**18, 5, 2**17)
    loaded = io.load(proto)
    assert codes(io.to_proto, loaded) == ["RW512"]
    io.save(loaded, tmp_path / "out.onnx")
    assert sorted(digests(tmp_path)) == ["out.onnx", "out.onnx.data"]
    onnx.checker.check_model(str(tmp_path / "out.onnx"))
    inside = onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.initializer
    assert [t.data_location for t in inside] == [1, 0, 1]
    assert differences(proto, onnx.load(tmp_path / "out.onnx")) == []


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_typed_fields_of_every_type_in_pieces(tmp_path: Path, monkeypatch, name, where):
    """What is streamed is raw data; it means what the typed field meant."""
    dtype = element_type(name)
    array = np.array([1, 0, 1, 1, 0, 1, 1], np.int64).astype(dtype)
    number = helper.np_dtype_to_tensor_dtype(dtype)
    tensor = helper.make_tensor("w", number, [7], array)
    tensor.doc_string = "weights"
    tensor.metadata_props.add(key="k", value="v")
    node = helper.make_node("Identity", ["w"], ["y"])
    proto = model([node], [], [value("y", (7,), number)], [tensor], opset=25, ir_version=13)
    monkeypatch.setattr(saving, "LARGE", 1)
    if where == "outside":
        monkeypatch.setattr(saving, "LIMIT", 0)
        monkeypatch.setattr(saving, "SMALLEST_EXTERNAL", 1)
    io.save(io.load(proto), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").exists() == (where == "outside")
    made = onnx.load(tmp_path / "out.onnx")
    assert made.graph.initializer[0].HasField("raw_data")
    assert differences(proto, made) == []
    again = io.load(tmp_path / "out.onnx")
    found = again.facts.array(again.model.graph.initializers["w"])
    assert found is not None
    assert found.dtype == dtype
    assert found.tobytes() == array.tobytes()


# --- whole or not at all -----------------------------------------------------------------------


def test_the_input_is_never_overwritten(tmp_path: Path):
    path = external_model(tmp_path, sums(2**12), "m.onnx.data")
    path.rename(tmp_path / "m.onnx")
    before = digests(tmp_path)
    loaded = io.load(tmp_path / "m.onnx")
    assert codes(io.save, loaded, tmp_path / "m.onnx") == ["RW514"]
    (tmp_path / "link.onnx").symlink_to(tmp_path / "m.onnx")
    assert codes(io.save, loaded, tmp_path / "link.onnx") == ["RW514"]
    (tmp_path / "sub").mkdir()
    assert codes(io.save, loaded, tmp_path / "sub" / ".." / "m.onnx") == ["RW514"]
    (tmp_path / "link.onnx").unlink()
    assert codes(io.save, loaded, tmp_path / "m.onnx.data.bin") == ["RW514"]
    assert digests(tmp_path) == before


def test_the_data_file_of_the_input_is_never_overwritten(tmp_path: Path):
    path = tmp_path / "m.onnx"
    onnx.save(
        sums(2**12), path, save_as_external_data=True, location="o.onnx.data", size_threshold=0
    )
    before = digests(tmp_path)
    assert codes(io.save, io.load(path), tmp_path / "o.onnx") == ["RW514"]
    assert digests(tmp_path) == before


def test_an_older_output_is_replaced(tmp_path: Path):
    (tmp_path / "out.onnx").write_bytes(b"old")
    (tmp_path / "out.onnx.data").write_bytes(b"old")
    source = tmp_path / "in"
    source.mkdir()
    io.save(io.load(external_model(source, sums(2**12))), tmp_path / "out.onnx")
    onnx.checker.check_model(str(tmp_path / "out.onnx"))


def test_places_that_cannot_be_written(tmp_path: Path):
    loaded = io.load(sums(3))
    assert codes(io.save, loaded, tmp_path / "missing" / "out.onnx") == ["RW513"]
    assert codes(io.save, loaded, tmp_path) == ["RW513"]
    assert codes(io.save, loaded, "/dev/null") == ["RW513"]
    assert codes(io.save, loaded, tmp_path / ("n" * 300)) == ["RW513"]
    assert codes(io.save, loaded, tmp_path / "a\0b") == ["RW513"]
    assert codes(io.save, loaded, "") == ["RW513"]
    (tmp_path / "file").write_bytes(b"")
    assert codes(io.save, loaded, tmp_path / "file" / "out.onnx") == ["RW513"]
    assert sorted(digests(tmp_path)) == ["file"]
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(tmp_path: Path):
    tmp_path.chmod(0o500)
    assert codes(io.save, io.load(sums(3)), tmp_path / "out.onnx") == ["RW513"]


@pytest.mark.parametrize("external", [False, True])
def test_nothing_is_left_after_a_failure_while_writing(tmp_path: Path, monkeypatch, external):
    source = tmp_path / "in"
    source.mkdir()
    path = external_model(source, sums(2**19, 2**19)) if external else source / "m.onnx"
    if not external:
        path.write_bytes(sums(2**19, 2**19).SerializeToString())
    loaded = io.load(path)
    copies = []

    def fail_at_the_second(tensor, stream):
        copies.append(tensor)
        if len(copies) == 2:
            raise OSError(28, "No space left on device")
        stream.write(tensor.tobytes())

    monkeypatch.setattr(saving, "_copy", fail_at_the_second)
    out = tmp_path / "out"
    out.mkdir()
    (out / "out.onnx").write_bytes(b"older")
    assert codes(io.save, loaded, out / "out.onnx") == ["RW513"]
    assert digests(out) == {"out.onnx": hashlib.sha256(b"older").hexdigest()}


# --- memory ------------------------------------------------------------------------------------

MEASURE = """
import resource, sys
from rewrite.graph import io
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
io.save(io.load(sys.argv[1]), sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def growth(source: Path, target: Path) -> float:
    """Megabytes by which the peak memory of a process grows when it copies a model."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(source), str(target)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    unit = 1 if sys.platform == "darwin" else 1024
    return int(done.stdout) * unit / 1e6


def test_memory_does_not_grow_with_external_data(tmp_path: Path):
    from large_model import make_large

    size = make_large(tmp_path / "m.onnx", 256_000_000)
    assert growth(tmp_path / "m.onnx", tmp_path / "out.onnx") < 60
    assert (tmp_path / "out.onnx.data").stat().st_size >= size


def test_memory_does_not_grow_with_data_inside_the_model(tmp_path: Path):
    tensor = TensorProto(name="w0", data_type=FLOAT, dims=[30_000_000])
    tensor.raw_data = bytes(120_000_000)
    proto = sums(1)
    proto.graph.initializer[0].CopyFrom(tensor)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    del proto, tensor
    assert growth(tmp_path / "m.onnx", tmp_path / "out.onnx") < 60
    assert (tmp_path / "out.onnx").stat().st_size > 120_000_000


MANY = """
import resource, sys
from rewrite.graph import io
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
loaded = io.load(sys.argv[1])
total = sum(float(loaded.facts.array(v).sum()) for v in loaded.model.graph.initializers.values())
io.save(loaded, sys.argv[2])
print(total)
"""


def test_a_file_for_each_tensor_does_not_run_out_of_files(tmp_path: Path):
    proto = sums(*[300] * 200)
    onnx.save(
        proto, tmp_path / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=False,
        size_threshold=0,
    )  # fmt: skip
    assert len(list(tmp_path.iterdir())) == 201
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path / "m.onnx"), str(tmp_path / "out.onnx")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = sum(
        float(numpy_helper.to_array(t).sum()) for t in sums(*[300] * 200).graph.initializer
    )
    assert float(done.stdout) == pytest.approx(expected, rel=1e-6)


def test_data_that_changed_after_loading_is_an_error(tmp_path: Path):
    path = external_model(tmp_path, sums(2**12))
    loaded = io.load(path)
    data = tmp_path / "m.onnx.bin"
    data.write_bytes(data.read_bytes()[:100])
    assert codes(io.save, loaded, tmp_path / "out.onnx") == ["RW513"]
    assert not (tmp_path / "out.onnx").exists()


# --- the format --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**32, 2**63])
def test_varint(number):
    data = wire.encode_varint(number)
    assert wire.varint(data, 0) == (number, len(data))


@pytest.mark.parametrize("data", [b"\x80", b"\xff" * 11, b"\x0a\x05abc", b"\x0b"])
def test_malformed_bytes(data):
    with pytest.raises(wire.MalformedError):
        list(wire.fields(data, 0, len(data)))


def test_deeply_nested_large_message_is_malformed_and_not_a_recursion_error():
    """Graphs in graphs, each larger than what is cut: protobuf would refuse it too."""
    payload = bytes(2 << 20)
    for _ in range(400):
        payload = wire.encode_len(1, wire.encode_len(5, wire.encode_len(6, payload)))
    with pytest.raises(wire.MalformedError):
        wire.cut(wire.encode_len(7, payload), 1 << 20)
