"""What refutes a rule.

In: nothing. Out: `Counterexample`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from rewrite.audit.claims.check import Checked
from rewrite.audit.feeds import Array
from rewrite.audit.instances.instance import Instance


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A model that the rule turns into one that breaks its claim.

    `after`: the model as the rule left it. `feeds`: the inputs on which outputs differ, empty where
    the result is already wrong as a model; `wanted`, `got`: the outputs of both by name, where both
    ran. `reason`: what is wrong, in words; `runtime`: what computed the outputs, "" where none ran.
    `varied`, `source`: how the model came about, as in `Instance`.
    """

    rule: str
    target: str
    before: onnx.ModelProto
    after: onnx.ModelProto
    reason: str
    runtime: str
    feeds: Mapping[str, Array]
    wanted: Mapping[str, Array]
    got: Mapping[str, Array]
    varied: tuple[str, ...] = ()
    source: str = ""

    @classmethod
    def seen(
        cls, rule: str, instance: Instance, after: onnx.ModelProto, checked: Checked
    ) -> Counterexample:
        """What the claim of a rule was seen broken on, under the target of the instance."""
        return cls(
            rule,
            instance.target,
            instance.model,
            after,
            checked.reason,
            checked.runtime,
            dict(checked.feeds),
            dict(checked.wanted),
            dict(checked.got),
            instance.varied,
            instance.source,
        )

    @property
    def size(self) -> int:
        """Number of nodes of the model."""
        return len(self.before.graph.node)
