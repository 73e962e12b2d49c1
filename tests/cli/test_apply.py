"""`rewrite apply` from the outside: files, streams, exit status, and the numbers of the output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rewrite.cli import main
from rewrite.cli.commands import apply as apply_command
from rewrite.engine import driver

TARGET = "doc: A test.\npacks: []\nopset: [7, 26]\ngroups: false\noperators: [Mul, Sub]\n"
PACK = "name: mine\ndoc: A test.\nopset: [7, 26]\nexample_opset: 18\n"
RULE = '''
rule divide in lower {
  """x / c = x * (1 / c)."""
  match y = x / (c: const f32)
  emit  y = x * %s
  claim %s
  example fires plain """g (float[2] x) => (float[2] y) <float c = {4}> { y = Div(x, c) }"""
  example rejects unknown """g (float[2] x, float[2] c) => (float[2] y) { y = Div(x, c) }"""
}
'''


def pack(folder: Path, emitted: str = "(1 / c)", claim: str = "equal(rtol=1e-6)") -> Path:
    path = folder / f"pack_{claim[:5]}"
    path.mkdir(exist_ok=True)
    (path / "pack.yaml").write_text(PACK)
    (path / "all.rules").write_text(RULE % (emitted, claim))
    return path


def save(path: Path, nodes: list[onnx.NodeProto]) -> Path:
    """A model from x to y of two floats; `c` is the constant 3."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.array(3, np.float32), "c")],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with a model that divides, a target and a pack that replaces division."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chip.yaml").write_text(TARGET)
    pack(tmp_path)
    save(tmp_path / "m.onnx", [helper.make_node("Div", ["x", "c"], ["y"])])
    return tmp_path


def apply(*arguments: object, rules: str = "pack_equal", model: str = "m.onnx") -> int:
    options = ["--target", "chip.yaml", "--rules", rules, *map(str, arguments)]
    return main(["apply", model, *options])


def operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_the_output_lies_beside_the_model_and_computes_the_same(work):
    before = (work / "m.onnx").read_bytes()
    assert apply() == 0
    assert (work / "m.onnx").read_bytes() == before
    output = work / "m.chip.onnx"
    onnx.checker.check_model(str(output), full_check=True)
    assert operators(output) == ["Mul"]
    x = np.array([1.0, -7.5], np.float32)
    (y,) = ReferenceEvaluator(str(output)).run(None, {"x": x})
    np.testing.assert_allclose(y, x / 3, rtol=1e-6)


def test_the_report_is_on_stdout_and_nothing_on_stderr(work, capsys):
    assert apply("-o", "out.onnx") == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert err == ""
    assert lines[0] == ["m.onnx", "->", "out.onnx", "for", "chip"]
    assert ["kernels", "1", "->", "1"] in lines
    assert ["1", "divide", "equal(rtol=1e-06)"] in lines
    assert operators(work / "out.onnx") == ["Mul"]


def test_json_on_stdout_is_all_there_is_on_stdout(work, capsys):
    assert apply("--json", "-", "--verify", "2") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["fired"] == {"divide": 1}
    assert (report["kernels_before"], report["kernels_after"]) == (1, 1)
    assert report["ledger"]["class"] == "equal"
    assert report["ledger"]["rtol"] == 1e-6
    assert report["unsupported"] == []
    assert report["stop"]["reason"] == "fixpoint"
    assert {"load", "match", "fold", "save", "total"} <= set(report["seconds"])
    assert report["verified"]["status"] == "equal"
    assert report["verified"]["runs"] == 2


def test_json_page_and_trace_go_to_files(work):
    assert apply("--json", "r.json", "--report", "r.html", "--trace", "r.jsonl") == 0
    assert json.loads((work / "r.json").read_text())["output"] == "m.chip.onnx"
    assert (work / "r.html").read_text().startswith("<!doctype html>")
    events = [json.loads(line) for line in (work / "r.jsonl").read_text().splitlines()]
    assert [e["event"] for e in events] == ["applied", "stop"]
    assert (events[0]["rule"], events[0]["removed"], events[0]["added"]) == (
        "divide",
        ["Div"],
        ["Mul"],
    )


def test_a_result_that_is_not_valid_is_not_written(work, capsys, monkeypatch):
    """With --verify: a node uses a value that nothing defines, as after a faulty edit."""
    real = driver.run

    def faulty(loaded, *rest):
        journal = real(loaded, *rest)
        loaded.model.graph[0].replace_input_with(0, ir.Value(name="lost"))
        return journal

    monkeypatch.setattr(driver, "run", faulty)
    before = files(work)
    assert apply("--verify", "1") == 2
    assert "error[RW515]" in capsys.readouterr().err
    assert files(work) == before


def test_a_dry_run_writes_no_model(work, capsys):
    before = files(work)
    assert apply("--dry-run", "--verify", "1") == 0
    assert files(work) == before
    assert "m.onnx -> not written for chip" in capsys.readouterr().out


def test_a_class_bounds_what_is_used(work):
    assert apply("--max-class", "exact") == 0
    assert operators(work / "m.chip.onnx") == ["Div"]


