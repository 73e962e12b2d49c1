"""How much one attempt to apply a rule may compute.

In: work as it is done, in elements touched. Out: `Exhausted` where it is too much.

Rules come from strangers, and a few words of an expression can ask for any amount of work. Every
attempt (one rule at one node, what it emits included) starts with the same allowance, which grows
only with the model, so that the same model gives the same result on a fast and on a slow machine.
The deadline of the run is looked at as well, since attempts are many.
"""

from __future__ import annotations

import time
from contextvars import ContextVar

from rewrite.match.values import Unknown, element_limit

# What things cost, measured in elements that numpy passes over in the same time.
PER_CALL = 512
PER_ITEM = 128  # of a list, handled one by one in Python

_LEAST = 1 << 28  # about a second
_PASSES = 64  # over a constant of the largest size allowed
_CLOCK_EVERY = 1 << 22

# When to give up, as `time.perf_counter` counts.
deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


class Exhausted(Unknown):
    """The attempt is over, whatever else it could still try."""


class _Meter:
    __slots__ = ("left", "limit", "look", "steps", "whole")

    def __init__(self) -> None:
        self.limit = self.whole = self.left = self.look = self.steps = 0


_meter: ContextVar[_Meter | None] = ContextVar("meter", default=None)


def begin() -> None:
    """A new attempt with its whole allowance."""
    meter = _meter.get()
    if meter is None:
        meter = _Meter()
        _meter.set(meter)
    limit = element_limit.get()
    if limit != meter.limit:
        meter.limit, meter.whole = limit, max(_LEAST, _PASSES * limit)
    meter.steps = 0
    meter.left = meter.whole
    meter.look = meter.left - _CLOCK_EVERY


def step() -> int:
    """Count a choice; how many this attempt has met."""
    meter = _meter.get()
    assert meter is not None  # a search starts with `begin`
    meter.steps += 1
    return meter.steps


def spend(work: int) -> None:
    """Account for work; where there was no `begin`, nothing is limited."""
    meter = _meter.get()
    if meter is None:
        return
    meter.left -= work
    if meter.left < 0:
        raise Exhausted("the rule computes too much here")
    if meter.left < meter.look:
        meter.look = meter.left - _CLOCK_EVERY
        look_at_clock()


def look_at_clock() -> None:
    """Give up if the time of the run is over."""
    if time.perf_counter() > deadline.get():
        raise Exhausted("the time of the run is over")
