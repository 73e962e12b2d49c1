"""Work on many items in processes of their own, which may die.

In: items, a function that yields results for one. Out: the results of each item, in order.

A process is forked for each item, so that it knows all that this one knows. One that ends before
its time, or gives no result for too long, cost one result: another goes on behind that one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from rewrite.audit import interrupts
from rewrite.audit.memory import MOST_BYTES, bound_memory

Item = TypeVar("Item")
Result = TypeVar("Result")

# The results of an item, those before a number left out.
Work = Callable[[Item, int], Iterator[Result]]
# What stands for a result that a process died over; the words say how.
Lost = Callable[[Item, int, str], Result]
_MOST_DEATHS = 50  # of one item, with no result between them
_TURN = 0.5  # seconds between looks at the clock


@dataclass(slots=True)
class _Running(Generic[Item, Result]):
    """A process at work on an item. `heard`: when it last gave a result."""

    number: int
    item: Item
    process: BaseProcess
    results: Connection
    found: list[Result] = field(default_factory=list)
    heard: float = field(default_factory=time.monotonic)
    done: bool = False
    deaths: int = 0  # before this process, with no result since
    begun: int = 0  # how many results there were when it started
    fault: str = ""  # the exception that ended it


def each(
    items: Sequence[Item],
    work: Work[Item, Result],
    lost: Lost[Item, Result],
    jobs: int,
    seconds: float,
) -> Iterator[list[Result]]:
    """The results of every item. `seconds`: how long one result may take.

    Raises RuntimeError where processes of an item do nothing but end.
    """
    waiting = list(enumerate(items))[::-1]
    running: list[_Running[Item, Result]] = []
    ready: dict[int, list[Result]] = {}
    following = 0
    try:
        while waiting or running or ready:
            while waiting and len(running) < max(1, jobs):
                number, item = waiting.pop()
                running.append(_start(number, item, work, []))
            _listen(running)
            for one in list(running):
                if one.done or not one.process.is_alive() or _is_late(one, seconds):
                    running.remove(one)
                    again = _ended(one, work, lost, seconds)
                    if again is None:
                        ready[one.number] = one.found
                    else:
                        running.append(again)
            while following in ready:
                yield ready.pop(following)
                following += 1
    finally:
        for one in running:
            _kill(one)


def _start(
    number: int, item: Item, work: Work[Item, Result], found: list[Result]
) -> _Running[Item, Result]:
    here, there = get_context("fork").Pipe(duplex=False)
    arguments = (there, item, work, len(found))
    process = get_context("fork").Process(target=_run, args=arguments, daemon=True)
    with interrupts.held():
        process.start()
    there.close()
    return _Running(number, item, process, here, found)


def _run(results: Connection, item: Item, work: Work[Item, Result], skip: int) -> None:
    """In the process: every result is sent as it is found, and None at the end."""
    interrupts.ends()
    bound_memory(MOST_BYTES)
    try:
        for result in work(item, skip):
            results.send((result,))
        results.send(None)
    except Exception as fault:  # noqa: BLE001 - told to the process that waits
        results.send(" ".join(f"{type(fault).__name__}: {fault}".split())[:300])
    results.close()
    os._exit(0)  # threads of runtimes are not waited for


def _listen(running: list[_Running[Item, Result]]) -> None:
    """Take what has come, for a short time."""
    places = {one.results: one for one in running}
    for connection in wait(list(places), _TURN):
        one = places[connection]  # type: ignore[index]
        try:
            while not one.done and one.results.poll():
                message = one.results.recv()
                one.heard = time.monotonic()
                if message is None:
                    one.done = True
                elif isinstance(message, str):
                    one.fault = message
                else:
                    one.found.append(message[0])
        except (EOFError, OSError):  # it is gone
            one.process.join(_TURN)
            return


def _is_late(one: _Running[Item, Result], seconds: float) -> bool:
    return time.monotonic() - one.heard > seconds


def _ended(
    one: _Running[Item, Result], work: Work[Item, Result], lost: Lost[Item, Result], seconds: float
) -> _Running[Item, Result] | None:
    """Another process for what is left, where the one has not come to its end."""
    _listen([one])  # what it said last
    late = _is_late(one, seconds)
    _kill(one)
    if one.done:
        return None
    how = f"gave no result for {seconds:g} s" if late else f"ended with {one.process.exitcode}"
    how = one.fault or how
    deaths = one.deaths + 1 if len(one.found) == one.begun else 1
    if deaths > _MOST_DEATHS:
        raise RuntimeError(f"{deaths} processes ended one after the other: {how}")
    one.found.append(lost(one.item, len(one.found), how))
    again = _start(one.number, one.item, work, one.found)
    again.deaths, again.begun = deaths, len(one.found)
    return again


def _kill(one: _Running[Item, Result]) -> None:
    if one.process.is_alive() and not one.done:
        one.process.kill()
    one.process.join()
    one.results.close()
