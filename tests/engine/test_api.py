"""The façade: what it takes, what it gives, what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewrite
from rewrite.errors import RewriteError

TEXT = (
    "g (float[2,3] x) => (float[2,4] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, "
    "float[4] b = {1,2,3,4}> { m = MatMul(x, w) a = Add(m, b) i = Identity(a) y = Relu(i) }"
)


def test_importing_the_package_loads_nothing_else():
    code = (
        "import sys, rewrite; "
        "names = ('onnx', 'onnx_ir', 'numpy', 'lark', 'rewrite.api'); "
        "print([m for m in names if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_of_the_package():
    assert {"apply", "Result"} <= set(dir(rewrite))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = rewrite.nonsense


def test_all_sources_give_the_same_and_stay_as_they_are(tmp_path, parse_model):
    proto = parse_model(TEXT)
    before = proto.SerializeToString(deterministic=True)
    path = tmp_path / "m.onnx"
    path.write_bytes(before)
    model = ir.from_proto(proto)
    results = [
        rewrite.apply(source, target="generic") for source in (proto, path, str(path), model)
    ]
    made = {r.model.SerializeToString(deterministic=True) for r in results}
    assert len(made) == 1
    assert proto.SerializeToString(deterministic=True) == before
    assert path.read_bytes() == before
    assert [n.op_type for n in model.graph] == ["MatMul", "Add", "Identity", "Relu"]


def test_stats_have_the_names_that_tests_and_users_rely_on(parse_model):
    stats = rewrite.apply(parse_model(TEXT), target="generic").stats
    assert set(stats) >= {
        "target", "nodes_before", "nodes_after", "kernels_before", "kernels_after", "fired",
        "groups", "ledger", "unsupported", "stop", "seconds",
    }  # fmt: skip
    assert stats["nodes_before"] == stats["kernels_before"] == 4
    assert stats["nodes_after"] < 4
    assert set(stats["seconds"]) == {"load", "match", "fold", "save", "total"}
    assert stats["stop"]["reason"] == "fixpoint"
    assert json.loads(json.dumps(stats)) == stats


def test_a_function_call_counts_as_one_kernel(parse_model):
    text = """
    <ir_version: 10, opset_import: ["" : 18, "own" : 1]>
    g (float[2] x) => (float[2] y) { a = own.f(x) y = own.f(a) }
    <domain: "own", opset_import: ["" : 18]>
    f (v) => (w) { t = Exp(v) w = Sin(t) }
    """
    stats = rewrite.apply(parse_model(text), target="generic").stats
    assert stats["nodes_before"] == 4
    assert stats["kernels_before"] == 2


def test_the_ledger_travels_in_the_model(parse_model, outputs):
    result = rewrite.apply(parse_model(TEXT), target="generic")
    props = {p.key: p.value for p in result.model.metadata_props}
    assert json.loads(props["rewrite.ledger"]) == result.ledger.to_json()
    assert result.ledger.to_json()["entries"]
    x = np.float32([[1, 2, 3], [-1, 0, 1]])
    w = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    wanted = np.maximum(x @ w + np.float32([1, 2, 3, 4]), 0)
    np.testing.assert_allclose(outputs(result.model, x=x)[0], wanted, rtol=1e-6)


def test_a_second_run_keeps_the_ledger_of_the_first(parse_model, tmp_path, make_rule):
    first = rewrite.apply(parse_model(TEXT), target="generic")
    (tmp_path / "pack.yaml").write_text("name: mine\ndoc: Mine.\nopset: [7, 26]\n")
    text = make_rule("y = Relu(x)", "y = Abs(x)", name="mine", claim="approx(atol=9)")
    (tmp_path / "a.rules").write_text(text)
    second = rewrite.apply(first.model, target="generic", rules=[tmp_path])
    props = {p.key: p.value for p in second.model.metadata_props}
    assert json.loads(props["rewrite.ledger"]) == first.ledger.to_json()
    assert json.loads(props["rewrite.ledger.2"]) == second.ledger.to_json()


def test_a_model_that_nothing_applies_to_is_returned_as_it_came(parse_model):
    proto = parse_model("g (float[2] x) => (float[2] y) { y = Sin(x) }")
    result = rewrite.apply(proto, target="generic")
    assert onnx.printer.to_text(result.model) == onnx.printer.to_text(proto)
    assert result.ledger.total.kind == "exact"


def test_what_was_rewritten_is_at_its_fixpoint(parse_model):
    for target in ("generic", "onnxruntime-cpu", "hexagon"):
        once = rewrite.apply(parse_model(TEXT), target=target)
        twice = rewrite.apply(once.model, target=target)
        assert twice.stats["fired"] == {}


def test_saving(tmp_path, parse_model):
    result = rewrite.apply(parse_model(TEXT), target="generic")
    result.save(tmp_path / "out.onnx")
    onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)
    assert result.stats["seconds"]["save"] > 0
    with pytest.raises(RewriteError):
        result.save(tmp_path / "nowhere" / "out.onnx")


def test_max_class_leaves_weaker_rules_out(parse_model):
    free = rewrite.apply(parse_model(TEXT), target="generic")
    assert free.ledger.total.kind == "equal"
    exact = rewrite.apply(parse_model(TEXT), target="generic", max_class="exact")
    assert exact.ledger.total.kind == "exact"
    assert [n.op_type for n in exact.model.graph.node] == ["MatMul", "Add", "Relu"]
    with pytest.raises(RewriteError, match="RW601"):
        rewrite.apply(parse_model(TEXT), target="generic", max_class="bitwise")


def test_rules_of_ones_own(tmp_path, parse_model, make_rule):
    (tmp_path / "pack.yaml").write_text("name: mine\ndoc: Mine.\nopset: [7, 26]\n")
    text = make_rule("y = Relu(x)", "y = Abs(x)", name="mine", claim="approx(atol=9)")
    (tmp_path / "a.rules").write_text(text)
    result = rewrite.apply(parse_model(TEXT), target="generic", rules=[tmp_path])
    assert result.stats["fired"]["mine"] == 1
    (tmp_path / "a.rules").write_text(text.replace("Abs(x)", "Exp(x)"))
    again = rewrite.apply(parse_model(TEXT), target="generic", rules=[tmp_path])
    assert [n.op_type for n in again.model.graph.node][-1] == "Exp"


def own_pack(folder: Path, text: str, opsets: str = "[7, 26]") -> Path:
    folder.mkdir()
    (folder / "pack.yaml").write_text(f"name: {folder.name}\ndoc: Mine.\nopset: {opsets}\n")
    (folder / "a.rules").write_text(text)
    return folder


def test_one_pack_needs_no_list(tmp_path, parse_model, make_rule):
    mine = make_rule("y = Relu(x)", "y = Abs(x)", name="mine", claim="approx(atol=9)")
    path = own_pack(tmp_path / "own", mine)
    for rules in (path, str(path)):
        assert rewrite.apply(parse_model(TEXT), rules=rules).stats["fired"]["mine"] == 1
    assert rewrite.apply(parse_model(TEXT), rules="algebra").stats["fired"]["identity"] == 1


def test_a_result_is_shown_in_one_line(parse_model):
    result = rewrite.apply(parse_model(TEXT), max_class="exact")
    assert repr(result) == "<Result for generic: 4 -> 3 kernels, exact>"


@pytest.mark.parametrize("model", [3, None, b"model.onnx"])
def test_what_is_no_model_is_said_in_a_sentence(model):
    with pytest.raises(RewriteError, match="of type") as raised:
        rewrite.apply(model)
    assert "ModelProto" in raised.value.diagnostics[0].hint


# --- opsets -------------------------------------------------------------------------------------


def notes(*arguments: Any, **keywords: Any) -> list[str]:
    return rewrite.apply(*arguments, **keywords).loaded.notes


def test_an_opset_that_the_target_does_not_take_is_noted(tmp_path, parse_model):
    path = tmp_path / "tpu.yaml"
    path.write_text("doc: Old.\npacks: []\nopset: [13, 21]\ngroups: false\noperators: all\n")
    expected = ["the model has opset 11, and tpu takes 13 to 21"]
    assert notes(parse_model(TEXT, 11), target=path) == expected
    assert notes(parse_model(TEXT, 13), target=path) == []
    assert notes(parse_model(TEXT, 21), target=path) == []


def test_a_pack_without_a_rule_for_the_opset_is_noted(tmp_path, parse_model, make_rule):
    new = make_rule("y = Relu(x)", "y = Abs(x)", name="a", claim="approx(atol=9)")
    late = new.replace("rule a in fold", "rule b in fold opset 17..").replace("Relu", "Neg")
    packs = [own_pack(tmp_path / "acme", new, "[13, 21]"), own_pack(tmp_path / "late", late)]
    idle = "no rule of {} is for opset {}, which the model has"
    names = [str(path) for path in packs]
    assert notes(parse_model(TEXT, 11), rules=packs) == [idle.format(n, 11) for n in names]
    assert notes(parse_model(TEXT, 13), rules=packs) == [idle.format(names[1], 13)]
    assert notes(parse_model(TEXT, 18), rules=packs) == []
    assert notes(parse_model(TEXT, 22), rules=packs) == [idle.format(names[0], 22)]


def test_a_pack_beside_the_target_without_a_rule_for_the_opset_is_noted(
    tmp_path, parse_model, make_rule
):
    rule = make_rule("y = Relu(x)", "y = Abs(x)", name="a", claim="approx(atol=9)")
    pack = own_pack(tmp_path / "acme", rule, "[13, 21]")
    path = tmp_path / "chip.yaml"
    path.write_text("doc: New.\nextends: generic\npacks: [algebra, acme]\n")
    expected = [f"no rule of {pack} is for opset 11, which the model has"]
    assert notes(parse_model(TEXT, 11), target=path) == expected
    assert notes(parse_model(TEXT, 13), target=path) == []


def test_what_the_target_has_no_kernel_for_is_reported(tmp_path, parse_model):
    path = tmp_path / "small.yaml"
    path.write_text(
        "doc: Little.\npacks: []\nopset: [7, 26]\ngroups: false\noperators: [MatMul, Add]\n"
        "source: a test\n"
    )
    result = rewrite.apply(parse_model(TEXT), target=path)
    assert {u["operator"] for u in result.stats["unsupported"]} == {"Relu", "Identity"}
    assert all(u["reason"] for u in result.stats["unsupported"])


def test_weights_that_are_stored_as_codes_are_constant(tmp_path, parse_model):
    """The limit asks for weights that are known before the model runs: x's are not, q's are."""
    path = tmp_path / "small.yaml"
    path.write_text(
        "doc: Little.\npacks: []\nopset: [7, 26]\ngroups: false\noperators: all\n"
        "limits: {Conv: {constant: [1]}}\n"
    )
    text = """g (float[1,1,3,3] x, float[1,1,1,1] w) => (float[1,1,3,3] y)
      <int8[1,1,1,1] q = {3}, float s = {0.5}> {
      k = DequantizeLinear(q, s)
      a = Conv(x, k)
      b = Identity(a)
      y = Conv(b, w)
    }"""
    (found,) = rewrite.apply(parse_model(text), target=path).stats["unsupported"]
    assert found["node"] == "y"
    assert found["reason"] == "needs operand 1 to be constant"


def test_an_unknown_target(parse_model):
    with pytest.raises(RewriteError, match="RW4"):
        rewrite.apply(parse_model(TEXT), target="nosuch")


def test_the_collector_is_as_before(parse_model):
    import gc

    assert gc.isenabled()
    rewrite.apply(parse_model(TEXT), target="generic")
    assert gc.isenabled()
    gc.disable()
    try:
        rewrite.apply(parse_model(TEXT), target="generic")
        assert not gc.isenabled()
    finally:
        gc.enable()
