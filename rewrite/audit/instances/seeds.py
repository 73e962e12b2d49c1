"""What instances begin with.

In: a pack and one of its rules. Out: `Seed`s: the models of the rule's examples and cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from rewrite.audit.cases.find import tests_of
from rewrite.audit.examples import UnreadableError, model_of, opset_of
from rewrite.lang import ast
from rewrite.lang.pack import RulePack


@dataclass(frozen=True, slots=True)
class Seed:
    """A model and where it comes from."""

    model: onnx.ModelProto
    source: str


def examples(pack: RulePack, rule: ast.Rule) -> Iterator[Seed]:
    """The models of examples and cases: those that are to fire first. What is no model is left out.

    Raises `RewriteError` where a file of cases has faults.
    """
    opset = opset_of(pack, rule)
    for test in sorted(tests_of(pack, rule), key=lambda test: not test.fires):
        kind, _, name = test.name.partition(" ")
        try:
            model = model_of(test.text, opset)
        except UnreadableError:
            continue  # `rewrite test` says so
        yield Seed(model, f"{'case' if test.case is not None else 'example'} {name or kind}")
