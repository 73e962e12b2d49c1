"""One rule on one model: what the model shows of it.

In: a rule of a pack, a ModelProto, targets. Out: keys of items. The rule is tried at every node of
every graph by the interpreter itself, without index, prefilter or generated code; a match counts
where the engine carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from rewrite.audit.coverage.items import FALSE
from rewrite.audit.coverage.opsets import OpsetClass, classes
from rewrite.audit.coverage.shown import Reading, shown
from rewrite.audit.coverage.trace import trace
from rewrite.audit.examples import asks_target
from rewrite.engine import driver
from rewrite.engine.completion import Completer
from rewrite.engine.limits import Limits, Options
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.facts import Facts
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.lang.vocabulary import Vocabulary
from rewrite.match.items import tests_of
from rewrite.match.matcher import Matcher
from rewrite.match.near import near
from rewrite.match.pattern import compile_rule
from rewrite.match.rule import CompiledRule, Match
from rewrite.target.target import Target

SECONDS = 20.0  # for one model, which is small
_KEEP = 64  # near matches of one anchor
_LIMITS = Limits(seconds=SECONDS)
_OPTIONS = Options(fold=False, tidy=False)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a model shows: keys, and how often the rule was applied."""

    keys: frozenset[str]
    applied: int


class _Watched(Matcher):
    """A matcher of one rule that asks the interpreter, and keeps what it answers."""

    def __init__(self, rule: CompiledRule, target: Target) -> None:
        super().__init__((), target)
        self.rule = rule
        self.found: list[frozenset[str]] = []  # what each match that was carried out shows
        self.reading = Reading.of(rule)

    def rules(self, phase: str) -> tuple[CompiledRule, ...]:
        return (self.rule,) if phase == self.rule.phase else ()

    def match(
        self, phase: str, node: ir.Node, facts: Facts, after: CompiledRule | None = None
    ) -> Match | None:
        if after is not None:  # the engine has refused what was found here last
            self.found.pop()
            return None
        if phase != self.rule.phase:
            return None
        found = trace(self.rule, node, facts, self.target)
        if found is None:
            return None
        self.found.append(shown(self.reading, found, facts))
        return found.match


@dataclass
class Measure:
    """A rule ready to be measured. `lower`: the rules that it is declared to be `over`."""

    pack: RulePack
    rule: ast.Rule
    targets: Sequence[Target]
    vocabulary: Vocabulary
    compiled: CompiledRule = field(init=False)
    classes: tuple[OpsetClass, ...] = field(init=False)
    lower: tuple[CompiledRule, ...] = field(init=False)
    tests: frozenset[str] = field(init=False)  # keys

    def __post_init__(self) -> None:
        self.compiled = self._compile(self.rule)
        self.tests = frozenset(test.key for test in tests_of(self.compiled).every)
        self.classes = classes(self.compiled, self.vocabulary)
        named = [r for r in self.pack.rules if r.name in self.rule.over]
        self.lower = tuple(self._compile(rule) for rule in named)
        if not asks_target(self.rule):
            self.targets = self.targets[:1]

    def _compile(self, rule: ast.Rule) -> CompiledRule:
        return compile_rule(rule, self.vocabulary, self.pack.opset)

    def model(self, proto: onnx.ModelProto, target: Target | None = None) -> Seen:
        """What the model shows, under any of the targets, or under the one given."""
        keys: set[str] = set()
        applied = 0
        for one in self.targets if target is None else (target,):
            seen = self._under(proto, one)
            keys |= seen.keys
            applied += seen.applied
        return Seen(frozenset(keys), applied)

    def _under(self, proto: onnx.ModelProto, target: Target) -> Seen:
        try:
            loaded = io.load(proto)
        except RewriteError:
            return Seen(frozenset(), 0)
        facts = loaded.facts
        facts.complete = Completer(facts)
        keys = set(self._decisive(facts, target))
        keys |= set(self._overridden(facts, target))
        watched = _Watched(self.compiled, target)
        opset = facts.import_of(loaded.model.graph, "")
        driver.run(loaded, watched, target, _LIMITS, _OPTIONS)
        if watched.found:
            keys |= {"fired"}.union(*watched.found)
            keys |= {f"opset={c.words}" for c in self.classes if c.low <= opset <= c.high}
        return Seen(frozenset(keys), len(watched.found))

    def _decisive(self, facts: Facts, target: Target) -> Iterable[str]:
        """Tests that alone keep the rule from matching somewhere."""
        for node in _nodes(facts):
            for found in near(self.compiled, node, facts, target, most=1, keep=_KEEP):
                only = found.violations[0].key if len(found.violations) == 1 else ""
                if only in self.tests:
                    yield f"{only}={FALSE}"

    def _overridden(self, facts: Facts, target: Target) -> Iterable[str]:
        """Rules below this one that match where it matches."""
        if not self.lower:
            return
        own = [m for n in _nodes(facts) if (m := trace(self.compiled, n, facts, target))]
        taken = {node for traced in own for node in traced.match.nodes}
        for rule in self.lower if taken else ():
            for node in _nodes(facts):
                found = trace(rule, node, facts, target)
                if found is not None and taken.intersection(found.match.nodes):
                    yield f"over:{rule.name}"
                    break


def _nodes(facts: Facts) -> list[ir.Node]:
    return [node for graph in facts.graphs() for node in graph]
