"""The tests of a rule, found: its examples, then the cases that name it.

In: a `RulePack`, a rule. Out: `RuleTest`s in the order of the text.
"""

from __future__ import annotations

from rewrite.audit.cases.case import RuleTest
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target


def tests_of(pack: RulePack, rule: ast.Rule) -> tuple[RuleTest, ...]:
    """The tests of the rule. Raises `RewriteError` where a file of cases cannot be read."""
    return tuple(_example(rule, e, number) for number, e in enumerate(rule.examples, 1))


def _example(rule: ast.Rule, example: ast.Example, number: int) -> RuleTest:
    kind = "fires" if example.fires else "rejects"
    name = f"{kind} {example.name or number}"
    return RuleTest(rule.name, name, example.fires, example.text, example.span)


def target_of(test: RuleTest) -> Target | None:
    """The target that a case names; None: those that the rule is tested for."""
    if test.case is None or test.case.target is None:
        return None
    return load_target(test.case.target, vocabulary())
