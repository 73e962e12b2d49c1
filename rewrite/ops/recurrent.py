"""Recurrent layers: RNN, GRU, LSTM, and the causal operators with a state.

In: `Call`. Out: types.
"""

from __future__ import annotations

from rewrite.ops import dims
from rewrite.ops.call import Call, Types
from rewrite.ops.registry import op
from rewrite.schema import Dim, Type


@op("RNN", "GRU", "LSTM", kind="recurrent")
def recurrent(call: Call) -> Types:
    """All hidden states, the last hidden state, and for LSTM the last cell state"""
    dtype = call.dtype_of(0, 1, 2)
    x = call.shape_of_rank(0, 3, "the operand of a recurrent layer")
    by_batch = call.integer("layout", 0) == 1
    sequence: Dim = call.fresh() if x is None else x[1 if by_batch else 0]
    batch: Dim = call.fresh() if x is None else x[0 if by_batch else 1]
    directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
    hidden = hidden_size(call)
    if by_batch:
        every = Type(dtype, (batch, sequence, directions, hidden))
        last = Type(dtype, (batch, directions, hidden))
    else:
        every = Type(dtype, (sequence, directions, batch, hidden))
        last = Type(dtype, (directions, batch, hidden))
    return (every, last, last)


def hidden_size(call: Call) -> Dim:
    stated = call.integer("hidden_size", 0)
    weights = call.shape(2)
    if stated:
        return stated
    return weights[-1] if weights else call.fresh()


@op("CausalConvWithState", kind="recurrent")
def causal_conv_with_state(call: Call) -> Types:
    """A causal convolution and the inputs that the next step needs"""
    x = call.type(0)
    shape = call.shape_of_rank(0, 3, "the operand of CausalConvWithState")
    weight = call.shape_of_rank(1, 3, "the weight of CausalConvWithState")
    batch, channels = (call.fresh(), call.fresh()) if shape is None else shape[:2]
    length: Dim = call.fresh() if weight is None else dims.sub(weight[2], 1)
    return (x, Type(x.dtype, (batch, channels, length)))
