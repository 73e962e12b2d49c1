"""Near matches agree with the interpreter, and are smallest.

That the reasons are the right ones is held against a table written by hand
(tests/audit/explain/near_misses.yaml).
"""

from __future__ import annotations

import pytest
from onnx import parser

from rewrite import resources
from rewrite.audit.examples import with_header
from rewrite.graph import io
from rewrite.lang.pack import load_pack
from rewrite.match import interpreter, items, matcher
from rewrite.match.items import atoms
from rewrite.match.near import near
from rewrite.match.rule import Match
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target

PACKS = sorted(resources.shipped("rules"))


def examples(pack):
    """Each example of the pack's own rules: rule, facts, nodes."""
    rules = {entry.rule.name: entry.rule for entry in matcher.compile_pack(pack)}
    for rule in pack.rules:
        if pack.origins[rule.name].pack != pack.name:
            continue
        compiled = rules[rule.name]
        low, high = compiled.opset
        opset = max(low, min(pack.origins[rule.name].example_opset, high))
        for example in rule.examples:
            loaded = io.load(parser.parse_model(with_header(example.text, opset)))
            for graph in loaded.facts.graphs():
                for node in graph:
                    yield compiled, loaded.facts, node


@pytest.mark.parametrize("name", PACKS)
def test_nothing_is_missing_exactly_where_the_rule_matches(name):
    pack = load_pack(resources.shipped("rules")[name], vocabulary(), [resources.folder("rules")])
    target = load_target("hexagon", vocabulary())
    for rule, facts, node in examples(pack):
        matches = isinstance(interpreter.match(rule, node, facts, target), Match)
        found = near(rule, node, facts, target)
        assert matches == any(not one.violations for one in found), (rule.name, node.op_type)
        sizes = {len(one.violations) for one in found}
        assert not (0 in sizes and len(sizes) > 1)
        assert all(violation.key for one in found for violation in one.violations)


@pytest.mark.parametrize("name", PACKS)
def test_keys_are_unique_and_atoms_are_tests(name):
    pack = load_pack(resources.shipped("rules")[name], vocabulary(), [resources.folder("rules")])
    for entry in matcher.compile_pack(pack):
        tests = items.tests_of(entry.rule)
        keys = [test.key for test in tests.every]
        assert len(set(keys)) == len(keys), entry.rule.name
        formulas = [*tests.guards, *(c.formula for c in tests.wheres)]
        for atom in (a for formula in formulas for a in atoms(formula)):
            assert atom.test in tests.every
