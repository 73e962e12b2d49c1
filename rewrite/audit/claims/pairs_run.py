"""Pairs of several packs, each pack in a process of its own.

In: folders, seconds of processor time for all of them, a number of processes. Out: `PackPairs` in
the order of the folders; `Crashed` for a pack whose process ended. One whose time is over in the
middle of a pair ends, too (`clock`): the pairs left are `late`.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock

from rewrite.audit import clock, interrupts
from rewrite.audit.claims.pairs import PackPairs, PairResult, pairs_of
from rewrite.audit.claims.task import Failed
from rewrite.audit.claims.worker import begin

LEAST_SECONDS = 5.0
_TURN = 0.2  # seconds between two looks at whether the command was asked to end


@dataclass(frozen=True, slots=True)
class _Done:
    """All that there is of a pack; a `PackPairs` alone is what there is before pairs are tried."""

    pairs: PackPairs


@dataclass(frozen=True, slots=True)
class Crashed:
    """`last`: what was being done."""

    pack: str
    last: str


def pairs_in(
    folders: Sequence[Path], seconds: float, jobs: int, only: frozenset[str]
) -> Iterator[PackPairs | Crashed]:
    """Each pack may take what those before it left of the seconds; `only` pairs with one of these
    rules, if there are any.

    Raises RuntimeError where verification itself is at fault.
    """
    threads = max(1, min(jobs, len(folders)))
    left = _Left(seconds, threads)

    processes = _Processes()

    def run(folder: Path) -> PackPairs | Crashed:
        found = _in_process((folder, left.share(), only), processes)
        if isinstance(found, PackPairs):
            left.spent(found.seconds)
        return found

    with ThreadPoolExecutor(threads) as pool:
        try:
            for future in [pool.submit(run, folder) for folder in folders]:
                # A signal that comes just before Python begins to wait does not end the wait.
                while not wait([future], _TURN).done:
                    pass
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.end()  # threads wait for them


class _Processes:
    """Those that run, so that they can be ended where nobody wants the rest."""

    def __init__(self) -> None:
        self.running: list[BaseProcess] = []
        self.wanted = True
        self.lock = Lock()

    def start(self, process: BaseProcess) -> None:
        """Start it, and end it again where nobody wants it any more."""
        with self.lock:
            process.start()
            self.running.append(process)
            if not self.wanted:
                process.kill()

    def done(self, process: BaseProcess) -> None:
        """End it."""
        with self.lock:
            self.running.remove(process)
        process.kill()
        process.join()

    def end(self) -> None:
        """End all."""
        with self.lock:
            self.wanted = False
            for process in self.running:
                process.kill()


class _Left:
    """Seconds that packs have not used; as many packs as `parts` run at one time."""

    def __init__(self, seconds: float, parts: int) -> None:
        self.seconds = seconds
        self.parts = parts
        self.lock = Lock()

    def share(self) -> float:
        """What the next pack may take."""
        with self.lock:
            return max(LEAST_SECONDS, self.seconds / self.parts)

    def spent(self, seconds: float) -> None:
        with self.lock:
            self.seconds -= seconds


def _in_process(
    task: tuple[Path, float, frozenset[str]], processes: _Processes
) -> PackPairs | Crashed:
    context = multiprocessing.get_context("spawn")  # runtimes have threads: no fork
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, *task), daemon=True)
    with interrupts.held():
        processes.start(process)
    theirs.close()
    folder, seconds, _ = task
    begun: PackPairs | None = None
    results: list[PairResult] = []
    last = ""
    try:
        while True:
            answer = ours.recv()
            if isinstance(answer, Failed):
                raise RuntimeError(f"the pairs of {folder} failed: {answer.text}")
            if isinstance(answer, _Done):
                return answer.pairs
            if isinstance(answer, PackPairs):
                begun = answer
            elif isinstance(answer, PairResult):
                results.append(answer)
            else:
                last = answer
    except EOFError:
        process.join()
        if begun is not None and clock.ran_out(process.exitcode):
            return begun.with_results(results, seconds)
        return Crashed(folder.name, last)
    finally:
        processes.done(process)


def _work(pipe: Connection, folder: Path, seconds: float, only: frozenset[str]) -> None:
    begin()
    end = time.process_time() + seconds

    def tell(said: str | PackPairs | PairResult) -> None:
        pipe.send(said)
        if isinstance(said, str):
            clock.end_at(end)

    try:
        pipe.send(_Done(pairs_of(folder, seconds, only, tell)))
    except Exception:  # noqa: BLE001 - the parent tells it
        pipe.send(Failed(traceback.format_exc(limit=-3)))
