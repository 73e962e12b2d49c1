"""Few models that show much.

In: what a `Search` found. Out: the models chosen: greedily, changes of one test put together where
the rule still fires, near misses of one test put side by side in one graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx

from rewrite.audit.coverage.suggest.search import Found, Search, made
from rewrite.audit.instances.draft import Draft

MOST_CHANGES = 4  # of a test that fires
MOST_BESIDE = 3  # near misses in one model
_SECONDS = 3.0  # of the processor
_MOST_TRIED = 400  # combinations of one rule


def choose(search: Search) -> tuple[Found, ...]:
    """Models that together show every key that was found, those that fire first."""
    wanted = frozenset(search.best)
    picked = _greedy(search, wanted)
    firing = [one for one in picked if one.fires]
    others = [one for one in picked if not one.fires]
    search.give(_SECONDS)
    together = _Together(search, wanted)
    return (*together.changes(firing), *together.beside(others))


def _greedy(search: Search, wanted: frozenset[str]) -> list[Found]:
    """A cover: again and again the model that shows most of what is left."""
    left, found = set(wanted), list[Found]()
    pool = list(dict.fromkeys(search.best[key] for key in sorted(search.best)))
    while left:
        best = max(pool, key=lambda one: (len(one.keys & left), [-n for n in one.size]))
        if not best.keys & left:
            break
        found.append(best)
        left -= best.keys
    return found


class _Together:
    def __init__(self, search: Search, wanted: frozenset[str]) -> None:
        self.search = search
        self.wanted = wanted
        self.tried = 0

    @property
    def is_over(self) -> bool:
        return self.tried >= _MOST_TRIED or self.search.is_over

    def changes(self, found: Sequence[Found]) -> list[Found]:
        """Changes of one test, made to one model."""
        left, done = list(found), list[Found]()
        while left:
            current = left.pop(0)
            for other in list(left):
                if len(current.changed) + len(other.changed) > MOST_CHANGES or self.is_over:
                    continue
                both = self._both(current, other)
                if both is not None:
                    current = both
                    left.remove(other)
            done.append(current)
        return done

    def _both(self, first: Found, second: Found) -> Found | None:
        """The changes of the second made to the first, if all is still shown."""
        if first.source != second.source or first.target is not second.target:
            return None
        self.tried += 1
        current = first
        for change in second.changed:
            model = made(change, current.model)
            if model is None:
                return None
            current = replace(current, model=model, changed=(*current.changed, change))
        current = replace(current, parts=_parts(first) + _parts(second))
        return self._measured(current, (first.keys | second.keys) & self.wanted, fires=True)

    def beside(self, found: Sequence[Found]) -> list[Found]:
        """Near misses of one test, beside each other."""
        left, done = list(found), list[Found]()
        while left:
            current = left.pop(0)
            count = 1
            for other in list(left):
                if count == MOST_BESIDE or self.is_over:
                    break
                both = self._joined(current, other)
                if both is not None:
                    current, count = both, count + 1
                    left.remove(other)
            done.append(current)
        return done

    def _joined(self, first: Found, second: Found) -> Found | None:
        same = first.source == second.source and first.target is second.target
        if not same or _opset(first) != _opset(second):
            return None
        for shared in (True, False):
            self.tried += 1
            model = join(first.model, second.model, shared)
            if model is None:
                continue
            changed = (*first.changed, *second.changed)
            parts = _parts(first) + _parts(second)
            both = replace(first, model=model, changed=changed, parts=parts)
            found = self._measured(both, (first.keys | second.keys) & self.wanted, fires=False)
            if found is not None:
                return found
        return None

    def _measured(self, found: Found, keys: frozenset[str], fires: bool) -> Found | None:
        seen = self.search.measure.model(found.model, found.target)
        if not keys <= seen.keys or (seen.applied > 0) is not fires:
            return None
        return replace(found, keys=seen.keys, applied=seen.applied)


def _parts(found: Found) -> tuple[Found, ...]:
    return found.parts or (found,)


def _opset(found: Found) -> tuple[tuple[str, int], ...]:
    return tuple((e.domain, e.version) for e in found.model.opset_import)


def join(first: onnx.ModelProto, second: onnx.ModelProto, shared: bool) -> onnx.ModelProto | None:
    """Both graphs in one. `shared`: inputs and constants that are the same are one."""
    if any(a.HasField("g") for n in second.graph.node for a in n.attribute):
        return None  # names inside would have to change, too
    draft = Draft(first)
    known = {v.name: v for v in (*first.graph.input, *first.graph.initializer)}
    taken = draft.names()
    renamed: dict[str, str] = {}
    for value in (*second.graph.input, *second.graph.initializer):
        same = shared and known.get(value.name) == value and _kind(known[value.name], value)
        renamed[value.name] = value.name if same else _free(value.name, taken)
    for node in second.graph.node:
        renamed |= {name: _free(name, taken) for name in node.output if name}
    graph = draft.graph
    given = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    for source, target in (
        (second.graph.input, graph.input),
        (second.graph.initializer, graph.initializer),
        (second.graph.output, graph.output),
    ):
        for value in source:
            name = renamed.get(value.name, value.name)
            if name not in given or target is graph.output:
                copy = target.add()
                copy.CopyFrom(value)
                copy.name = name
    for node in second.graph.node:
        copied = graph.node.add()
        copied.CopyFrom(node)
        copied.input[:] = [renamed.get(n, n) for n in node.input]
        copied.output[:] = [renamed.get(n, n) for n in node.output]
    return draft.finish()


def _kind(a: object, b: object) -> bool:
    return type(a) is type(b)


def _free(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}{number}" in taken:
        number += 1
    taken.add(f"{name}{number}")
    return f"{name}{number}"
