"""Processes that die end nothing but themselves."""

import operator
import signal
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rewrite.audit.claims import packs, pool
from rewrite.audit.claims.pool import verified
from rewrite.audit.claims.result import RuleResult
from rewrite.audit.claims.task import Doing, Task
from rewrite.audit.instances.instance import Budget
from rewrite.errors import RewriteError

FOLDER = Path(__file__).parent / "planted"
SMALL = Budget(firing=3, most=20)


def task(number, rule):
    return Task(number, str(FOLDER), str(FOLDER.parent), rule, ("generic",), SMALL)


def test_results_come_in_the_order_of_the_tasks():
    names = ["not_not", "minus_zero", "doubled"]
    found = list(verified([task(i, name) for i, name in enumerate(names)], 2))
    assert [t.rule for t, _, _ in found] == names
    assert [r.ok for _, r, _ in found] == [True, False, True]
    assert all(crashes == () for _, _, crashes in found)


def test_a_process_that_dies_at_once_is_reported(monkeypatch):
    monkeypatch.setattr(pool, "work", operator.methodcaller("close"))
    ((_, result, crashes),) = verified([task(0, "not_not")], 1)
    assert result.status == "crashed"
    assert len(crashes) == 1
    assert "ended with status 0" in crashes[0]


@dataclass
class Dead:
    exitcode: int = -6

    def kill(self):
        pass

    def join(self):
        pass


@dataclass
class Worker:
    task: object
    doing: object
    process: Dead = field(default_factory=Dead)


def test_the_rule_is_tried_again_without_the_instance(monkeypatch):
    monkeypatch.setattr(pool, "_start", lambda: "another process")
    asked = task(0, "not_not")
    dead = Worker(
        asked, Doing(7, "example plain, size 2 to 0", "onnxruntime runs the original", 1.0)
    )
    state = pool._Pool(deque(), [dead])
    pool._crashed(state, dead, "the process ended with status -6")
    assert state.workers == ["another process"]
    assert state.waiting[0].skip == {7}
    assert state.crashes[0] == [
        "onnxruntime runs the original, on example plain, size 2 to 0: "
        "the process ended with status -6"
    ]


def test_after_some_crashes_it_is_given_up(monkeypatch):
    monkeypatch.setattr(pool, "_start", lambda: "another process")
    state = pool._Pool(deque())
    for instance in range(pool.MOST_CRASHES):
        dead = Worker(task(0, "not_not"), Doing(instance, "example", "onnxruntime runs", 1.0))
        state.workers = [dead]
        state.waiting.clear()
        pool._crashed(state, dead, "it ended")
    assert not state.waiting
    _, result, crashes = state.finished[0]
    assert result.status == "crashed"
    assert len(crashes) == pool.MOST_CRASHES


def test_a_counterexample_stands_where_the_search_for_a_smaller_one_dies(monkeypatch):
    monkeypatch.setattr(pool, "_start", lambda: "another process")
    (unit,) = packs.units([FOLDER], ["not_not"])
    refuted = RuleResult.of(unit.pack, unit.rule, "refuted", "is refuted: on normal inputs")
    doing = Doing(3, "example", "shrinking the counterexample", 1.0, refuted)
    for exitcode, count in ((-11, 1), (-signal.SIGPROF, 0)):
        state = pool._Pool(deque())
        dead = Worker(task(0, "not_not"), doing, Dead(exitcode))
        state.workers = [dead]
        pool._crashed(state, dead, "it ended")
        _, result, crashes = state.finished[0]
        assert result == refuted
        assert len(crashes) == count
        assert not state.waiting


def test_a_crash_is_a_result_of_its_rule(monkeypatch):
    monkeypatch.setattr(pool, "work", operator.methodcaller("close"))
    chosen = packs.units([FOLDER], ["not_not"])
    (result,) = packs.verify(chosen, ["generic"], SMALL, 1)
    assert isinstance(result, RuleResult)
    assert (result.status, result.problem().code) == ("crashed", "RW733")
    assert "1 processes died" in result.how or "processes died" in result.how


def test_rules_that_nobody_has():
    with pytest.raises(RewriteError, match="RW004"):
        packs.units([FOLDER], ["not_nott"])


def test_a_rule_is_verified_where_it_is_written(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "pack.yaml").write_text(
        f"name: more\ndoc: More.\nopset: [7, 25]\nextends: [{FOLDER.name}]\n"
    )
    (tmp_path / FOLDER.name).symlink_to(FOLDER)
    both = packs.units([tmp_path / FOLDER.name, tmp_path / "more"], [])
    alone = packs.units([tmp_path / "more"], [])
    assert len(both) == len(alone)
    assert {unit.pack.name for unit in both} == {"planted"}


def test_what_a_pack_refines_is_verified_in_it(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "pack.yaml").write_text(
        f"name: more\ndoc: More.\nopset: [7, 25]\nextends: [{FOLDER.name}]\n"
    )
    (tmp_path / "more" / "a.rules").write_text("refine doubled with where rank(x) == 1\n")
    (tmp_path / FOLDER.name).symlink_to(FOLDER)
    found = packs.units([tmp_path / "more"], [])
    assert [(unit.pack.name, unit.rule.name) for unit in found] == [("more", "doubled")]
