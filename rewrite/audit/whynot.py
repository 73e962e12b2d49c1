"""Why a rule does not match a model: the attempt that got furthest.

In: a model, a rule, a target. Out: one sentence, or the `Mismatch` that it is about.
"""

from __future__ import annotations

import onnx

from rewrite.graph import io
from rewrite.match import interpreter
from rewrite.match.rule import CompiledRule, Match, Mismatch
from rewrite.target.target import Target


def why_not(model: onnx.ModelProto, rule: CompiledRule, target: Target) -> str:
    """The reason at the anchor where most of the pattern was found."""
    best = furthest(model, rule, target)
    if isinstance(best, Match):
        return "it matches, but the engine does not apply it"
    if best is None:
        return "the model has no nodes"
    return f"at {best.subject}: {best.reason}" if best.subject else best.reason


def furthest(model: onnx.ModelProto, rule: CompiledRule, target: Target) -> Match | Mismatch | None:
    """A match, else the attempt that found most of the pattern; None where there are no nodes."""
    loaded = io.load(model)
    best: Mismatch | None = None
    for graph in loaded.facts.graphs():
        for node in graph:
            found = interpreter.match(rule, node, loaded.facts, target)
            if isinstance(found, Match):
                return found
            if best is None or _far(found) > _far(best):
                best = found
    return best


def _far(mismatch: Mismatch) -> tuple[bool, int]:
    """How far an attempt got: at an anchor of the rule at all, then nodes found."""
    return mismatch.code != "operator", mismatch.matched
