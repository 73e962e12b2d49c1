"""Models that show items, found by small changes of the tests that a rule has.

In: a `Measure`, the models of the rule's tests, the keys that are wanted. Out: `Found`s: for each
key the smallest model met that shows it.

Seeds are the models of tests, those on which the rule fires first. Each is changed once; then the
models that showed something new are changed once more; then, for what is left, models on which the
rule still fires are changed at random. For a key only those variations are tried that may show it.
The order is always the same, so that the result does not depend on the machine unless its time is
used up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from rewrite.audit.cases.case import TestModel
from rewrite.audit.coverage.item import Item
from rewrite.audit.coverage.measure import Measure
from rewrite.audit.coverage.suggest.branches import branches
from rewrite.audit.coverage.suggest.further import further, moved
from rewrite.audit.coverage.suggest.kinds import APART, kinds_for
from rewrite.audit.instances.draft import Draft
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, changes
from rewrite.target.target import Target

SECONDS = 8.0  # of the processor, for one rule
_FEW, _MANY = 8, 100  # kinds of variations that are tried for an item
_MOST_SEEDS = 8
_MOST_PARENTS = 24  # models that are changed once more
_WALK_SECONDS = 4.0
_MOST_STEPS = 1000  # of a walk at random
_MOST_CHANGED = 4
_MOST_OF_KIND = 160  # changes of one kind of one model


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A model, how it was made of which test, what it shows. `applied`: how often the rule was."""

    model: onnx.ModelProto
    source: str
    changed: tuple[Change, ...]
    keys: frozenset[str]
    applied: int
    target: Target
    parts: tuple[Found, ...] = ()  # those that were put together here

    @property
    def fires(self) -> bool:
        return self.applied > 0

    @property
    def size(self) -> tuple[int, int]:
        """Few changes, then a short text."""
        return len(self.changed), self.model.ByteSize()


@dataclass
class Search:
    """`wanted`: items by key. `best`: key -> the smallest model that shows it."""

    measure: Measure
    wanted: Mapping[str, Item]
    seconds: float = SECONDS
    best: dict[str, Found] = field(default_factory=dict)
    parents: list[Found] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)
    views: set[frozenset[str]] = field(default_factory=set)  # what models showed
    done: set[tuple[int, str]] = field(default_factory=set)  # models, kinds of variations
    widest: int = 0

    def run(self, tests: Sequence[TestModel]) -> None:
        """What is found is in `best`. Items that few variations may show come first."""
        self.end = time.process_time() + self.seconds
        self.hints = Hints.of(self.measure.compiled)
        seeds = self._seeds(tests)
        for self.widest in (_FEW, _MANY):
            for seed in seeds:
                self._vary(seed)
            firing = [p for p in self.parents if p.fires]
            others = [p for p in self.parents if not p.fires]
            for parent in [*firing, *others][:_MOST_PARENTS]:
                self._vary(parent)
        self._walk([*(seed for seed in seeds if seed.fires), *firing])

    @property
    def open(self) -> list[Item]:
        """What has not been shown yet."""
        return [item for key, item in self.wanted.items() if key not in self.best]

    def give(self, seconds: float) -> None:
        """More time."""
        self.end = max(self.end, time.process_time()) + seconds

    @property
    def is_over(self) -> bool:
        return time.process_time() >= self.end

    def _seeds(self, tests: Sequence[TestModel]) -> list[Found]:
        found = []
        for test in tests:
            target = self._target(test)
            seen = self.measure.model(test.proto, target)
            found.append(Found(test.proto, test.name, (), seen.keys, seen.applied, target))
            self.views.add(seen.keys)
        ordered = sorted(found, key=lambda one: (not one.fires, one.size))
        for one in found:
            self._note(one)
        return ordered[:_MOST_SEEDS]

    def _target(self, test: TestModel) -> Target:
        """The target that the test names, else the first that the rule fires for."""
        if test.target is not None:
            return test.target
        for target in self.measure.targets if test.fires else ():
            if self.measure.model(test.proto, target).applied:
                return target
        return self.measure.targets[0]

    def _vary(self, parent: Found) -> None:
        """Every change that may show something wanted, kind by kind."""
        kinds = dict.fromkeys(k for item in self._asked for k in kinds_for(item))
        kinds = dict.fromkeys(k for k in kinds if (id(parent), k) not in self.done)
        if not kinds or self.is_over:
            return
        ways = self._ways(parent)
        for kind in kinds:
            self.done.add((id(parent), kind))
            for change in ways.get(kind, ())[:_MOST_OF_KIND]:
                if self.is_over or not any(kind in kinds_for(item) for item in self._asked):
                    break
                self._try(parent, change, kind in APART)

    def _walk(self, parents: list[Found]) -> None:
        """Changes of changed models at random, as long as the rule fires, for what is left."""
        rng = np.random.default_rng(len(self.wanted))
        self.give(_WALK_SECONDS)
        ways: dict[int, dict[str, list[Change]]] = {}
        for _ in range(_MOST_STEPS if parents else 0):
            kinds = list(dict.fromkeys(k for item in self.open for k in kinds_for(item)))
            if not kinds or self.is_over:
                return
            place = int(rng.integers(len(parents)))
            parent = parents[place]
            if place not in ways:
                ways[place] = self._ways(parent)
            changes = ways[place].get(kinds[int(rng.integers(len(kinds)))])
            if not changes:
                continue
            found = self.changed(parent, changes[int(rng.integers(len(changes)))])
            if found is None:
                continue
            self._note(found)
            if found.fires and len(found.changed) < _MOST_CHANGED:
                parents.append(found)

    @property
    def _asked(self) -> list[Item]:
        """Of what is open, the items that no more kinds of variations may show."""
        return [item for item in self.open if len(kinds_for(item)) <= self.widest]

    def _ways(self, parent: Found) -> dict[str, list[Change]]:
        measure = self.measure
        opset = dict.fromkeys(c.high for c in measure.classes if f"opset={c.words}" in self.wanted)
        return {
            **changes(parent.model, self.hints),
            **further(Draft(parent.model), self.hints.words),
            "opset": moved(opset),
            "branch": branches(measure.compiled, parent.model, parent.target),
        }

    def _try(self, parent: Found, change: Change, again: bool) -> None:
        """`again`: the model is worth changing once more."""
        found = self.changed(parent, change)
        if found is None:
            return
        if self._note(found) or (found.fires and (again or found.keys not in self.views)):
            self.parents.append(found)
        self.views.add(found.keys)

    def changed(self, parent: Found, change: Change) -> Found | None:
        """The model changed, and measured; None where it is none or was met before."""
        model = made(change, parent.model)
        if model is None:
            return None
        data = model.SerializeToString(deterministic=True)
        if data in self.seen:
            return None
        self.seen.add(data)
        seen = self.measure.model(model, parent.target)
        changed = (*parent.changed, change)
        return Found(model, parent.source, changed, seen.keys, seen.applied, parent.target)

    def _note(self, found: Found) -> bool:
        """Keep the model for the keys that it is the smallest for; whether any was new."""
        new = False
        for key in sorted(found.keys & self.wanted.keys()):
            known = self.best.get(key)
            new = new or known is None
            if known is None or (found.fires, found.size) < (known.fires, known.size):
                self.best[key] = found
        return new


def made(change: Change, model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model changed; None where it cannot be: a change of one model may not fit another one."""
    try:
        return change.of(model)
    except (LookupError, AssertionError, ValueError, TypeError):
        return None
