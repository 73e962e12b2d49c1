"""Reason codes: one stable word for each way in which a rule does not apply.

In: nothing. Out: `REASONS`. The matcher gives the codes of tests, the engine those of what it did
instead; docs/explain.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OF_RUNS = frozenset({"far", "taken", "folded", "removed"})  # no test of one rule expects these

REASONS: Mapping[str, str] = MappingProxyType(
    {
        # a part of the pattern is nothing like what is there
        "operator": "the value is not produced by the operator that the pattern has there",
        "output": "it is another output of that operator",
        "graph": "it is computed in another graph",
        "operands": "the node has another number of operands",
        "absent": "an operand that must be there is not",
        "bag": "it is not a sum or product of so many operands, with inner nodes used once",
        "chain": "no chain of such operators ends there",
        "siblings": "too few siblings, or the node is not one of them",
        # one test does not hold
        "present": "an operand is there that must not be",
        "const": "the value is not constant",
        "overridable": "the value is an initializer and a graph input: a caller may change it",
        "dtype": "the value has another element type, or one that is not known",
        "shape": "the value has another shape, or one that is not known",
        "literal": "the value is not this number",
        "attribute": "the attribute has another value",
        "same": "it is not the value that the name stands for already",
        "uses": "an inner value is used outside of the match, or is an output of the graph",
        "guard": "the condition of an alternative does not hold",
        "where": "a condition does not hold",
        "unknown": "a condition cannot be computed",
        "opset": "the model's opset is outside of the rule's range",
        # the rule matches
        "refused": "it matches, and the engine refuses to apply it",
        "far": "too much is different for a smallest set of reasons",
        # the node is not there any more
        "taken": "another rule took the node",
        "folded": "the node was computed: its operands are constant",
        "removed": "nothing uses the node, or another one computes the same",
    }
)
