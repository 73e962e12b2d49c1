"""pack.yaml: read with positions, every key checked.

In: the text of one pack.yaml. Out: `Manifest`; problems go to the collector.
Only the events of the YAML parser are used: no objects are built, nesting costs no stack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import yaml

from rewrite.errors import Collector, Label, Span
from rewrite.lang.limits import MANIFEST_CHARACTERS, YAML_NESTING
from rewrite.lang.text import admissible, normalize
from rewrite.lang.words import suggestion
from rewrite.schema import OLDEST_OPSET

NAME = re.compile(r"[a-z][a-z0-9_]*(?:-[a-z0-9_]+)*")
RULE_NAME = re.compile(r"[a-z][a-z0-9_]*")
EXAMPLE_OPSET = 18
KEYS = {
    "name": "the name of the pack, lower_case",
    "doc": "one sentence on what it is for",
    "opset": "the range of ai.onnx opsets of its rules, `[7, 26]`",
    "example_opset": "the opset of examples that do not give one",
    "extends": "names of packs whose rules are included",
    "disable": "names of rules of those packs that are left out",
}


@dataclass(frozen=True, slots=True)
class Located:
    """A name with the place where it is written."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    doc: str
    opset: tuple[int, int]
    example_opset: int
    extends: tuple[Located, ...]
    disable: tuple[Located, ...]
    span: Span


@dataclass(slots=True)
class _Value:
    """A YAML value: a scalar (text, whether quoted), a list of scalars, or something else."""

    span: Span
    text: str | None = None
    quoted: bool = False
    items: list[_Value] | None = None


@dataclass
class _Reader:
    """Takes the values apart; a value that is not as it should be is reported and replaced."""

    file: str
    errors: Collector
    keys: dict[str, Span] = field(default_factory=dict)

    def bad(self, value: _Value, wanted: str) -> None:
        self.errors.add("RW304", f"{wanted} is expected here", value.span)

    def sentence(self, value: _Value) -> str:
        if value.text is None or not value.text.strip():
            self.bad(value, "a text")
            return ""
        return " ".join(value.text.split())

    def pack_name(self, value: _Value) -> str:
        if value.text is None or NAME.fullmatch(value.text) is None or len(value.text) > 80:
            self.bad(value, "a lower_case name")
            return ""
        return value.text

    def number(self, value: _Value) -> int | None:
        plain = value.text is not None and not value.quoted and len(value.text) < 6
        if not plain or value.text is None or not value.text.isdecimal():
            self.bad(value, "a whole number")
            return None
        return int(value.text)

    def names(self, value: _Value, pattern: re.Pattern[str]) -> tuple[Located, ...]:
        if value.items is None:
            self.bad(value, "a list of names, `[a, b]`,")
            return ()
        found: dict[str, Located] = {}
        for item in value.items:
            if item.text is None or pattern.fullmatch(item.text) is None:
                self.bad(item, "a name")
            elif item.text in found:
                note = Label(found[item.text].span, "the first one")
                self.errors.add("RW304", f"`{item.text}` is listed twice", item.span, None, (note,))
            else:
                found[item.text] = Located(item.text, item.span)
        return tuple(found.values())

    def opsets(self, value: _Value, newest: int) -> tuple[int, int]:
        whole = (OLDEST_OPSET, newest)
        if value.items is None or len(value.items) != 2:
            self.bad(value, "a range of two opsets, `[7, 26]`,")
            return whole
        low, high = self.number(value.items[0]), self.number(value.items[1])
        if low is None or high is None:
            return whole
        if not OLDEST_OPSET <= low <= high <= newest:
            hint = f"opsets {OLDEST_OPSET} to {newest} are known"
            self.errors.add("RW304", f"{low} to {high} is not an opset range", value.span, hint)
            return whole
        return (low, high)


def read_manifest(text: str, file: str, newest_opset: int, errors: Collector) -> Manifest | None:
    """The manifest, with defaults in place of what is wrong; None where it is no mapping at all."""
    text = normalize(text)
    refused = admissible(text, file, MANIFEST_CHARACTERS)
    if refused is not None:
        errors.found.append(refused)
        return None
    entries = _entries(text, file, errors)
    if entries is None:
        return None
    reader = _Reader(file, errors)
    values: dict[str, _Value] = {}
    for key, value in entries:
        _take(key, value, values, reader)
    start = Span(file, 1, 1, 1, 1)
    for needed in ("name", "doc"):
        if needed not in values:
            hint = f"`{needed}`: {KEYS[needed]}"
            errors.add("RW305", f"the key `{needed}` is missing", start, hint)
    return _manifest(values, reader, newest_opset, start)


