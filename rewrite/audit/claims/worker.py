"""A process that verifies one rule after the other.

In: `Task`s from a pipe. Out: into the pipe, `Doing` before each native step, then the `RuleResult`.
What runtimes write to the standard streams is thrown away. What goes on after the time of the rule
ends the process (`clock`).
"""

from __future__ import annotations

import gc
import os
import traceback
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path

from rewrite.audit import clock, interrupts
from rewrite.audit.claims.result import RuleResult
from rewrite.audit.claims.task import Doing, Failed, Task, Watch
from rewrite.audit.claims.verify import verify_rule
from rewrite.audit.memory import MOST_BYTES, bound_memory
from rewrite.lang.pack import RulePack, load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target


def work(pipe: Connection) -> None:
    """Until the pipe ends.

    Graphs are cyclic, and thousands are made: what a rule leaves is collected when it is done, and
    not some time later in the time of another one.
    """
    begin()
    gc.disable()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(_verified(task, pipe))
        except Exception:  # noqa: BLE001 - the parent tells it, with the rule it happened at
            pipe.send(Failed(traceback.format_exc(limit=-3)))


def _verified(task: Task, pipe: Connection) -> RuleResult:
    pack = _pack(task.folder, task.search)
    rule = next(rule for rule in pack.rules if rule.name == task.rule)
    targets = [load_target(name, vocabulary()) for name in task.targets]
    try:
        return verify_rule(pack, rule, targets, task.budget, _Told(pipe), task.skip)
    finally:
        gc.collect()


@dataclass(frozen=True, slots=True)
class _Told(Watch):
    """Tells the parent, and ends this process where something takes longer than it may."""

    pipe: Connection

    def begins(self, doing: Doing) -> None:
        self.pipe.send(doing)
        clock.end_at(doing.end)

    def over(self) -> None:
        clock.go_on()


@lru_cache(maxsize=4)
def _pack(folder: str, search: str) -> RulePack:
    pack = load_pack(Path(folder), vocabulary(), [Path(search)])
    gc.freeze()  # it stays, and need not be looked through after every rule
    return pack


def begin() -> None:
    """Bound what the process takes, and keep it quiet."""
    interrupts.ends()
    bound_memory(MOST_BYTES)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
