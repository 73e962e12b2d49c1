"""The obligation of every application: each root keeps its element type and shape.

In: a match, and each root with its new value. Out: None where it is shown, else the reason.

Three proofs are tried, the cheap ones first:
  1. both types are known and equal (names of sizes that are equal are equal sizes);
  2. relational: the matched nodes and the new ones are inferred again over the same operands, and
     give the same type, whatever the model declares about the root. An operand of unknown rank
     gets a token for its shape (rewrite/ops/opaque.py) that shape-keeping operators carry along.
     Where both are the same elements reshaped, one size may follow from all the others;
     If need be the nodes above the match are inferred again, too;
  3. by cases: where the element types of up to two operands are not known (in function bodies), the
     same for every element type with which the matched nodes can run.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from functools import partial

import onnx_ir as ir

from rewrite.engine.inference import node_types
from rewrite.engine.refused import RefusedError
from rewrite.engine.shapes import ShapeValues
from rewrite.engine.sizes import counted_from, one_size_follows, sizes_key
from rewrite.engine.upstream import operands_first
from rewrite.graph.facts import Facts
from rewrite.ops import opaque
from rewrite.schema import DTYPES, Dim, Type

_SIZES_AT = {"ConstantOfShape": 0, "Expand": 1}  # where operators take a list of sizes
_MOST_SIZES = 32
_MOST_ABOVE = 64  # nodes, the matched ones included, that a proof looks at
_MOST_UNKNOWN = 2  # operands of unknown element type that are tried out


def unmet(
    facts: Facts,
    matched: Sequence[ir.Node],
    roots: Sequence[tuple[ir.Value, ir.Value]],
    new_nodes: Sequence[ir.Node],
) -> str | None:
    """The first root for which nothing shows that it keeps its type, in words."""
    proof: _Relational | None = None
    for old, new in roots:
        before, after = facts.type(old), facts.type(new)
        if before == after and _known(before):
            continue
        if proof is None:
            proof = _Relational(facts, matched, new_nodes)
        reason = proof.unmet(old, new)
        if reason is not None and _follows_from_above(facts, matched, old, new, new_nodes):
            continue
        if reason is not None:
            shown = before.dtype is None and _holds_in_all_cases(facts, matched, roots, new_nodes)
            return None if shown else reason
    return None


def _follows_from_above(
    facts: Facts,
    matched: Sequence[ir.Node],
    old: ir.Value,
    new: ir.Value,
    new_nodes: Sequence[ir.Node],
) -> bool:
    """Whether nodes above the match show what it alone does not.

    A rule may look past what it matches, to codes from which its root is computed; what the model
    declares in between may give one size several names.
    """
    inside = frozenset(new_nodes)
    read = {v for node in new_nodes for v in node.inputs if v is not None}
    reached = {v for v in read if v.producer() not in inside and facts.constant(v) is None}
    above: dict[ir.Node, None] = dict.fromkeys(matched)
    waiting = [v for node in matched for v in node.inputs if v is not None]
    while waiting and len(above) < _MOST_ABOVE:
        value = waiting.pop()
        producer = value.producer()
        if producer is None or producer in above or value in reached:
            continue
        above[producer] = None
        waiting += [v for v in producer.inputs if v is not None]
    if len(above) == len(matched):
        return False
    return _Relational(facts, tuple(above), new_nodes).unmet(old, new) is None


def _holds_in_all_cases(
    facts: Facts,
    matched: Sequence[ir.Node],
    roots: Sequence[tuple[ir.Value, ir.Value]],
    new_nodes: Sequence[ir.Node],
) -> bool:
    """Whether all roots keep their types for all element types that operands may have."""
    inside = frozenset(matched) | frozenset(new_nodes)
    read = (v for node in (*matched, *new_nodes) for v in node.inputs if v is not None)
    outside = [v for v in dict.fromkeys(read) if v.producer() not in inside]
    unknown = [v for v in outside if facts.type(v).dtype is None]
    if not 1 <= len(unknown) <= _MOST_UNKNOWN:
        return False
    possible = False
    for dtypes in itertools.product(DTYPES, repeat=len(unknown)):
        proof = _Relational(facts, matched, new_nodes, dict(zip(unknown, dtypes, strict=True)))
        try:
            before = [proof.type(old, strict=True) for old, _ in roots]
        except RefusedError:
            continue  # no run with these element types ends without an error
        try:
            after = [proof.type(new, strict=True) for _, new in roots]
        except RefusedError:
            return False
        if before != after or not all(_known(type_) for type_ in before):
            return False
        possible = True
    return possible


def _known(type_: Type) -> bool:
    return type_.dtype is not None and type_.shape is not None


class _Relational:
    """Old and new outputs inferred over the same operands."""

    def __init__(
        self,
        facts: Facts,
        matched: Sequence[ir.Node],
        new_nodes: Sequence[ir.Node],
        assumed: Mapping[ir.Value, str] | None = None,
    ) -> None:
        self.facts = facts
        self.assumed = assumed or {}
        self.inside = frozenset(matched) | frozenset(new_nodes)
        self.types: dict[ir.Value, Type] = {}
        self.inferred: dict[Hashable, tuple[Type, ...]] = {}
        self.named: dict[ir.Value, int] = {}  # operands whose elements are sizes without names

    def unmet(self, old: ir.Value, new: ir.Value) -> str | None:
        before, after = self.type(old), self.type(new)
        declared = self.facts.type(old)
        dtype = declared.dtype if before.dtype is None else before.dtype
        if dtype is None or dtype != after.dtype:
            return _differs(old, "element type", dtype, after.dtype)
        if after.shape is not None and after.shape in (before.shape, declared.shape):
            return None
        if counted_from(old) is counted_from(new):
            shapes = (before.shape, declared.shape)
            if any(one_size_follows(shape, after.shape) for shape in shapes):
                return None
        shape = declared.shape if before.shape is None else before.shape
        return _differs(old, "shape", shape, after.shape)

    def type(self, value: ir.Value, strict: bool = False) -> Type:
        """The value's type by inference alone inside the match, by what is known outside.

        Nodes that are ill-typed are an error where `strict`, else their declared types count.
        """
        for node in operands_first(value, self._untyped):
            try:
                types = self._infer(node)
            except RefusedError:
                if strict:
                    raise
                types = tuple(self.facts.type(output) for output in node.outputs)
            self.types.update(zip(node.outputs, types, strict=True))
        return self._operand(value)

    def _infer(self, node: ir.Node) -> tuple[Type, ...]:
        """Output types; where sizes follow from the same things they get the same names."""
        operands = self.facts.operands(node)
        key = sizes_key(self.facts, node, operands, self._operand)
        known = None if key is None else self.inferred.get(key)
        if known is not None and len(known) == len(node.outputs):
            dtypes = node_types(self.facts, node, operands, self._operand)
            return tuple(Type(d.dtype, k.shape) for d, k in zip(dtypes, known, strict=True))
        symbols = partial(self._sizes, node, operands)
        types = node_types(self.facts, node, operands, self._operand, symbols)
        if key is not None:
            self.inferred[key] = types
        return types

    def _operand(self, value: ir.Value) -> Type:
        found = self.types.get(value)
        if found is None:
            found = self.facts.type(value)
            dtype = self.assumed.get(value, found.dtype)
            shape = opaque.opaque(f"v{len(self.types)}") if found.shape is None else found.shape
            found = Type(dtype, shape)
            self.types[value] = found
        return found

    def _sizes(
        self, node: ir.Node, operands: Sequence[ir.Value | None], index: int
    ) -> tuple[Dim, ...] | None:
        """Sizes that an integer operand holds: followed to shapes, else named after the operand.

        A name stands for a size only where the operator takes its elements for nothing else:
        Reshape's may also be 0 and -1.
        """
        value = operands[index] if index < len(operands) else None
        if value is None:
            return None
        found = ShapeValues(self.facts).symbols(value)
        if found is not None or _SIZES_AT.get(node.op_type) != index:
            return found
        shape = self._operand(value).shape
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
            return None
        if shape[0] > _MOST_SIZES:
            return None
        number = self.named.setdefault(value, len(self.named))
        return tuple(f"?s{number}.{i}" for i in range(shape[0]))

    def _untyped(self, value: ir.Value) -> ir.Node | None:
        """The node inside that computes the value, where it has no type yet."""
        node = value.producer()
        if node is None or node not in self.inside or value in self.types:
            return None
        return node


def _differs(old: ir.Value, what: str, before: object, after: object) -> str:
    name = f"'{old.name}'"
    if before is None or (isinstance(before, tuple) and opaque.is_opaque(before)):
        return f"the {what} of {name} is not known, and that of its replacement not shown equal"
    if after is None or (isinstance(after, tuple) and opaque.is_opaque(after)):
        return f"the {what} of what replaces {name} is not known"
    return f"the {what} of {name} would become {_text(after)}; it is {_text(before)}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(str(dim) for dim in value) + "]"
    return str(value)
