"""What goes in comes out: each construct of ONNX, and every model of the collection."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphkit import ELEMENT_TYPES, FLOAT, element_type, model, parsed, run, run_runtime, value
from model_diff import differences
from onnx import TensorProto, helper, numpy_helper

from rewrite.graph import io


def same(proto: onnx.ModelProto, notes: int = 0) -> io.LoadedModel:
    """Load, write, compare; the source is as before."""
    before = proto.SerializeToString(deterministic=True)
    loaded = io.load(proto)
    made = io.to_proto(loaded)
    assert differences(proto, made) == []
    assert proto.SerializeToString(deterministic=True) == before
    assert len(loaded.notes) == notes, loaded.notes
    return loaded


def test_plain_model_keeps_everything_around_the_graph():
    proto = parsed("""
      <ir_version: 10, opset_import: ["": 18, "com.microsoft": 1, "unused": 3],
       producer_name: "maker", producer_version: "1.2", domain: "org.example",
       model_version: 7, doc_string: "a model", metadata_props: ["author": "me", "b": ""]>
      g (float[N, 3] x) => (float[N, 3] y) <float[N, 3] h>
      { [first] h = Relu (x)  [second] y = com.microsoft.Gelu (h) }""")
    proto.graph.doc_string = "a graph"
    proto.graph.metadata_props.add(key="k", value="v")
    proto.graph.node[0].doc_string = "a node"
    proto.graph.node[0].metadata_props.add(key="pkg.torch.name", value="act")
    proto.graph.input[0].doc_string = "an input"
    proto.graph.input[0].metadata_props.add(key="k", value="in")
    proto.graph.output[0].type.denotation = "TENSOR"
    proto.graph.output[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    proto.graph.value_info[0].metadata_props.add(key="k", value="between")
    same(proto)


def test_initializer_that_is_an_input_stays_both():
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul (x, w) }""")
    made = io.to_proto(same(proto))
    assert [i.name for i in made.graph.input] == ["x", "w"]
    assert run(made, x=np.float32([3, 4]))[0].tolist() == [3, 8]
    assert run(made, x=np.float32([3, 4]), w=np.float32([0, 1]))[0].tolist() == [0, 4]


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("value_float = 1.5", 1.5),
        ("value_floats = [1.5, 2.5]", [1.5, 2.5]),
        ("value_int = 3", 3),
        ("value_ints = [3, 4]", [3, 4]),
        ('value_string = "a"', b"a"),
        ('value_strings = ["a", "b"]', [b"a", b"b"]),
        ("value = int8[3] {1, -2, 3}", [1, -2, 3]),
    ],
)
def test_every_form_of_a_constant_node(attribute, expected):
    proto = parsed(f"""
      <ir_version: 8, opset_import: ["": 17]>
      g () => (float[1] y)
      {{ y = Constant <value = float[1] {{1}}> ()  c = Constant <{attribute}> () }}""")
    loaded = same(proto)
    constant = list(loaded.model.graph)[1].outputs[0]
    array = loaded.facts.array(constant)
    assert array is not None
    assert array.tolist() == expected


def sparse(name: str, indices: np.ndarray) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.float32([5, 7]), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(indices, "i"), [2, 3])


@pytest.mark.parametrize("indices", [np.int64([1, 5]), np.int64([[0, 1], [1, 2]])])
def test_sparse_value_of_a_constant_node(indices):
    node = helper.make_node("Constant", [], ["c"])
    node.attribute.add(
        name="sparse_value",
        type=onnx.AttributeProto.SPARSE_TENSOR,
        sparse_tensor=sparse("v", indices),
    )
    proto = model(
        [node, helper.make_node("Add", ["x", "c"], ["y"])],
        [value("x", (2, 3))],
        [value("y", (2, 3))],
    )
    loaded = same(proto)
    array = loaded.facts.array(next(iter(loaded.model.graph)).outputs[0])
    assert array is not None
    assert array.tolist() == [[0, 5, 0], [0, 0, 7]]


def test_sparse_initializer_is_a_constant_and_stays_sparse():
    proto = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [value("x", (2, 3))], [value("y", (2, 3))]
    )
    proto.graph.sparse_initializer.append(sparse("w", np.int64([1, 5])))
    loaded = same(proto)
    array = loaded.facts.array(loaded.model.graph.initializers["w"])
    assert array is not None
    assert array.tolist() == [[0, 5, 0], [0, 0, 7]]
    assert len(io.to_proto(loaded).graph.initializer) == 0


