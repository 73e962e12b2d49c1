"""Each two rules of a pack that can touch, together.

In: the folder of a pack, seconds of processor time. Out: `PackPairs`: a `PairResult` for each two
rules that were tried, and how many were not.

Two rules can touch where a node may be in a match of both, or one makes an operator that the other
looks for. They are tried on models on which they do: examples in which both match with a node in
common, models put together of an example of each, and what one rule makes of its examples where
the other one then matches a node that was made. There one rule is applied first, then both until
nothing changes; and again with the other rule first. What comes out must be valid, be within the
sum of what the applications claim, and come to an end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import onnx

from rewrite.audit.claims.check import check
from rewrite.audit.claims.counterexample import Counterexample
from rewrite.audit.claims.touching import Place, Touching, touching
from rewrite.audit.instances.instance import Instance
from rewrite.audit.lint.subject import open_pack
from rewrite.engine import driver
from rewrite.engine.ledger import Bound, Ledger
from rewrite.engine.limits import Limits, Options
from rewrite.errors import Diagnostic, RewriteError, Span
from rewrite.graph import io
from rewrite.match.matcher import Matcher

_LIMITS = Limits(applications=300, seconds=10.0, nodes=400)
_OPTIONS = Options(fold=False, tidy=False)
_SEARCH = 0.6  # of the seconds, for models


@dataclass(frozen=True, slots=True)
class PairResult:
    """`refuted`: a counterexample, or a model on which the two rules do not come to an end.

    `models`: on how many they were tried; `orders`: in how many runs both rules applied; `runs`:
    inputs compared.
    """

    pack: str
    rules: tuple[str, str]
    span: Span
    status: Literal["sampled", "refuted", "endless"]
    reason: str = ""
    models: int = 0
    orders: int = 0
    runs: int = 0
    counterexample: Counterexample | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        return self.status == "sampled"

    def problem(self) -> Diagnostic | None:
        """Why the pair did not pass, at the first rule's place in the text."""
        if self.ok:
            return None
        one, other = self.rules
        if self.status == "endless":
            hint = "let one of the rules not match what the other one makes"
            said = f"`{one}` and `{other}` do not come to an end: {self.reason}"
            return Diagnostic("RW737", said, self.span, hint)
        hint = "each rule holds alone: look at what one takes for granted and the other changes"
        said = f"`{one}` and `{other}` together are refuted: {self.reason}"
        return Diagnostic("RW736", said, self.span, hint)


@dataclass(frozen=True, slots=True)
class PackPairs:
    """`touching`: pairs that can touch by their operators; `unmet`: those of them for which no
    model was found; `late`: those that the time did not reach."""

    pack: str
    touching: int
    unmet: int
    late: int
    results: tuple[PairResult, ...]
    seconds: float = field(default=0.0, compare=False)  # of the processor

    def with_results(self, results: Sequence[PairResult], seconds: float) -> PackPairs:
        """What there is when some of the pairs were tried."""
        late = self.late - len(results)
        return replace(self, late=late, results=tuple(results), seconds=seconds)


# What is about to be done, in words; what is known: at first of the pack, then of each pair.
Tell = Callable[[str | PackPairs | PairResult], None]


def pairs_of(
    folder: Path,
    seconds: float,
    only: frozenset[str] = frozenset(),
    tell: Tell = lambda said: None,
) -> PackPairs:
    """The pairs with a rule of the pack itself; `only` those with one of these, if there are any.

    Between two pairs it ends when the time is over; for a pair without an end, the caller is told
    (`tell`) what there is so far. Raises `RewriteError` where the pack does not load.
    """
    begin = time.process_time()
    work = Touching.of(open_pack(folder))
    known = {pair for pair in touching(work) if not only or not only.isdisjoint(pair)}
    searched = work.find(begin + seconds * _SEARCH)
    found = {p: at for p, at in work.places.items() if not only or not only.isdisjoint(p)}
    unmet = len(known - found.keys())
    late, unmet = (0, unmet) if searched else (unmet, 0)
    total = len(known | found.keys())
    begun = PackPairs(work.subject.pack.name, total, unmet, late + len(found), ())
    tell(begun)
    results: list[PairResult] = []
    for pair, places in found.items():
        if time.process_time() >= begin + seconds:
            break
        results.append(_tried(work, pair, places, tell))
        tell(results[-1])
    return begun.with_results(results, time.process_time() - begin)


# --- trying ------------------------------------------------------------------------------------


def _tried(work: Touching, pair: tuple[str, str], places: list[Place], tell: Tell) -> PairResult:
    rule = work.rules[pair[0] if pair[0] in work.subject.written else pair[1]]
    result = PairResult(work.subject.pack.name, pair, rule.span, "sampled")
    for place in places:
        result = replace(result, models=result.models + 1)
        for first, second in (pair, pair[::-1]):
            tell(f"{pair[0]} and {pair[1]} on {place.label}, {first} first")
            result = _order(work, place, first, second, result)
            if not result.ok:
                return result
    return result


def _order(work: Touching, place: Place, first: str, second: str, result: PairResult) -> PairResult:
    """One rule as far as it goes, then both."""
    begun = work.alone(first, place.target).apply(place.model)
    if begun is None or begun.after is None:
        return result
    matcher = Matcher(tuple(work.entries[name] for name in result.rules), place.target)
    try:
        loaded = io.load(begun.after)
    except RewriteError:
        return result  # RW730 is for what one rule does alone
    journal = driver.run(loaded, matcher, place.target, _LIMITS, _OPTIONS)
    applied = {a.rule for a in journal.applied} | {g.rule for g in journal.groups}
    if journal.stop.reason != "fixpoint":
        reason = f"{journal.stop.reason} after {len(journal.applied)} applications"
        return replace(result, status="endless", reason=f"{reason}, on {place.label}")
    if second not in applied:
        return result
    bound = begun.bound + Ledger.of(journal).total
    return _compared(place, io.to_proto(loaded), bound, (first, second), result)


def _compared(
    place: Place,
    after: onnx.ModelProto,
    bound: Bound,
    order: tuple[str, str],
    result: PairResult,
) -> PairResult:
    checked = check(place.model, after, bound)
    done = replace(result, orders=result.orders + 1, runs=result.runs + checked.runs)
    # Steps are those of the codes that a rule makes: read with another scale they say nothing.
    if checked.status != "broken" or (place.made and bound.lsb and checked.feeds):
        return done
    instance = Instance(place.model, True, (), place.label, place.target.name)
    example = Counterexample.seen(" then ".join(order), instance, after, checked)
    reason = f"{order[0]} first: {checked.reason}"
    return replace(done, status="refuted", reason=reason, counterexample=example)
