"""Rules as bytes: what comes back is what was written, positions included."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

from rewrite import resources
from rewrite.lang.pack import load_packs
from rewrite.lang.walk import nodes
from rewrite.match import trees
from rewrite.match.vocabulary import vocabulary


@dataclass(frozen=True, slots=True)
class One:
    only: int


@dataclass(frozen=True, slots=True)
class Counted:
    first: int
    second: str
    made: int = field(init=False, default=7)


def test_rules_come_back_with_their_positions():
    pack = load_packs(["quant-lut"], vocabulary(), [resources.folder("rules")])
    assert pack.rules
    for rule in pack.rules:
        back = trees.loads(trees.dumps(rule))
        assert back == rule
        assert [n.span for n in nodes(back)] == [n.span for n in nodes(rule)]
        assert [type(n) for n in nodes(back)] == [type(n) for n in nodes(rule)]


def test_what_is_no_plain_dataclass_is_left_to_pickle():
    made = Counted(1, "a")
    object.__setattr__(made, "made", 9)
    tree = (One(3), made, frozenset({2}), {"a": (1.5, None)}, Counted)
    assert trees.loads(trees.dumps(tree)) == tree
    assert trees.loads(trees.dumps(tree))[1].made == 9
    assert pickle.loads(trees.dumps(tree)) == tree
