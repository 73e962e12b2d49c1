"""LSTM, GRU and RNN.

In: instances. Out: one matrix product for the inputs of all steps, and a `Recurrent` kernel. Known
weights are laid out once, others are copied into that layout before the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rewrite.plan.lower.matmul_product import Right, multiply, plain
from rewrite.plan.lower.matmul_tail import Tail
from rewrite.plan.lower.recurrent_layout import blocked, in_blocks, packed_weights, weights_of
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.machine import Machine
from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.attention import bits_of
from rewrite.plan.specs.recurrent import (
    GATES,
    Activation,
    Integers,
    Recurrent,
    accumulator,
    scratch_of,
)

Array = np.ndarray[Any, np.dtype[Any]]

_DEFAULT = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
# Activations with their parameters; None: it has none.
_PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "Relu": (None, None), "Tanh": (None, None), "Sigmoid": (None, None),
    "Softsign": (None, None), "Softplus": (None, None), "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None), "Elu": (1.0, None), "HardSigmoid": (0.2, 0.5),
    "Affine": (1.0, 0.0), "ScaledTanh": (1.0, 1.0),
}  # fmt: skip
_NAMES = {name.lower(): name for name in _PARAMETERS}
_TYPES = frozenset({"f16", "bf16", "f32", "f64"})
_MOST_ROWS = 4  # of a batch at once

X, W, R, B, LENGTHS, H0, C0, P = range(8)


def activations_of(op: Instance) -> list[tuple[Activation, ...]] | None:
    """The activations of each direction; None where one is not known."""
    directions = 2 if op.text("direction", "forward") == "bidirectional" else 1
    kind = op.name if op.name in _DEFAULT else "LSTM"
    given = op.attributes.get("activations") or _DEFAULT[kind] * directions
    alphas = list(op.attributes.get("activation_alpha") or ())
    betas = list(op.attributes.get("activation_beta") or ())
    found = []
    for item in given:
        text = item.decode() if isinstance(item, bytes) else str(item)
        name = _NAMES.get(text.lower())
        if name is None:
            return None
        alpha, beta = _PARAMETERS[name]
        if alpha is not None and alphas:
            alpha = alphas.pop(0)
        if beta is not None and betas:
            beta = betas.pop(0)
        found.append(Activation(name, float(alpha or 0.0), float(beta or 0.0)))
    each = len(_DEFAULT[kind])
    if len(found) != each * directions:
        return None
    return [tuple(found[i * each : (i + 1) * each]) for i in range(directions)]


@refuses("LSTM", "GRU", "RNN")
def recurrent_refusal(op: Instance) -> str | None:
    if op.dtype(X) not in _TYPES:
        return f"{op.name} of {op.dtype(X)}"
    if activations_of(op) is None:
        return f"{op.name} with activations that ONNX does not name"
    hidden = op.shape(R)[-1]
    if op.integer("hidden_size", hidden) != hidden:
        return f"{op.name} whose hidden_size is not that of its weights"
    return None


@lowers("LSTM", "GRU", "RNN")
def recurrent(low: Lowering, op: Instance) -> None:
    Layer(low, op).lower()


class Layer:
    """One recurrent layer being lowered."""

    kind = ""  # that of the operator, unless it says otherwise

    def __init__(self, low: Lowering, op: Instance) -> None:
        self.low, self.op = low, op
        self.by_batch = op.integer("layout", 0) == 1
        shape = op.shape(X)
        self.batch, self.steps = shape[:2] if self.by_batch else shape[1::-1]
        self.kind = self.kind or op.name
        self.directions, self.hidden = self.sizes()
        self.gates = GATES[self.kind]
        self.wide = accumulator(op.dtype(X))
        activations = activations_of(op)
        assert activations is not None
        self.activations = activations
        self.spec = self._spec(low.machine)

    def sizes(self) -> tuple[int, int]:
        """Directions and hidden units."""
        shape = self.op.shape(R)
        return shape[0], shape[-1]

    def _spec(self, machine: Machine) -> Recurrent:
        op = self.op
        rows = min(self.batch, _MOST_ROWS, max(1, machine.registers * 3 // 4 // self.gates))
        clip = op.number("clip", 0.0)
        lstm, gru = self.kind == "LSTM", self.kind == "GRU"
        return Recurrent(
            kind=self.kind,
            dtype=op.dtype(X),
            hidden=self.hidden,
            unit=machine.lanes(self.wide),
            rows=1 if op.has(LENGTHS) else max(1, rows),
            activations=self.activations[0],
            bias=op.has(B),
            peepholes=lstm and op.has(P),
            lengths=op.has(LENGTHS),
            h0=op.has(H0),
            c0=lstm and op.has(C0),
            y=op.wants(0),
            y_h=op.wants(1),
            y_c=lstm and op.wants(2),
            clip=clip > 0,
            coupled=lstm and op.integer("input_forget", 0) != 0,
            reset_after=gru and op.integer("linear_before_reset", 0) != 0,
        )

    def lower(self) -> None:
        """The product with the inputs, the operands, one call per set of activations."""
        operands = {"projected": self.projected(), "weights": self.weights(), **self.optional()}
        if len(set(self.activations)) == 1:
            self.call(operands, self.spec, 0, self.directions)
            return
        for d, activations in enumerate(self.activations):
            self.call(operands, replace(self.spec, activations=activations), d, 1)

    # --- operands ---------------------------------------------------------------------------

    def projected(self) -> Tensor:
        """W x of all steps: (steps, batch, directions, blocks, gates, unit)."""
        low, spec = self.low, self.spec
        x = low.view(X)
        left = x.permuted((1, 0, 2)) if self.by_batch else x
        size = self.directions * spec.blocks * spec.gates * spec.unit
        out = low.new(self.wide, (self.steps, self.batch, size))
        scheme = plain(self.op.dtype(W))
        tail = Tail(self.wide, self.wide, inner=True)
        multiply(low, left, self.input_weights(size), out, tail, scheme)
        return out

    def input_weights(self, size: int) -> Right:
        """W as (input, direction, block, gate, unit)."""
        spec, directions, gates, unit = self.spec, self.directions, self.gates, self.spec.unit
        shape = (self.op.shape(X)[2], size)
        if self.op.is_known(W):

            def form(w: Array) -> Array:
                split = w.reshape(directions, gates, -1, w.shape[-1])
                blocks = in_blocks(split.transpose(3, 0, 1, 2), unit)
                return np.asarray(blocks.reshape(w.shape[-1], -1))

            return Right(shape, None, W, ("gates", gates, unit), form)
        source = self.split(self.low.rows(W), (directions, gates, self.hidden, shape[0]))
        made = self.low.new(source.dtype, (directions, spec.blocks, gates, unit, shape[0]))
        blocked(self.low, source, made.permuted((0, 2, 1, 3, 4)))
        flat = made.reshaped((size, shape[0]))
        assert flat is not None
        return Right(shape, flat.permuted((1, 0)))

    def split(self, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        found = tensor.reshaped(shape)
        assert found is not None, "the operand is row-major"
        return found

    def weights(self) -> Tensor:
        spec, wide = self.spec, self.wide
        if self.op.is_known(R):
            key = ("recurrent", spec.kind, spec.passes, spec.unit, wide)
            return self.low.packed(R, key, lambda r: packed_weights(
                r.reshape(self.directions, self.gates, self.hidden, self.hidden),
                spec.passes, spec.unit, wide,
            ))  # fmt: skip
        source = self.split(
            self.low.rows(R), (self.directions, self.gates, self.hidden, self.hidden)
        )
        return weights_of(self.low, source, spec, wide)

    def optional(self) -> dict[str, Tensor]:
        low, spec = self.low, self.spec
        found: dict[str, Tensor] = {}
        if spec.bias:
            found["bias"] = self.bias()
        if spec.peepholes:
            found["peepholes"] = self.sets(P, 3)
        for name, index in (("lengths", LENGTHS), ("h0", H0), ("c0", C0)):
            if getattr(spec, name):
                found[name] = low.rows(index)
        for k, name in enumerate(("y", "y_h", "y_c")):
            if getattr(spec, name):
                found[name] = low.output(k)
        return found

    def sets(self, index: int, count: int) -> Tensor:
        """A vector of `count` sets for each direction, in blocks."""
        unit, wide, shape = self.spec.unit, self.wide, (self.directions, count, self.hidden)
        if self.op.is_known(index):
            return self.low.packed(index, ("sets", count, unit, wide), lambda v: in_blocks(
                v.reshape(shape).astype(_numpy(wide)), unit
            ))  # fmt: skip
        return self.in_blocks(self.split(self.low.rows(index), shape))

    def in_blocks(self, source: Tensor) -> Tensor:
        directions, count, _ = source.shape
        spec = self.spec
        made = self.low.new(self.wide, (directions, spec.blocks, count, spec.unit, 1))
        given = self.split(source, (*source.shape, 1))
        blocked(self.low, given, made.permuted((0, 2, 1, 3, 4)))
        return made

    def bias(self) -> Tensor:
        """The sums of both biases; the last gate of GRU's hidden state may need its own."""
        directions, gates, hidden = self.directions, self.gates, self.hidden
        joint = gates - 1 if self.spec.reset_after else gates
        shape = (directions, 2, gates, hidden)
        if self.op.is_known(B):

            def make(b: Array) -> Array:
                own, other = (x[:, 0] for x in np.split(
                    b.reshape(shape).astype(_numpy(self.wide)), 2, 1
                ))  # fmt: skip
                sums = own[:, :joint] + other[:, :joint]
                every = np.concatenate([sums, own[:, joint:], other[:, joint:]], 1)
                return in_blocks(every, self.spec.unit)

            return self.low.packed(B, ("bias", joint, self.spec.unit, self.wide), make)
        source = self.split(self.low.rows(B), shape)
        own, other = (
            self.split(
                source.sliced((0, k, 0, 0), (directions, 1, gates, hidden)),
                (directions, gates, hidden),
            )
            for k in range(2)
        )
        made = self.low.new(source.dtype, (directions, self.spec.biases, hidden))
        self.add(_sets(own, 0, joint), _sets(other, 0, joint), _sets(made, 0, joint))
        if joint < gates:
            self.low.copy(_sets(own, joint, 1), _sets(made, joint, 1))
            self.low.copy(_sets(other, joint, 1), _sets(made, joint + 1, 1))
        return self.in_blocks(made)

    def add(self, x: Tensor, y: Tensor, total: Tensor) -> None:
        dtype = x.dtype
        body = Body((dtype, dtype), (Step("", "Add", (0, 1), dtype),), (2,))
        self.low.pointwise(body, [x, y], [total])

    # --- the kernel -------------------------------------------------------------------------

    def call(
        self, operands: dict[str, Tensor], spec: Recurrent, first: int, directions: int
    ) -> None:
        """The directions from `first` on."""
        every = spec.blocks * spec.gates * spec.unit * self.hidden
        words = self.words(operands, spec.operands, spec, first, {"weights": every})
        self.low.call(
            spec,
            words,
            directions * self.batch,
            grain=spec.rows,  # fewer rows take as long: each step reads all weights
            scratch=scratch_of(spec),
            flops=2 * directions * self.batch * self.steps * spec.gates * self.hidden**2,
        )

    def words(
        self,
        operands: dict[str, Tensor],
        names: tuple[str, ...],
        spec: Recurrent,
        first: int,
        sizes: dict[str, int],
    ) -> list[Tensor | int]:
        """Operands from direction `first` on, and the integers; `sizes`: elements of a direction
        of the weights."""
        x_d = spec.blocks * spec.gates * spec.unit
        batch, directions, hidden = self.batch, self.directions, self.hidden
        if self.by_batch:
            y_t, y_b, y_d = directions * hidden, self.steps * directions * hidden, hidden
            s_b, s_d = directions * hidden, hidden
        else:
            y_t, y_b, y_d = directions * batch * hidden, hidden, batch * hidden
            s_b, s_d = hidden, batch * hidden
        turned = {"reverse": 1, "bidirectional": 2}.get(self.op.text("direction", "forward"), 0)
        integers = Integers(
            batch, self.steps, turned >> first, batch * directions * x_d, directions * x_d,
            x_d, y_t, y_b, y_d, s_b, s_d, bits_of(self.op.number("clip", 0.0)),
        )  # fmt: skip
        skip = {
            "projected": x_d,
            "bias": spec.blocks * spec.biases * spec.unit,
            "peepholes": spec.blocks * 3 * spec.unit,
            "h0": s_d, "c0": s_d, "y_h": s_d, "y_c": s_d, "y": y_d, "lengths": 0,
            **sizes,
        }  # fmt: skip
        tensors = [
            replace(operands[name], offset=operands[name].offset + first * skip[name])
            for name in names
        ]
        return [*tensors, *integers.words()]


def _sets(tensor: Tensor, start: int, count: int) -> Tensor:
    directions, _, hidden = tensor.shape
    return tensor.sliced((0, start, 0), (directions, count, hidden))


def _numpy(dtype: str) -> type[np.float64] | type[np.float32]:
    return np.float64 if dtype == "f64" else np.float32
