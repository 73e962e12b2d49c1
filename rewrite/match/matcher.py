"""All rules of a pack, ready to be asked node by node.

In: a `RulePack` (or rules compiled earlier) and a `Target`. Out: `Matcher`.

A node is first looked up by its operator and by what produces its operands. For each such
neighbourhood the rules that may match are found once and kept, so that a node that matches nothing
costs one look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir

from rewrite.errors import error
from rewrite.graph.facts import Facts
from rewrite.lang.vocabulary import PHASES
from rewrite.match import reject, runtime
from rewrite.match.program import Program
from rewrite.match.rule import CompiledRule, Match
from rewrite.target.target import Target

if TYPE_CHECKING:
    from rewrite.lang.pack import RulePack

# How many neighbourhoods are kept for one operator.
MOST_KEYS = 1 << 14
FEW = 2  # rules that are tried without a look further up


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule with its program, or the reason why the interpreter matches it."""

    rule: CompiledRule
    program: Program | str
    prefilter: reject.Prefilter


@dataclass(slots=True)
class _Ready:
    """A rule as the hot loop wants it; `run` replaces itself by the loaded program."""

    entry: Entry
    low: int
    high: int
    run: Callable[[ir.Node, Facts, CompiledRule, Target | None], Match | None] = field(init=False)

    def __post_init__(self) -> None:
        self.run = self._first_run

    @property
    def is_quick(self) -> bool:
        """Whether a try costs hardly more than a look further up."""
        return not isinstance(self.entry.program, str) or self.entry.rule.siblings > 0

    def _first_run(
        self, node: ir.Node, facts: Facts, rule: CompiledRule, target: Target | None
    ) -> Match | None:
        program = self.entry.program
        self.run = interpreted if isinstance(program, str) else runtime.load(program)
        return self.run(node, facts, rule, target)


def interpreted(
    node: ir.Node, facts: Facts, rule: CompiledRule, target: Target | None
) -> Match | None:
    """The match that the interpreter finds."""
    if rule.siblings and not rule.may_have_siblings(node):
        return None
    from rewrite.match import interpreter

    found = interpreter.match(rule, node, facts, target)
    return found if isinstance(found, Match) else None


class _Candidates(dict[reject.Tree, tuple[_Ready, ...]]):
    """Neighbourhood -> the rules that may match there, found when first met."""

    __slots__ = ("rules",)

    def __init__(self, rules: Sequence[_Ready]) -> None:
        super().__init__()
        self.rules = tuple(rules)

    def __missing__(self, key: reject.Tree) -> tuple[_Ready, ...]:
        if len(self) >= MOST_KEYS:
            self.clear()
        found = tuple(r for r in self.rules if reject.admits(r.entry.prefilter, key))
        self[key] = found
        return found


class _Near(dict[reject.Tree, _Candidates | tuple[_Ready, ...] | None]):
    """The same one level up, where most nodes are done with; of a few rules, all are tried."""

    __slots__ = ("rules",)

    def __init__(self, rules: Sequence[_Ready]) -> None:
        super().__init__()
        self.rules = tuple(rules)

    def __missing__(self, key: reject.Tree) -> _Candidates | tuple[_Ready, ...] | None:
        if len(self) >= MOST_KEYS:
            self.clear()
        found = tuple(r for r in self.rules if reject.admits(r.entry.prefilter, key))
        made: _Candidates | tuple[_Ready, ...] | None = None
        if found:
            few = len(found) <= FEW and all(ready.is_quick for ready in found)
            made = found if few else _Candidates(found)
        self[key] = made
        return made


class Matcher:
    """Rules by phase, in the order in which they are tried."""

    def __init__(self, entries: Sequence[Entry], target: Target | None = None) -> None:
        self.entries = tuple(entries)
        self.target = target
        self._phases: dict[str, tuple[CompiledRule, ...]] = {}
        self._tables: dict[str, dict[str, _Near]] = {}
        for phase in PHASES:
            phased = order([e for e in entries if e.rule.phase == phase])
            self._phases[phase] = tuple(e.rule for e in phased)
            self._tables[phase] = _table(phased)

    def rules(self, phase: str) -> tuple[CompiledRule, ...]:
        """The rules of a phase, in the order in which they are tried."""
        return self._phases[phase]

    def interpreted(self) -> Mapping[str, str]:
        """Rules that the interpreter matches, and why."""
        return {e.rule.name: e.program for e in self.entries if isinstance(e.program, str)}

    def match(
        self, phase: str, node: ir.Node, facts: Facts, after: CompiledRule | None = None
    ) -> Match | None:
        """The first match of a rule of the phase with this anchor; of those behind `after`."""
        near = self._tables[phase].get(node._op_type)
        if near is None:
            return None
        found = near[reject.near_key(node)]
        if found is None:
            return None
        ready = found[reject.far_key(node)] if isinstance(found, _Candidates) else found
        if not ready:
            return None
        graph = node._graph
        if graph is None:
            return None
        opset, target = facts.import_of(graph, ""), self.target
        operator = (node._domain, node._op_type)
        for one in ready:
            rule = one.entry.rule
            if after is not None:
                after = None if rule is after else after
                continue
            if one.low <= opset <= one.high and operator in rule.anchors:
                match = one.run(node, facts, rule, target)
                if match is not None:
                    return match
        return None


def _table(entries: Sequence[Entry]) -> dict[str, _Near]:
    found: dict[str, list[_Ready]] = {}
    for entry in entries:
        ready = _Ready(entry, *entry.rule.opset)
        for name in sorted({name for _, name in entry.rule.anchors}):
            found.setdefault(name, []).append(ready)
    return {name: _Near(group) for name, group in found.items()}


def build(pack: RulePack, target: Target | None = None) -> Matcher:
    """The matcher of a pack for a target."""
    return Matcher(compile_pack(pack), target)


def compile_pack(pack: RulePack) -> tuple[Entry, ...]:
    """Every rule with its program. The compiler is loaded only here: packs are mostly kept."""
    from rewrite.match.pattern import compile_rule
    from rewrite.match.vocabulary import vocabulary

    known = vocabulary()
    rules = [compile_rule(rule, known, pack.opset) for rule in pack.rules]
    entries = tuple(entry_of(rule) for rule in rules)
    for rule in rules:
        rule.source.forget()  # few are asked for again, from their bytes
    return entries


def entry_of(rule: CompiledRule) -> Entry:
    """One rule with its program."""
    from rewrite.match.codegen import generate

    return Entry(rule, generate(rule.pattern), reject.prefilter_of(rule.pattern))


def order(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """`over` first, then more pattern nodes, then as given."""
    named = {entry.rule.name: entry for entry in entries}
    by_size = sorted(entries, key=lambda e: -e.rule.size)
    above: dict[str, list[str]] = {name: [] for name in named}
    for entry in by_size:
        for lower in entry.rule.over:
            if lower in above:
                above[lower].append(entry.rule.name)
    done: dict[str, Entry] = {}

    def place(name: str, path: tuple[str, ...]) -> None:
        if name in done:
            return
        if name in path:
            circle = " over ".join((*path[path.index(name) :], name))
            span = named[name].rule.rule.span
            raise error("RW316", f"rules are ordered in a circle: {circle}", span)
        for upper in above[name]:
            place(upper, (*path, name))
        done[name] = named[name]

    for entry in by_size:
        place(entry.rule.name, ())
    return tuple(done.values())