def test_what_the_target_does_not_take_is_listed(work, capsys):
    save(work / "e.onnx", [helper.make_node("Erf", ["x"], ["y"])])
    assert apply("--json", "-", model="e.onnx") == 0
    assert json.loads(capsys.readouterr().out)["unsupported"] == [
        {"node": "y", "operator": "Erf", "reason": "is not an operator of chip"}
    ]


def test_a_rule_that_lies_is_found_out(work, capsys):
    """Multiplying by c instead of 1/c is wrong by a factor of 9."""
    pack(work, emitted="c", claim="exact")
    assert apply("--verify", "1", rules="pack_exact") == 1
    assert "DIFFERENT" in capsys.readouterr().out


def test_what_cannot_be_compared_did_not_hold(work, capsys):
    random = helper.make_node("RandomNormalLike", ["x"], ["r"])
    save(work / "r.onnx", [random, helper.make_node("Mul", ["r", "c"], ["y"])])
    assert apply("--verify", "1", model="r.onnx") == 1
    assert "not compared: " in capsys.readouterr().out


def test_a_runtime_that_crashes_leaves_a_report(work, capsys):
    """An absent operand of a variadic operator: a segmentation fault in onnxruntime 1.32."""
    save(work / "a.onnx", [helper.make_node("Max", ["x", "c", ""], ["y"])])
    status = apply("--verify", "1", "--json", "r.json", model="a.onnx")
    found = json.loads((work / "r.json").read_text())
    verified = found["verified"]
    assert (verified["status"] == "equal") is (status == 0)
    assert "not compared: onnxruntime ended with signal" in capsys.readouterr().out or status == 0
    assert operators(Path(found["output"])) == ["Max"]


# --- bad input ----------------------------------------------------------------------------------


def complaint(capsys, code: str) -> str:
    """The one line on stderr, hints apart; nothing else was printed."""
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    first = err.splitlines()[0]
    assert f"error[{code}]: " in first
    return first


@pytest.mark.parametrize(
    ("data", "code"), [(None, "RW501"), (b"", "RW502"), (b"not a model", "RW502")]
)
def test_files_that_are_no_models(work, capsys, data, code):
    if data is not None:
        (work / "bad.onnx").write_bytes(data)
    before = files(work)
    assert apply(model="bad.onnx") == 2
    assert complaint(capsys, code).startswith("bad.onnx: ")
    assert files(work) == before


def test_a_folder_is_no_model(work, capsys):
    assert apply(model=".") == 2
    complaint(capsys, "RW005")


@pytest.mark.parametrize("option", ["-o", "--json", "--report", "--trace"])
def test_the_input_is_never_overwritten(work, capsys, option):
    (work / "link.onnx").symlink_to("m.onnx")
    before = (work / "m.onnx").read_bytes()
    for name in ("m.onnx", "link.onnx"):
        assert apply(option, name) == 2
        complaint(capsys, "RW006")
    assert (work / "m.onnx").read_bytes() == before


@pytest.mark.parametrize("option", ["-o", "--json", "--report", "--trace"])
def test_places_that_cannot_be_written_are_known_before_the_work(work, capsys, option):
    before = files(work)
    for place in ("none/out", "."):
        assert apply(option, place) == 2
        assert complaint(capsys, "RW003").startswith(f"{place}: ")
    assert files(work) == before


def test_a_folder_that_is_closed_is_known_before_the_work(work, capsys, monkeypatch):
    """Such a folder is open to root, who often runs tests: the system is asked for another user."""
    monkeypatch.setattr(apply_command.os, "access", lambda path, mode: False)
    before = files(work)
    assert apply() == 2
    assert complaint(capsys, "RW003").endswith("cannot write: Permission denied")
    assert files(work) == before


@pytest.mark.parametrize(
    "options",
    [
        ("--json", "a", "--report", "a"),
        ("-o", "a", "--trace", "./a"),
        ("--report", "m.chip.onnx"),
    ],
)
def test_no_two_outputs_are_one_file(work, capsys, options):
    before = files(work)
    assert apply(*options) == 2
    assert "name one file" in complaint(capsys, "RW002")
    assert files(work) == before


def test_notes_about_the_model_are_told(work, capsys):
    model = onnx.load(work / "m.onnx")
    model.graph.name = ""
    onnx.save(model, work / "nameless.onnx")
    assert apply(model="nameless.onnx") == 0
    assert "note        a graph without a name was named" in capsys.readouterr().out


def test_targets_and_packs_with_errors_are_positioned(work, capsys):
    (work / "chip.yaml").write_text(TARGET + "vector_bytes: 3\n")
    assert apply() == 2
    assert complaint(capsys, "RW406").startswith("chip.yaml:6:15: ")
    (work / "chip.yaml").write_text(TARGET)
    (work / "pack_equal" / "all.rules").write_text("rule x in nowhere {\n")
    assert apply() == 2
    err = capsys.readouterr().err
    assert err.startswith("pack_equal/all.rules:")
    assert not (work / "m.chip.onnx").exists()
