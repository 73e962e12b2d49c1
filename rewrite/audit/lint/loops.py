"""Examples rewritten to the end: which rules go on for ever.

In: an example that fires, the matchers of a pack. Out: `Loop`s, found by the engine's own watch.
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

_LAST = 8  # applications at the end of a run, which are those of the loop
_LIMITS = Limits(applications=500, seconds=20.0, rounds=30)


@dataclass(frozen=True, slots=True)
class Loop:
    """`rules` in the order in which they follow each other, the first once more at the end."""

    rules: tuple[str, ...]
    witness: Witness


def find_loops(witness: Witness, matchers: Sequence[tuple[Target, Matcher]]) -> Iterator[Loop]:
    """A rule on an example of its own, first alone and then with all rules of the pack."""
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
    if journal.cycles or journal.stop.reason in ("limit_applications", "limit_growth"):
        last = tuple(dict.fromkeys(a.rule for a in journal.applied[-_LAST:]))
        yield Loop((*last, last[0]) if last else (witness.rule,), witness)
