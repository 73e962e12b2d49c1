"""Rules verified in processes of their own, so that a runtime that crashes ends none of ours.

In: `Task`s, a number of processes. Out: `(task, result)` in the order of the tasks. A rule whose
process dies is verified again without the instance that it died on; after `MOST_CRASHES` it is
given up, and at once where its time was over. A process that says nothing for `PATIENCE` seconds is
ended, which counts as a crash.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from rewrite.audit import clock, interrupts
from rewrite.audit.claims.result import RuleResult
from rewrite.audit.claims.task import Doing, Ended, Failed, Task
from rewrite.audit.claims.worker import work

MOST_CRASHES = 4
PATIENCE = 300.0  # wall time; one step takes milliseconds
_POLL = 1.0

Done = tuple[Task, RuleResult | Ended | Failed, tuple[str, ...]]


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: Task | None = None
    doing: Doing | None = None
    heard: float = 0.0


@dataclass(slots=True)
class _Pool:
    waiting: deque[Task]
    workers: list[_Worker] = field(default_factory=list)
    crashes: dict[int, list[str]] = field(default_factory=dict)
    finished: dict[int, Done] = field(default_factory=dict)


def verified(
    tasks: Sequence[Task], jobs: int, tell: Callable[[int, int], None] = lambda done, left: None
) -> Iterator[Done]:
    """Every task with its result, and the crashes on the way, in the order of the tasks."""
    pool = _Pool(deque(tasks))
    try:
        for _ in range(max(1, min(jobs, len(tasks)))):
            pool.workers.append(_start())
        told = 0
        while told < len(tasks):
            _turn(pool)
            tell(len(pool.finished), len(tasks) - len(pool.finished))
            while told < len(tasks) and tasks[told].number in pool.finished:
                yield pool.finished[tasks[told].number]
                told += 1
    finally:
        for worker in pool.workers:
            worker.process.kill()
            worker.process.join()


def _start() -> _Worker:
    context = multiprocessing.get_context("spawn")  # runtimes have threads: no fork
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs,), daemon=True)
    with interrupts.held():
        process.start()
    theirs.close()
    return _Worker(process, ours, heard=time.monotonic())


def _turn(pool: _Pool) -> None:
    """Give out work, and hear what there is to hear."""
    for worker in pool.workers:
        if worker.task is None and pool.waiting:
            worker.task = pool.waiting.popleft()
            worker.doing, worker.heard = None, time.monotonic()
            worker.pipe.send(worker.task)
    busy = {id(w.pipe): w for w in pool.workers if w.task is not None}
    for pipe in wait([w.pipe for w in busy.values()], _POLL):
        _hear(pool, busy[id(pipe)])
    for worker in busy.values():
        if worker.task is not None and time.monotonic() - worker.heard > PATIENCE:
            _crashed(pool, worker, f"nothing was heard for {PATIENCE:g} s")


def _hear(pool: _Pool, worker: _Worker) -> None:
    task = worker.task
    assert task is not None
    worker.heard = time.monotonic()
    try:
        answer = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        _crashed(pool, worker, f"the process ended with status {worker.process.exitcode}")
        return
    if isinstance(answer, Doing):
        worker.doing = answer
        return
    worker.task = None
    _finish(pool, task, answer)


def _finish(pool: _Pool, task: Task, result: RuleResult | Ended | Failed) -> None:
    pool.finished[task.number] = (task, result, tuple(pool.crashes.get(task.number, ())))


def _crashed(pool: _Pool, worker: _Worker, how: str) -> None:
    """Note it; the rule again without the instance, or given up. Another process takes over."""
    task, doing = worker.task, worker.doing
    assert task is not None
    worker.process.kill()
    worker.process.join()
    pool.workers[pool.workers.index(worker)] = _start()
    is_late = clock.ran_out(worker.process.exitcode)
    if not is_late:
        crash = f"{doing}: {how}" if doing else how
        pool.crashes.setdefault(task.number, []).append(crash)
    if doing is not None and doing.found is not None:
        _finish(pool, task, doing.found)
    elif is_late:
        over = f"{task.budget.seconds:g} s of processor time were over"
        _finish(pool, task, Ended("undecided", f"is undecided: {over} while {doing}"))
    elif doing is None or len(pool.crashes[task.number]) >= MOST_CRASHES:
        crashes = pool.crashes[task.number]
        died = f"{len(crashes)} processes died, the last one while {crashes[-1]}"
        _finish(pool, task, Ended("crashed", f"is not verified: {died}"))
    else:
        pool.waiting.appendleft(replace(task, skip=task.skip | {doing.instance}))
