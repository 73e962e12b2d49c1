"""Rules that do harm together are found; pairs that are not tried are told."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from rewrite.audit.claims.pairs import pairs_of
from rewrite.audit.claims.pairs_run import Crashed, pairs_in
from rewrite.audit.claims.touching import Touching, touching
from rewrite.audit.lint.subject import open_pack
from rewrite.cli import main
from rewrite.cli.verified_pairs import _Told

FOLDER = Path(__file__).parent / "planted_pairs"


@cache
def found():
    return pairs_of(FOLDER, 30.0)


def result(*rules):
    return next(r for r in found().results if set(r.rules) == set(rules))


@pytest.fixture
def verify(capsys, tmp_path):
    def run(*arguments):
        out = ("--out", str(tmp_path / "found"), "-j", "1")
        status = main(["verify", "--pairs", *arguments, *out])
        return status, *capsys.readouterr()

    return run


def test_which_pairs_can_touch():
    # doubled looks for Add and makes Mul, added the other way round; negated looks for Neg and
    # makes Mul; magnitude looks for Mul and makes Abs. So doubled and negated share nothing.
    work = Touching.of(open_pack(FOLDER))
    pairs = {frozenset(pair) for pair in touching(work)}
    assert frozenset({"doubled", "added"}) in pairs
    assert frozenset({"negated", "magnitude"}) in pairs
    assert frozenset({"added", "magnitude"}) in pairs
    assert frozenset({"doubled", "negated"}) not in pairs


def test_rules_that_undo_each_other():
    endless = result("doubled", "added")
    assert endless.status == "endless"
    problem = endless.problem()
    assert problem.code == "RW737"
    assert "cycle" in problem.message
    assert not endless.ok


def test_rules_that_are_wrong_together():
    refuted = result("negated", "magnitude")
    assert (refuted.status, refuted.problem().code) == ("refuted", "RW736")
    example = refuted.counterexample
    (before,) = ReferenceEvaluator(example.before).run(None, dict(example.feeds))
    (after,) = ReferenceEvaluator(example.after).run(None, dict(example.feeds))
    (x,) = example.feeds.values()
    assert np.array_equal(before, -x)
    assert np.array_equal(after, np.abs(x))
    assert not np.array_equal(before, after)


def test_pairs_that_no_model_has_and_pairs_not_tried():
    assert found().late == 0
    assert found().touching == len(found().results) + found().unmet
    nothing = pairs_of(FOLDER, 0.0)
    assert (nothing.results, nothing.late > 0) == ((), True)


def test_only_pairs_with_a_rule():
    some = pairs_of(FOLDER, 30.0, frozenset({"negated"}))
    assert some.results
    assert all("negated" in r.rules for r in some.results)


def test_the_command(verify, tmp_path):
    status, out, err = verify(str(FOLDER), "--json", str(tmp_path / "a.json"))
    assert status == 1
    assert err == ""
    assert "error[RW736]: `negated` and `magnitude` together are refuted: negated first: " in out
    assert "error[RW737]: `doubled` and `added` do not come to an end: cycle" in out
    assert "0 of 2 pairs hold" in out
    place = tmp_path / "found" / "planted_pairs-negated-magnitude.onnx"
    assert [n.op_type for n in onnx.load(place).graph.node] == ["Neg"]
    rows = json.loads((tmp_path / "a.json").read_text())
    assert {row["code"] for row in rows["pairs"]} == {"RW736", "RW737"}
    assert rows["packs"][0]["not_tried"] == 0


def test_a_time_that_is_over(monkeypatch):
    monkeypatch.setattr("rewrite.audit.claims.pairs_run.LEAST_SECONDS", 0.0)
    rows = list(pairs_in([FOLDER], 0.0, 1, frozenset()))
    assert [row.late > 0 for row in rows] == [True]


def test_json_alone_on_stdout(verify):
    status, out, _ = verify(str(FOLDER), "--json", "-")
    assert status == 1
    assert [row["pack"] for row in json.loads(out)["packs"]] == ["planted_pairs"]


def test_what_is_said_of_pairs_not_tried(capsys):
    told = _Told(FOLDER, quiet=False)
    told.pack(pairs_of(FOLDER, 0.0))
    assert "error[RW738]: " in capsys.readouterr().out


def test_a_process_that_dies_is_told(capsys):
    told = _Told(FOLDER, quiet=False)
    told.crash(Crashed("acme", "a and b on a model"))
    out = capsys.readouterr().out
    assert "error[RW739]: the process that tried the pairs of acme died: a and b on a model" in out


def test_a_pack_that_holds(verify):
    status, out, _ = verify("quant-weights")
    assert status == 0
    assert "pairs hold" in out
