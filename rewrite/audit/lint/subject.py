"""What checks look at: one pack, its rules as written, expanded and compiled.

In: the folder of a pack, the folders linted with it. Out: `Subject`; what several checks need is
computed once, when first asked for. Raises `RewriteError` where the pack does not load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from rewrite import resources
from rewrite.audit.examples import asks_target
from rewrite.audit.lint.suppress import Suppression, suppressions
from rewrite.audit.lint.witness import Meetings, Witness, find_meetings
from rewrite.errors import Collector, Span
from rewrite.lang import ast
from rewrite.lang.pack import RulePack, load_pack
from rewrite.lang.sources import PackSource, find_sources
from rewrite.lang.versions import Operators
from rewrite.lang.vocabulary import PHASES, Vocabulary
from rewrite.lang.walk import nodes
from rewrite.match import matcher as matching
from rewrite.match.rule import CompiledRule
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target


@dataclass
class Subject:
    """One pack. Rules of packs that it extends count where rules meet; they are not its own."""

    pack: RulePack
    sources: tuple[PackSource, ...]  # those it extends before it
    beside: tuple[Path, ...] = ()  # other packs of the run
    operators: Operators = field(default_factory=lambda: Operators(vocabulary()))
    checked: frozenset[str] = frozenset()  # codes of the run, once all but the last checks ran

    @property
    def vocabulary(self) -> Vocabulary:
        return self.operators.vocabulary

    @property
    def source(self) -> PackSource:
        return self.sources[-1]

    # --- text

    @cached_property
    def comments(self) -> tuple[Suppression, ...]:
        """What the pack's comments suppress."""
        texts = {file.path: file.text for file in self.source.files}
        return tuple(c for t in self.trees for c in suppressions(texts[t.span.file], t))

    def text(self, span: Span) -> str:
        """The text of the file that a span lies in."""
        return self.pack.texts[span.file]

    # --- rules

    @cached_property
    def trees(self) -> tuple[ast.RuleFile, ...]:
        """The files of the pack itself, as written."""
        own = {file.path for file in self.source.files}
        return tuple(file.tree for file in self.pack.files if file.path in own)

    @cached_property
    def written(self) -> Mapping[str, ast.Rule]:
        """The pack's own rules as they stand in its text, by name."""
        return {rule.name: rule for tree in self.trees for rule in tree.rules}

    @cached_property
    def expanded(self) -> Mapping[str, ast.Rule]:
        """Every rule in force, those of extended packs too: patterns expanded, refined."""
        return {rule.name: rule for rule in self.pack.rules}

    def own(self) -> Iterator[ast.Rule]:
        """The pack's own rules, expanded, in text order."""
        return (rule for rule in self.pack.rules if rule.name in self.written)

    @cached_property
    def compiled(self) -> Mapping[str, CompiledRule]:
        """Every rule in force, phase by phase in the order in which rules are tried."""
        matcher = self.matchers[0][1]
        return {rule.name: rule for phase in PHASES for rule in matcher.rules(phase)}

    def above(self, upper: str, lower: str) -> bool:
        """Whether `over` puts one rule before the other, by way of others too."""
        reached, waiting = {upper}, [upper]
        while waiting:
            rule = self.expanded.get(waiting.pop())
            for name in rule.over if rule is not None else ():
                if name == lower:
                    return True
                if name not in reached:
                    reached.add(name)
                    waiting.append(name)
        return False

    # --- targets

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """The shipped targets that use the pack; all of them where none does."""
        using = tuple(t for t, folders in shipped_targets() if self.source.folder in folders)
        return using or tuple(t for t, _ in shipped_targets())

    @cached_property
    def matchers(self) -> Sequence[tuple[Target, matching.Matcher]]:
        """A matcher of all rules for each target; one where no rule asks for the target."""
        entries = matching.compile_pack(self.pack)
        asks = any(asks_target(rule) for rule in self.pack.rules)
        targets = self.targets if asks else self.targets[:1]
        return [(target, matching.Matcher(entries, target)) for target in targets]

    def matchers_of(self, rule: str) -> Sequence[tuple[Target, matching.Matcher]]:
        """Those under which the rule may do different things."""
        return self.matchers if asks_target(self.expanded[rule]) else self.matchers[:1]

    # --- models

    @cached_property
    def witnesses(self) -> tuple[Witness, ...]:
        """The examples of all rules in force as models."""
        return tuple(
            Witness.of(self.pack, rule, number, self.compiled[rule.name].opset)
            for rule in self.pack.rules
            for number in range(len(rule.examples))
        )

    @cached_property
    def meetings(self) -> Meetings:
        """Where two rules of one phase match with a node in common."""
        return find_meetings(self.witnesses, self.matchers, frozenset(self.written))

    # --- patterns

    @cached_property
    def patterns_called(self) -> frozenset[str]:
        """The named patterns in use, in packs of the run that extend it too."""
        called = {n.name for t in self.trees for n in nodes(t) if isinstance(n, ast.PatternCall)}
        for folder in self.beside:
            other = find_sources((folder,), _search(), self.vocabulary.newest_opset, Collector())
            if all(source.folder != self.source.folder for source in other):
                continue
            for file in load_pack(folder, self.vocabulary, _search()).files:
                called |= {n.name for n in nodes(file.tree) if isinstance(n, ast.PatternCall)}
        return frozenset(called)


def open_pack(folder: Path, beside: Sequence[Path] = ()) -> Subject:
    """The pack in a folder, checked as when it is used."""
    known = vocabulary()
    pack = load_pack(folder, known, _search())
    sources = find_sources((folder,), _search(), known.newest_opset, Collector())
    return Subject(pack, sources, tuple(p for p in beside if p != folder))


@cache
def shipped_targets() -> tuple[tuple[Target, frozenset[Path]], ...]:
    """Each with the folders of the packs that it uses, those extended too; `generic` first."""
    found: list[tuple[Target, frozenset[Path]]] = []
    for name in resources.target_names():
        target = load_target(name, vocabulary())
        used = find_sources(target.packs, _search(), vocabulary().newest_opset, Collector())
        found.append((target, frozenset(source.folder for source in used)))
    return tuple(found)


def _search() -> list[Path]:
    return [resources.folder("rules")]
