"""Models as text, and the form in which they are compared."""

from __future__ import annotations

from random import Random

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from rewrite.audit.cases.canonical import canonical
from rewrite.audit.cases.words import MOST_ELEMENTS, NoTextError
from rewrite.audit.cases.writer import write_model
from rewrite.audit.examples import with_header


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(with_header(text, 18))


def form(text: str, imports: bool = False) -> tuple[str, ...]:
    return canonical(model(text), imports)


# --- the same but for names and order -----------------------------------------------------------

BASE = """g (float[2] x, float[2] z) => (float[2] y, float[2] w) <float[2] k = {1, 2}>
  { a = Relu(x)  b = Abs(z)  c = Add(a, b)  y = Mul(c, k)  w = Neg(a) }"""
IF = """g (bool c, float[2] x) => (float[2] y) { t = Abs(x)
  y = If(c) <then_branch = p () => (float[2] r) { s = Relu(t) r = Add(s, x) },
             else_branch = q () => (float[2] r) { r = Neg(t) }> }"""
FUNCTION = """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
  g (float[2] x) => (float[2] y) { y = own.Two(x) }
  <domain: "own", opset_import: ["" : 18]> Two (a) => (b) { t = Relu(a) b = Abs(t) }"""

LEAKY = "g (float[2] x) => (float[2] y) { y = LeakyRelu <alpha = 0.5> (x) }"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, BASE.replace("a =", "inner =").replace("(a", "(inner")),
        (BASE, BASE.replace("k", "constant")),
        (
            BASE,
            """h (float[2] x, float[2] z) => (float[2] y, float[2] w) <float[2] k = {1, 2}>
               { b = Abs(z)  a = Relu(x)  w = Neg(a)  c = Add(a, b)  y = Mul(c, k) }""",
        ),
        (IF, IF.replace("t = ", "u = ").replace("(t)", "(u)")),
        (IF, IF.replace(" r ", " out ").replace("(float[2] r)", "(float[2] out)")),
        (
            "g (float[2] x) => (float[2] y) { d = Abs(x) e = Neg(x) y = Relu(x) }",
            "g (float[2] x) => (float[2] y) { y = Relu(x) q = Neg(x) p = Abs(x) }",
        ),
        (FUNCTION, FUNCTION.replace("(a)", "(p)").replace("(b)", "(q)").replace("b =", "q =")),
        (LEAKY, LEAKY.replace("y = L", "[n] y = L").replace("alpha =", "alpha: float =")),
        (
            "g (float[4] x) => (float[4] y) { y = Conv <a = 1, b = 2> (x) }",
            "g (float[4] x) => (float[4] y) { y = Conv <b = 2, a = 1> (x) }",
        ),
    ],
)  # fmt: skip
def test_equal(one, other):
    assert one != other
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, BASE.replace("Add(a, b)", "Add(b, a)")),
        (BASE, BASE.replace("{1, 2}", "{2, 1}")),
        (BASE, BASE.replace("float[2] k", "double[2] k")),
        (BASE, BASE.replace("Neg(a)", "Neg(x)")),
        (BASE, BASE.replace("Neg(a)", "Neg(a2)").replace("{ a =", "{ a2 = Relu(x)  a =")),
        (BASE, BASE.replace("{ a =", "{ dead = Abs(x)  a =")),
        (BASE, BASE.replace("Relu", "Sigmoid")),
        (BASE, BASE.replace("Relu", "com.microsoft.Relu")),
        (BASE, BASE.replace("float[2] y,", "float[N] y,")),
        (BASE, BASE.replace("float[2] x,", "float[2] v,").replace("(x)", "(v)")),
        (BASE, BASE.replace("y =", "u =").replace("float[2] y", "float[2] u")),
        (BASE, BASE.replace("a = Relu(x)", "a, a2 = Relu(x)")),
        (BASE, BASE.replace("a = Relu(x)", 'a = Relu(x, "")')),
        (IF, IF.replace("Add(s, x)", "Add(x, s)")),
        (IF, IF.replace("Neg(t)", "Neg(x)")),
        (IF, IF.replace("then_branch", "other_branch")),
        (FUNCTION, FUNCTION.replace("Abs(t)", "Abs(a)")),
        (FUNCTION, FUNCTION.replace("Two", "Three")),
        (LEAKY, LEAKY.replace("0.5", "0.25")),
        (
            "g (float[2] x, float k = {1}) => (float[2] y) { y = Mul(x, k) }",
            "g (float[2] x) => (float[2] y) <float k = {1}> { y = Mul(x, k) }",
        ),
    ],
)  # fmt: skip
def test_different(one, other):
    assert one != other
    assert form(one) != form(other)


