"""Native code that runs one plan again and again: the turns of a Loop or a Scan.

In: an `Isa`, how threads wait. Out: `Code` of one function, `i64 turns(ptr record, ptr pool)`.

The arrays of the plan are cells: words that hold addresses. Behind every turn the cells change:
exchanges say which cell takes the address of which (the value that goes around), advances by how
many bytes a cell moves on (what is read from, or stacked into, an array of all turns). The word
that counts turns is incremented where it stands; where a condition is named, its byte ends the
turns once it is 0.

The result is 1 when all turns are done or the condition ended them, 0 when a slice of time is over
(the caller looks for signals and calls again), -(k + 1) when step k found fault with the data.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from rewrite.codegen.ir import Function, Module
from rewrite.codegen.runloop_layout import Control, get_word, set_word
from rewrite.codegen.runloop_waiting import Waiting
from rewrite.codegen.value import Value


class Turns(IntEnum):
    """The record that the function and Python share."""

    RUN = 0  # address of the loop over steps
    CONTROL = 1  # of the instance
    LIMIT = 2  # turns at most
    DONE = 3  # turns that are over
    STEP = 4  # of the turn under way, to go on with
    COUNTER = 5  # address of the number of the turn, an i64
    CONDITION = 6  # address of a byte; 0: nothing ends the turns
    CELLS = 7  # address of the cells
    EXCHANGES = 8  # address of the records
    EXCHANGE_COUNT = 9
    ADVANCES = 10
    ADVANCE_COUNT = 11


class Exchange(IntEnum):
    """Cell TO takes the address of cell FROM, which takes that of TO in turn where SWAPS is 1."""

    TO = 0
    FROM = 1
    SWAPS = 2


class Advance(IntEnum):
    """A cell moves on by BYTES."""

    CELL = 0
    BYTES = 1


TURNS_WORDS, EXCHANGE_WORDS, ADVANCE_WORDS = 12, 3, 2


def write_turns(module: Module, symbol: str, wait: Waiting) -> None:
    """The function."""
    f = module.function(symbol, [("ptr", "record"), ("ptr", "pool")], returns="i64")
    record, pool = f.arg("record"), f.arg("pool")
    control = get_word(f, record, Turns.CONTROL, "ptr")
    run = get_word(f, record, Turns.RUN, "ptr")
    limit = get_word(f, record, Turns.LIMIT)
    steps = get_word(f, control, Control.COUNT)
    clock = f.slot("i64", count=2)
    until = wait.now(f, clock) + get_word(f, control, Control.SLICE)

    def turn(done: Value, first: Value, _: Value) -> list[Value]:
        passed = f"ptr {control.text}, i64 {first.text}, ptr {pool.text}"
        reached = f.op(f"call i64 {run.text}({passed})", "i64")
        whole = f.compare("==", reached, steps)
        goes_on = f.if_(whole, lambda: [_between(f, record)], lambda: [f.const(False, "i1")], 1)[0]
        after = f.add(done, f.cast("zext", whole, "i64"))
        step = f.select(whole, 0, reached)
        ended = f.binary("xor", goes_on, f.const(True, "i1"))
        over = f.binary("and", whole, f.binary("or", ended, f.compare(">=", after, limit)))
        in_time = f.compare("<", wait.now(f, clock), until)
        again = f.binary("and", whole, f.binary("xor", over, f.const(True, "i1")))
        status = f.select(over, 1, f.intrinsic("llvm.smin", "i64", step, 0))
        return [f.binary("and", again, in_time), after, step, status]

    begin = [get_word(f, record, Turns.DONE), get_word(f, record, Turns.STEP), f.const(0, "i64")]
    done, step, status = f.while_(turn, begin)
    set_word(f, record, Turns.DONE, done)
    set_word(f, record, Turns.STEP, step)
    f.ret(status)


def _between(f: Function, record: Value) -> Value:
    """Behind a turn: the counter, the cells; whether the condition lets another one begin."""
    counter = get_word(f, record, Turns.COUNTER, "ptr")
    f.store(f.add(f.load("i64", counter), 1), counter)
    cells = get_word(f, record, Turns.CELLS, "ptr")

    def exchange(entry: Value) -> None:
        to = f.at(cells, get_word(f, entry, Exchange.TO), "i64")
        source = f.at(cells, get_word(f, entry, Exchange.FROM), "i64")
        kept, taken = f.load("i64", to, 8), f.load("i64", source, 8)
        swaps = f.compare("!=", get_word(f, entry, Exchange.SWAPS), 0)
        f.store(taken, to, 8)
        f.store(f.select(swaps, kept, taken), source, 8)

    def advance(entry: Value) -> None:
        cell = f.at(cells, get_word(f, entry, Advance.CELL), "i64")
        f.store(f.add(f.load("i64", cell, 8), get_word(f, entry, Advance.BYTES)), cell, 8)

    _each(f, record, (Turns.EXCHANGES, Turns.EXCHANGE_COUNT), EXCHANGE_WORDS, exchange)
    _each(f, record, (Turns.ADVANCES, Turns.ADVANCE_COUNT), ADVANCE_WORDS, advance)
    condition = get_word(f, record, Turns.CONDITION, "ptr")
    return f.if_(
        f.compare("==", condition, f.zero("ptr")),
        lambda: [f.const(True, "i1")],
        lambda: [f.compare("!=", f.load("i8", condition, 1), 0)],
        1,
    )[0]


def _each(
    f: Function,
    record: Value,
    table: tuple[Turns, Turns],
    width: int,
    body: Callable[[Value], None],
) -> None:
    start, count = get_word(f, record, table[0], "ptr"), get_word(f, record, table[1])
    f.loop(0, count, lambda i: body(f.at(start, f.mul(i, width), "i64")))
