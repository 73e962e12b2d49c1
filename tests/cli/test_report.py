"""What the report of `apply` says about a run written down by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import get_args

from rewrite.audit.verify import Verification
from rewrite.cli import report
from rewrite.engine.journal import (
    Applied,
    Cleaned,
    Cycle,
    Folded,
    Grouped,
    Journal,
    Reason,
    Refused,
    Stop,
)
from rewrite.engine.ledger import EXACT, Bound, Ledger
from rewrite.report import words

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
        groups=(
            Grouped("ConvPointwise", "conv_pointwise", "g", "a", ("Conv", "Relu")),
            Grouped("ConvPointwise_2", "conv_pointwise", "g", "b", ("Conv", "Relu")),
            Grouped("ConvPointwise_3", "conv_pointwise", "g", "c", ("Conv", "Add")),
            Grouped("ConvPointwise_2", "conv_pointwise", "g", "d", ("Conv", "Relu")),
        ),
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
        "seconds": {"load": 0.123456, "save": 0.5, "total": 1.5},
    }
    loaded = SimpleNamespace(notes=["nodes were out of order; they were sorted"])
    return SimpleNamespace(journal=run, ledger=Ledger.of(run), stats=stats, loaded=loaded)


VERIFIED = Verification(
    "equal", 3, "onnxruntime 1", bound=Bound("equal", rtol=2e-5), conditioning=2, used=0.025
)


def test_json_has_what_users_rely_on():
    found = json.loads(report.to_json(report.build(result(), "m.onnx", "o.onnx", VERIFIED)))
    assert found["target"] == "hexagon"
    assert (found["nodes_before"], found["nodes_after"]) == (10, 6)
    assert (found["kernels_before"], found["kernels_after"]) == (10, 5)
    assert found["fired"] == {"conv_bn": 2, "conv_pointwise": 4, "drop_identity": 1}
    assert len(found["groups"]) == 4
    assert found["groups"][0] == {
        "name": "ConvPointwise",
        "rule": "conv_pointwise",
        "node": "a",
        "nodes": ["Conv", "Relu"],
    }
    assert found["ledger"]["class"] == "equal"
    assert found["ledger"]["rtol"] == 2e-5
    assert found["unsupported"][0]["node"] == "z"
    assert found["refused"][1] == {"rule": "r", "node": "n2", "reason": "shape not shown"}
    assert (found["stop"]["reason"], found["stop"]["rounds"]) == ("fixpoint", 2)
    assert found["seconds"] == {"load": 0.1235, "save": 0.5, "total": 1.5}  # saving counted once
    assert found["verified"]["status"] == "equal"
    assert found["folded"] == {"Add": 1}
    assert found["cleaned"] == {"dead": 4}
    assert found["notes"] == ["nodes were out of order; they were sorted"]


def test_text_says_it_in_order():
    lines = list(report.text(report.build(result(), "m.onnx", None, VERIFIED)))
    assert lines[0] == "m.onnx -> not written for hexagon"
    assert lines[1].split() == ["nodes", "10", "->", "6"]
    assert lines[2].split() == ["kernels", "10", "->", "5"]
    assert lines[4].split() == ["4", "conv_pointwise", "exact"]
    assert lines[5].split() == ["2", "conv_bn", "equal(rtol=1e-05)"]
    start = lines.index("groups")
    assert lines[start + 1 : start + 4] == [
        "    3  ConvPointwise: Conv + Relu (2 functions)",
        "    1  ConvPointwise: Conv + Add",
        "tidied      1 node computed, 4 unused nodes removed",
    ]
    assert "note        nodes were out of order; they were sorted" in lines
    assert "    2  r: shape not shown" in lines
    assert "    1  Loop is not an operator of <x>" in lines
    assert "cycle       x -> y -> x" in lines
    assert "ledger      equal(rtol=2e-05)" in lines
    assert lines[-1] == (
        "verified    equal within equal(rtol=2e-05) times 2 (conditioning) "
        "in 3 runs with onnxruntime 1, the largest difference 2.5 % of that"
    )


def test_verdicts():
    def verdict(*arguments, **keywords):
        built = report.build(result(), "m", None, Verification(*arguments, **keywords))
        return words.verdict(built["verified"])

    assert verdict("equal", 2, "rt") == "equal bit for bit in 2 runs with rt"
    same = "equal within equal(rtol=1e-05) in 1 run with rt, without any difference"
    assert verdict("equal", 1, "rt", bound=RTOL) == same
    assert verdict("different", 2, "rt", reason="y off") == "DIFFERENT in 2 runs with rt: y off"
    assert verdict("different", 0, "rt", reason="no") == "DIFFERENT with rt: no"
    assert verdict("unverified", reason="no runtime") == "not compared: no runtime"


def test_why_a_run_ended():
    assert words.stopped({"reason": "fixpoint", "rounds": 1}) == "fixpoint after 1 round"
    found = {
        reason: words.stopped({"reason": reason, "rounds": 2})
        for reason in get_args(Reason)
        if reason != "fixpoint"
    }
    assert all(text.startswith("stopped b") for text in found.values()), found
    assert found["limit_time"] == "stopped by the limit on time after 2 rounds"


def test_every_kind_of_tidying_is_told_in_words():
    counts = {"common": 1, "dead": 2, "duplicate": 1, "inlined": 3, "lifted": 1}
    assert words.tidied({"folded": {}, "cleaned": counts}) == [
        "1 equal node merged",
        "2 unused nodes removed",
        "1 equal constant merged",
        "3 function calls inlined",
        "1 Constant node made an initializer",
    ]


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
        "folded", "applied", "applied", "applied", "refused", "refused", "group", "group", "group",
        "group", "cleaned", "cycle", "stop",
    ]  # fmt: skip
    assert events[1]["bound"] == {"kind": "equal", "lsb": 0, "rtol": 1e-5, "atol": 0.0}
