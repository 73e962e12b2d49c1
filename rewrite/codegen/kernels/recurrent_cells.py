"""What one step of LSTM, GRU and RNN does with the gates of a vector of hidden units.

In: products with the state, functions that load the projected input, biases and states. Out: code
for the new states. The equations are those of the operators' texts (LSTM-22, GRU-22, RNN-22).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from rewrite.codegen.body import emit_body
from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernels.attention_math import (
    LOG2_E,
    exp2,
    maximum,
    minimum,
    multiply_add,
    tanh,
)
from rewrite.codegen.value import Value
from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.recurrent import Activation, Recurrent, accumulator

Loader = Callable[[int], Value]


class Place(Protocol):
    """The states of one vector of hidden units."""

    def hidden(self) -> Value: ...
    def cell(self) -> Value: ...
    def kept(self) -> Value: ...
    def set_cell(self, x: Value) -> None: ...
    def keep(self, x: Value) -> None: ...
    def set_hidden(self, x: Value) -> None: ...


def sigmoid(f: Function, isa: Isa, x: Value) -> Value:
    """1 / (1 + 2^(-x log2 e)), with a relative error of 2e-7."""
    limit = f.const(87.0 if "float" in x.type else 700.0, x.type)
    power = exp2(f, isa, f.mul(minimum(f, limit, f.neg(x)), f.const(LOG2_E, x.type)))
    one = f.const(1.0, x.type)
    return f.binary("fdiv", one, f.add(power, one))


class Cell(ABC):
    """The common part: gates with their inputs, biases and bounds, and activations."""

    def __init__(self, f: Function, isa: Isa, spec: Recurrent, vector: str, clip: Value) -> None:
        self.f, self.isa, self.spec, self.vector = f, isa, spec, vector
        self.bound = f.splat(clip, vector) if spec.clip else None

    @abstractmethod
    def run(
        self, number: int, sums: list[Value], projected: Loader, bias: Loader, peephole: Loader,
        place: Place,
    ) -> None:  # fmt: skip
        """Pass `number` of a step."""

    def gate(self, total: Value, index: int, projected: Loader, bias: Loader) -> Value:
        """W x + R h + b"""
        x: Value = self.f.add(total, projected(index))
        if self.spec.bias:
            x = self.f.add(x, bias(index))
        return x

    def clipped(self, x: Value) -> Value:
        if self.bound is None:
            return x
        f = self.f
        return minimum(f, self.bound, maximum(f, f.neg(self.bound), x))

    def act(self, which: int, x: Value) -> Value:
        """An activation of the spec, of the clipped operand."""
        f, isa = self.f, self.isa
        x = self.clipped(x)
        how = self.spec.activations[which]
        match how.name:
            case "Sigmoid":
                return sigmoid(f, isa, x)
            case "Tanh":
                return tanh(f, isa, x)
            case "Relu":
                return maximum(f, f.const(0.0, x.type), x)
            case "Affine":
                return multiply_add(
                    f, isa, x, f.const(how.alpha, x.type), f.const(how.beta, x.type)
                )
            case "ScaledTanh":
                inner = tanh(f, isa, f.mul(x, f.const(how.beta, x.type)))
                scaled: Value = f.mul(inner, f.const(how.alpha, x.type))
                return scaled
        return emit_body(f, isa, _body_of(how, accumulator(self.spec.dtype)), [x])[0]


def _body_of(how: Activation, dtype: str) -> Body:
    """An activation that is an operator of its own."""
    names = {"HardSigmoid": ("alpha", "beta"), "Softsign": (), "Softplus": ()}
    given = {"alpha": how.alpha, "beta": how.beta}
    attributes = tuple((name, given[name]) for name in names.get(how.name, ("alpha",)))
    return Body((dtype,), (Step("", how.name, (0,), dtype, attributes, 22),), (1,))


class _Rnn(Cell):
    """H = f(W x + R h + b)"""

    def run(
        self, number: int, sums: list[Value], projected: Loader, bias: Loader, peephole: Loader,
        place: Place,
    ) -> None:  # fmt: skip
        place.set_hidden(self.act(0, self.gate(sums[0], 0, projected, bias)))


class _Lstm(Cell):
    """C = f C + i c,  H = o h(C)"""

    def run(
        self, number: int, sums: list[Value], projected: Loader, bias: Loader, peephole: Loader,
        place: Place,
    ) -> None:  # fmt: skip
        f, spec = self.f, self.spec
        before = place.cell()

        def gate(index: int, peep: int, state: Value) -> Value:
            x = self.gate(sums[index], index, projected, bias)
            if spec.peepholes:
                x = f.add(x, f.mul(peephole(peep), state))
            return x

        i = self.act(0, gate(0, 0, before))
        forget = f.sub(f.const(1.0, i.type), i) if spec.coupled else self.act(0, gate(2, 2, before))
        c = self.act(1, self.gate(sums[3], 3, projected, bias))
        after = f.add(f.mul(forget, before), f.mul(i, c))
        o = self.act(0, gate(1, 1, after))
        place.set_cell(after)
        place.set_hidden(f.mul(o, self._of_cell(after)))

    def _of_cell(self, x: Value) -> Value:
        """h(C), which is not clipped."""
        bound, self.bound = self.bound, None
        found = self.act(2, x)
        self.bound = bound
        return found


class _Gru(Cell):
    """H = (1 - z) h + z H"""

    def run(
        self, number: int, sums: list[Value], projected: Loader, bias: Loader, peephole: Loader,
        place: Place,
    ) -> None:  # fmt: skip
        f = self.f
        if number == 0:
            z = self.act(0, self.gate(sums[0], 0, projected, bias))
            r = self.act(0, self.gate(sums[1], 1, projected, bias))
            if not self.spec.reset_after:
                place.keep(z)
                place.set_hidden(f.mul(r, place.hidden()))
                return
            inner = sums[2] if not self.spec.bias else f.add(sums[2], bias(3))
            x = self.gate(f.mul(r, inner), 2, projected, bias)
        else:
            z = place.kept()
            x = self.gate(sums[0], 2, projected, bias)
        h = self.act(1, x)
        rest = f.sub(f.const(1.0, z.type), z)
        place.set_hidden(f.add(f.mul(rest, h), f.mul(z, place.hidden())))


_CELLS: dict[str, type[Cell]] = {"RNN": _Rnn, "LSTM": _Lstm, "GRU": _Gru}


def cell_of(f: Function, isa: Isa, spec: Recurrent, vector: str, clip: Value) -> Cell:
    return _CELLS[spec.kind](f, isa, spec, vector, clip)
