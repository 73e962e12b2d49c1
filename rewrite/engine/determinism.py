"""Which nodes give the same outputs for the same inputs, every time.

In: a node. Out: yes or no. Nodes that hold subgraphs count as not: what is inside is not looked at.
"""

from __future__ import annotations

import onnx_ir as ir

from rewrite.schema import DESCRIBED_DOMAINS

RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "BiasDropout",
        "BitmaskDropout",
        "BitmaskBiasDropout",
        "Sampling",
    }
)


def is_random(node: ir.Node) -> bool:
    """Whether the node draws random numbers. Dropout does so only in training mode."""
    name = node._op_type
    if name in RANDOM:
        return True
    return name == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None


def is_deterministic(node: ir.Node) -> bool:
    """Whether two such nodes with the same inputs may be one; local functions count as unknown."""
    return node._domain in DESCRIBED_DOMAINS and not is_random(node)