def _manifest(values: dict[str, _Value], reader: _Reader, newest: int, start: Span) -> Manifest:
    opset = reader.opsets(values["opset"], newest) if "opset" in values else (OLDEST_OPSET, newest)
    example = min(max(EXAMPLE_OPSET, opset[0]), opset[1])
    if "example_opset" in values:
        given = reader.number(values["example_opset"])
        if given is not None and not opset[0] <= given <= opset[1]:
            message = (
                f"example_opset {given} is outside of the opset range {opset[0]} to {opset[1]}"
            )
            reader.errors.add("RW304", message, values["example_opset"].span)
        elif given is not None:
            example = given
    extends = reader.names(values["extends"], NAME) if "extends" in values else ()
    disable = reader.names(values["disable"], RULE_NAME) if "disable" in values else ()
    return Manifest(
        name=reader.pack_name(values["name"]) if "name" in values else "",
        doc=reader.sentence(values["doc"]) if "doc" in values else "",
        opset=opset,
        example_opset=example,
        extends=extends,
        disable=disable,
        span=values["name"].span if "name" in values else start,
    )


def _take(key: _Value, value: _Value, values: dict[str, _Value], reader: _Reader) -> None:
    name = key.text or ""
    if name not in KEYS:
        hint = suggestion(name, KEYS) or "the keys are " + ", ".join(f"`{k}`" for k in KEYS)
        reader.errors.add("RW303", f"unknown key `{name}`", key.span, hint)
    elif name in values:
        note = Label(reader.keys[name], "the first one")
        reader.errors.add("RW303", f"the key `{name}` is given twice", key.span, None, (note,))
    else:
        values[name] = value
        reader.keys[name] = key.span


def _entries(text: str, file: str, errors: Collector) -> list[tuple[_Value, _Value]] | None:
    """The pairs of the top-level mapping."""
    try:
        events = _events(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        what = getattr(problem, "problem", None) or "this is not YAML"
        errors.add("RW302", str(what), Span(file, line, column, line, column + 1))
        return None
    if events is None:
        hint = "values are texts, numbers and lists of these"
        errors.add("RW302", "nested too deep", Span(file, 1, 1, 1, 1), hint)
        return None
    body = [e for e in events if not isinstance(e, _FRAME)]
    if not body or not isinstance(body[0], yaml.MappingStartEvent):
        span = Span(file, 1, 1, 1, 1)
        errors.add("RW302", "a pack.yaml is a list of `key: value` lines", span)
        return None
    stream = iter(body[1:])
    entries: list[tuple[_Value, _Value]] = []
    for event in stream:
        if isinstance(event, yaml.MappingEndEvent):
            break
        key = _value(event, stream, file)
        entries.append((key, _value(next(stream), stream, file)))
    return entries


_FRAME = (
    yaml.StreamStartEvent,
    yaml.StreamEndEvent,
    yaml.DocumentStartEvent,
    yaml.DocumentEndEvent,
)


def _events(text: str) -> list[yaml.Event] | None:
    """The events of the text; None where it nests deeper than any value may.

    The scanner's time grows with the square of the depth, so the depth is bounded as it goes.
    """
    found: list[yaml.Event] = []
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > YAML_NESTING:
            return None
        found.append(event)
    return found


def _value(event: yaml.Event, stream: Iterator[yaml.Event], file: str) -> _Value:
    span = _span(event, file)
    if isinstance(event, yaml.ScalarEvent):
        return _Value(span, text=event.value, quoted=event.style in ("'", '"'))
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[_Value] = []
        for inner in stream:
            if isinstance(inner, yaml.SequenceEndEvent):
                break
            if isinstance(inner, yaml.CollectionStartEvent):
                _skip(stream)
                items.append(_Value(_span(inner, file)))
            else:
                items.append(_value(inner, stream, file))
        return _Value(span, items=items)
    if isinstance(event, yaml.CollectionStartEvent):
        _skip(stream)
    return _Value(span)


def _skip(stream: Iterator[yaml.Event]) -> None:
    """Past the end of the collection that has just begun."""
    depth = 1
    for event in stream:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth == 0:
            return


def _span(event: yaml.Event, file: str) -> Span:
    start, end = event.start_mark, event.end_mark
    assert start is not None  # set by every parser, optional in the type
    assert end is not None
    return Span(file, start.line + 1, start.column + 1, end.line + 1, end.column + 1)


def json_schema() -> str:
    """The text of rules/schema.json, for editors that check YAML as it is written."""
    text = {"type": "string", "minLength": 1}
    kinds: dict[str, object] = {
        "name": {"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": 80},
        "doc": text,
        "opset": {
            "type": "array",
            "items": {"type": "integer", "minimum": OLDEST_OPSET},
            "minItems": 2,
            "maxItems": 2,
        },
        "example_opset": {"type": "integer", "minimum": OLDEST_OPSET, "default": EXAMPLE_OPSET},
        "extends": {"type": "array", "items": text, "uniqueItems": True},
        "disable": {
            "type": "array",
            "items": {"type": "string", "pattern": f"^{RULE_NAME.pattern}$"},
            "uniqueItems": True,
        },
    }
    properties = {
        key: {"description": words, **cast("dict[str, object]", kinds[key])}
        for key, words in KEYS.items()
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rewrite pack",
        "type": "object",
        "properties": properties,
        "required": ["name", "doc", "opset"],
        "additionalProperties": False,
    }
    return json.dumps(schema, indent=1) + "\n"
