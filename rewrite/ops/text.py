"""Operators on strings, sequences and optionals whose output is a tensor.

In: `Call`. Out: types.
"""

from __future__ import annotations

from rewrite.ops.call import Call, Types
from rewrite.ops.registry import op
from rewrite.ops.scalar import infer_broadcast, infer_first_bool
from rewrite.schema import Type


@op("RegexFullMatch", kind="text", shape_class="first")
def regex_full_match(call: Call) -> Types:
    """Whether the whole string matches"""
    return infer_first_bool(call)


@op("StringConcat", kind="text", shape_class="broadcast")
def string_concat(call: Call) -> Types:
    """One string after the other"""
    return infer_broadcast(call)


@op("SequenceLength", kind="text")
def sequence_length(call: Call) -> Types:
    """The number of tensors in a sequence"""
    return (Type("s64", ()),)


@op("OptionalHasElement", kind="text")
def optional_has_element(call: Call) -> Types:
    """Whether an optional holds something"""
    return (Type("bool", ()),)
