"""What the report of `apply` says about a run written down by hand."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from types import SimpleNamespace

from rewrite.audit.verify import Verification
from rewrite.cli import report, report_html
from rewrite.engine.journal import Applied, Cleaned, Cycle, Folded, Grouped, Journal, Refused, Stop
from rewrite.engine.ledger import EXACT, Bound, Ledger

RTOL = Bound("equal", rtol=1e-5)


def journal() -> Journal:
    return Journal(
        applied=(
            Applied(
                "conv_bn", "fold", RTOL, "g", ("a",), ("Conv", "BatchNormalization"), ("Conv",)
            ),
            Applied(
                "conv_bn", "fold", RTOL, "g", ("b",), ("Conv", "BatchNormalization"), ("Conv",)
            ),
            Applied("drop_identity", "clean", EXACT, "g", ("c",), ("Identity",), ()),
        ),
        refused=(
            Refused("r", "fuse", "g", "n1", "shape not shown"),
            Refused("r", "fuse", "g", "n2", "shape not shown"),
        ),
        folded=(Folded("Add", "g", ("k",), 12, EXACT, "exact arithmetic"),),
        groups=(Grouped("ConvPointwise", "conv_pointwise", "g", "a", ("Conv", "Relu")),),
        cleaned=(Cleaned("dead", 4),),
        cycles=(Cycle(("x", "y", "x"), ("n1",)),),
        stop=Stop("fixpoint", 2, 3),
        seconds={"match": 0.25},
    )


def result() -> SimpleNamespace:
    run = journal()
    stats = {
        "target": "hexagon",
        "nodes_before": 10,
        "nodes_after": 6,
        "kernels_before": 10,
        "kernels_after": 5,
        "unsupported": [{"node": "z", "operator": "Loop", "reason": "is not an operator of <x>"}],
        "seconds": {"load": 0.123456, "total": 1.5},
    }
    return SimpleNamespace(journal=run, ledger=Ledger.of(run), stats=stats)


VERIFIED = Verification(
    "equal", 3, "onnxruntime 1", bound=Bound("equal", rtol=2e-5), conditioning=2
)


def test_json_has_what_users_rely_on():
    found = json.loads(report.to_json(report.build(result(), "m.onnx", "o.onnx", VERIFIED)))
    assert found["target"] == "hexagon"
    assert (found["nodes_before"], found["nodes_after"]) == (10, 6)
    assert (found["kernels_before"], found["kernels_after"]) == (10, 5)
    assert found["fired"] == {"conv_bn": 2, "conv_pointwise": 1, "drop_identity": 1}
    assert found["groups"] == [
        {"name": "ConvPointwise", "rule": "conv_pointwise", "node": "a", "nodes": ["Conv", "Relu"]}
    ]
    assert found["ledger"]["class"] == "equal"
    assert found["ledger"]["rtol"] == 2e-5
    assert found["unsupported"][0]["node"] == "z"
    assert found["refused"][1] == {"rule": "r", "node": "n2", "reason": "shape not shown"}
    assert (found["stop"]["reason"], found["stop"]["rounds"]) == ("fixpoint", 2)
    assert found["seconds"] == {"load": 0.1235, "total": 1.5}
    assert found["verified"]["status"] == "equal"
    assert found["folded"] == {"Add": 1}
    assert found["cleaned"] == {"dead": 4}


def test_text_says_it_in_order():
    lines = list(report.text(report.build(result(), "m.onnx", None, VERIFIED)))
    assert lines[0] == "m.onnx -> not written for hexagon"
    assert lines[1].split() == ["nodes", "10", "->", "6"]
    assert lines[2].split() == ["kernels", "10", "->", "5"]
    assert lines[4].split() == ["2", "conv_bn", "equal(rtol=1e-05)"]
    assert "    1  ConvPointwise: Conv + Relu" in lines
    assert "    2  r: shape not shown" in lines
    assert "    1  Loop is not an operator of <x>" in lines
    assert "cycle       x -> y -> x" in lines
    assert "ledger      equal(rtol=2e-05)" in lines
    assert lines[-1] == (
        "verified    equal within equal(rtol=2e-05), conditioning 2, in 3 runs with onnxruntime 1"
    )


def test_verdicts():
    def verdict(*arguments, **keywords):
        built = report.build(result(), "m", None, Verification(*arguments, **keywords))
        return report.verdict(built["verified"])

    assert verdict("equal", 2, "rt") == "equal bit for bit in 2 runs with rt"
    assert verdict("different", 2, "rt", reason="y off") == "DIFFERENT in 2 runs with rt: y off"
    assert verdict("unverified", reason="no runtime") == "not compared: no runtime"


def test_long_lists_are_cut_on_the_terminal_only():
    many = result()
    many.stats["unsupported"] = [
        {"node": str(i), "operator": f"Op{i}", "reason": "no"} for i in range(report.MOST_ROWS + 3)
    ]
    built = report.build(many, "m", None, None)
    assert len(built["unsupported"]) == report.MOST_ROWS + 3
    assert "       and 3 more kinds, in --json" in list(report.text(built))


def test_trace_is_one_json_object_a_line():
    events = [json.loads(line) for line in report.trace(result())]
    assert [e["event"] for e in events] == [
        "folded", "applied", "applied", "applied", "refused", "refused", "group", "cleaned",
        "cycle", "stop",
    ]  # fmt: skip
    assert events[1]["bound"] == {"kind": "equal", "lsb": 0, "rtol": 1e-5, "atol": 0.0}


class Page(HTMLParser):
    """Collects the text of a page and checks that its elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_page_is_whole_self_contained_and_escaped():
    page = Page()
    page.feed(report_html.page(report.build(result(), "<m>.onnx", "o.onnx", VERIFIED)))
    assert page.open == []
    assert page.links == []
    assert "<m>.onnx for hexagon" in page.texts
    assert "is not an operator of <x>" in page.texts
    assert {"conv_bn", "ConvPointwise", "Conv + Relu", "Ledger: equal(rtol=2e-05)"} <= set(
        page.texts
    )
