"""Models that pages are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

import rewrite
from rewrite.api import find_target, matcher_for
from rewrite.cli import report
from rewrite.graph import io
from rewrite.report.page import Run, page

# Conv and Relu become a group; Identity, `* 1` and the sum of constants go; CumSum stays behind.
SMALL = """
<ir_version: 8, opset_import: ["" : 18]>
net (float[1,4,8,8] x) => (float[1,4,8,8] y)
<float[4,4,1,1] w = {1,2,3,4, 5,6,7,8, 1,2,3,4, 5,6,7,8}, float half = {0.5}, int64 axis = {1}>
{
  c = Conv(x, w)
  r = Relu(c)
  one = Add(half, half)
  s = Mul(r, one)
  i = Identity(s)
  y = CumSum(i, axis)
}
"""


def small() -> onnx.ModelProto:
    return parser.parse_model(SMALL)


def page_of(
    model: onnx.ModelProto,
    target: str = "hexagon",
    name: str = "net.onnx",
    rules: Sequence[Path] = (),
) -> str:
    """The page of a run, as `apply --report` makes it."""
    result = rewrite.apply(model, target=target, rules=rules)
    chosen = find_target(target)
    matcher = matcher_for(chosen, rules)
    run = Run(io.load(model), result.loaded, result.journal, chosen, matcher)
    return page(report.build(result, name, None, None), run)


def without_times(text: str) -> str:
    """The page without the one element whose figures differ from run to run."""
    return re.sub(r'<div class="tile" id="times">.*?</div></div>', "", text)


def large(nodes: int = 5000) -> onnx.ModelProto:
    """Blocks as of a transformer: normalization, three products, a residual, Gelu in parts."""
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.normal(size=(16, 16)).astype(np.float32), "w")
    numbers = {"scale": 0.25, "root": 1.4142135, "one": 1.0, "half": 0.5}
    constants = [weight, *(numpy_helper.from_array(np.float32(v), k) for k, v in numbers.items())]
    made: list[onnx.NodeProto] = []

    def node(operator: str, *inputs: str, **attributes: object) -> str:
        block, place = divmod(len(made), 20)
        output = f"/encoder/layers.{block}/block/{operator}_{place}_output_0"
        made.append(helper.make_node(operator, inputs, [output], output[:-9], **attributes))
        return output

    x = "x"
    while len(made) < nodes:
        q, k, v = (node("MatMul", x, "w") for _ in range(3))
        scores = node("Mul", node("MatMul", q, node("Transpose", k, perm=[0, 2, 1])), "scale")
        attended = node("MatMul", node("Softmax", scores, axis=-1), v)
        x = node("Add", x, node("MatMul", node("Identity", attended), "w"))
        h = node("MatMul", node("Relu", x), "w")
        cdf = node("Add", node("Erf", node("Div", h, "root")), "one")
        gelu = node("Mul", node("Mul", h, cdf), "half")
        x = node("Add", x, node("MatMul", gelu, "w"))
    made.append(helper.make_node("Identity", [x], ["y"], "out"))
    shape = [1, 8, 16]
    graph = helper.make_graph(
        made,
        "large",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Parsed(HTMLParser):
    """A page taken apart: elements are closed in order, texts, links, identifiers."""

    VOID = frozenset({"meta", "input", "br"})
    OPTIONAL = frozenset({"td", "tr"})  # the end may be left out

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.inside: dict[str, list[str]] = {}
        self.handlers: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action")]
        self.ids += [value for name, value in attrs if name == "id"]
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] != tag and self.open[-1] in self.OPTIONAL:
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.open:
            self.inside.setdefault(self.open[-1], []).append(data)
