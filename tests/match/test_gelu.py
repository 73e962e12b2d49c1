"""Every spelling of GELU: operand orders, associations, shapes of constants, element types."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import onnx
import onnx.helper as h
import onnx.numpy_helper as nh
import onnx.reference
import pytest

from rewrite.graph import io
from rewrite.lang.pack import load_packs
from rewrite.match.matcher import Entry, Matcher, compile_pack, entry_of
from rewrite.match.rule import Match
from rewrite.match.vocabulary import vocabulary
from tests.match.support import ROOT, Model, ask_everyone, compile_text, rule_text

TANH = "prod{0.5, x, 1 + Tanh(prod{0.7978845608, x + prod{0.044715, cube(x)}})}"
ERF = "prod{0.5, x, 1 + Erf(x / 1.4142135624)}"
CUBE = "pattern cube(a) = Pow(a, 3) | prod{a, a, a}\n"

Nodes = list[tuple[str, str, str]]  # operator, first operand, second operand or ""


def both(op: str, a: str, b: str) -> list[tuple[str, str, str]]:
    """The two orders of a commutative operator."""
    return [(op, a, b), (op, b, a)]


def outer(gate: str) -> Iterator[Nodes]:
    """half · x · gate in its 3 associations and 4 orders; the result is the last node."""
    parts = ["half", "x", gate]
    for left_out in parts:
        first, second = (p for p in parts if p != left_out)
        for inner in both("Mul", first, second):
            for last in both("Mul", "?", left_out):
                yield [inner, last]


def tanh_spellings() -> Iterator[Nodes]:
    """2⁴ orders inside, 12 outside: 192."""
    cube = ("Pow", "x", "three")
    for scaled, added, weighted, gate in itertools.product(
        both("Mul", "c", "n0"),
        both("Add", "x", "n1"),
        both("Mul", "k", "n2"),
        both("Add", "one", "n4"),
    ):
        for product in outer("n5"):
            yield [cube, scaled, added, weighted, ("Tanh", "n3", ""), gate, *product]


def erf_spellings() -> Iterator[Nodes]:
    """2 orders inside, 12 outside: 24."""
    for gate in both("Add", "one", "n1"):
        for product in outer("n2"):
            yield [("Div", "x", "root"), ("Erf", "n0", ""), gate, *product]


def model(spelling: Nodes, shape: tuple[int, ...], dtype: type) -> onnx.ModelProto:
    numbers = {"half": 0.5, "one": 1.0, "three": 3.0, "c": 0.044715, "k": math.sqrt(2 / math.pi),
               "root": math.sqrt(2)}  # fmt: skip
    nodes = []
    for i, (op, a, b) in enumerate(spelling):
        before = f"n{i - 1}"
        operands = [before if v == "?" else v for v in (a, b) if v]
        last = i == len(spelling) - 1
        nodes.append(h.make_node(op, operands, ["y" if last else f"n{i}"]))
    used = {v for n in nodes for v in n.input}
    constants = [
        nh.from_array(np.full(shape, value, dtype), name)
        for name, value in numbers.items()
        if name in used
    ]
    kind = h.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = h.make_tensor_value_info
    graph = h.make_graph(
        nodes, "g", [value("x", kind, [2, 3, 4])], [value("y", kind, [2, 3, 4])], constants
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=10)


def read(spelling: Nodes, shape: tuple[int, ...], dtype: type) -> Model:
    loaded = io.load(model(spelling, shape, dtype))
    return Model(loaded.facts, loaded.model)


def test_there_are_192_and_24():
    assert len({str(s) for s in tanh_spellings()}) == 192
    assert len({str(s) for s in erf_spellings()}) == 24


def test_the_spellings_compute_gelu():
    """A few of them on the reference evaluator, against the formula in float64."""
    x = np.linspace(-4, 4, 24).reshape(2, 3, 4).astype(np.float32)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x.astype(float) ** 3)
    exact = {
        "tanh": 0.5 * x * (1 + np.tanh(inner)),
        "erf": 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    }
    for form, spellings in (("tanh", tanh_spellings()), ("erf", erf_spellings())):
        for spelling in list(spellings)[::11]:
            session = onnx.reference.ReferenceEvaluator(model(spelling, (), np.float32))
            np.testing.assert_allclose(session.run(None, {"x": x})[0], exact[form], atol=2e-6)


@cache
def pack() -> Matcher:
    found = load_packs(["fusion"], vocabulary(), [ROOT / "rules"])
    return Matcher(compile_pack(found))


@cache
def rules() -> dict[str, Entry]:
    tanh = compile_text(CUBE + rule_text(f"y = {TANH}", claim="approx(atol=1e-6)"))
    erf = compile_text(rule_text(f"y = {ERF}", claim="approx(atol=1e-6)"))
    return {"tanh": entry_of(tanh), "erf": entry_of(erf)}


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["f32", "f16"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)], ids=["scalar", "1", "1x1x1"])
@pytest.mark.parametrize("form", ["tanh", "erf"])
def test_one_rule_matches_every_spelling(form, shape, dtype):
    entry = rules()[form]
    for spelling in tanh_spellings() if form == "tanh" else erf_spellings():
        found = read(spelling, shape, dtype)
        said = ask_everyone(entry, found.node("y"), found.facts)
        assert isinstance(said, Match), spelling
        assert said.env["x"] is found.value("x")
        assert len(said.nodes) == len(spelling)
        chosen = pack().match("fuse", found.node("y"), found.facts)
        assert chosen is not None, spelling
        assert chosen.rule.name == f"gelu_{form}"


@pytest.mark.parametrize(
    ("name", "value"), [("half", 0.51), ("one", 1.01), ("three", 2.0), ("c", 0.0448), ("k", 0.79)]
)
def test_other_constants_do_not_match(name, value):
    entry = rules()["tanh"]
    for spelling in list(tanh_spellings())[::7]:
        proto = model(spelling, (), np.float32)
        for tensor in proto.graph.initializer:
            if tensor.name == name:
                tensor.CopyFrom(nh.from_array(np.array(value, np.float32), name))
        loaded = io.load(proto)
        found = Model(loaded.facts, loaded.model)
        assert not isinstance(ask_everyone(entry, found.node("y"), found.facts), Match)
        assert pack().match("fuse", found.node("y"), found.facts) is None or name == "half"
