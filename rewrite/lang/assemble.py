"""Several packs become one set of rules.

In: parsed packs, those extended before those that extend them. Out: the rules in order, with
`disable` and `refine` carried out and pattern calls expanded, and where each rule comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rewrite.errors import Collector, Label
from rewrite.lang import ast
from rewrite.lang.expand import Expander
from rewrite.lang.manifest import Manifest
from rewrite.lang.quantized import expand_fields
from rewrite.lang.sources import PackSource
from rewrite.lang.walk import resolve_method_arguments
from rewrite.lang.words import suggestion


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a rule comes from, and what its pack says about opsets."""

    pack: str
    file: str
    opset: tuple[int, int]
    example_opset: int


@dataclass(frozen=True, slots=True)
class _Pack:
    manifest: Manifest
    patterns: dict[str, ast.PatternDef]  # own and visible
    rules: frozenset[str]  # names of own rules
    visible: frozenset[str]  # names of rules of packs that it extends, directly or not


@dataclass
class Assembly:
    errors: Collector
    rules: dict[str, ast.Rule] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    _packs: dict[Path, _Pack] = field(default_factory=dict)
    _written: dict[str, ast.Rule] = field(default_factory=dict)  # every rule, also disabled ones
    _patterns: dict[str, ast.PatternDef] = field(default_factory=dict)

    def add(self, source: PackSource, trees: Sequence[ast.RuleFile]) -> None:
        """Take in a pack; the packs that it extends have been added."""
        above = [self._packs[p] for p in source.extends if p in self._packs]
        visible = frozenset(n for p in above for n in p.rules | p.visible)
        patterns = self._definitions(above, trees)
        own = self._own_rules(source, trees, Expander(patterns, self.errors))
        self._packs[source.folder] = _Pack(source.manifest, patterns, own, visible)
        for item in source.manifest.disable:
            self._demand(item.name, item, visible, "disable")
            if item.name in visible:
                self.rules.pop(item.name, None)
        for tree in trees:
            for refinement in tree.refinements:
                self._refine(refinement, own, visible)
            for rule in tree.rules:
                for name in rule.over:
                    self._demand(name, rule, own | visible, "over")

    def finish(self) -> tuple[ast.Rule, ...]:
        """The rules in order; an `over` without effect and loops of `over` are reported."""
        for rule in self.rules.values():
            for name in rule.over:
                below = self.rules.get(name)
                if below is not None and below.phase != rule.phase:
                    message = f"`over {name}` has no effect: that rule is in phase {below.phase}"
                    hint = "phases run one after the other; only rules of one phase compete"
                    self.errors.add("RW319", message, rule.span, hint)
        for name in self._over_loops():
            message = f"`over` makes a loop through the rule `{name}`"
            hint = "remove one `over` of the loop"
            self.errors.add("RW316", message, self.rules[name].span, hint)
        return tuple(self.rules.values())

    def definitions(self) -> tuple[ast.PatternDef, ...]:
        return tuple(self._patterns.values())

    # --- patterns and rules

    def _definitions(
        self, above: Sequence[_Pack], trees: Sequence[ast.RuleFile]
    ) -> dict[str, ast.PatternDef]:
        found: dict[str, ast.PatternDef] = {}
        for pack in above:
            found |= pack.patterns
        for definition in (d for tree in trees for d in tree.patterns):
            other = found.get(definition.name)
            if other is not None:
                note = Label(other.span, "the first one")
                message = f"a second pattern `{definition.name}`"
                self.errors.add("RW310", message, definition.span, "rename one", (note,))
                continue
            found[definition.name] = definition
            self._patterns[definition.name] = definition
        return found

    def _own_rules(
        self, source: PackSource, trees: Sequence[ast.RuleFile], expander: Expander
    ) -> frozenset[str]:
        names: list[str] = []
        for rule in (r for tree in trees for r in tree.rules):
            other = self._written.get(rule.name)
            if other is not None:
                note = Label(other.span, "the first one")
                message = f"a second rule `{rule.name}`"
                self.errors.add("RW309", message, rule.span, "rename one", (note,))
                continue
            self._written[rule.name] = rule
            names.append(rule.name)
            expanded = expander.expand(rule)
            if expanded is None:
                continue
            m = source.manifest
            self.rules[rule.name] = expanded
            self.origins[rule.name] = Origin(m.name, rule.span.file, m.opset, m.example_opset)
        return frozenset(names)

    def _refine(self, refinement: ast.Refine, own: frozenset[str], visible: frozenset[str]) -> None:
        name = refinement.rule
        if name in own:
            message = f"`{name}` is a rule of this pack"
            hint = "write the condition into the rule; `refine` is for packs that are extended"
            self.errors.add("RW308", message, refinement.span, hint)
            return
        self._demand(name, refinement, visible, "refine")
        rule = self.rules.get(name)
        if name not in visible or rule is None:
            return
        refined = replace(rule, steps=rule.steps + refinement.where)
        self.rules[name] = expand_fields(resolve_method_arguments(refined))

    # --- names of rules

    def _demand(
        self, name: str, place: ast.Node | object, known: frozenset[str], word: str
    ) -> None:
        if name in known:
            return
        span = getattr(place, "span", None)
        where = "the packs that this one extends"
        where = f"this pack and {where}" if word == "over" else where
        message = f"`{word}` names `{name}`, and there is no such rule in {where}"
        hint = suggestion(name, sorted(known)) or "pack.yaml names other packs under `extends`"
        self.errors.add("RW308", message, span, hint)

    def _over_loops(self) -> list[str]:
        """One rule of each loop, the first in order."""
        state: dict[str, bool] = {}  # False: being visited
        found: list[str] = []
        for start in self.rules:
            if start in state:
                continue
            state[start] = False
            path = [(start, list(self.rules[start].over))]
            while path:
                name, waiting = path[-1]
                if not waiting:
                    state[name] = True
                    path.pop()
                    continue
                below = waiting.pop(0)
                if state.get(below) is False:
                    found.append(below)
                elif below not in state and below in self.rules:
                    state[below] = False
                    path.append((below, list(self.rules[below].over)))
        return found
