"""Instances of a rule.

In: a pack, one of its rules, a target, a budget. Out: `Instance`s, those that fire and those that
do not.

Seeds are the rule's examples, then models built from its pattern (`grow`). Each is varied by every
kind of variation in turn; later, models that fired are varied once more, at random. A model that
is not valid is left out, and so is one that was there before.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from rewrite.audit.instances.alone import Alone, Applied
from rewrite.audit.instances.grow import grown
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.instance import Budget, Instance
from rewrite.audit.instances.registry import Change, changes
from rewrite.audit.instances.seeds import examples
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.target.target import Target

_ONCE = 0.6  # share of the budget for models with one variation
_STALE = 40  # variations of variations in a row that give nothing new
_MOST_VARIED = 4
# Kinds that refute most: they have two turns in each round, and are tried together more often.
_TOGETHER = (
    "attribute", "default attribute", "dim everywhere", "dim of one", "dtype", "number",
    "number near", "one element", "opset", "rank", "shape of a constant",
)  # fmt: skip


def instances_of(
    pack: RulePack, rule: ast.Rule, target: Target, budget: Budget | None = None
) -> tuple[Instance, ...]:
    """Models on which the rule fires, and models on which it does not."""
    search = Search(pack, Alone.of(pack, rule, target), budget or Budget())
    return tuple(tried.instance for tried in search.run())


@dataclass(frozen=True, slots=True)
class Tried:
    """An instance, and what the rule did to it."""

    instance: Instance
    applied: Applied


@dataclass(frozen=True, slots=True)
class _Step:
    """A change that waits for its turn."""

    parent: Instance
    kind: str
    change: Change


class Search:
    """The instances of one rule on one target, one after the other."""

    def __init__(self, pack: RulePack, alone: Alone, budget: Budget) -> None:
        self.pack = pack
        self.alone = alone
        self.budget = budget
        self.hints = Hints.of(alone.compiled)
        self.rng = np.random.default_rng(budget.seed)
        self.seen: set[bytes] = set()
        self.fired: list[Instance] = []
        self.tried = 0
        self.end = time.process_time() + budget.seconds
        self.late = False  # whether it is time that ended the search

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        if self.tried >= self.budget.most or len(self.fired) >= self.budget.firing:
            return True
        self.late = time.process_time() >= self.end
        return self.late

    def run(self) -> Iterator[Tried]:
        """Instances as they are found, seeds first."""
        seeds: list[Instance] = []
        for seed in examples(self.pack, self.alone.rule):
            found = self._try(seed.model, (), seed.source)
            if found is not None:
                seeds.append(found.instance)
                yield found
        for tried in self._grow(tuple(seeds)):
            seeds.append(tried.instance)
            yield tried
        yield from self._once(seeds)
        yield from self._again()

    def _grow(self, seeds: Sequence[Instance]) -> Iterator[Tried]:
        """The pattern built in other ways, for at most a third of the instances that fire."""
        most = len(self.fired) + max(1, self.budget.firing // 3)
        for parent in seeds:
            if not parent.fires:
                continue
            for seed in grown(self.alone, parent.model, parent.source):
                if self.is_over or len(self.fired) >= most:
                    return
                found = self._try(seed.model, (), seed.source)
                if found is not None:
                    yield found

    def _try(self, model: onnx.ModelProto, varied: tuple[str, ...], source: str) -> Tried | None:
        digest = _digest(model)
        if digest in self.seen:
            return None
        self.seen.add(digest)
        applied = self.alone.apply(model)
        if applied is None:
            return None
        self.tried += 1
        fires = applied.after is not None
        instance = Instance(model, fires, varied, source, self.alone.target.name)
        if fires:
            self.fired.append(instance)
        return Tried(instance, applied)

    def _step(self, step: _Step) -> Tried | None:
        model = step.change.of(step.parent.model)
        if model is None:
            return None
        varied = (*step.parent.varied, f"{step.kind}: {step.change.label}")
        return self._try(model, varied, step.parent.source)

    def _once(self, seeds: list[Instance]) -> Iterator[Tried]:
        """Every kind of variation in turn, until they end or most of the budget is used."""
        queues = self._queues(seeds)
        most = int(self.budget.most * _ONCE)
        firing = int(self.budget.firing * _ONCE)
        while queues:
            often = [kind for kind in _TOGETHER if kind in queues]
            for kind in [*queues, *often]:
                if kind not in queues:
                    continue
                if self.is_over or (self.tried >= most and len(self.fired) >= firing):
                    return
                found = self._step(queues[kind].popleft())
                if not queues[kind]:
                    del queues[kind]
                if found is not None:
                    yield found

    def _queues(self, seeds: list[Instance]) -> dict[str, deque[_Step]]:
        """Changes of seeds that fire first, seeds in turn, in a random order."""
        ordered = sorted(seeds, key=lambda seed: not seed.fires)
        rows: dict[str, list[list[_Step]]] = {}
        for seed in ordered:
            for kind, found in changes(seed.model, self.hints).items():
                order = self.rng.permutation(len(found))
                steps = [_Step(seed, kind, found[i]) for i in order]
                rows.setdefault(kind, []).append(steps)
        return {kind: deque(_in_turn(lists)) for kind, lists in rows.items()}

    def _again(self) -> Iterator[Tried]:
        """Models that fired, varied once more."""
        stale = 0
        known: dict[int, dict[str, list[Change]]] = {}
        while self.fired and stale < _STALE and not self.is_over:
            stale += 1
            place = int(self.rng.integers(len(self.fired)))
            parent = self.fired[place]
            if len(parent.varied) >= _MOST_VARIED:
                continue
            kinds = known.get(place)
            if kinds is None:
                kinds = known[place] = changes(parent.model, self.hints)
            if not kinds:
                continue
            together = [kind for kind in _TOGETHER if kind in kinds]
            among = together if together and self.rng.random() < 0.75 else list(kinds)
            kind = among[int(self.rng.integers(len(among)))]
            change = kinds[kind][int(self.rng.integers(len(kinds[kind])))]
            found = self._step(_Step(parent, kind, change))
            if found is not None:
                stale = 0
                yield found


def _in_turn(lists: list[list[_Step]]) -> list[_Step]:
    longest = max(len(steps) for steps in lists)
    return [steps[i] for i in range(longest) for steps in lists if i < len(steps)]


def _digest(model: onnx.ModelProto) -> bytes:
    return hashlib.blake2b(model.SerializeToString(deterministic=True), digest_size=16).digest()
