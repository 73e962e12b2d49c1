"""Every rule of every shipped pack is documented, and its examples hold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from rewrite import resources
from rewrite.audit.cases.run import RuleRunner
from rewrite.errors import RewriteError, render
from rewrite.lang import ast
from rewrite.lang.pack import RulePack, load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target

PACKS = tuple(resources.shipped("rules"))


@cache
def _pack(name: str) -> RulePack:
    folder = resources.shipped("rules")[name]
    return load_pack(folder, vocabulary(), [resources.folder("rules")])


@cache
def _targets() -> tuple[Target, ...]:
    """`generic` first: it is the only one for rules that do not ask about the target."""
    names = sorted(resources.shipped("targets"), key=lambda name: (name != "generic", name))
    return tuple(load_target(name, vocabulary()) for name in names)


def _rules() -> Iterator[tuple[str, ast.Rule]]:
    """The rules that a pack itself holds; packs that do not load have a test of their own."""
    for name in PACKS:
        try:
            pack = _pack(name)
        except RewriteError:
            continue
        for rule in pack.rules:
            if pack.origins[rule.name].pack == name:
                yield name, rule


RULES = tuple(_rules())
EACH = pytest.mark.parametrize(
    ("pack", "rule"), RULES, ids=[f"{pack}-{rule.name}" for pack, rule in RULES]
)


@pytest.mark.parametrize("name", PACKS)
def test_pack_loads(name: str) -> None:
    assert _pack(name).rules


def test_there_are_enough_rules() -> None:
    count = {name: sum(1 for pack, _ in RULES if pack == name) for name in PACKS}
    assert count["algebra"] >= 90
    assert count["algebra"] + count["fusion"] >= 120


@EACH
def test_rule_has_a_sentence_and_both_kinds_of_examples(pack: str, rule: ast.Rule) -> None:
    assert rule.doc.strip().endswith(".")
    assert {example.fires for example in rule.examples} == {True, False}
    names = [(example.fires, example.name) for example in rule.examples if example.name]
    assert len(set(names)) == len(names)


@EACH
def test_examples_hold(pack: str, rule: ast.Rule) -> None:
    outcomes = list(RuleRunner(_pack(pack), rule, _targets()).outcomes())
    assert len(outcomes) >= len(rule.examples)
    problems = [render(o.problem) for o in outcomes if o.problem is not None]
    assert not problems, "\n".join(problems)
    # An example that fires has been compared in a runtime; one that rejects has nothing to compare.
    assert all(bool(o.runtime) == o.test.fires for o in outcomes)
