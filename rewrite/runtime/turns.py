"""The record of turns of one plan, as native code reads it (rewrite/codegen/runloop_turns.py).

In: `Turning`. Out: `Record`: addresses of the record and of the table of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite.codegen.runloop_turns import TURNS_WORDS, Turns
from rewrite.runtime.memory import address_of, words

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Turning:
    """Turns of a plan.

    `arrays`: what its inputs, then its outputs are in the first turn. Behind each turn, in this
    order: `exchanges` (to, from, swaps): array `to` of the next turn lies where `from` lies, and
    `from` where `to` lay where they swap; `advances`: an array lies so many bytes further on.
    `counter`: an s64 that is incremented. `condition`: a bool that ends the turns once it is false.
    Nothing that is written overlaps anything else, in any of up to `limit` turns.
    """

    arrays: tuple[Array, ...]
    exchanges: tuple[tuple[int, int, bool], ...]
    advances: tuple[tuple[int, int], ...]
    limit: int
    counter: Array
    condition: Array | None


class Record:
    """One block of memory; it lives as long as this does."""

    def __init__(self, turning: Turning, run: int, control: int) -> None:
        cells = [address_of(array) for array in turning.arrays]
        exchanges = [int(word) for entry in turning.exchanges for word in entry]
        advances = [word for entry in turning.advances for word in entry]
        condition = turning.condition
        size = TURNS_WORDS + 2 * len(cells) + len(exchanges) + len(advances)
        block = self._block = words(size)
        self.address = address_of(block)
        # The plan's own loop looks into a table: the addresses of the cells.
        first = self.address + 8 * TURNS_WORDS
        self.table = first + 8 * len(cells)
        behind = self.table + 8 * len(cells)
        table = range(first, self.table, 8)
        block[TURNS_WORDS:] = [*cells, *table, *exchanges, *advances]
        block[Turns.RUN] = run
        block[Turns.CONTROL] = control
        block[Turns.LIMIT] = turning.limit
        block[Turns.COUNTER] = address_of(turning.counter)
        block[Turns.CONDITION] = 0 if condition is None else address_of(condition)
        block[Turns.CELLS] = first
        block[Turns.EXCHANGES] = behind
        block[Turns.EXCHANGE_COUNT] = len(turning.exchanges)
        block[Turns.ADVANCES] = behind + 8 * len(exchanges)
        block[Turns.ADVANCE_COUNT] = len(turning.advances)

    @property
    def done(self) -> int:
        """Turns that are over."""
        return int(self._block[Turns.DONE])
