"""`rewrite coverage` as it is used: tables, pages, JSON, suggestions, models."""

import json
from html.parser import HTMLParser

import onnx
import pytest
from lab import fires, pack, rejects, rule
from onnx import parser

from rewrite.cli import main

BODY = "  match m = Relu(x: f32)\n        y = m * (k: const)\n  emit y = k * Max(x, 0)"
ONE = "g (float[2] x) => (float[2] y) <float k = {3}> { m = Relu(x)  y = Mul(m, k) }"
INPUT = "g (float[2] x, float k) => (float[2] y) { m = Relu(x)  y = Mul(m, k) }"
RULES = (
    "# A <comment>.\n"
    # -0 may become 0
    + rule("scale", BODY, fires("a", ONE) + rejects("b", INPUT)).replace("exact", "equal(rtol=0)")
    + rule("sine", "  match y = Sin(Cos(Neg(x)))\n  emit y = Sin(Cos(x))", fires("a", ONE))
)
# Of scale there are 11 items: fired, 2 orders, uses, const and dtype (each true and false), f32,
# the opset. Its tests show 8: fired, one order, three tests true, const false, f32, the opset.


def run(capsys, *arguments):
    status = main(["coverage", *map(str, arguments)])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_the_table_and_what_is_missing(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES)
    status, out, _ = run(capsys, folder, "-j", 1)
    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["scale", "3", "yes", "8", "11", "72.7"] in rows
    assert ["sine", "2", "no", "0", "6", "0.0"] in rows
    # line and column of `m = Relu(...)`: the first thing of the third line of the rule
    assert f"{folder}/lab.rules:4:13: scale: uses:m=false  not used elsewhere" in out
    assert f"{folder}/lab.rules:12:1: sine: fired  sine" in out
    assert out.endswith("1 of 2 rules fired, 0 items cannot happen\n")


def test_fail_under(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES)
    assert run(capsys, folder, "--rule", "scale", "--fail-under", "72", "-j", 1)[0] == 0
    assert run(capsys, folder, "--rule", "scale", "--fail-under", "73", "-j", 1)[0] == 1
    status, _, err = run(capsys, folder, "--fail-under", "101")
    assert status == 2
    assert "RW002" in err


def test_json(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES)
    status, out, _ = run(capsys, folder, "--json", "-", "-j", 1)
    assert status == 0
    told = json.loads(out)
    assert told["total"]["rules"] == 2
    assert told["total"]["fired"] == 1
    scale = told["packs"][0]["parts"][0]
    shown = {i["key"]: i["shown_by"] for i in scale["items"]}
    assert shown["fired"] == "fires a"
    assert shown["const:k=false"] == "rejects b"
    assert shown["uses:m=false"] is None
    item = next(i for i in scale["items"] if i["key"] == "uses:m=false")
    assert (item["line"], item["column"]) == (4, 13)