SUBGRAPHS = """
<ir_version: 8, opset_import: ["": 17]>
g (bool c, float[2] x, int64 n) => (float[2] y, float[2] z) <float[2] w = {10, 20}>
{
  outer = Add (x, w)
  y = If (c) <then_branch = t () => (float[2] r) { r = Mul (outer, w) },
              else_branch = e () => (float[2] r)
                <float[2] k = {1, 1}> { q = Add (outer, k)
                  r = If (c) <then_branch = tt () => (float[2] s) { s = Neg (q) },
                              else_branch = ee () => (float[2] s) { s = Sub (q, x) }> }>
  z = Loop (n, , x) <body = b (int64 i, bool k_in, float[2] a) => (bool k_out, float[2] a_out)
        { k_out = Identity (c)  a_out = Add (a, w) }>
}"""


def test_subgraphs_and_their_captures():
    proto = parsed(SUBGRAPHS)
    made = io.to_proto(same(proto))
    feeds = {"x": np.float32([1, 2]), "n": np.int64(2)}
    for condition in (True, False):
        for before, after in zip(
            run(proto, c=np.bool_(condition), **feeds),
            run(made, c=np.bool_(condition), **feeds),
            strict=True,
        ):
            assert before.tolist() == after.tolist()


def test_scan_body():
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[3, 2] xs, float[2] s) => (float[2] end, float[3, 2] sums)
      { end, sums = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] x)
          => (float[2] o, float[2] o2) { o = Add (a, x)  o2 = Identity (o) }> (s, xs) }""")
    made = io.to_proto(same(proto))
    xs = np.float32([[1, 2], [3, 4], [5, 6]])
    assert run(made, xs=xs, s=np.float32([0, 0]))[1].tolist() == [[1, 2], [4, 6], [9, 12]]


FUNCTIONS = """
<ir_version: 9, opset_import: ["": 18, "my": 1]>
g (float[2] x) => (float[2] y) { y = my.outer <alpha = 0.5> (x) }
<opset_import: ["": 18], domain: "my">
inner (a) => (b) { b = Neg (a) }
<opset_import: ["": 18, "my": 1], domain: "my">
outer <alpha, beta: int = 3> (a) => (b)
{ t = LeakyRelu <alpha: float = @alpha> (a)  b = my.inner (t) }
"""


def test_functions_with_parameters_defaults_and_calls():
    proto = parsed(FUNCTIONS)
    proto.functions[1].doc_string = "a function"
    made = io.to_proto(same(proto))
    assert made.functions[1].attribute_proto[0].i == 3
    assert run_runtime(made, x=np.float32([-2, 2]))[0].tolist() == [1, -2]


def test_function_overload_value_info_and_metadata():
    proto = parsed(FUNCTIONS)
    proto.ir_version = 10
    proto.functions[0].overload = "one"
    proto.functions[1].node[1].overload = "one"
    proto.functions[1].value_info.append(value("t"))
    proto.functions[1].metadata_props.add(key="k", value="v")
    same(proto)


def test_empty_optional_inputs_and_outputs():
    nodes = [
        helper.make_node("Clip", ["x", "", "hi"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "s"], ["b", "", "std"]),
        helper.make_node("Dropout", ["b", "", ""], ["y", ""]),
    ]
    weights = [
        helper.make_tensor("hi", FLOAT, [], [1.0]),
        helper.make_tensor("s", FLOAT, [2], [1, 1]),
    ]
    proto = model(nodes, [value("x")], [value("y"), value("std", (1,))], weights)
    made = io.to_proto(same(proto))
    assert list(made.graph.node[0].input) == ["x", "", "hi"]
    assert list(made.graph.node[1].output) == ["b", "", "std"]


def test_outputs_that_are_inputs_initializers_used_or_listed_twice():
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    outputs = [value("x", ("M",)), value("w"), value("y"), value("z"), value("y", ("K",))]
    proto = model(
        nodes, [value("x", ("N",))], outputs, [helper.make_tensor("w", FLOAT, [2], [1, 2])]
    )
    made = io.to_proto(same(proto))
    got = run(made, x=np.float32([-1, 1]))
    assert [g.tolist() for g in got] == [[-1, 1], [1, 2], [0, 1], [0, -1], [0, 1]]


def test_duplicate_and_missing_node_names_stay():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="same"),
        helper.make_node("Neg", ["a"], ["b"], name="same"),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    made = io.to_proto(same(model(nodes, [value("x")], [value("y")])))
    assert [n.name for n in made.graph.node] == ["same", "same", ""]


def test_unknown_dimensions_in_all_spellings():
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x", (-1, None, "N", 0))],
        [value("y", (-1, None, "N", 0))],
    )
    loaded = same(proto)
    shape = loaded.facts.type(loaded.model.graph.inputs[0]).shape
    assert shape is not None
    first, second, third, fourth = shape
    assert (third, fourth) == ("N", 0)
    assert isinstance(first, str)
    assert isinstance(second, str)
    assert first != second
    assert first.startswith("?")


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_every_element_type_raw_and_in_typed_fields(name, raw):
    dtype = element_type(name)
    array = np.array([1, 0, 1, 1, 0], np.int64).astype(dtype)
    number = helper.np_dtype_to_tensor_dtype(dtype)
    if raw:
        tensor = numpy_helper.from_array(array, "w")
    else:
        tensor = helper.make_tensor("w", number, [5], array)
    assert tensor.HasField("raw_data") == raw
    proto = model(
        [helper.make_node("Identity", ["w"], ["y"])],
        [],
        [value("y", (5,), number)],
        [tensor],
        opset=25,
        ir_version=13,
    )
    loaded = same(proto)
    kept = io.to_proto(loaded).graph.initializer[0]
    assert kept.HasField("raw_data") == raw
    found = loaded.facts.array(loaded.model.graph.initializers["w"])
    assert found is not None
    assert found.dtype == dtype
    assert found.tobytes() == array.tobytes()


def test_strings():
    tensor = helper.make_tensor("w", TensorProto.STRING, [2], ["a", "é"])
    proto = model(
        [helper.make_node("Identity", ["w"], ["y"])],
        [],
        [value("y", (2,), TensorProto.STRING)],
        [tensor],
    )
    loaded = same(proto)
    array = loaded.facts.array(loaded.model.graph.initializers["w"])
    assert array is not None
    assert array.tolist() == [b"a", "é".encode()]


def test_zero_size_tensors():
    tensors = [
        TensorProto(name="a", data_type=FLOAT, dims=[0, 3]),
        numpy_helper.from_array(np.zeros((2, 0), np.float32), "b"),
        TensorProto(name="s", data_type=TensorProto.STRING, dims=[0]),
    ]
    nodes = [
        helper.make_node("MatMul", ["b", "a"], ["y"]),
        helper.make_node("Identity", ["s"], ["t"]),
    ]
    proto = model(nodes, [], [value("y", (2, 3)), value("t", (0,), TensorProto.STRING)], tensors)
    loaded = same(proto)
    assert run(io.to_proto(loaded))[0].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert loaded.facts.type(loaded.model.graph.initializers["a"]).shape == (0, 3)


def test_values_that_are_no_tensors():
    kinds = [
        helper.make_value_info(
            "m", helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, [2]))
        ),
        helper.make_value_info(
            "q", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["N"]))
        ),
        helper.make_value_info(
            "o", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))
        ),
        helper.make_value_info("p", helper.make_sparse_tensor_type_proto(1, [2, 3])),
    ]
    opaque = onnx.ValueInfoProto(name="u")
    opaque.type.opaque_type.domain = "d"
    opaque.type.opaque_type.name = "n"
    names = [k.name for k in kinds] + ["u"]
    nodes = [helper.make_node("Take", names, ["y"], domain="custom")]
    loaded = same(model(nodes, [*kinds, opaque], [value("y")]))
    for found in loaded.model.graph.inputs:
        assert loaded.facts.type(found).dtype is None


def test_attributes_of_every_kind():
    node = helper.make_node(
        "Op",
        ["x"],
        ["y"],
        domain="custom",
        i=1,
        f=0.1,
        s="text",
        ints=[1, 2],
        floats=[0.5],
        strings=["a", "b"],
    )
    node.attribute.add(name="bytes", type=onnx.AttributeProto.STRING, s=b"\xff\xfe")
    node.attribute.add(
        name="many_bytes", type=onnx.AttributeProto.STRINGS, strings=[b"\xff", b"ok"]
    )
    node.attribute.add(name="empty", type=onnx.AttributeProto.INTS)
    node.attribute.add(
        name="tensors",
        type=onnx.AttributeProto.TENSORS,
        tensors=[helper.make_tensor("t", FLOAT, [1], [2])],
    )
    node.attribute.add(
        name="sp",
        type=onnx.AttributeProto.SPARSE_TENSORS,
        sparse_tensors=[sparse("v", np.int64([0, 1]))],
    )
    node.attribute.add(
        name="tp",
        type=onnx.AttributeProto.TYPE_PROTO,
        tp=helper.make_tensor_type_proto(1, ["N", 2]),
    )
    node.attribute.add(
        name="tps",
        type=onnx.AttributeProto.TYPE_PROTOS,
        type_protos=[helper.make_tensor_type_proto(7, [])],
    )
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "inner", [], [value("n")])
    node.attribute.add(name="graphs", type=onnx.AttributeProto.GRAPHS, graphs=[inner, inner])
    node.attribute[0].doc_string = "an attribute"
    same(model([node], [value("x")], [value("y")]))


def test_quantization_annotation_and_the_tensors_it_names():
    weights = [
        helper.make_tensor("x_scale", FLOAT, [], [0.5]),
        helper.make_tensor("x_zero", 3, [], [0]),
    ]
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [value("x")], [value("y")], weights)
    for name in ("x", "y", "nowhere"):
        annotation = proto.graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x_scale")
    loaded = same(proto)
    assert "x_scale" in loaded.facts.kept
    assert loaded.facts.scalar(loaded.model.graph.initializers["x_scale"]) == 0.5


def test_training_information_is_carried_and_its_weights_are_no_constants():
    proto = model(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        [value("x")],
        [value("y")],
        [helper.make_tensor("w", FLOAT, [2], [1, 2])],
    )
    training = proto.training_info.add()
    step = [helper.make_node("Add", ["w", "one"], ["w_new"])]
    one = helper.make_tensor("one", FLOAT, [], [1])
    training.algorithm.CopyFrom(helper.make_graph(step, "step", [], [value("w_new")], [one]))
    training.update_binding.add(key="w", value="w_new")
    loaded = same(proto)
    weight = loaded.model.graph.initializers["w"]
    assert loaded.facts.is_overridable(weight)
    assert loaded.facts.constant(weight) is None


def test_device_configurations():
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"])], [value("x")], [value("y")], ir_version=11
    )
    proto.configuration.add(name="two", num_devices=2, device=["a", "b"])
    made = proto.graph.node[0].device_configurations.add(configuration_id="two", pipeline_stage=1)
    spec = made.sharding_spec.add(tensor_name="x", device=[0, 1])
    spec.sharded_dim.add(axis=0).simple_sharding.add(dim_value=1, num_shards=2)
    same(proto)


def test_nodes_out_of_order_are_sorted_in_all_graphs():
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[2] x) => (float[2] y)
      { y = If (c) <then_branch = t () => (float[2] r) { r = Neg (q)  q = Add (late, x) },
                    else_branch = e () => (float[2] r) { r = Identity (late) }>
        late = Abs (x) }""")
    loaded = same(proto, notes=1)
    made = io.to_proto(loaded)
    onnx.checker.check_model(made)
    assert [n.op_type for n in made.graph.node] == ["Abs", "If"]
    assert run(made, c=np.True_, x=np.float32([-1, 2]))[0].tolist() == [0, -4]


