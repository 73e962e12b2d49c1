"""The recurrence of LSTM, GRU and RNN over all time steps, the product with the input done before.

In: nothing. Out: `Recurrent`, its integer words, the order of its weights, the memory it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from rewrite.plan.spec import Spec
from rewrite.plan.view import BYTES

# How many gates there are, in the order of ONNX: i o f c, z r h, and one.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of a gate, with its parameters filled in."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class Recurrent(Spec):
    """One layer, in all directions, for all steps of a batch.

    Hidden units are worked on in blocks of `unit`, the last one padded with zeros. Weights and sums
    are in the accumulator's type: f64 where `dtype` is, otherwise f32.

      projected  [step][batch][direction][block][gate][unit]   W x
      weights    [direction], then for each of `passes`: [block][hidden][gate of the pass][unit]
      bias       [direction][block][gate][unit], a fifth set of GRU's hidden gate behind the others
      peepholes  [direction][block][i o f][unit]
      lengths    s32[batch]                 h0, c0  [direction, batch] in rows of `hidden`
      y          rows of `hidden`           y_h, y_c  as h0

    Words: projected, weights, then those of the others that the spec has, in this order; then
    `Integers`. Items: (direction, batch).
    """

    kind: str
    dtype: str
    hidden: int
    unit: int
    rows: int  # of the batch that are worked on at once; 1 where there are lengths
    activations: tuple[Activation, ...]
    bias: bool = False
    peepholes: bool = False
    lengths: bool = False
    h0: bool = False
    c0: bool = False
    y: bool = True
    y_h: bool = False
    y_c: bool = False
    clip: bool = False
    coupled: bool = False  # LSTM's forget gate is 1 - i
    reset_after: bool = False  # GRU resets the product, not its operand (linear_before_reset)

    @property
    def gates(self) -> int:
        return GATES[self.kind]

    @property
    def blocks(self) -> int:
        return -(-self.hidden // self.unit)

    @property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """Gates whose products with the state are computed together."""
        return passes_of(self.kind, self.reset_after)

    @property
    def biases(self) -> int:
        """Sets of biases: GRU that resets after the product has one more."""
        return self.gates + (1 if self.reset_after else 0)

    @property
    def operands(self) -> tuple[str, ...]:
        optional = ("bias", "peepholes", "lengths", "h0", "c0", "y", "y_h", "y_c")
        return ("projected", "weights", *(n for n in optional if getattr(self, n)))


def passes_of(kind: str, reset_after: bool) -> tuple[tuple[int, ...], ...]:
    if kind == "GRU" and not reset_after:
        return (0, 1), (2,)
    return (tuple(range(GATES[kind])),)


@dataclass(frozen=True, slots=True)
class Integers:
    """What code needs not know; strides in elements. `reversed`: one bit for each direction."""

    batch: int
    steps: int
    reversed: int
    x_t: int  # of `projected`
    x_b: int
    x_d: int
    y_t: int
    y_b: int
    y_d: int
    s_b: int  # of h0, c0, y_h, y_c
    s_d: int
    clip: int  # the bits of a float64

    def words(self) -> list[int]:
        return [getattr(self, field.name) for field in fields(self)]


INTEGERS = tuple(field.name for field in fields(Integers))


def accumulator(dtype: str) -> str:
    """The type of weights and sums."""
    return "f64" if dtype == "f64" else "f32"


def scratch_of(spec: Recurrent) -> int:
    """Two copies of the hidden state, the cell state, and two temporaries; 64 bytes around each."""
    row = spec.blocks * spec.unit * BYTES[accumulator(spec.dtype)]
    return 5 * (spec.rows * row + 64)
