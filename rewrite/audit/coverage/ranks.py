"""Ranks that an operand cannot have, as ONNX's own shape inference says.

In: a rule, one of its tests. Out: why the test cannot be false: it would be only at ranks that the
inference of an operator of the pattern refuses, at every opset of the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnx import helper

from rewrite.audit.coverage.opsets import OpsetClass
from rewrite.lang import ast
from rewrite.lang.vocabulary import Vocabulary
from rewrite.match import form as f
from rewrite.match.items import Atom
from rewrite.match.operators import COMPARE
from rewrite.schema import DTYPES, OpSchema

_PARTNERS = 8  # ranks of another operand that are tried with it
_MOST = 12  # ranks that are looked at: what fails at this one fails at any larger one


def false_ranks_of_shape(shape: f.ShapeTest, names: Sequence[str]) -> tuple[int, ...]:
    """The ranks at which the shape is another one; () where it may also be for other reasons.

    `names`: all names of sizes in the pattern; one that stands twice is a size to be equal to.
    """
    dims = (*shape.front, *shape.back)
    sized = any(d.size is not None or (d.name and names.count(d.name) > 1) for d in dims)
    if sized or not shape.ellipsis or (shape.name and names.count(shape.name) > 1):
        return ()
    return tuple(range(len(dims)))


def false_ranks_of_atom(atom: Atom) -> tuple[str, tuple[int, ...]]:
    """The value whose rank the atom is about, and the ranks at which it does not hold."""
    expr = atom.expr
    if not isinstance(expr, ast.Binary) or expr.operator not in COMPARE:
        return "", ()
    name, number = _rank_of(expr.left), expr.right
    if not name or not isinstance(number, ast.Constant) or not isinstance(number.value, int):
        return "", ()
    holds = COMPARE[expr.operator]
    found = [r for r in range(_MOST + 1) if holds(r, number.value) is atom.negated]
    return name, () if _MOST in found else tuple(found)


def _rank_of(expr: ast.Expr) -> str:
    if isinstance(expr, ast.Field) and expr.name == "rank" and isinstance(expr.base, ast.Name):
        return expr.base.name
    if isinstance(expr, ast.Call) and expr.function == "rank" and len(expr.arguments) == 1:
        only = expr.arguments[0]
        return only.name if isinstance(only, ast.Name) else ""
    return ""


def refusal(
    ranks: Sequence[int],
    form: f.Op,
    place: int,
    classes: Sequence[OpsetClass],
    vocabulary: Vocabulary,
) -> str:
    """Why the operand has none of these ranks; "" where it may."""
    domain, name = form.operator
    if domain or form.also or not ranks or (form.commutes and len(form.operands) > 1):
        return ""
    literals = tuple(
        (test.name, test.values[0]) for test in form.attributes if test.values is not None
    )
    count = len(form.operands)
    for c in classes:
        schemas = [s for s in vocabulary.schemas(*form.operator) if s.since <= c.high]
        if not schemas:
            continue  # no match there, whatever the rank
        call = _Call(name, count, c.high, literals)
        if not all(_is_refused(call, place, rank) for rank in ranks):
            return ""
    told = " or ".join(map(str, ranks))
    return f"ONNX's inference refuses operand {place + 1} of {name} with rank {told}"


Literals = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """An operator with so many operands, all of unknown rank but those that are tried."""

    name: str
    count: int
    opset: int
    literals: Literals


@cache
def _is_refused(call: _Call, place: int, rank: int) -> bool:
    """Whether inference refuses this rank, with a partner operand of any rank, and not all."""
    partner = 0 if place else 1
    if call.count < 2:
        return _infers(call, {}) and not _infers(call, {place: rank})
    takes = any(_infers(call, {place: r, partner: r}) for r in range(1, _PARTNERS))
    refuses = not any(_infers(call, {place: rank, partner: r}) for r in range(_PARTNERS))
    return takes and refuses


def _infers(call: _Call, ranks: Mapping[int, int]) -> bool:
    """Whether ONNX's inference takes the operator with operands of these ranks."""
    from rewrite.ops import schemas

    schema = schemas.lookup("", call.name, call.opset)
    if schema is None or schema.legacy or max(ranks, default=0) >= len(schema.inputs):
        return False
    inputs = [
        helper.make_tensor_value_info(f"x{i}", DTYPES[_dtype(schema, i)], _dims(ranks.get(i), i))
        for i in range(min(call.count, len(schema.inputs)))
    ]
    known = {k: list(v) if isinstance(v, tuple) else v for k, v in call.literals}
    given: dict[str, Any] = {k: v for k, v in known.items() if k in schema.attributes}
    node = helper.make_node(call.name, [v.name for v in inputs], ["y"], **given)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", call.opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def _dims(rank: int | None, operand: int) -> list[str] | None:
    return None if rank is None else [f"d{operand}_{i}" for i in range(rank)]


def _dtype(schema: OpSchema, place: int) -> str:
    allowed = schema.types.get(schema.inputs[place].type, frozenset({"s64"}))
    return "f32" if "f32" in allowed else sorted(allowed)[0]