def test_ai_onnx_by_its_long_name():
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")], [value("x")], [value("y")]
    )
    del proto.opset_import[:]
    proto.opset_import.add(domain="ai.onnx", version=17)
    loaded = same(proto)
    assert loaded.facts.opset(next(iter(loaded.model.graph))) == 17
    onnx.checker.check_model(io.to_proto(loaded))


@pytest.mark.parametrize("ir_version", range(3, onnx.IR_VERSION + 1))
def test_every_ir_version(ir_version):
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x")],
        [value("y")],
        opset=7,
        ir_version=ir_version,
    )
    same(proto)


@pytest.mark.parametrize("opset", range(7, onnx.defs.onnx_opset_version() + 1))
def test_every_opset(opset):
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x")],
        [value("y")],
        opset=opset,
        ir_version=10,
    )
    loaded = same(proto)
    assert loaded.facts.opset(next(iter(loaded.model.graph))) == opset


def test_value_info_of_ir_9_functions_in_the_main_graph_stays():
    proto = parsed(FUNCTIONS)
    proto.graph.value_info.append(value("my::outer/t"))
    same(proto)


def test_onnx_ir_model_is_taken_and_left_alone():
    source = parsed(SUBGRAPHS)
    theirs = ir.from_proto(source)
    loaded = io.load(theirs)
    assert differences(source, io.to_proto(loaded)) == []
    next(iter(loaded.model.graph)).outputs[0].name = "changed"
    assert next(iter(theirs.graph)).outputs[0].name == "outer"
