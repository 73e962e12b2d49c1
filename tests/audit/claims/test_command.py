"""The command: what it prints, what it writes, its exit status."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from rewrite.cli import main

PLANTED = str(Path(__file__).parent / "planted")


@pytest.fixture
def verify(capsys, tmp_path):
    def run(*arguments):
        out = ("--out", str(tmp_path / "found"), "--target", "generic", "-j", "1")
        status = main(["verify", *arguments, *out])
        return status, *capsys.readouterr()

    return run


def test_rules_that_hold(verify):
    status, out, err = verify(PLANTED, "--rule", "not_not", "--instances", "5", "-v")
    assert status == 0
    assert re.search(r"^planted::not_not \(exact\): .*\b5 instances, \d+ runs", out)
    assert "1 of 1 rules hold: 1 " in out
    assert err == ""


def test_a_refuted_rule(verify, tmp_path):
    status, out, _ = verify(
        PLANTED, "--rule", "clip_upside_down", "--json", str(tmp_path / "a.json")
    )
    assert status == 1
    assert "error[RW730]: `clip_upside_down` is refuted: " in out
    place = tmp_path / "found" / "planted-clip_upside_down.onnx"
    assert f"counterexample in {place}" in out
    before = onnx.load(place)
    after = onnx.load(place.with_suffix(".after.onnx"))
    arrays = np.load(place.with_suffix(".npz"))
    assert [n.op_type for n in before.graph.node] == ["Clip"]
    assert [n.op_type for n in after.graph.node] == ["Min", "Max"]
    # the numbers that are kept are those of the two models, by another runtime
    given = {"x": arrays["input x"]}
    for model, name in ((before, "before y"), (after, "after y")):
        (value,) = ReferenceEvaluator(model).run(None, given)
        assert np.array_equal(value, arrays[name])
    assert "y = Clip (x, l, h)" in place.with_suffix(".txt").read_text()
    (row,) = json.loads((tmp_path / "a.json").read_text())["rules"]
    assert (row["status"], row["code"]) == ("refuted", "RW730")
    assert row["saved"] == str(place)


def test_json_alone_on_stdout(verify):
    status, out, _ = verify(PLANTED, "--rule", "not_not", "--instances", "2", "--json", "-")
    assert status == 0
    (row,) = json.loads(out)["rules"]
    assert (row["rule"], row["code"], row["claim"]) == ("not_not", None, "exact")
    assert row["fired"] == 2


def test_a_rule_that_never_fires(verify, tmp_path):
    folder = tmp_path / "silent"
    folder.mkdir()
    (folder / "pack.yaml").write_text("name: silent\ndoc: It does not fire.\nopset: [13, 20]\n")
    (folder / "a.rules").write_text(
        'rule never in clean {\n"""No."""\nmatch y = Relu(Relu(x)) where 1 == 2\n'
        "emit y = Relu(x)\nclaim exact\n"
        'example fires plain """g (float[2] x) => (float[2] y) { a = Relu(x)  y = Relu(a) }"""\n'
        'example rejects one """g (float[2] x) => (float[2] y) { y = Relu(x) }"""\n}\n'
    )
    status, out, _ = verify(str(folder))
    assert status == 1
    assert "error[RW731]: `never` fires on no model" in out


def test_a_rule_whose_models_nothing_runs(verify, tmp_path):
    # onnxruntime has BiasAdd for other devices only, and the reference evaluator has none
    folder = tmp_path / "unrun"
    folder.mkdir()
    (folder / "pack.yaml").write_text("name: unrun\ndoc: Nobody runs it.\nopset: [13, 20]\n")
    model = (
        "g (float[1,4,320] x, float[320] b, float[1,4,320] s) => (float[1,4,320] y)\n"
        "{ v = com.microsoft.BiasAdd(x, b, s)  a = Relu(v)  "
    )
    (folder / "a.rules").write_text(
        'rule twice in clean {\n"""Once is enough."""\n'
        "match v = shared ms.BiasAdd(x, b, s)\n y = Relu(Relu(v))\nemit y = Relu(v)\nclaim exact\n"
        f'example fires plain """{model} y = Relu(a) }}"""\n'
        f'example rejects one """{model} y = Abs(a) }}"""\n}}\n'
    )
    status, out, _ = verify(str(folder), "--instances", "2")
    assert status == 1
    assert "error[RW734]: `twice` cannot be run: onnxruntime: " in out


def test_no_rules(verify):
    # both only extend others
    status, _, err = verify("quant-cortex-m", "quant-x86")
    assert status == 1
    assert "error[RW735]: there are no rules to verify" in err


def test_a_counterexample_that_cannot_be_written(verify, tmp_path):
    (tmp_path / "found").write_text("a file")
    status, _, err = verify(PLANTED, "--rule", "minus_zero")
    assert status == 2
    assert "RW003" in err


@pytest.mark.parametrize("arguments", [["--instances", "0"], ["--seconds", "x"], ["-j", "0"]])
def test_numbers_that_are_none(verify, arguments):
    status, _, err = verify(PLANTED, *arguments)
    assert status == 2
    assert "RW002" in err
