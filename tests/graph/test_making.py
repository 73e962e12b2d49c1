"""Nodes made field by field are the nodes that onnx-ir's constructor makes."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from rewrite.graph import making

ALPHA = ir.AttrFloat32("alpha", 0.5)


def _given(domain: str, overload: str) -> dict[str, object]:
    return {
        "name": "n",
        "version": 17,
        "overload": overload,
        "doc_string": "text",
        "metadata_props": {"key": "value"},
    }


@pytest.mark.parametrize("domain", ["", "ai.onnx", "com.microsoft"])
@pytest.mark.parametrize("overload", ["", "second"])
def test_every_field_is_the_constructors(domain: str, overload: str) -> None:
    x, y = ir.Value(name="x"), ir.Value(name="y")
    operands = (x, None, y, x)
    rest = _given(domain, overload)
    theirs_out = [ir.Value(name="a"), ir.Value(name="b")]
    ours_out = [ir.Value(name="a"), ir.Value(name="b")]
    theirs = ir.Node(domain, "Op", operands, [ALPHA], outputs=theirs_out, **rest)  # type: ignore[arg-type]
    ours = making.node(domain, "Op", operands, {"alpha": ALPHA}, ours_out, **rest)  # type: ignore[arg-type]
    different = {"_outputs", "_attributes"}
    for field in sorted({slot for kind in ir.Node.__mro__ for slot in _slots(kind)} - different):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert vars(ours.attributes).keys() == vars(theirs.attributes).keys()
    assert ours.attributes.data == theirs.attributes.data
    assert ours.attributes._owner is ours
    assert ours.outputs == tuple(ours_out)
    assert [(v.producer(), v.index()) for v in ours_out] == [(ours, 0), (ours, 1)]
    for value in (x, y):
        uses = [use for use in value.uses() if use.node is ours]
        expected = [use for use in value.uses() if use.node is theirs]
        assert [use.idx for use in uses] == [use.idx for use in expected]
        assert {type(use) for use in value.uses()} == {type(expected[0])}


def _slots(kind: type) -> tuple[str, ...]:
    found = kind.__dict__.get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)


def test_nodes_behave_in_a_graph() -> None:
    x = ir.Value(name="x")
    first = making.node("", "Relu", [x], {}, [ir.Value(name="y")], "first")
    second = making.node("", "Relu", first.outputs, {}, [ir.Value(name="z")], "second")
    graph = ir.Graph([x], second.outputs, nodes=[first, second], name="g")
    assert list(graph) == [first, second]
    second.replace_input_with(0, x)
    assert not first.outputs[0].uses()
    graph.remove(first, safe=True)
    assert list(graph) == [second]
    second.attributes.add(ALPHA)
    assert second.attributes["alpha"] is ALPHA