def test_a_value_computed_once_is_not_one_computed_twice():
    once = "g (float[2] x) => (float[2] y) { a = Abs(x) y = Mul(a, a) }"
    twice = "g (float[2] x) => (float[2] y) { a = Abs(x) b = Abs(x) y = Mul(a, b) }"
    assert form(once) != form(twice)


def test_long_constants_differ_in_any_element():
    def text(last: int) -> str:
        numbers = ", ".join(["1"] * 99 + [str(last)])
        return f"g () => (int64[100] y) <int64[100] k = {{{numbers}}}> {{ y = Identity(k) }}"

    assert form(text(1)) != form(text(2))
    assert len(form(text(1))[-1]) < 100


def test_nodes_without_outputs():
    made = model(BASE)
    made.graph.node.append(helper.make_node("Print", ["x"], []))
    assert canonical(made, imports=False)[-1] == " = Print(x)"


def test_opsets_matter_where_asked():
    old, new = with_header(BASE, 13), with_header(BASE, 18)
    assert form(old) == form(new)
    assert form(old, imports=True) != form(new, imports=True)


def test_a_long_chain_takes_no_stack():
    steps = " ".join(f"v{i + 1} = Relu(v{i})" for i in range(5000))
    text = f"g (float[2] v0) => (float[2] v5000) {{ {steps} }}"
    assert len(form(text)) == 5002


# --- text and back ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        BASE,
        IF,
        FUNCTION,
        """g (float[2,N,?] x, float s, int64[] any, seq(float[2]) q) => (float[2,N,?] y)
           { y = Relu(x) }""",
        'g (float[2] x) => (float[2] "a/b.c") { "a/b.c" = Relu(x) }',
        'g (float[2] x) => (float[1] a, float[1] b) { a, "", b = Split <n = 3> (x, "", x) }',
        """g () => (float[2] y) { y = Foo <i = 1, f = 2.0, s = "q\\"uo\\\\te", n = [1, -2],
             g = [1.5, inf], t = ["a", "b"], e: ints = [], d: floats = [], k = float[2] {1, 0.1},
             z: float = -0.0, r: string = ""> () }""",
        """<ir_version: 9, opset_import: ["" : 18, "own" : 2]>
          g (float[2] x) => (float[2] y) { y = own.Scaled <alpha = 2.0> (x) }
          <domain: "own", opset_import: ["" : 18]> Scaled <alpha> (a) => (b)
          { k = Constant <value_float: float = @alpha> () b = Mul(a, k) }""",
    ],
)  # fmt: skip
def test_written_and_read(text):
    """ONNX's parser gives back the same nodes, inputs and outputs."""
    before = model(text)
    written = write_model(before, 18, header=False)
    after = parser.parse_model(with_header(written, 18))
    assert list(after.graph.node) == list(before.graph.node)
    assert list(after.graph.input) == list(before.graph.input)
    assert list(after.graph.output) == list(before.graph.output)
    assert list(after.functions) == list(before.functions)
    assert list(after.opset_import) == list(before.opset_import)
    assert write_model(after, 18, header=False) == written


