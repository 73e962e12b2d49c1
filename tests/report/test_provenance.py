"""What became of nodes and where they come from, on runs that can be followed by hand."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

import rewrite
from rewrite.api import find_target
from rewrite.graph import io
from rewrite.report.picture import Picture, picture
from rewrite.report.provenance import Provenance, trace

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '


def run(text: str, target: str = "generic") -> tuple[Picture, Picture, Provenance]:
    model = parser.parse_model(text if text.startswith("<") else HEAD + text)
    before = picture(io.load(model).facts)
    result = rewrite.apply(model, target=target)
    members = {group.node: group.members for group in result.journal.groups}
    after = picture(result.loaded.facts, find_target(target).domain, members)
    return before, after, trace(before, after, result.journal)


def fates(before: Picture, found: Provenance) -> dict[str, str]:
    """Name of a node before -> fate, with the rule where one took it."""
    told = {}
    for number, fate in found.fates.items():
        taken = found.taken_by.get(number) if fate == "rewritten" else None
        rule = "" if taken is None else f" {found.applications[taken].rule}"
        told[before.cells[number].key[1]] = fate + rule
    return told


def sources(before: Picture, after: Picture, found: Provenance) -> dict[str, tuple[str, list[str]]]:
    """Name of a node after -> kind of source, names before."""
    return {
        after.cells[number].key[1]: (
            source,
            sorted(before.cells[cell].key[1] for cell in found.origins.get(number, ())),
        )
        for number, source in found.sources.items()
    }


def test_every_fate():
    before, after, found = run("""
        g (float[2] x) => (float[2] y, float[2] z)
        <float half = {0.5}, float one = {1}>
        {
          k = Add(half, half)
          c = Constant <value_float = 2.7> ()
          a = Mul(x, one)
          b = Atan(a)  d = Mod<fmod = 1>(b, k)
          unused = Relu(x)
          y = Pow(d, c)
          twin = Exp(x)
          same = Exp(x)
          z = Add(twin, same)
        }
    """)
    told = fates(before, found)
    assert told["a"] == "rewritten multiply_one"
    assert told["k"] == "folded"
    assert told["c"] == "constant"
    assert told["unused"] == "gone"
    assert sorted((told["twin"], told["same"])) == ["gone", "kept"]
    assert told["y"] == told["b"] == "kept"
    assert sources(before, after, found)["y"] == ("kept", ["y"])


def test_a_chain_of_applications_is_followed_to_its_beginning():
    """Three Reshapes become one in two steps; the second step takes what the first made."""
    before, after, found = run("""
        g (float[2,6] x) => (float[12] y)
        <int64[2] s = {3, 4}, int64[2] t = {6, 2}, int64[1] u = {12}>
        { a = Reshape(x, s)  b = Reshape(a, t)  y = Reshape(b, u) }
    """)
    assert len(found.applications) == 2
    ((name, (source, origins)),) = sources(before, after, found).items()
    assert (name, source) == ("y", "made")
    assert origins == ["a", "b", "y"]
    assert set(fates(before, found).values()) == {"rewritten reshape_of_reshaped_written"}


def test_a_group_and_its_members():
    before, after, found = run(
        "g (float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] y) "
        "{ c = Conv(x, w)  r = Relu(c)  y = Identity(r) }",
        "hexagon",
    )
    ((group, cell),) = [(n, c) for n, c in enumerate(after.cells) if c.kind == "group"]
    inside = [(n, c) for n, c in enumerate(after.cells) if c.parent == group]
    assert [c.node.op_type for _, c in inside if c.node is not None] == ["Conv", "Relu"]
    application = found.applications[found.made_by[group]]
    assert (application.rule, application.added) == ("conv_chain", ("ConvPointwise",))
    assert sorted(before.cells[n].key[1] for n in application.before) == ["c", "r"]
    assert application.after == [group]
    kept = {before.cells[found.origins[n][0]].key[1] for n, _ in inside}
    assert kept == {"c", "r"}
    x, w = (after.cells[n].outputs[0] for n in range(2))
    assert after.cells[inside[0][0]].inputs == (x, w)  # the values of the call
    assert cell.outputs == after.cells[inside[1][0]].outputs


def test_subgraphs_with_the_same_names_are_not_mixed_up():
    before, after, found = run("""
        g (bool p, float[2] x) => (float[2] y) {
          y = If (p) <
            then_branch = left () => (float[2] t) { a = Identity(x)  t = Relu(a) },
            else_branch = right () => (float[2] t) { a = Exp(x)  t = Neg(a) }
          >
        }
    """)
    told = {
        (c.key, c.node.op_type): found.fates[n]
        for n, c in enumerate(before.cells)
        if c.node is not None
    }
    assert told[("left", "a"), "Identity"] == "rewritten"
    assert told[("right", "a"), "Exp"] == told[("right", "t"), "Neg"] == "kept"
    assert [c.title for c in after.cells if c.kind == "graph"] == ["then_branch", "else_branch"]
    box = next(n for n, c in enumerate(after.cells) if c.kind == "control")
    x = next(c.outputs[0] for c in after.cells if c.kind == "input" and c.title == "x")
    assert x in after.cells[box].inputs  # captured by the branches


FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[2] x) => (float[2] y) { a = local.twice(x)  y = local.twice(a) }
<domain: "local", opset_import: ["" : 17]>
twice (v) => (r) { h = Exp(v)  r = Add(h, h) }
"""


def test_a_function_is_a_box_at_every_call():
    before, after, found = run(FUNCTION)
    boxes = [n for n, c in enumerate(before.cells) if c.kind == "function"]
    assert len(boxes) == 2
    for box in boxes:
        inside = [c for c in before.cells if c.parent == box]
        assert [c.title for c in inside] == ["Exp", "Add"]
        assert inside[0].inputs == before.cells[box].inputs
        assert inside[1].outputs == before.cells[box].outputs
    assert all(number in found.sources for number, c in enumerate(after.cells) if c.node)


@pytest.mark.parametrize("target", ["hexagon", "host"])
def test_every_node_has_a_fate_and_every_cell_a_place(target):
    text = onnx.printer.to_text(parser.parse_model(FUNCTION))
    before, after, found = run(text, target)
    for made, known in ((before, found.fates), (after, found.sources)):
        assert [n for n, c in enumerate(made.cells) if c.node is not None] == sorted(known)
        for cell in made.cells:
            x, y = cell.corner
            assert x >= 0
            assert y >= 0
            assert x + cell.size[0] <= made.size[0]
            assert y + cell.size[1] <= made.size[1]
            if cell.parent >= 0:
                around = made.cells[cell.parent]
                assert around.corner[0] < x
                assert x + cell.size[0] < around.corner[0] + around.size[0]
                assert y + cell.size[1] < around.corner[1] + around.size[1]
