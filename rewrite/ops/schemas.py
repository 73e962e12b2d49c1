"""Operator schemas of every version, in the newest form.

In: a domain and an operator name. Out: `OpSchema`s, read when first asked for from `onnx.defs`
(ai.onnx, ai.onnx.ml) and from `contrib/com_microsoft.json` (ONNX Runtime's own operators).

The newest form: an operand that a version carried as an attribute is shown as an input, and
`OpSchema.legacy` says which attribute it was (rewrite/ops/legacy.py has the table).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from rewrite.ops import legacy
from rewrite.ops.dtypes import from_type_string
from rewrite.schema import OLDEST_OPSET, AttributeKind, AttributeSchema, OperandSchema, OpSchema

CONTRIB_FILE = Path(__file__).parent / "contrib" / "com_microsoft.json"

Option = Literal["single", "optional", "variadic"]


def newest_opset() -> int:
    """The newest ai.onnx opset that the installed onnx knows."""
    import onnx.defs

    return int(onnx.defs.onnx_opset_version())


def edition() -> str:
    """Which operators there are: what is derived from schemas holds for this edition only."""
    import onnx

    return f"onnx {onnx.__version__} {newest_opset()}"


@cache
def versions(domain: str, name: str) -> tuple[OpSchema, ...]:
    """All versions from opset 7 on, ascending by `since`; () where the operator is not known.

    The version in force at opset 7 comes first, with the `since` it really has.
    """
    if domain == "ai.onnx":
        return versions("", name)
    contrib = _contrib().get((domain, name))
    if contrib is not None:
        return (_from_record(contrib),)
    return tuple(_from_onnx(schema) for schema in _history(domain, name))


@cache
def lookup(domain: str, name: str, opset: int) -> OpSchema | None:
    """The version in force at `opset` of the operator's domain; None where there is none."""
    found = None
    for schema in versions(domain, name):
        if schema.since > opset:
            break
        found = schema
    return found


def names(domain: str) -> tuple[str, ...]:
    """The operators of a domain, in the order of the alphabet; slow, for messages."""
    import onnx.defs

    found = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain}
    found |= {name for other, name in _contrib() if other == domain}
    return tuple(sorted(found))


def _history(domain: str, name: str) -> list[Any]:
    """onnx schemas from the one in force at opset 7 (any, in other domains) to the newest."""
    import onnx.defs

    oldest = OLDEST_OPSET if domain == "" else 1
    found: list[Any] = []
    limit = 1 << 20
    while limit >= 1:
        try:
            schema = onnx.defs.get_schema(name, limit, domain)
        except onnx.defs.SchemaError:
            break
        found.append(schema)
        if schema.since_version <= oldest:
            break
        limit = schema.since_version - 1
    return found[::-1]


def _from_onnx(schema: Any) -> OpSchema:
    variables = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return _present(
        domain=schema.domain,
        name=schema.name,
        since=schema.since_version,
        inputs=[_parameter(p) for p in schema.inputs],
        outputs=[_parameter(p) for p in schema.outputs],
        attributes={a.name: _attribute(a) for a in schema.attributes.values()},
        types={v: _dtypes(allowed) for v, allowed in variables.items()},
        deprecated=schema.deprecated,
    )


def _parameter(p: Any) -> OperandSchema:
    return _operand(p.name, p.option.name, p.type_str, p.is_homogeneous)


def _operand(name: str, option: str, type_text: str, homogeneous: bool = True) -> OperandSchema:
    return OperandSchema(name, cast(Option, option.lower()), type_text, homogeneous)


def _attribute(schema: Any) -> AttributeSchema:
    kind = cast(AttributeKind, schema.type.name.lower())
    return AttributeSchema(schema.name, kind, schema.required, _default(schema.default_value))


def _default(proto: Any) -> object | None:
    """The default of an attribute as a plain value: only numbers, strings and lists occur."""
    if proto.type == 0:
        return None
    import onnx

    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (int, float)):
        return value
    return tuple(v.decode() if isinstance(v, bytes) else v for v in value)


def _dtypes(type_strings: Any) -> frozenset[str]:
    found = (from_type_string(text) for text in type_strings)
    return frozenset(name for name in found if name is not None)


def _present(
    domain: str,
    name: str,
    since: int,
    inputs: list[OperandSchema],
    outputs: list[OperandSchema],
    attributes: dict[str, AttributeSchema],
    types: dict[str, frozenset[str]],
    deprecated: bool,
) -> OpSchema:
    """The schema in the newest form: legacy attributes become inputs."""
    carried: dict[int, str] = {}
    for index, operand in sorted(legacy.operands_of(domain, name, since).items()):
        attribute = attributes.pop(operand.attribute)
        option: Option = "single" if attribute.required else "optional"
        inputs.append(OperandSchema(operand.name, option, operand.type))
        if len(inputs) - 1 != index:
            raise ValueError(f"legacy operand {operand.name} of {name}-{since} is not last")
        carried[index] = operand.attribute
    return OpSchema(
        domain=domain,
        name=name,
        since=since,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes=MappingProxyType({k: attributes[k] for k in sorted(attributes)}),
        types=MappingProxyType(types),
        legacy=MappingProxyType(carried),
        deprecated=deprecated,
    )


@cache
def _contrib() -> Mapping[tuple[str, str], Mapping[str, Any]]:
    with CONTRIB_FILE.open(encoding="utf-8") as stream:
        data = json.load(stream)
    return {(record["domain"], record["name"]): record for record in data["operators"]}


def _from_record(record: Mapping[str, Any]) -> OpSchema:
    attributes = {
        name: AttributeSchema(name, kind, required, _frozen(default))
        for name, (kind, required, default) in record["attributes"].items()
    }
    return _present(
        domain=record["domain"],
        name=record["name"],
        since=record["since"],
        inputs=[_operand(*p) for p in record["inputs"]],
        outputs=[_operand(*p) for p in record["outputs"]],
        attributes=attributes,
        types={v: frozenset(names) for v, names in record["types"].items()},
        deprecated=False,
    )


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
