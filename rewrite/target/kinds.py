"""The kinds of value that a target file may hold, and what each looks like as JSON schema.

In: nothing. Out: the kind classes. `schema.py` builds the table of keys from them, `read.py` checks
YAML nodes against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

JsonSchema = dict[str, object]


@dataclass(frozen=True, slots=True)
class Text:
    """Any text, or one of `choices`."""

    choices: tuple[str, ...] = ()

    def label(self) -> str:
        return " or ".join(f"`{c}`" for c in self.choices) or "text"

    def json_schema(self) -> JsonSchema:
        return (
            {"type": "string", "enum": list(self.choices)} if self.choices else {"type": "string"}
        )


@dataclass(frozen=True, slots=True)
class Number:
    """A number, `integer` or not, within bounds; `power` asks for a power of two."""

    integer: bool = False
    least: float | None = None
    most: float | None = None
    power: bool = False

    def label(self) -> str:
        return "power of two" if self.power else "integer" if self.integer else "number"

    def json_schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "integer" if self.integer else "number"}
        if self.least is not None:
            schema["minimum"] = self.least
        if self.most is not None:
            schema["maximum"] = self.most
        return schema


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def label(self) -> str:
        return "true or false"

    def json_schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Word:
    """A name that must be known: a pack, an element type, an operator, or an operator or class."""

    role: Literal["pack", "dtype", "operator", "operator or class"]

    def label(self) -> str:
        return "element type" if self.role == "dtype" else self.role

    def json_schema(self) -> JsonSchema:
        if self.role == "dtype":
            return {"$ref": "#/$defs/dtype"}
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class Pair:
    """`[least, most]`, both included."""

    item: Number

    def label(self) -> str:
        return f"[least, most] of {self.item.label()}"

    def json_schema(self) -> JsonSchema:
        item = self.item.json_schema()
        return {"type": "array", "items": item, "minItems": 2, "maxItems": 2}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; `or_all` also takes the word `all`."""

    item: Kind
    or_all: bool = False

    def label(self) -> str:
        return f"list of {self.item.label()}" + (", or `all`" if self.or_all else "")

    def json_schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "array", "items": self.item.json_schema()}
        return {"anyOf": [schema, {"const": "all"}]} if self.or_all else schema


@dataclass(frozen=True, slots=True)
class MapOf:
    """Names of the author's choice, or operators, each with a value of one kind."""

    key: Word | Text
    value: Kind

    def label(self) -> str:
        key = "name" if isinstance(self.key, Text) else self.key.label()
        return f"{key} → {self.value.label()}"

    def json_schema(self) -> JsonSchema:
        value = {"anyOf": [self.value.json_schema(), {"type": "null"}]}
        source: JsonSchema = {"source": {"type": "string"}}
        return {"type": "object", "properties": source, "additionalProperties": value}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table."""

    kind: Kind
    doc: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Fixed keys. `source` is a key of every table: where its facts come from."""

    keys: Mapping[str, Key]

    def label(self) -> str:
        return "table"

    def json_schema(self) -> JsonSchema:
        properties = {name: _with_source(key) for name, key in self.keys.items()}
        return {
            "type": "object",
            "properties": {**properties, "source": {"type": "string"}},
            "additionalProperties": False,
        }


Kind = Text | Number | Flag | Word | Pair | ListOf | MapOf | Table


def _with_source(key: Key) -> JsonSchema:
    """A fact is written plain, as `{value: …, source: …}`, or as null to drop an inherited one.

    Tables and maps have a key `source` of their own instead.
    """
    plain = key.kind.json_schema()
    if isinstance(key.kind, Table | MapOf):
        return {"description": key.doc, "anyOf": [plain, {"type": "null"}]}
    properties = {"value": plain, "source": {"type": "string"}}
    sourced = {
        "type": "object",
        "properties": properties,
        "required": ["value", "source"],
        "additionalProperties": False,
    }
    return {"description": key.doc, "anyOf": [plain, sourced, {"type": "null"}]}
