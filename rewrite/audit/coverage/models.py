"""Which rules fire on the models of a folder.

In: a folder, packs, a target. Out: `ModelRun`s: per model how often each rule was applied, what was
refused, why it could not be read. The engine runs as `apply` does, with a limit on time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rewrite.audit.workers import each
from rewrite.engine import driver
from rewrite.engine.limits import Limits
from rewrite.errors import RewriteError, error
from rewrite.graph import io
from rewrite.lang.pack import RulePack, load_packs
from rewrite.match import matcher as matching
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target

SECONDS = 60.0  # for the engine, for one model
_GRACE = 120.0  # to read it besides
MOST_MODELS = 10_000


@dataclass(frozen=True, slots=True)
class ModelRun:
    """`problem`: why there is nothing to tell, "" where there is."""

    path: str
    fired: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)  # rule: reason -> how often
    stop: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Fired:
    """All models of a folder. `rules`: those that were there to fire, in the order of the packs."""

    rules: tuple[str, ...]
    runs: tuple[ModelRun, ...]

    def counts(self) -> list[tuple[str, int, int]]:
        """Rule, times, models; of the rules that fired, the most frequent first."""
        times: Counter[str] = Counter()
        models: Counter[str] = Counter()
        for run in self.runs:
            times.update(run.fired)
            models.update(run.fired.keys())
        return sorted(((r, n, models[r]) for r, n in times.items()), key=lambda x: (-x[1], x[0]))

    def never(self) -> list[str]:
        fired = {rule for run in self.runs for rule in run.fired}
        return [rule for rule in self.rules if rule not in fired]

    def refusals(self) -> list[tuple[str, int]]:
        """Rule and reason, the most frequent first."""
        counts: Counter[str] = Counter()
        for run in self.runs:
            counts.update(run.refused)
        return sorted(counts.items(), key=lambda x: (-x[1], x[0]))


def models_in(folder: Path) -> tuple[Path, ...]:
    """The `.onnx` files below a folder, in the order of their names. Raises RW722."""
    if not folder.is_dir():
        raise error("RW722", "this is not a folder", subject=str(folder))
    found = tuple(sorted(path for path in folder.rglob("*.onnx") if path.is_file()))
    if not found:
        raise error("RW722", "there are no .onnx files in this folder", subject=str(folder))
    return found[:MOST_MODELS]


def fire(
    folder: Path,
    packs: Sequence[Path],
    search: Sequence[Path],
    target: str,
    processes: int,
    tell: Callable[[str, int, int], None] | None = None,
) -> Fired:
    """The rules of the packs, together, on every model of the folder."""
    paths = models_in(folder)
    chosen = load_target(target, vocabulary())
    pack = load_packs(packs, vocabulary(), search)
    matcher = matching.build(pack, chosen)

    def work(path: Path, skip: int) -> Iterator[ModelRun]:
        if not skip:
            yield run_model(path, folder, matcher, chosen)

    def lost(path: Path, _: int, how: str) -> ModelRun:
        return ModelRun(_name(path, folder), problem=f"its process {how}")

    runs: list[ModelRun] = []
    for path, found in zip(
        paths, each(paths, work, lost, processes, SECONDS + _GRACE), strict=True
    ):
        runs += found
        if tell is not None:
            tell(path.name, len(runs), len(paths) - len(runs))
    return Fired(_rules(pack), tuple(runs))


def _rules(pack: RulePack) -> tuple[str, ...]:
    return tuple(rule.name for rule in pack.rules)


def run_model(path: Path, folder: Path, matcher: matching.Matcher, target: Target) -> ModelRun:
    """One model, rewritten and thrown away."""
    name = _name(path, folder)
    try:
        loaded = io.load(path)
    except RewriteError as problem:
        return ModelRun(name, problem=problem.diagnostics[0].message)
    journal = driver.run(loaded, matcher, target, Limits(seconds=SECONDS))
    refused = Counter(f"{r.rule}: {r.reason}" for r in journal.refused)
    return ModelRun(name, dict(journal.fired()), dict(refused), journal.stop.reason)


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder))
