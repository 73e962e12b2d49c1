"""The façade: a model in, a rewritten model out.

    result = rewrite.apply("model.onnx", target="hexagon")
    result.save("model.hexagon.onnx")

In: a path, a ModelProto or an onnx-ir model; the name of a target. Out: `Result`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewrite import resources
from rewrite.engine import driver, opsets
from rewrite.engine.journal import Journal
from rewrite.engine.ledger import CLASSES, Bound, Ledger
from rewrite.engine.limits import Limits, Options, Progress
from rewrite.engine.quantized import is_quantized
from rewrite.engine.quantized_report import account
from rewrite.engine.report import kernels, nodes, unsupported, write_ledger
from rewrite.errors import error
from rewrite.graph import collector, io
from rewrite.graph.model import LoadedModel
from rewrite.lang.sources import fingerprint
from rewrite.match.cache import open_packs, open_target
from rewrite.match.matcher import Matcher
from rewrite.ops.schemas import newest_opset
from rewrite.target.target import Target

if TYPE_CHECKING:
    import onnx

__all__ = ["Result", "apply"]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class Result:
    """A rewritten model and the account of how it came about."""

    loaded: LoadedModel
    journal: Journal
    ledger: Ledger
    stats: dict[str, Any]

    def __repr__(self) -> str:
        """One line: the model itself would be pages."""
        told = "{kernels_before} -> {kernels_after} kernels".format_map(self.stats)
        return f"<Result for {self.stats['target']}: {told}, {self.ledger.total}>"

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model as a ModelProto, made when first asked for."""
        return io.to_proto(self.loaded)

    def save(self, path: PathLike) -> None:
        """Write the model whole or not at all."""
        seconds = self.stats["seconds"]
        with _timed(seconds, "save"):
            io.save(self.loaded, path)
        seconds["total"] += seconds["save"]


def apply(
    model: io.Source,
    target: PathLike = "generic",
    rules: PathLike | Sequence[PathLike] = (),
    max_class: str | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Result:
    """Rewrite a model for a target; the model given is not changed.

    `rules`: a further pack (a name or a folder), or several, after those of the target.
    `max_class`: use only rules that claim this class or a better one: exact, lsb, equal, approx.
    """
    packs = (rules,) if isinstance(rules, (str, os.PathLike)) else tuple(rules)
    limit = CLASSES[-1] if max_class is None else max_class
    if limit not in CLASSES:
        hint = "the classes are " + ", ".join(CLASSES)
        raise error("RW601", f"there is no class of exactness `{limit}`", hint=hint)
    seconds = {"load": 0.0, "match": 0.0, "fold": 0.0, "save": 0.0, "total": 0.0}
    with _timed(seconds, "total"), collector.paused():
        with _timed(seconds, "load"):
            chosen = find_target(os.fspath(target))
            matcher = matcher_for(chosen, packs, limit)
            loaded = io.load(model)
            loaded.notes.extend(opsets.notes(loaded, chosen, matcher, _own_packs(chosen, packs)))
        before = nodes(loaded.facts), kernels(loaded.facts)
        quantized = is_quantized(loaded.facts)
        journal = driver.run(loaded, matcher, chosen, limits, Options(max_class=limit), progress)
        ledger = Ledger.of(journal)
        write_ledger(loaded.model, ledger)
        codes = account(loaded, chosen, journal, quantized, limit)
        ledger = replace(ledger, outputs=tuple(codes["lsb_bound"].items()))
    seconds.update(journal.seconds)
    stats = _stats(loaded, chosen, journal, ledger, before)
    return Result(loaded, journal, ledger, {**stats, **codes, "seconds": seconds})


def _stats(
    loaded: LoadedModel,
    target: Target,
    journal: Journal,
    ledger: Ledger,
    before: tuple[int, int],
) -> dict[str, Any]:
    """Figures of the run, by the names that the JSON report of the command line has."""
    return {
        "target": target.name,
        "nodes_before": before[0],
        "nodes_after": nodes(loaded.facts),
        "kernels_before": before[1],
        "kernels_after": kernels(loaded.facts),
        "fired": journal.fired(),
        "groups": [
            {"name": g.name, "rule": g.rule, "nodes": list(g.nodes)} for g in journal.groups
        ],
        "ledger": ledger.to_json(),
        "unsupported": unsupported(loaded, target),
        "stop": {"reason": journal.stop.reason, "rounds": journal.stop.rounds},
    }


# --- packs -------------------------------------------------------------------------------------


def find_target(name: str) -> Target:
    """The target; shipped ones are kept while no file of theirs changes."""
    shipped = resources.shipped("targets")
    if name not in shipped:
        from rewrite.match.vocabulary import vocabulary
        from rewrite.target.load import load_target

        return load_target(name, vocabulary())
    states = (path.stat() for path in shipped.values())
    return _shipped_target(name, tuple((s.st_mtime_ns, s.st_size) for s in states))


@lru_cache(maxsize=16)
def _shipped_target(name: str, state: tuple[tuple[int, int], ...]) -> Target:
    del state
    return open_target(name, resources.shipped("targets"))


_MATCHERS: dict[tuple[Target, str, str], Matcher] = {}
_MOST_MATCHERS = 16


def matcher_for(target: Target, rules: Sequence[PathLike] = (), limit: str = "approx") -> Matcher:
    """The matcher of a target's packs and of `rules`; no rule that promises less than `limit`.

    Kept for as long as the process lives and no text of the packs changes.
    """
    packs = _packs(target, rules)
    if not packs:
        return Matcher((), target)
    search = (resources.folder("rules"),)
    digest = fingerprint(packs, search, newest_opset())
    key = (target, digest, limit)
    found = _MATCHERS.get(key)
    if found is None:
        opened = open_packs(packs, search, target, digest)
        found = _MATCHERS[key] = _within(opened.matcher, limit)
        if len(_MATCHERS) > _MOST_MATCHERS:
            del _MATCHERS[next(iter(_MATCHERS))]
    return found


def _packs(target: Target, rules: Sequence[PathLike]) -> list[str | Path]:
    """The name of a shipped pack stays a name, everything else is a folder."""
    shipped = resources.shipped("rules")
    names = [os.fspath(pack) for pack in (*target.packs, *rules)]
    return [name if name in shipped else Path(name) for name in names]


def _own_packs(target: Target, rules: Sequence[PathLike]) -> dict[str, Path]:
    """The folders of the packs that a person brings along, by the names they are asked for:
    those that lie beside the file of the target, and `rules`."""
    shipped = resources.shipped("rules")
    names = [pack for pack in target.packs if pack not in shipped]
    names += [os.fspath(rule) for rule in rules]
    return {name: shipped.get(name, Path(name)) for name in names}


def digest_of(target: Target, rules: Sequence[PathLike] = ()) -> str:
    """A digest of all rule text that a target and further packs bring."""
    packs = _packs(target, rules)
    return fingerprint(packs, (resources.folder("rules"),), newest_opset()) if packs else ""


def _within(matcher: Matcher, limit: str) -> Matcher:
    if limit == CLASSES[-1]:
        return matcher
    kept = [entry for entry in matcher.entries if Bound.of(entry.rule.claim).within(limit)]
    return Matcher(kept, matcher.target)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
