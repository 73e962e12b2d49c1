"""`rewrite diff`: two packs, two models, exit statuses and messages."""

from __future__ import annotations

import json

import onnx
import pytest

from rewrite.cli import main

TEXT = """
<ir_version: 8, opset_import: ["" : 18]>
net (uint8[64] x) => (uint8[64] y) <float s = {0.5}, uint8 z = {1}, float third = {0.25}>
{
  d = DequantizeLinear(x, s, z)
  m = Mul(d, third)
  y = QuantizeLinear(m, s, z)
}
"""
PACK = "name: NAME\ndoc: A pack.\nopset: [13, 21]\nexample_opset: 18\n"
RULE = '''rule NAME in clean {
  """Nothing is done."""
  match y = Identity(x)
  emit  y = x
  claim exact
  example fires one """a (float[2] x) => (float[2] y) { y = Identity(x) }"""
  example rejects another """a (float[2] x) => (float[2] y) { y = Relu(x) }"""
}
'''


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(TEXT), "a.onnx")
    onnx.save(onnx.parser.parse_model(TEXT.replace("third = {0.25}", "third = {0.5}")), "b.onnx")
    loop = TEXT.replace("m = Mul(d, third)", "m = Relu(d)")
    onnx.save(onnx.parser.parse_model(loop), "c.onnx")


def pack(folder, name, rules):
    folder.mkdir()
    (folder / "pack.yaml").write_text(PACK.replace("NAME", name))
    text = "\n".join(RULE.replace("NAME", rule) for rule in rules)
    (folder / "all.rules").write_text(text)


def test_a_model_and_itself(models, capsys):
    assert main(["diff", "a.onnx", "a.onnx", "--numeric"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "a.onnx -> a.onnx"
    assert out[-1].startswith("equal")


def test_operators_that_one_has_more_often(models, capsys):
    assert main(["diff", "a.onnx", "c.onnx"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "a.onnx -> c.onnx",
        "nodes       3 -> 3",
        "operators",
        "    Mul   1 -> 0",
        "    Relu  0 -> 1",
    ]


def test_numbers_that_differ_are_status_1(models, capsys):
    assert main(["diff", "a.onnx", "b.onnx", "--numeric", "--json", "-", "--runs", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["operators"] == {}
    numbers = report["numbers"]
    assert numbers["equal"] is False
    assert numbers["first"]["name"] == "y"
    # y = z + (x - z) / 4 against z + (x - z) / 2: 64 codes, at most 254 / 4 apart
    assert 0 < numbers["first"]["lsb"] <= 64
    assert sum(numbers["first"]["histogram"].values()) <= 64
    assert all(int(steps) >= 0 for steps in numbers["first"]["histogram"])
    assert [row["name"] for row in numbers["outputs"]] == ["y"]


def test_the_same_seed_gives_the_same_bytes(models, capsys):
    texts = []
    for _ in range(2):
        main(["diff", "a.onnx", "b.onnx", "--numeric", "--seed", "5"])
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    main(["diff", "a.onnx", "b.onnx", "--numeric", "--seed", "6"])
    assert capsys.readouterr().out != texts[0]


def test_packs(tmp_path, capsys):
    pack(tmp_path / "old", "old", ["stays", "goes"])
    pack(tmp_path / "new", "new", ["stays", "comes"])
    text = (tmp_path / "new" / "all.rules").read_text()
    (tmp_path / "new" / "all.rules").write_text(text.replace("Identity(x)", "Identity( x )", 1))
    status = main(["diff", str(tmp_path / "old"), str(tmp_path / "new")])
    assert status == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["old -> new", "rules       2 -> 2"]
    assert "    comes  exact" in lines
    assert "    goes  exact" in lines


def test_a_pack_and_itself(capsys):
    assert main(["diff", "algebra", "algebra"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the same rules"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["a.onnx", "algebra"], "RW002"),
        (["algebra", "algebra", "--numeric"], "RW002"),
        (["a.onnx", "a.onnx", "--runtime", "gpu"], "RW002"),
        (["a.onnx", "a.onnx", "--runs", "0"], "RW002"),
        (["a.onnx", "a.onnx", "--seed", "-1"], "RW002"),
        (["a.onnx", "nothing.onnx"], "RW501"),
        (["a.onnx", "\0"], "RW501"),
        (["a.onnx", "a.onnx", "--json", "no/such/place.json"], "RW003"),
    ],
)
def test_bad_usage_is_one_message(models, arguments, code, capsys):
    assert main(["diff", *arguments]) == 2
    err = capsys.readouterr().err
    assert f"[{code}]" in err
    assert "Traceback" not in err


def test_models_that_cannot_be_run_are_told(models, capsys):
    text = TEXT.replace("s = {0.5}", "s = {0}")
    onnx.save(onnx.parser.parse_model(text), "zero.onnx")
    assert main(["diff", "zero.onnx", "zero.onnx", "--numeric"]) == 2
    err = capsys.readouterr().err
    assert "error[RW707]: cannot compare: node 'd' (DequantizeLinear): a scale that is zero" in err