class Page(HTMLParser):
    """Texts of a page by their class, and what they say when pointed at."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.found = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.links += [values[k] for k in ("src", "href") if k in values]
        if tag not in ("meta", "br"):
            self.open.append((tag, values))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, values = self.open[-1] if self.open else ("", {})
        if tag == "span" and "title" in values:
            self.found.append((data, values["class"], values["title"]))


def test_the_page(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES)
    out = tmp_path / "out"
    assert run(capsys, folder, "--html", out, "-j", 1)[0] == 0
    page = Page((out / "coverage.html").read_text())
    assert page.open == []
    assert all(link.startswith("#") for link in page.links)  # no network
    states = {(text, state) for text, state, _ in page.found}
    assert ("(k: const)", "all") in states
    assert ("x: f32", "some") in states
    assert ("rule sine", "none") in states
    titles = {text: title for text, _, title in page.found}
    assert "const:k=false: rejects b" in titles["(k: const)"]
    assert "dtype:x=false: not shown" in titles["x: f32"]
    assert run(capsys, folder, "--html", tmp_path / "one.html", "-j", 1)[0] == 0
    assert (tmp_path / "one.html").exists()


def test_suggestions_are_added_to_a_file(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES)
    file = folder / "more.cases.yaml"
    status, out, err = run(capsys, folder, "--rule", "scale", "--suggest", file, "-j", 1)
    assert status == 0
    assert "3 more items" in err
    assert "# shows " in file.read_text()
    assert "scale" in out
    status, out, err = run(capsys, folder, "--rule", "scale", "-j", 1, "--fail-under", 100)
    assert status == 0
    before = file.read_text()
    run(capsys, folder, "--rule", "scale", "--suggest", file, "-j", 1)
    assert file.read_text() == before  # there is nothing left to say
    status, out, _ = run(capsys, folder, "--suggest", "-j", 1)
    assert status == 0
    assert out == ""  # nothing fires the other rule, so nothing can be made of its tests


def test_suggestions_into_a_folder_stand_beside_the_rules(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES)
    run(capsys, folder, "--suggest", folder, "-j", 1)
    assert (folder / "lab.cases.yaml").read_text().startswith("# shows ")
    assert run(capsys, folder, "--rule", "scale", "-j", 1, "--fail-under", 100)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--suggest", "cases.txt"], "RW721"),
        (["--rule", "scalee"], "RW004"),
        (["--models", "nowhere"], "RW722"),
        (["--models", "."], "RW722"),
        (["--target", "nowhere"], "RW401"),
    ],
)
def test_bad_arguments(tmp_path, capsys, monkeypatch, arguments, code):
    folder = pack(tmp_path / "lab", RULES)
    monkeypatch.chdir(folder)
    status, _, err = run(capsys, folder, *arguments, "-j", 1)
    assert status == 2
    assert code in err


def test_cases_of_two_packs_do_not_stand_in_one_file(tmp_path, capsys):
    one, two = pack(tmp_path / "lab", RULES), pack(tmp_path / "more", RULES, name="more")
    status, _, err = run(capsys, one, two, "--suggest", tmp_path / "a.cases.yaml", "-j", 1)
    assert status == 2
    assert "RW721" in err


def test_faults_of_cases_are_told(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES, cases="- rule: scale\n  name: a\n")
    status, _, err = run(capsys, folder, "-j", 2)
    assert status == 2
    assert "RW710" in err


def test_rules_that_fire_on_models(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES)
    models = tmp_path / "models"
    (models / "deep").mkdir(parents=True)
    header = '<ir_version: 10, opset_import: ["" : 18]> '
    two = (
        "g (float[2] x) => (float[2] y, float[2] z) <float k = {3}>"
        " { m = Relu(x)  y = Mul(m, k)  n = Relu(y)  z = Mul(n, k) }"
    )
    onnx.save(parser.parse_model(header + ONE), models / "a.onnx")
    onnx.save(parser.parse_model(header + two), models / "deep" / "b.onnx")
    (models / "c.onnx").write_bytes(b"no model")
    status, out, _ = run(capsys, folder, "--models", models, "-j", 2)
    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["scale", "3", "times", "in", "2", "models"] in rows
    assert "never fired: 1 of 2 rules\n  sine\n" in out
    assert "c.onnx: " in out
    assert "2 of 3 models were read; 1 rules fired" in out
    status, out, _ = run(capsys, folder, "--models", models, "--json", "-", "-j", 2)
    told = json.loads(out)
    assert told["fired"] == [{"rule": "scale", "times": 3, "models": 2}]
    assert told["never"] == ["sine"]
    assert [m["model"] for m in told["models"]] == ["a.onnx", "c.onnx", "deep/b.onnx"]


def test_refusals_on_models_are_told(tmp_path, capsys):
    # what takes the place of y has another shape
    body = (
        "  match y = Neg(Relu(x))\n  emit y = ReduceSum(x) { keepdims: 0, noop_with_empty_axes: 0 }"
    )
    text = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    folder = pack(tmp_path / "lab", rule("r", body, fires("a", text)))
    header = '<ir_version: 10, opset_import: ["" : 18]> '
    onnx.save(parser.parse_model(header + text), tmp_path / "a.onnx")
    _, out, _ = run(capsys, folder, "--models", tmp_path, "-j", 1)
    assert "refused: 1 times\n      1  r: " in out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--mutate", "--models", "."], "--models and --mutate exclude"),
        (["--mutate", "--html", "o"], "--mutate and --html exclude"),
        (["--mutate", "--suggest"], "--mutate and --suggest exclude"),
        (["--models", ".", "--html", "o"], "--models and --html exclude"),
        (["--models", ".", "--fail-under", "0"], "--models and --fail-under exclude"),
    ],
)
def test_options_that_exclude_each_other(tmp_path, capsys, monkeypatch, options, told):
    monkeypatch.chdir(tmp_path)
    folder = pack(tmp_path / "lab", RULES)
    status, out, err = run(capsys, folder, *options)
    assert (status, out) == (2, "")
    assert f"error[RW002]: {told} each other\n" in err
    assert not (tmp_path / "o").exists()


def test_a_page_where_no_folder_can_be(tmp_path, capsys):
    folder = pack(tmp_path / "lab", RULES)
    for place in (folder / "pack.yaml", folder / "pack.yaml" / "below"):
        status, _, err = run(capsys, folder, "--html", place, "-j", 1)
        assert status == 2
        assert err.startswith(f"{place}: error[RW003]: cannot write: ")


@pytest.mark.parametrize(
    "command", [["test"], ["coverage"], ["coverage", "--mutate"], ["verify"], ["verify", "--pairs"]]
)
def test_cases_that_cannot_be_read_are_bad_input(tmp_path, capsys, command):
    folder = pack(tmp_path / "lab", RULES)
    (folder / "x.cases.yaml").symlink_to("/etc/passwd")
    assert main([*command, str(folder), "-j", "1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "x.cases.yaml:1:1: error[RW709]: the file leads out of the pack's folder" in err
    assert "root:" not in err
