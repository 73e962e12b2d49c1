"""Work in processes that die: the order of results, what is lost, nothing that is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import pytest

from rewrite.audit import interrupts
from rewrite.audit.workers import each


def lost(item, number, how):
    return (item, number, how)


def squares(item, skip):
    yield from ((item, n, n * n) for n in range(skip, 4))


def dying(item, skip):
    for n in range(skip, 4):
        if item == 1 and n == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield (item, n, n * n)


def failing(item, skip):
    for n in range(skip, 3):
        if n == 1:
            raise ValueError("no  good")
        yield (item, n, n * n)


def slow(item, skip):
    for n in range(skip, 3):
        if item == 0 and n == 1:
            time.sleep(60)
        yield (item, n, n * n)


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_are_in_the_order_of_items(jobs):
    found = list(each(range(5), squares, lost, jobs, 20))
    assert found == [[(i, n, n * n) for n in range(4)] for i in range(5)]


def test_a_process_that_dies_costs_one_result():
    found = list(each(range(3), dying, lost, 2, 20))
    assert found[0] == [(0, n, n * n) for n in range(4)]
    assert found[1] == [(1, 0, 0), (1, 1, 1), (1, 2, "ended with -9"), (1, 3, 9)]
    assert found[2] == [(2, n, n * n) for n in range(4)]


def test_an_exception_costs_one_result(capfd):
    (found,) = each([7], failing, lost, 1, 20)
    assert found == [(7, 0, 0), (7, 1, "ValueError: no good"), (7, 2, 4)]
    assert capfd.readouterr().err == ""


def test_a_result_that_takes_too_long():
    found = list(each(range(2), slow, lost, 2, 1.5))
    assert found[0] == [(0, 0, 0), (0, 1, "gave no result for 1.5 s"), (0, 2, 4)]
    assert found[1] == [(1, 0, 0), (1, 1, 1), (1, 2, 4)]


def test_no_process_is_left_where_nobody_wants_the_rest():
    results = each(range(50), squares, lost, 2, 20)
    next(results)
    results.close()
    assert not multiprocessing.active_children()


def test_nothing_to_do():
    assert list(each([], squares, lost, 2, 20)) == []


def interrupted(item, skip):
    for n in range(skip, 2):
        if n == 0:
            os.kill(os.getpid(), signal.SIGINT)
        yield (item, n, n * n)


def test_an_interrupt_ends_a_process_without_a_word(capfd):
    (found,) = each([7], interrupted, lost, 1, 20)
    assert found == [(7, 0, "ended with -2"), (7, 1, 1)]
    assert capfd.readouterr().err == ""


def test_an_interrupt_while_a_process_starts_is_told_afterwards():
    done = []

    def start():
        with interrupts.held():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("the block goes on")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["the block goes on"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _waits(pipe):
    interrupts.ends()
    pipe.send("not ended")


def test_an_interrupt_that_came_while_a_process_imported_ends_it(capfd):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_waits, args=(theirs,))
    with interrupts.held():
        process.start()
    theirs.close()
    os.kill(process.pid, signal.SIGINT)
    process.join(30)
    assert process.exitcode == -signal.SIGINT
    with pytest.raises(EOFError):
        ours.recv()
    assert capfd.readouterr().err == ""


def never(item, skip):
    raise ValueError("not even begun")
    yield


def test_processes_that_do_nothing_but_end_are_given_up():
    with pytest.raises(RuntimeError, match="processes ended one after the other: ValueError: not"):
        list(each([7], never, lost, 1, 20))


def test_a_signal_that_another_thread_takes_is_told_afterwards():
    """Threads of native code do not block what ours block."""
    done = []
    begun, ended = threading.Event(), threading.Event()

    def elsewhere():
        begun.wait(30)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        ended.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()

    def start():
        with interrupts.held():
            begun.set()
            ended.wait(30)
            sum(range(1000))  # where Python would look for signals
            done.append("the block goes on")

    with pytest.raises(KeyboardInterrupt):
        start()
    thread.join()
    assert done == ["the block goes on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
