"""Values of recurrent layers: RNN, GRU, LSTM with every option of the standard.

In: `Evaluation`. Out: arrays, computed in float64 and rounded once. Source of the equations: the
operator reference (RNN-14, GRU-14, LSTM-14, "Equations (Default: ...)").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rewrite.ops.call import Array, Arrays, Evaluation
from rewrite.ops.registry import value
from rewrite.ops.scalar import widen

RECURRENT = 2e-4  # errors of a step are carried through all later ones

Activation = Callable[[Array], Array]
State = tuple[Array, ...]  # the hidden state first
Step = Callable[[Array, State], State]  # the gates' share of the operand, the state before


# --- activations -------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


# What each takes besides x, with the defaults of the standard, and the function.
_FUNCTIONS: dict[str, tuple[tuple[float, ...], Callable[..., Array]]] = {
    "relu": ((), lambda x: np.maximum(x, 0)),
    "tanh": ((), np.tanh),
    "sigmoid": ((), sigmoid),
    "softsign": ((), lambda x: x / (1 + np.abs(x))),
    "softplus": ((), lambda x: np.logaddexp(x, 0)),
    "leakyrelu": ((0.01,), lambda x, a: np.where(x >= 0, x, a * x)),
    "thresholdedrelu": ((1.0,), lambda x, a: np.where(x > a, x, 0)),
    "elu": ((1.0,), lambda x, a: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0)))),
    "affine": ((1.0, 0.0), lambda x, a, b: a * x + b),
    "scaledtanh": ((1.0, 1.0), lambda x, a, b: a * np.tanh(b * x)),
    "hardsigmoid": ((0.2, 0.5), lambda x, a, b: np.clip(a * x + b, 0, 1)),
}


_GATES = 2  # functions of gates come first; what LSTM does with the cell's state comes third


def activations(e: Evaluation, default: Sequence[str], directions: int) -> list[list[Activation]]:
    """The functions of each direction; alphas and betas go to those that take them, in order.

    Gates are clipped, the state of LSTM's cell is not: so does ONNX Runtime (deep_cpu_lstm.cc); the
    text of the standard ("applied to the input of activations") may be read either way.
    """
    names = [_word(name) for name in e.attributes.get("activations") or list(default) * directions]
    alphas = iter([float(a) for a in e.attributes.get("activation_alpha") or ()])
    betas = iter([float(b) for b in e.attributes.get("activation_beta") or ()])
    limit, count = e.number("clip", 0.0), len(default)
    made = [
        _activation(name, alphas, betas, limit if k % count < _GATES else 0.0)
        for k, name in enumerate(names)
    ]
    return [made[d * count : (d + 1) * count] for d in range(directions)]


def _word(name: str | bytes) -> str:
    return (name.decode() if isinstance(name, bytes) else str(name)).lower()


def _activation(
    name: str, alphas: Iterator[float], betas: Iterator[float], limit: float
) -> Activation:
    defaults, function = _FUNCTIONS[name]
    given = [
        next(source, default) for source, default in zip((alphas, betas), defaults, strict=False)
    ]

    def activate(x: Array) -> Array:
        return function(np.clip(x, -limit, limit) if limit > 0 else x, *given)

    return activate


# --- steps over the sequence -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sizes:
    steps: int
    batch: int
    hidden: int
    directions: int


def directions_of(e: Evaluation) -> list[bool]:
    """Whether each direction runs backwards."""
    turn = e.text("direction", "forward")
    return [False, True] if turn == "bidirectional" else [turn == "reverse"]


def walk(
    given: Array, lengths: Array, backwards: bool, state: State, step: Step, y: Array
) -> State:
    """Runs the steps of one direction, each row as long as its sequence is; the last state.

    given: (steps, batch, gates), what the operand adds; y: (steps, batch, hidden), written.
    """
    rows = np.arange(given.shape[1])
    for t in range(given.shape[0]):
        live = t < lengths
        places = np.where(live, lengths - 1 - t, 0) if backwards else np.full(len(rows), t)
        new = step(given[places, rows], state)
        state = tuple(np.where(live[:, None], a, b) for a, b in zip(new, state, strict=True))
        y[places[live], rows[live]] = new[0][live]
    return state


def _layer(e: Evaluation, gates: int, states: int, make: Callable[..., Step]) -> Arrays:
    """All outputs: every hidden state, and the last states."""
    x = widen(e.array(0), False)
    by_batch = e.integer("layout", 0) == 1
    x = np.swapaxes(x, 0, 1) if by_batch else x
    turns = directions_of(e)
    hidden = e.integer("hidden_size", 0) or e.array(2).shape[2]
    sizes = Sizes(x.shape[0], x.shape[1], hidden, len(turns))
    lengths = e.optional(4)
    ends = np.full(sizes.batch, sizes.steps) if lengths is None else lengths.astype(np.int64)
    bias = e.optional(3)
    both = np.zeros((len(turns), 2 * gates * hidden)) if bias is None else widen(bias, False)
    y = np.zeros((sizes.steps, len(turns), sizes.batch, hidden))
    last: list[State] = []
    for d, backwards in enumerate(turns):
        before = tuple(_initial(e, 5 + k, d, sizes, by_batch) for k in range(states))
        wb, rb = np.split(both[d], 2)
        given = x @ widen(e.array(1)[d], False).T + wb
        step = make(d, widen(e.array(2)[d], False).T, rb)
        last.append(walk(given, ends, backwards, before, step, y[:, d]))
    stacked = [np.stack([state[k] for state in last]) for k in range(states)]
    if by_batch:
        y = y.transpose(2, 0, 1, 3)
        stacked = [np.swapaxes(s, 0, 1) for s in stacked]
    dtype = e.array(0).dtype
    return tuple(a.astype(dtype) for a in (y, *stacked))[: e.n_outputs]


def _initial(e: Evaluation, index: int, d: int, sizes: Sizes, by_batch: bool) -> Array:
    found = e.optional(index)
    if found is None:
        return np.zeros((sizes.batch, sizes.hidden))
    return widen(found[:, d] if by_batch else found[d], False)


# --- the three layers --------------------------------------------------------------------------


@value("RNN", error=RECURRENT)
def rnn_value(e: Evaluation) -> Arrays:
    functions = activations(e, ("Tanh",), len(directions_of(e)))

    def make(d: int, recurrence: Array, rb: Array) -> Step:
        (f,) = functions[d]
        return lambda given, state: (f(given + state[0] @ recurrence + rb),)

    return _layer(e, 1, 1, make)


@value("GRU", error=RECURRENT)
def gru_value(e: Evaluation) -> Arrays:
    functions = activations(e, ("Sigmoid", "Tanh"), len(directions_of(e)))
    before_reset = e.integer("linear_before_reset", 0) != 0

    def make(d: int, recurrence: Array, rb: Array) -> Step:
        f, g = functions[d]
        n = recurrence.shape[0]

        def step(given: Array, state: State) -> State:
            h = state[0]
            z, r = np.split(f(given[:, : 2 * n] + h @ recurrence[:, : 2 * n] + rb[: 2 * n]), 2, 1)
            inner, bias = recurrence[:, 2 * n :], rb[2 * n :]
            mixed = r * (h @ inner + bias) if before_reset else (r * h) @ inner + bias
            return ((1 - z) * g(given[:, 2 * n :] + mixed) + z * h,)

        return step

    return _layer(e, 3, 1, make)


@value("LSTM", error=RECURRENT)
def lstm_value(e: Evaluation) -> Arrays:
    functions = activations(e, ("Sigmoid", "Tanh", "Tanh"), len(directions_of(e)))
    peepholes = e.optional(7)
    coupled = e.integer("input_forget", 0) != 0

    def make(d: int, recurrence: Array, rb: Array) -> Step:
        n = recurrence.shape[0]
        peep = np.zeros(3 * n) if peepholes is None else widen(peepholes[d], False)
        cell = Cell(functions[d], peep, coupled)
        return lambda given, state: cell.step(given + state[0] @ recurrence + rb, state[1])

    return _layer(e, 4, 2, make)


@dataclass(frozen=True, slots=True)
class Cell:
    """The gates of LSTM, from their linear parts: input, output, forget, cell."""

    functions: Sequence[Activation]
    peepholes: Array  # of the input, output and forget gates
    coupled: bool  # the forget gate is 1 - the input gate

    def step(self, gates: Array, c: Array) -> State:
        f, g, h = self.functions
        i, o, forget, cell = np.split(gates, 4, axis=-1)
        pi, po, pf = np.split(self.peepholes, 3)
        i = f(i + pi * c)
        forget = 1 - i if self.coupled else f(forget + pf * c)
        new = forget * c + i * g(cell)
        return f(o + po * new) * h(new), new
