"""Numbers do not depend on the index, on generated code, on short circuits, on processes."""

import pytest
from lab import fires, lab, rejects, rule

from rewrite.audit.coverage import run as running
from rewrite.errors import RewriteError
from rewrite.match import codegen, matcher, program, reject

BODY = (
    "  match m = Relu(x)\n        y = m * (k: const)\n"
    "  where rank(x) == 2 or k == 3, dim(x, 0) == 2\n  emit y = k * Neg(x)"
)
ONE = "g (float[2,3] x) => (float[2,3] y) <float k = {3}> { m = Relu(x)  y = Mul(m, k) }"
# nothing that the index knows of a Mul with a constant is here: no Relu above, no constant
FAR = "g (float[2,3] x, float k) => (float[2,3] y) { m = Relu(x)  y = Mul(m, k) }"
NEAR = ONE.replace("float[2,3]", "float[3]").replace("{3}", "{4}")
ALONE = ONE.replace("[2,3]", "[5,3]")
RULES = rule("r", BODY, fires("a", ONE) + rejects("b", FAR) + rejects("c", NEAR)) + rule(
    "s", BODY, fires("a", ONE) + rejects("b", ALONE)
)


def broken(*_: object, **__: object) -> object:
    raise AssertionError("coverage asked the index or generated code")


def test_neither_index_nor_generated_code_has_a_part(tmp_path, monkeypatch):
    before = lab(tmp_path / "a", RULES)
    for module, name in (
        (codegen, "generate"), (reject, "prefilter_of"), (reject, "near_key"),
        (reject, "far_key"), (reject, "admits"), (matcher, "interpreted"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, broken)
    after = lab(tmp_path / "b", RULES)
    for part in ("r", "s"):
        assert after.shown(part) == before.shown(part)
    assert program  # what is broken above is what `matcher` is made of


def test_what_a_short_circuit_would_hide(tmp_path):
    found = lab(tmp_path, RULES)
    # in ONE both sides of `or` are true: with short circuits the first would seem to decide
    assert not {"where:1.1=true", "where:1.2=true"} & found.shown("r")
    # in FAR `k` is no constant, and `k == 3` cannot be told; `rank(x) == 2` is true nevertheless
    assert "const:k=false" in found.shown("r")
    # in NEAR the first condition is false and so is the second, which nobody would have asked
    assert not {"where:1.1=false", "where:2=false"} & found.shown("r")
    assert "where:2=false" in found.shown("s")


def test_processes_give_the_same(tmp_path):
    one = lab(tmp_path / "lab", RULES)
    two = lab(tmp_path / "lab", RULES, processes=2)
    assert two.measured == one.measured


def test_a_process_that_dies_is_told(tmp_path, monkeypatch):
    lab(tmp_path / "lab", RULES)

    def die(task: object) -> object:
        import os

        os._exit(3)

    monkeypatch.setattr(running, "measure_rule", die)
    with pytest.raises(RewriteError, match="RW720") as raised:
        lab(tmp_path / "lab", RULES, processes=2)
    assert "lab: r" in str(raised.value)


def test_a_rule_that_asks_the_target_is_tried_for_each(tmp_path):
    body = "  match y = Neg(Relu(x))\n  where target.has(ms.Gelu)\n  emit y = Neg(x)"
    text = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    rules = rule("r", body, fires("a", text))
    one = lab(tmp_path / "a", rules, targets=("hexagon",))
    assert {k for k in one.shown("r") if k[0] == "w"} == {"where:1=true"}
    both = lab(tmp_path / "b", rules, targets=("hexagon", "edgetpu"))
    assert {k for k in both.shown("r") if k[0] == "w"} == {"where:1=true", "where:1=false"}


def test_cases_count_as_examples_do(tmp_path):
    cases = (
        "- rule: r\n  name: not constant\n  rejects: const\n  before: |\n"
        "    g (float[2,3] x, float k) => (float[2,3] y) { m = Relu(x)  y = Mul(m, k) }\n"
    )
    rules = rule("r", BODY, fires("a", ONE))
    assert "const:k=false" in lab(tmp_path / "a", rules).missing("r")
    found = lab(tmp_path / "b", rules, cases=cases)
    assert found.part("r").shown["const:k=false"] == "case not constant"
