"""DynamicQuantizeLSTM of ONNX Runtime (com.microsoft), as its CPU kernel computes.

In: instances whose weights are known. Out: the input of all steps quantized by its range, one
product of bytes, and a `QuantizedRecurrent` kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rewrite.plan.lower.matmul_bytes import scheme_of
from rewrite.plan.lower.matmul_product import Right, Scheme, multiply
from rewrite.plan.lower.quantized import quantize_by_range
from rewrite.plan.lower.quantized_product import centered, needs_nine_bits, scaled_sums
from rewrite.plan.lower.recurrent import Layer, activations_of
from rewrite.plan.lower.recurrent_layout import in_blocks
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.specs.recurrent import Recurrent
from rewrite.plan.specs.recurrent_quantized import QuantizedRecurrent, scratch_of

DOMAIN = "com.microsoft"
Array = np.ndarray[Any, np.dtype[Any]]

X, W, R, B, LENGTHS, H0, C0, P, W_SCALE, W_ZERO, R_SCALE, R_ZERO = range(12)


@refuses("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_quantize_lstm_refusal(op: Instance) -> str | None:
    if op.dtype(X) != "f32" or op.has(LENGTHS):
        return "DynamicQuantizeLSTM with lengths"
    if activations_of(op) is None:
        return "DynamicQuantizeLSTM with activations that ONNX does not name"
    for index in (W, R, W_SCALE, R_SCALE, W_ZERO, R_ZERO):
        if op.has(index) and not op.is_known(index):
            return "DynamicQuantizeLSTM whose weights are not known"
    for codes, zero in ((W, W_ZERO), (R, R_ZERO)):
        given = op.known(codes)
        assert given is not None
        if needs_nine_bits(given, op.known(zero)):
            return "DynamicQuantizeLSTM whose weights need nine bits"
    return None


@lowers("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_quantize_lstm(low: Lowering, op: Instance) -> None:
    _Quantized(low, op).lower()


class _Quantized(Layer):
    kind = "LSTM"

    def sizes(self) -> tuple[int, int]:
        shape = self.op.shape(R)
        return shape[0], shape[1]

    def codes(self, index: int, zero: int) -> Array:
        """Weights as s8, (direction, k, gate, hidden), made once per session."""
        given = self.op.known(index)
        assert given is not None
        offset = self.op.known(zero) if self.op.has(zero) else None

        def make(codes: Array) -> Array:
            made = centered(codes, offset).astype(np.int8)
            return made.reshape(*made.shape[:2], self.gates, self.hidden)

        return self.low.weights.packed(given, ("centered", zero), make)

    def scheme(self, weights: Array) -> Scheme:
        matrix = weights.reshape(*weights.shape[:2], -1)
        return scheme_of(self.low.machine, "u8", "s8", matrix, np.zeros(1, np.int64))

    def scales(self, index: int, weights: Array) -> Array:
        """Scales of all columns, (direction, gate, hidden)."""
        given = self.op.known(index)
        assert given is not None
        directions, _, gates, hidden = weights.shape
        rows = given.reshape(directions if given.size > 1 else 1, -1)
        if rows.shape[1] == 1:
            rows = np.repeat(rows, gates * hidden, 1)
        return np.broadcast_to(rows, (directions, gates * hidden)).reshape(
            directions, gates, hidden
        )

    def blocks(self, array: Array) -> Tensor:
        return self.low.constant(in_blocks(array, self.spec.unit))

    # --- the input --------------------------------------------------------------------------

    def projected(self) -> Tensor:
        """W x of all steps; x is quantized by the range of all of it."""
        low, spec = self.low, self.spec
        x = low.view(X)
        codes = low.new("u8", x.shape)
        scale, zero = low.new("f32", (1,)), low.new("u8", (1,))
        quantize_by_range(low, x, codes, scale, zero)
        weights, unit = self.codes(W, W_ZERO), spec.unit
        sums = self.blocks(weights.sum(1, dtype=np.int32))
        depth, width = x.shape[2], sums.view.size

        def form(_: Array) -> Array:
            return in_blocks(weights.transpose(1, 0, 2, 3), unit).reshape(depth, width)

        scheme = self.scheme(weights)
        out = low.new("f32", (self.steps, self.batch, width))
        factors = self.blocks(self.scales(W_SCALE, weights))
        tail = scaled_sums(out, sums, factors, scheme, scale, zero)
        right = Right((depth, width), None, W, ("quantized gates", unit), form)
        multiply(low, codes, right, out, tail, scheme)
        return out

    # --- the state --------------------------------------------------------------------------

    def weights(self) -> Tensor:
        """R in the layout of `QuantizedRecurrent`."""
        given, codes = self.op.known(R), self.codes(R, R_ZERO)
        assert given is not None
        group = self.scheme(codes).group
        unit = self.spec.unit

        def make(_: Array) -> Array:
            directions, k, gates, hidden = codes.shape
            padded = np.pad(codes, ((0, 0), (0, -k % group), (0, 0), (0, -hidden % unit)))
            split = padded.reshape(directions, -1, group, gates, self.spec.blocks, unit)
            return np.ascontiguousarray(split.transpose(0, 4, 1, 3, 5, 2))

        return self.low.constant(self.low.weights.packed(given, ("quads", group, unit), make))

    def call(
        self, operands: dict[str, Tensor], spec: Recurrent, first: int, directions: int
    ) -> None:
        codes = self.codes(R, R_ZERO)
        scheme = self.scheme(codes)
        quantized = QuantizedRecurrent(
            replace(spec, rows=1), scheme.form, scheme.a, scheme.b, scheme.group
        )
        operands = {
            **operands,
            "sums": self.blocks(codes.sum(1, dtype=np.int32)),
            "scales": self.blocks(self.scales(R_SCALE, codes).astype(np.float32)),
        }
        words = self.words(operands, quantized.operands, spec, first, {
            "weights": spec.blocks * spec.gates * spec.unit * quantized.depth,
            "sums": spec.blocks * spec.gates * spec.unit,
            "scales": spec.blocks * spec.gates * spec.unit,
        })  # fmt: skip
        self.low.call(
            quantized,
            words,
            directions,
            scratch=scratch_of(quantized, self.batch),
            flops=2 * directions * self.batch * self.steps * spec.gates * self.hidden**2,
        )
