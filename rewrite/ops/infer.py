"""The types of a node's outputs, from the types of its inputs.

In: operator, opset, operand types in newest form, attributes as plain values, known constants.
Out: `Type`s, or None where the operator is not declared; `InferenceError` where no run of the
node can succeed (wrong element type, shapes that do not fit).

What is not known is left open: an output may have `dtype` None, `shape` None, or dimensions with
fresh names. What is stated holds for every run that ends without an error.

Not to be called for a node with an attribute whose value is not known (a reference attribute in
a function body): declarations take an absent attribute for its default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rewrite.ops import opaque, registry, schemas
from rewrite.ops.call import (
    ILL_TYPED,
    Call,
    Constants,
    InferenceError,
    Symbols,
    Types,
    fresh_name,
    no_constant,
)
from rewrite.ops.dims import SizeError
from rewrite.ops.dtypes import from_type_string
from rewrite.ops.microsoft_operands import check_microsoft
from rewrite.ops.operands import check
from rewrite.schema import UNKNOWN, OperandSchema, OpSchema, Shape, Type

__all__ = ["InferenceError", "infer"]

MICROSOFT = "com.microsoft"
ABSENT = ""  # in a row of element types: the operand is not given

DtypeRow = tuple[str | None, ...]


def infer(
    domain: str,
    name: str,
    opset: int,
    inputs: Sequence[Type | None],
    attributes: Mapping[str, Any],
    constant: Constants = no_constant,
    n_outputs: int = 1,
    fresh: Callable[[], str] = fresh_name,
    symbols: Symbols | None = None,
) -> Types | None:
    """The types of the first `n_outputs` outputs.

    `inputs`: None for an operand that is absent. `constant(i)`: the value of operand i, None
    where it is not known. `fresh()`: a new name for a size, starting with "?". `symbols(i)`: the
    elements of a small integer operand, some of them names of sizes, where that much is known.
    """
    entry = _ENTRIES.get((domain, name, opset)) or _entry(domain, name, opset)
    if entry.rule is None:
        return None
    row: list[str | None] = []
    tokens = False
    for operand in inputs:
        if operand is None:
            row.append(ABSENT)
            continue
        row.append(operand.dtype)
        shape = operand.shape
        if shape is not None and len(shape) == 1 and opaque.is_opaque(shape):
            tokens = True
    key = tuple(row)
    if key not in entry.accepted:
        entry.check(key)
    try:
        if tokens:
            return _infer_with_tokens(entry, opset, inputs, attributes, constant, n_outputs, fresh)
        call = Call(opset, inputs, attributes, constant, n_outputs, fresh, symbols)
        if not domain:
            check(name, call)
        elif domain == MICROSOFT:
            check_microsoft(name, call)
        return _complete(entry, key, entry.rule(call), n_outputs)
    except SizeError as error:
        raise InferenceError(f"{name}: {error}") from error
    except ILL_TYPED as error:
        raise InferenceError(f"{name} does not take these operands: {error}") from error


@dataclass(slots=True)
class _Entry:
    """What is known of an operator at one opset, and the rows of element types it was seen with."""

    name: str
    rule: registry.Infer | None
    shape_class: registry.ShapeClass | None
    schema: OpSchema | None
    accepted: set[DtypeRow] = field(default_factory=set)

    def check(self, row: DtypeRow) -> None:
        """Raises unless the schema admits operands of these element types."""
        assert self.schema is not None
        operands = self.schema.inputs
        variadic = bool(operands) and operands[-1].option == "variadic"
        beyond = row[len(operands) :]
        if not variadic and any(d != ABSENT for d in beyond):
            raise InferenceError(f"{self.name} takes {len(operands)} operands, not {len(row)}")
        bound: dict[str, str] = {}
        for i, operand in enumerate(operands):
            given = row[i] if i < len(row) else ABSENT
            if given == ABSENT and operand.option == "single":
                raise InferenceError(f"{self.name} needs its operand {operand.name}")
        for i, dtype in enumerate(row):
            operand = operands[min(i, len(operands) - 1)]
            if dtype is not None and dtype != ABSENT:
                self._check_operand(operand, dtype, bound)
        if len(self.accepted) < 4096:
            self.accepted.add(row)

    def _check_operand(self, operand: OperandSchema, dtype: str, bound: dict[str, str]) -> None:
        assert self.schema is not None
        allowed = self.schema.types.get(operand.type)
        if allowed is None:
            wanted = from_type_string(operand.type)
            if wanted is not None and wanted != dtype:
                raise InferenceError(f"{self.name}: {operand.name} is {dtype}, not {wanted}")
            return
        if allowed and dtype not in allowed:
            raise InferenceError(f"{self.name}: {operand.name} cannot be {dtype}")
        if operand.homogeneous and bound.setdefault(operand.type, dtype) != dtype:
            other = bound[operand.type]
            raise InferenceError(f"{self.name}: {operand.name} is {dtype}, others {other}")


_ENTRIES: dict[tuple[str, str, int], _Entry] = {}

# ONNX Runtime registers it from opset 1 on and writes it into the models that it saves; its first
# version in ai.onnx is 17.
_WRITTEN_EARLIER = frozenset({("", "LayerNormalization")})


def _entry(domain: str, name: str, opset: int) -> _Entry:
    definition = registry.find(domain, name)
    schema = schemas.lookup(domain, name, opset)
    if schema is None and (domain, name) in _WRITTEN_EARLIER:
        schema = schemas.versions(domain, name)[0]
    rule = None if definition is None or schema is None else definition.infer
    shape_class = None if definition is None else definition.shape_class
    entry = _Entry(name, rule, shape_class, schema)
    if len(_ENTRIES) < 65536:
        _ENTRIES[domain, name, opset] = entry
    return entry


def _complete(entry: _Entry, row: DtypeRow, found: Types, n_outputs: int) -> Types:
    """As many types as the node has outputs, element types filled in from the schema."""
    if len(found) != n_outputs:
        found = (found + (UNKNOWN,) * (n_outputs - len(found)))[:n_outputs]
    for type_ in found:
        if type_.dtype is None:
            return _fill(entry, row, found)
    return found


def _fill(entry: _Entry, row: DtypeRow, found: Types) -> Types:
    assert entry.schema is not None
    known: dict[str, str] = {}
    for operand, dtype in zip(entry.schema.inputs, row, strict=False):
        if dtype is not None and dtype != ABSENT:
            known.setdefault(operand.type, dtype)
    filled = list(found)
    outputs = entry.schema.outputs
    for i, type_ in enumerate(found):
        if type_.dtype is None and outputs:
            text = outputs[min(i, len(outputs) - 1)].type
            dtype = known.get(text) if text in entry.schema.types else from_type_string(text)
            filled[i] = Type(dtype, type_.shape)
    return tuple(filled)


def _infer_with_tokens(
    entry: _Entry,
    opset: int,
    inputs: Sequence[Type | None],
    attributes: Mapping[str, Any],
    constant: Constants,
    n_outputs: int,
    fresh: Callable[[], str],
) -> Types:
    """Operand shapes that are tokens reach the first output of shape-keeping operators only."""
    assert entry.rule is not None
    plain = [None if t is None else opaque.forget(t) for t in inputs]
    call = Call(opset, plain, attributes, constant, n_outputs, fresh, None)
    row = tuple(ABSENT if t is None else t.dtype for t in plain)
    found = _complete(entry, row, entry.rule(call), n_outputs)
    shape = _token_of(entry.shape_class, inputs)
    if shape is None:
        return found
    return (Type(found[0].dtype, shape), *found[1:])


def _token_of(
    shape_class: registry.ShapeClass | None, inputs: Sequence[Type | None]
) -> Shape | None:
    if shape_class == "first":
        return inputs[0].shape if inputs[0] is not None else None
    if shape_class != "broadcast":
        return None
    shapes = [t.shape for t in inputs if t is not None]
    known = [shape for shape in shapes if shape is not None]
    return opaque.join(known) if len(known) == len(shapes) else None
