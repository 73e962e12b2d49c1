"""`rewrite explain`: the command, its answers as JSON, what it is asked wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import parser

from rewrite.audit.explain.reasons import REASONS
from rewrite.cli import main

DOCS = Path(__file__).resolve().parents[3] / "docs"
MODEL = """<ir_version: 10, opset_import: ["" : 18]>
net (float[1,3,8,8] x, float[3,3,1,1] w2) => (float[1,3,8,8] y, float[1,3,8,8] u, float[1,3,8,8] h)
<float[3,3,1,1] w1 = {1,0,0,0,1,0,0,0,1}, float[3] g = {1,2,3}, float[3] b = {0,0,0}>
{
    c1 = Conv(x, w1)  n1 = BatchNormalization(c1, g, b, b, g)
    c2 = Conv(n1, w2)  y = BatchNormalization(c2, g, b, b, g)
    c3 = Conv(n1, w1)  u = BatchNormalization(c3, g, b, b, g)
    h = Sigmoid(c3)
}"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(MODEL), path)
    return path


def explained(model, capsys, *arguments):
    assert main(["explain", str(model), "--target", "generic", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_rule_at_a_node(model, capsys):
    found = explained(model, capsys, "--rule", "conv_batch_norm", "--node", "y")
    assert found["fate"] is None
    (miss,) = found["misses"]
    assert miss["state"] == "rewritten"
    assert [reason["code"] for reason in miss["reasons"]] == ["const"]
    assert miss["reasons"][0]["key"] == "const:W"
    file, line, column = miss["reasons"][0]["span"].rsplit(":", 2)
    text = Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert text[int(column) - 1 :].startswith("W: const")
    assert miss["matched"] == ["Conv `c2`", "BatchNormalization `y`"]


def test_a_node_inside_of_the_pattern(model, capsys):
    found = explained(model, capsys, "--rule", "conv_batch_norm", "--node", "c3")
    assert [r["code"] for r in found["misses"][0]["reasons"]] == ["uses"]
    assert found["misses"][0]["node"] == "u"


def test_a_node_that_was_taken(model, capsys):
    found = explained(model, capsys, "--rule", "conv_batch_norm", "--node", "c1")
    assert found["fate"] == {"code": "taken", "by": "conv_batch_norm", "with": ["n1"]}
    assert found["misses"][0]["reasons"] == []


def test_a_rule_in_the_whole_model(model, capsys):
    found = explained(model, capsys, "--rule", "conv_batch_norm")
    assert found["fired"] == 1
    told = {tuple(g["nodes"]): g["miss"]["reasons"][0]["would"] for g in found["groups"]}
    assert told == {
        ("y",): "`w2` were constant",
        ("u",): "`c3` were not also used by Sigmoid",
    }


def test_every_rule_at_a_node(model, capsys):
    found = explained(model, capsys, "--node", "y")
    by_rule = {miss["rule"]: miss for miss in found["misses"]}
    assert [r["code"] for r in by_rule["conv_batch_norm"]["reasons"]] == ["const"]
    counts = [len(miss["reasons"]) for miss in found["misses"]]
    assert counts == sorted(counts)


def test_the_input_is_not_touched(model, capsys):
    before = model.read_bytes()
    explained(model, capsys, "--node", "y")
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["--rule", "conv_batch_nrom"], "RW740", "conv_batch_norm"),
        (["--rule", "ms_gelu"], "RW740", "--rules onnxruntime"),
        (["--node", "c11"], "RW741", "`c1`"),
        ([], "RW002", ""),
    ],
)
def test_wrong_questions(model, capsys, arguments, code, hint):
    assert main(["explain", str(model), "--target", "generic", *arguments]) == 2
    told = capsys.readouterr().err
    assert f"error[{code}]" in told
    assert hint in told


def test_every_reason_code_is_on_the_page():
    page = (DOCS / "explain.md").read_text(encoding="utf-8")
    for code, words in REASONS.items():
        assert f"| `{code}` | {words} |\n" in page
