"""Losses. In: `Call`. Out: types."""

from __future__ import annotations

from rewrite.ops.call import Call, Types
from rewrite.ops.registry import op
from rewrite.schema import Type


@op("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", kind="loss")
def classification_loss(call: Call) -> Types:
    """The loss of each sample, or its mean or sum; the second output is like the scores"""
    scores = call.type(0)
    if call.text("reduction", "mean") == "none":
        return (Type(scores.dtype, call.shape(1)), scores)
    return (Type(scores.dtype, ()), scores)
