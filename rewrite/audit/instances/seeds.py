"""What instances begin with.

In: a pack and one of its rules. Out: `Seed`s: the models of the rule's examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from rewrite.audit.examples import UnreadableError, model_of, opset_of
from rewrite.lang import ast
from rewrite.lang.pack import RulePack


@dataclass(frozen=True, slots=True)
class Seed:
    """A model and where it comes from."""

    model: onnx.ModelProto
    source: str


def examples(pack: RulePack, rule: ast.Rule) -> Iterator[Seed]:
    """The models of the examples: those that are to fire first. What is no model is left out."""
    opset = opset_of(pack, rule)
    numbered = list(enumerate(rule.examples, 1))
    for number, example in sorted(numbered, key=lambda pair: not pair[1].fires):
        try:
            model = model_of(example.text, opset)
        except UnreadableError:
            continue  # `rewrite test` says so
        yield Seed(model, f"example {example.name or number}")
