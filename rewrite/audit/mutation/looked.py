"""Models that rules are looked for in again and again, without being changed.

In: a model. Out: `Looked`, which says whether a rule may apply to it. Reading a model and rewriting
it takes ten times as long as looking for a match, and most mutants match nothing that they should
not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from rewrite.engine.completion import Completer
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.model import LoadedModel
from rewrite.graph.uses import nodes_of
from rewrite.lang.vocabulary import PHASES
from rewrite.match.matcher import Matcher


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """`loaded` None: a model that cannot be read."""

    loaded: LoadedModel | None

    @classmethod
    def at(cls, model: onnx.ModelProto) -> Looked:
        try:
            loaded = io.load(model)
        except RewriteError:
            return cls(None)
        loaded.facts.complete = Completer(loaded.facts)
        return cls(loaded)

    def may_apply(self, matcher: Matcher) -> bool:
        """Whether a rule of the matcher matches anywhere; groups are not looked at: they may."""
        if self.loaded is None:
            return False
        phases = [phase for phase in PHASES if matcher.rules(phase)]
        if PHASES[-1] in phases:
            return True
        facts = self.loaded.facts
        with np.errstate(all="ignore"):
            return any(
                matcher.match(phase, node, facts) is not None
                for phase in phases
                for graph in facts.graphs()
                for node in nodes_of(graph)
            )
