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
        "nodes changed",
        '    m  operator Mul -> Relu; inputs ["d", "third"] -> ["d"]',
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


def test_initializers_and_types_that_differ(models, capsys):
    assert main(["diff", "a.onnx", "b.onnx", "--json", "-"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["initializers"] == {
        "added": {},
        "removed": {},
        "changed": {"third": {"elements": 1, "largest": 0.25}},
    }
    assert report["changes"] == {"added": {}, "removed": {}, "changed": {}}
    wide = TEXT.replace("uint8[64]", "uint8[65]").replace("net (", "net (float[3] extra, ")
    onnx.save(onnx.parser.parse_model(wide), "w.onnx")
    assert main(["diff", "a.onnx", "w.onnx", "--json", "-"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["types"]["x"] == ["u8[64]", "u8[65]"]
    assert report["signature"][1]["inputs"] == ["extra: f32[3]", "x: u8[65]"]


@pytest.mark.parametrize(
    ("one", "other", "types"),
    [
        ("N", "2", {"x": ["f32[N, 3]", "f32[2, 3]"], "y": ["f32[N, 3]", "f32[2, 3]"]}),
        ("N", "M", {"x": ["f32[N, 3]", "f32[M, 3]"], "y": ["f32[N, 3]", "f32[M, 3]"]}),
        ("N", "", {}),  # a size that is not given may be any ...
        ("N", "N", {}),
    ],
)
def test_sizes_with_names_are_part_of_a_type(models, capsys, one, other, types):
    text = """<ir_version: 8, opset_import: ["" : 18]>
    net (float[SIZE,3] x) => (float[SIZE,3] y) { y = Relu(x) }"""
    for name, size in (("s.onnx", one), ("t.onnx", other)):
        model = onnx.parser.parse_model(text.replace("SIZE", size or "NOT_GIVEN"))
        for value in (*model.graph.input, *model.graph.output):
            if not size:
                value.type.tensor_type.shape.dim[0].Clear()
        onnx.save(model, name)
    assert main(["diff", "s.onnx", "t.onnx", "--json", "-"]) == int(one != other)
    report = json.loads(capsys.readouterr().out)
    assert report["types"] == types
    # ... but the signature has none
    assert [side["inputs"] for side in report["signature"]] == [
        [f"x: f32[{one}, 3]"],
        [f"x: f32[{other or '?'}, 3]"],
    ]


def test_attributes_and_nodes_that_differ(models, capsys):
    text = """<ir_version: 8, opset_import: ["" : 18]>
    net (float[2,3] x) => (float[3,2] y) { t = Transpose <perm = [1, 0]> (x) y = Relu(t) }"""
    other = text.replace("[1, 0]", "[0, 1]").replace("y = Relu(t)", "r = Neg(t) y = Relu(r)")
    onnx.save(onnx.parser.parse_model(text), "t.onnx")
    onnx.save(onnx.parser.parse_model(other.replace("float[3,2]", "float[2,3]")), "u.onnx")
    assert main(["diff", "t.onnx", "u.onnx", "--json", "-"]) == 1
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert changes["added"] == {"r": {"operator": "Neg", "inputs": ["t"], "outputs": ["r"]}}
    assert changes["removed"] == {}
    assert changes["changed"] == {
        "t": {".perm": [[1, 0], [0, 1]]},
        "y": {"inputs": [["t"], ["r"]]},
    }


def test_strings_are_compared_by_what_they_say(models, capsys):
    """Arrays of strings hold references, which differ from one reading to the next."""
    text = """<ir_version: 8, opset_import: ["" : 18]>
    net (string[2] x) => (string[2] y, string[2] z) <string[2] w = {"a", "b"}>
    { y = Where(t, x, w) t = Constant <value = bool[1] {1}> ()
      z = Constant <value = string[2] {"c", "d"}> () }"""
    onnx.save(onnx.parser.parse_model(text), "s.onnx")
    onnx.save(onnx.parser.parse_model(text), "t.onnx")
    assert main(["diff", "s.onnx", "t.onnx"]) == 0
    other = text.replace('"b"', '"c"').replace('"d"', '"e"')
    onnx.save(onnx.parser.parse_model(other), "t.onnx")
    capsys.readouterr()
    assert main(["diff", "s.onnx", "t.onnx", "--json", "-"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["initializers"]["changed"] == {"w": {"elements": 1}}
    assert list(report["changes"]["changed"]) == ["z"]


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


def test_what_changed_in_a_rule(tmp_path, capsys):
    pack(tmp_path / "old", "old", ["one", "two"])
    pack(tmp_path / "new", "new", ["one", "two"])
    file = tmp_path / "new" / "all.rules"
    file.write_text(file.read_text().replace("claim exact", "claim equal(rtol=0)", 1))
    assert main(["diff", str(tmp_path / "old"), str(tmp_path / "new"), "--json", "-"]) == 1
    changed = json.loads(capsys.readouterr().out)["changed"]
    assert list(changed) == ["one"]
    assert changed["one"]["claim"] == ["exact", "equal(rtol=0)"]


def test_refined_and_disabled_rules(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    manifest = PACK.replace("NAME", "mine") + "extends: [algebra]\ndisable: [max_lowest]\n"
    (tmp_path / "mine" / "pack.yaml").write_text(manifest)
    (tmp_path / "mine" / "all.rules").write_text("refine max_zero with where rank(x) == 2\n")
    assert main(["diff", "algebra", str(tmp_path / "mine"), "--json", "-"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["added"] == {}
    assert list(report["removed"]) == ["max_lowest"]
    assert report["changed"]["max_zero"]["refined"] == [[], ["rank(x) == 2"]]


@pytest.fixture
def sides(tmp_path, monkeypatch):
    """Two packs of one rule each, two targets with them, two models."""
    monkeypatch.chdir(tmp_path)
    pack(tmp_path / "old", "old", ["one"])
    pack(tmp_path / "new", "new", ["one"])
    file = tmp_path / "new" / "all.rules"
    file.write_text(file.read_text().replace("Identity(x)\n  emit  y = x", "Abs(x)\n  emit  y = x"))
    for name, operators in (("old", "[Abs, Neg]"), ("new", "[Neg, Identity]")):
        text = "doc: A test.\npacks: [NAME]\nopset: [13, 21]\ngroups: false\noperators: "
        (tmp_path / f"chip-{name}.yaml").write_text(text.replace("NAME", name) + operators + "\n")
    (tmp_path / "models").mkdir()
    head = '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) '
    for name, body in (("abs", "{ a = Abs(x) y = Neg(a) }"), ("neg", "{ y = Neg(x) }")):
        onnx.save(onnx.parser.parse_model(head + body), tmp_path / "models" / f"{name}.onnx")
    (tmp_path / "models" / "broken.onnx").write_bytes(b"no model")


def test_effects_of_packs_on_models(sides, capsys):
    status = main(
        ["diff", "old", "new", "--models", "models", "--target", "generic", "--json", "-"]
    )
    assert status == 1
    effects = json.loads(capsys.readouterr().out)["effects"]
    assert sorted(effects["models"]) == ["abs.onnx", "broken.onnx", "neg.onnx"]
    assert effects["differing"] == ["abs.onnx", "broken.onnx"]
    assert [side["kernels"] for side in effects["models"]["abs.onnx"]["sides"]] == [2, 1]
    assert effects["models"]["abs.onnx"]["fired"] == {"one": [0, 1]}
    assert "RW5" in effects["models"]["broken.onnx"]["error"]


def test_targets(sides, capsys):
    assert main(["diff", "chip-old.yaml", "chip-new.yaml", "--models", "models"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "    operators  + Identity, - Abs" in lines
    assert "    abs.onnx: kernels 2 -> 1" in lines
    assert main(["diff", "chip-old.yaml", "chip-old.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "the same facts"


def test_shipped_targets_by_name(capsys):
    assert main(["diff", "hexagon", "cortex-m", "--json", "-"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["kind"] == "targets"
    assert "Ceil" in report["facts"]["operators"]["added"]
    assert main(["diff", "generic", "generic"]) == 0


def test_a_pack_and_itself(capsys):
    assert main(["diff", "algebra", "algebra"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the same rules"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["a.onnx", "algebra"], "RW002"),
        (["algebra", "algebra", "--numeric"], "RW002"),
        (["a.onnx", "a.onnx", "--models", "."], "RW002"),
        (["algebra", "generic"], "RW002"),
        (["algebra", "algebra", "--target", "generic"], "RW002"),
        (["algebra", "algebra", "--models", "nowhere"], "RW722"),
        (["generic", "nothing.yaml"], "RW402"),
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


def test_a_name_that_is_nothing_is_not_called_a_model(models, capsys):
    assert main(["diff", "algebra", "algebre"]) == 2
    err = capsys.readouterr().err
    assert "`algebre` is neither a file nor the name of a pack or a target" in err
    assert "did you mean `algebra`?" in err


def test_models_that_cannot_be_run_are_told(models, capsys):
    text = TEXT.replace("s = {0.5}", "s = {0}")
    onnx.save(onnx.parser.parse_model(text), "zero.onnx")
    assert main(["diff", "zero.onnx", "zero.onnx", "--numeric"]) == 2
    err = capsys.readouterr().err
    assert "error[RW707]: cannot compare: node 'd' (DequantizeLinear): a scale that is zero" in err
