"""Attributes of emitted nodes.

In: values of expressions and nodes to carry from. Out: onnx-ir attributes of the kinds that the
operator's schema at the model's opset names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from rewrite.engine.refused import RefusedError
from rewrite.graph.facts import Facts
from rewrite.match.values import ElementType, Env, Symbol, Tensor, describe, is_graph_value, weak
from rewrite.ops import schemas
from rewrite.schema import DTYPES, AttributeKind, AttributeSchema, OpSchema

_SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)
MOST_ITEMS = 1 << 20  # of an emitted attribute
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def resolve(
    facts: Facts,
    env: Env,
    schema: OpSchema,
    given: Mapping[str, object],
    carry: Sequence[str],
) -> dict[str, ir.Attr]:
    """Carried attributes, then those given. A given value of None leaves the attribute out."""
    made: dict[str, ir.Attr] = {}
    for name in carry:
        node = carried_node(env, name)
        if node is not None:
            made.update(_carried(facts, node, schema, given))
    for name, value in given.items():
        if value is None:
            continue
        declared = schema.attributes.get(name)
        if declared is not None:
            made[name] = convert(declared, value)
        elif not _is_later_default(schema, name, value):
            at = f"{schema.name}-{schema.since}"
            raise RefusedError(f"{at} has no attribute '{name}', and its value is not the default")
    return made


def carried_node(env: Env, name: str) -> ir.Node | None:
    """The node that produced a matched value; None where its alternative was not taken."""
    value = env.names.get(name)
    if isinstance(value, tuple):
        value = value[0] if value else None
    if value is None:
        return None
    if not is_graph_value(value):
        raise RefusedError(f"'{name}' is not a value of the graph: nothing to carry")
    return value.producer()


def _carried(
    facts: Facts, node: ir.Node, schema: OpSchema, given: Mapping[str, object]
) -> dict[str, ir.Attr]:
    """What `node` says, explicitly, and where another operator defaults otherwise, by default."""
    made: dict[str, ir.Attr] = {}
    same = (node.domain, node.op_type) == (schema.domain, schema.name)
    for name, declared in schema.attributes.items():
        if name in given:
            continue
        attribute = node.attributes.data.get(name)
        if attribute is not None:
            if attribute.type in _GRAPHS:
                raise RefusedError(f"attribute '{name}' holds a graph and cannot be carried")
            made[name] = attribute
        elif not same:
            default = facts.attribute(node, name)
            if default is not None and default != declared.default:
                made[name] = convert(declared, default)
    return made


def _is_later_default(schema: OpSchema, name: str, value: object) -> bool:
    """Whether leaving out an attribute that this version lacks means the same."""
    for later in schemas.versions(schema.domain, schema.name):
        if later.since > schema.since and name in later.attributes:
            return _plain(value) == later.attributes[name].default
    return False


def convert(declared: AttributeSchema, value: object) -> ir.Attr:
    """A value as an attribute of the declared kind."""
    maker = _MAKERS.get(declared.kind)
    if maker is None:
        raise RefusedError(f"attribute '{declared.name}' ({declared.kind}) cannot be emitted")
    plain = value if declared.kind == "tensor" else _plain(value)
    try:
        return maker(declared.name, plain)
    except (TypeError, ValueError, OverflowError) as problem:
        reason = f"attribute '{declared.name}': {describe(value)} is not {declared.kind}"
        raise RefusedError(reason) from problem


def free(name: str, value: object) -> ir.Attr:
    """A value as an attribute that no schema declares: of the kind that it looks like."""
    if isinstance(value, Tensor):
        rounded = value.rounded("s64" if value.array.dtype.kind in "bi" else "f32")
        value = rounded.tolist() if rounded.dtype.kind in "biuO" else rounded.astype(float).tolist()
    plain = _plain(value)
    items = plain if isinstance(plain, tuple) else (plain,)
    kind = "tensor"
    if all(isinstance(item, (int, ElementType)) for item in items):
        kind = "int"
    elif all(isinstance(item, (int, float)) for item in items):
        kind = "float"
    elif all(isinstance(item, str) for item in items):
        kind = "string"
    if kind == "tensor":
        raise RefusedError(f"attribute '{name}': {describe(value)} is not an attribute")
    kind += "s" if isinstance(plain, tuple) else ""
    return convert(AttributeSchema(name, cast(AttributeKind, kind), False, None), plain)


def _plain(value: object) -> object:
    """Numbers, strings and lists of them, out of what expressions give."""
    if isinstance(value, Symbol):
        raise RefusedError(f"the size {value} is not known, as an attribute must be")
    if isinstance(value, Tensor):
        value = value.array.tolist()
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        if len(value) > MOST_ITEMS:
            raise RefusedError(f"an attribute of {len(value):,} items is over the limit")
        if any(isinstance(item, (list, tuple)) for item in value):
            raise RefusedError("a list of lists is not an attribute")
        return tuple(_plain(item) for item in value)
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    return value


def _int(value: object) -> int:
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, (ElementType, str)) and value in DTYPES:
        return DTYPES[value]
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("not an integer")
    if not isinstance(value, (int, float)):
        raise TypeError("not a number")
    return int(value)


def _float(value: object) -> float:
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, (int, float)):
        raise TypeError("not a number")
    # As float32, so that rules meet what a reader would; OverflowError where it is too large.
    stored: float = struct.unpack("<f", struct.pack("<f", value))[0]
    if value and abs(stored) < _SMALLEST_NORMAL and stored != value:
        raise OverflowError("smaller than any normal float32")
    return stored


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return str(value)


def _list(value: object) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _tensor(name: str, value: object) -> ir.Attr:
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, ir.tensor(value, name=name))
    tensor = value if isinstance(value, Tensor) else weak(value)
    dtype = None if tensor.dtype else ("s64" if tensor.array.dtype.kind == "i" else "f32")
    return ir.AttrTensor(name, ir.tensor(tensor.rounded(dtype), name=name))


_MAKERS: Mapping[str, Callable[[str, Any], ir.Attr]] = {
    "int": lambda name, value: ir.AttrInt64(name, _int(value)),
    "float": lambda name, value: ir.AttrFloat32(name, _float(value)),
    "string": lambda name, value: ir.AttrString(name, _string(value)),
    "ints": lambda name, value: ir.AttrInt64s(name, [_int(item) for item in _list(value)]),
    "floats": lambda name, value: ir.AttrFloat32s(name, [_float(item) for item in _list(value)]),
    "strings": lambda name, value: ir.AttrStrings(name, [_string(item) for item in _list(value)]),
    "tensor": _tensor,
}
