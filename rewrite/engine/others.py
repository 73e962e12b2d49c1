"""The rules that remain at an anchor after the one that matched was refused.

In: a matcher, an anchor, the rule refused. Out: the next match in the order of the phase. Refusals
are rare, so this asks the interpreter, rule by rule.
"""

from __future__ import annotations

import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.match import interpreter
from rewrite.match.matcher import Matcher
from rewrite.match.rule import CompiledRule, Match


def next_match(
    matcher: Matcher, phase: str, node: ir.Node, facts: Facts, refused: CompiledRule
) -> Match | None:
    """The first match of the rules behind `refused`; None where there is none."""
    if node.graph is None:
        return None
    rules = matcher.rules(phase)
    for rule in rules[rules.index(refused) + 1 :]:
        if (node.domain, node.op_type) not in rule.anchors:
            continue
        found = interpreter.match(rule, node, facts, matcher.target)
        if isinstance(found, Match):
            return found
    return None