@pytest.mark.parametrize(
    "dtype",
    [
        "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8",
        "uint8",
        "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "int4", "uint4", "int2",
        "complex64", "complex128",
    ],
)  # fmt: skip
def test_constants_of_every_type_keep_their_bits(dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = np.array([0, 1, 1, 0, 1], np.int8)
    if dtype.startswith(("float", "bfloat", "complex")):
        values = np.array([0.1, -0.0, np.inf, np.nan, 1e-7])
    elif dtype in ("int64", "uint64", "int32", "uint32"):
        values = np.array([np.iinfo(kind).max, np.iinfo(kind).min, 0, 1, 7], kind)
    tensor = numpy_helper.from_array(values.astype(kind), "k")
    node = helper.make_node("Identity", ["k"], ["y"])
    output = helper.make_tensor_value_info("y", tensor.data_type, [5])
    before = helper.make_model(
        helper.make_graph([node], "g", [], [output], [tensor]),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    text = write_model(before, 18, header=True)
    after = numpy_helper.to_array(parser.parse_model(text).graph.initializer[0])
    assert after.dtype == values.astype(kind).dtype
    assert after.tobytes() == numpy_helper.to_array(tensor).tobytes()


def test_a_header_only_where_it_says_more():
    assert write_model(model(BASE), 18, header=False).startswith("g (")
    assert write_model(model(BASE), 17, header=False).startswith("<ir_version: 10, opset_import: [")
    assert write_model(model(BASE), 18, header=True).startswith('<ir_version: 10, opset_import: ["')


def test_long_lists_of_constants_are_broken():
    constants = ", ".join(f"float[2] constant_number_{i} = {{1, 2}}" for i in range(4))
    text = write_model(model(BASE.replace("<", f"<{constants}, ")), 18, header=False)
    assert max(map(len, text.splitlines())) <= 96
    assert "\n float[2] constant_number_1 = {1, 2},\n" in text


def sparse() -> onnx.ModelProto:
    made = model(BASE)
    values = numpy_helper.from_array(np.array([1.0], np.float32), "s")
    indices = numpy_helper.from_array(np.array([0], np.int64), "i")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    return made


def of_many() -> onnx.ModelProto:
    made = model(BASE)
    array = np.zeros(MOST_ELEMENTS + 1, np.float32)
    made.graph.initializer.append(numpy_helper.from_array(array, "many"))
    return made


def with_attribute(value: object) -> onnx.ModelProto:
    made = model(BASE)
    made.graph.node[0].attribute.append(helper.make_attribute("a", value))
    return made


def of_domain(name: str) -> onnx.ModelProto:
    made = model(BASE)
    made.graph.node[0].domain = name
    return made


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: of_domain("rewrite.cortex-m"), "the domain `rewrite.cortex-m`"),
        (sparse, "a sparse constant"),
        (of_many, f"more than {MOST_ELEMENTS} elements"),
        (lambda: with_attribute(b"\xff"), "not UTF-8"),
        (lambda: with_attribute("a\nb"), "cannot be shown"),
        (lambda: with_attribute(helper.make_tensor_type_proto(1, [2])), "of type type_proto"),
        (lambda: with_attribute([model(BASE).graph]), "of type graphs"),
    ],
)
def test_what_has_no_words(wrong, words):
    with pytest.raises(NoTextError, match=words):
        write_model(wrong(), 18, header=True)
    assert canonical(wrong(), imports=True) == canonical(wrong(), imports=True)


def drawn(random: Random) -> list[tuple[str, str, tuple[str, ...]]]:
    """Nodes of a random graph: output, operator, operands."""
    values = ["x", "z", "k"]
    nodes = []
    for number in range(random.randrange(2, 14)):
        operator, count = random.choice([("Abs", 1), ("Neg", 1), ("Add", 2), ("Mul", 2)])
        nodes.append((f"v{number}", operator, tuple(random.choices(values, k=count))))
        values.append(f"v{number}")
    return nodes


def shuffled(nodes: list[tuple[str, str, tuple[str, ...]]], random: Random) -> list:
    """Another order in which every node stands behind those that it needs."""
    left, done = list(nodes), {"x", "z", "k"}
    found = []
    while left:
        ready = [node for node in left if set(node[2]) <= done]
        chosen = random.choice(ready)
        left.remove(chosen)
        done.add(chosen[0])
        found.append(chosen)
    return found


def rendered(nodes: list, names: dict[str, str], outputs: list[str]) -> str:
    def name(value: str) -> str:
        return names.get(value, value)

    lines = [f"{name(out)} = {op}({', '.join(map(name, ins))})" for out, op, ins in nodes]
    outs = ", ".join(f"float[2] {name(value)}" for value in outputs)
    head = f"g (float[2] x, float[2] z) => ({outs}) <float[2] {name('k')} = {{1, 2}}>"
    return f"{head} {{ {' '.join(lines)} }}"


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_in_another_order_with_other_names(seed):
    """And with one operand of a node that counts changed, another graph."""
    random = Random(seed)
    nodes = drawn(random)
    outputs = sorted({nodes[-1][0], random.choice(nodes)[0]})
    inner = [out for out, _, _ in nodes if out not in outputs] + ["k"]
    names = dict(zip(inner, random.sample([f"n{i}" for i in range(30)], len(inner)), strict=True))
    plain = form(rendered(nodes, {}, outputs))
    assert form(rendered(shuffled(nodes, random), names, outputs)) == plain
    out, operator, ins = nodes[-1]
    nodes[-1] = (out, operator, ("z" if ins[0] != "z" else "x", *ins[1:]))
    assert form(rendered(nodes, {}, outputs)) != plain
