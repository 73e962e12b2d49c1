"""Examples rewritten to the end: which rules go on for ever.

In: the examples that fire, the matchers of a pack. Out: `Loop`s, found by the engine's own watch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rewrite.audit.lint.witness import Witness
from rewrite.engine import driver
from rewrite.engine.limits import Limits
from rewrite.errors import RewriteError
from rewrite.match.matcher import Matcher
from rewrite.target.target import Target

_LIMITS = Limits(applications=500, seconds=20.0, rounds=30)


@dataclass(frozen=True, slots=True)
class Loop:
    """`rules` in the order in which they follow each other, the first once more at the end."""

    rules: tuple[str, ...]
    witness: Witness


def find_loops(
    witnesses: Sequence[Witness], matchers: Sequence[tuple[Target, Matcher]]
) -> Iterator[Loop]:
    """Each rule on its own examples, first alone and then with all rules of the pack."""
    for witness in witnesses:
        if not witness.fires:
            continue
        for target, matcher in matchers:
            alone = [e for e in matcher.entries if e.rule.name == witness.rule]
            for chosen in (Matcher(alone, target), matcher):
                yield from _run(witness, chosen, target)


def _run(witness: Witness, matcher: Matcher, target: Target) -> Iterator[Loop]:
    loaded = witness.load()
    if loaded is None:
        return
    try:
        journal = driver.run(loaded, matcher, target, _LIMITS)
    except RewriteError:  # `rewrite test` says what is wrong with the example
        return
    for cycle in journal.cycles:
        yield Loop(cycle.rules, witness)
    if not journal.cycles and journal.stop.reason.startswith("limit"):
        last = dict.fromkeys(a.rule for a in journal.applied[-8:])
        yield Loop((*last, next(iter(last), witness.rule)), witness)
