"""Files of cases: YAML nodes to `Case`s, every key and value checked.

In: the text of one `*.cases.yaml`. Out: `Case`s in the order of the text; every problem is a
diagnostic with its place. Whether rules and targets exist is asked in `find`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import yaml

from rewrite.audit.cases.case import OPEN, Case, Numbers
from rewrite.audit.cases.reason import REASONS
from rewrite.audit.cases.tree import compose, is_null, span_of
from rewrite.audit.examples import has_header
from rewrite.errors import Collector, Diagnostic, Label, Span
from rewrite.lang.manifest import RULE_NAME
from rewrite.lang.words import suggestion
from rewrite.schema import OLDEST_OPSET

MOST_CASES = 2000  # in one file
MOST_NUMBERS = 1 << 16  # of the inputs and outputs of one case
SUFFIX = ".cases.yaml"

KEYS: Mapping[str, str] = {
    "rule": "the rule that is tested",
    "name": "what the case shows, unique among the cases of the rule",
    "target": "the target to match for: a shipped one, or a .yaml file beside this one",
    "opset": "the opset of a model without a header, or a list; else that of the examples",
    "before": "the model, in ONNX's text form",
    "after": "the model that the rule makes of it; empty: `--update` fills it in",
    "rejects": "the code of the reason why the rule does not fire; empty: `--update` fills it in",
    "because": "the key of the test that does not hold, or some words of the reason",
    "fired": "how many times the rule fires",
    "inputs": "numbers to run the rewritten model on, by input",
    "outputs": "the numbers that it must give, by output",
}
REQUIRED = ("rule", "name", "before")
EXPECTED = ("after", "rejects", "fired", "outputs")
_AGAINST_REJECTS = ("after", "fired", "inputs", "outputs")
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT = re.compile(
    r"[-+]?(inf|nan|([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})(e[-+]?[0-9]{1,4})?)"
)
_TRUTH = {"true": True, "false": False}


def read_cases(text: str, file: str, newest: int, errors: Collector) -> tuple[Case, ...]:
    """The cases of a file; those with a problem are left out. `newest`: the newest opset."""
    root = compose(text, file)
    if isinstance(root, Diagnostic):
        errors.found.append(root)
        return ()
    reader = _Reader(file, newest, errors)
    if root is None or not isinstance(root, yaml.SequenceNode):
        span = Span(file, 1, 1, 1, 1) if root is None else span_of(root, file)
        errors.add("RW709", "a file of cases is a list: `- rule: …` for each case", span)
        return ()
    if len(root.value) > MOST_CASES:
        message = f"the file has {len(root.value)} cases; at most {MOST_CASES} are read"
        errors.add("RW709", message, span_of(root, file), "split it into several files")
        return ()
    found = (reader.case(node) for node in root.value)
    return tuple(case for case in found if case is not None)


@dataclass(slots=True)
class _Entry:
    """The keys and values of one case."""

    span: Span
    values: dict[str, yaml.Node] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)


@dataclass(slots=True)
class _Reader:
    file: str
    newest: int
    errors: Collector

    def bad(self, node: yaml.Node, wanted: str, hint: str | None = None) -> None:
        self.errors.add("RW711", f"{wanted} is expected here", span_of(node, self.file), hint)

    def case(self, node: yaml.Node) -> Case | None:
        before = len(self.errors.found)
        entry = self._entry(node)
        if entry is None:
            return None
        self._check_keys(entry)
        read: dict[str, Any] = {
            key: _READERS[key](self, value) for key, value in entry.values.items()
        }
        read["opsets"] = read.pop("opset", ())
        if read["opsets"] and has_header(read.get("before", "")):
            message = "`opset` means nothing where the model has a header"
            self.errors.add("RW710", message, entry.spans["opset"], "it imports its own opsets")
        if len(self.errors.found) > before:
            return None
        return Case(span=entry.span, spans=entry.spans, **read)

    def _entry(self, node: yaml.Node) -> _Entry | None:
        if not isinstance(node, yaml.MappingNode):
            self.bad(node, "a case, `rule: …` and further keys,")
            return None
        entry = _Entry(span_of(node, self.file))
        for key, value in node.value:
            self._take(key, value, entry)
        return entry

    def _take(self, key: yaml.Node, value: yaml.Node, entry: _Entry) -> None:
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
        place = span_of(key, self.file)
        if name not in KEYS:
            hint = suggestion(name, KEYS) or "the keys are " + ", ".join(f"`{k}`" for k in KEYS)
            self.errors.add("RW710", f"unknown key `{name[:80]}`", place, hint)
        elif name in entry.values:
            self.errors.add("RW710", f"the key `{name}` is given twice", place)
        else:
            entry.values[name] = value
            entry.spans[name] = place if is_null(value) else span_of(value, self.file)

    def _check_keys(self, entry: _Entry) -> None:
        given = entry.values.keys()
        for key in REQUIRED:
            if key not in given:
                hint = f"`{key}`: {KEYS[key]}"
                self.errors.add("RW710", f"the key `{key}` is missing", entry.span, hint)
        if not given & set(EXPECTED):
            hint = "one of " + ", ".join(f"`{key}`" for key in EXPECTED)
            self.errors.add(
                "RW710", "the case says nothing about what is expected", entry.span, hint
            )
        if "rejects" in given:
            for key in _AGAINST_REJECTS:
                self._clash(entry, key, "rejects", key in given)
        self._lack(entry, "because", "rejects")
        self._lack(entry, "inputs", "outputs")

    def _clash(self, entry: _Entry, key: str, other: str, clash: bool) -> None:
        if clash:
            note = (Label(entry.spans[other], f"`{other}` is here"),)
            message = f"`{key}` and `{other}` exclude each other"
            self.errors.add("RW710", message, entry.spans[key], None, note)

    def _lack(self, entry: _Entry, key: str, other: str) -> None:
        if key in entry.values and other not in entry.values:
            message = f"`{key}` means nothing without `{other}`"
            self.errors.add("RW710", message, entry.spans[key], f"`{other}`: {KEYS[other]}")

    # --- values --------------------------------------------------------------------------------

    def text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
            self.bad(node, "a text")
            return ""
        return str(node.value)

    def title(self, node: yaml.Node) -> str:
        text = self.text(node)
        if text and (not text.isprintable() or len(text) > 80 or "::" in text):
            self.bad(node, "a line of at most 80 characters, without `::`,")
        return text

    def rule(self, node: yaml.Node) -> str:
        text = self.text(node)
        if text and (RULE_NAME.fullmatch(text) is None or len(text) > 80):
            self.bad(node, "the name of a rule, in lower_case,")
        return text

    def whole(self, node: yaml.Node, least: int, most: int) -> int:
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        if not plain or not str(node.value).isdecimal() or len(node.value) > 6:
            self.bad(node, "a whole number")
            return least
        number = int(node.value)
        if not least <= number <= most:
            self.bad(node, f"a whole number from {least} to {most}")
        return number

    def fired(self, node: yaml.Node) -> int:
        return self.whole(node, 1, 100_000)

    def opsets(self, node: yaml.Node) -> tuple[int, ...]:
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        faults = len(self.errors.found)
        found = tuple(self.whole(item, OLDEST_OPSET, self.newest) for item in items)
        sorted_once = bool(found) and all(a < b for a, b in pairwise(found))
        if len(self.errors.found) == faults and not sorted_once:
            self.bad(node, "an opset, or a list of opsets in their order,")
        return found

    def graph(self, node: yaml.Node) -> str:
        return OPEN if is_null(node) else self.text(node)

    def reason(self, node: yaml.Node) -> str:
        if is_null(node) or (isinstance(node, yaml.ScalarNode) and node.value == "?"):
            return OPEN
        text = self.text(node)
        if text and text not in REASONS:
            hint = suggestion(text, REASONS) or "the codes are " + ", ".join(REASONS)
            self.bad(node, "the code of a reason", hint)
        return text

    def tensors(self, node: yaml.Node) -> dict[str, Numbers]:
        if not isinstance(node, yaml.MappingNode) or not node.value:
            self.bad(node, "a table, `name: [numbers]`,")
            return {}
        found: dict[str, Numbers] = {}
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if not name:
                self.bad(key, "the name of an input or an output")
            elif name in found:
                message = f"`{name}` is given twice"
                self.errors.add("RW710", message, span_of(key, self.file))
            else:
                found[name] = self._numbers(value)
        return found

    def _numbers(self, node: yaml.Node) -> Numbers:
        left = MOST_NUMBERS - sum(1 for _ in _scalars(node))
        if left < 0:
            self.bad(node, f"a list of at most {MOST_NUMBERS} numbers")
            return []
        if _shape(node) is None:
            self.bad(node, "a list whose items have one shape")
            return []
        return self._nested(node)

    def _nested(self, node: yaml.Node) -> Numbers:
        if isinstance(node, yaml.SequenceNode):
            return [self._nested(item) for item in node.value]
        number = _number(node)
        if number is None:
            self.bad(node, "a number, `nan`, `inf`, `true` or `false`")
            return 0
        return number


_READERS: Mapping[str, Callable[[_Reader, yaml.Node], object]] = {
    "rule": _Reader.rule,
    "name": _Reader.title,
    "target": _Reader.title,
    "opset": _Reader.opsets,
    "before": _Reader.text,
    "after": _Reader.graph,
    "rejects": _Reader.reason,
    "because": _Reader.title,
    "fired": _Reader.fired,
    "inputs": _Reader.tensors,
    "outputs": _Reader.tensors,
}


def _scalars(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item)
    else:
        yield node


def _shape(node: yaml.Node) -> tuple[int, ...] | None:
    """The sizes of nested lists; None where the items differ."""
    if not isinstance(node, yaml.SequenceNode):
        return ()
    inner = {_shape(item) for item in node.value}
    if len(inner) > 1 or None in inner:
        return None
    rest = next(iter(inner), ())
    return None if rest is None else (len(node.value), *rest)


def _number(node: yaml.Node) -> int | float | bool | None:
    if not isinstance(node, yaml.ScalarNode) or node.style is not None:
        return None
    text = str(node.value).lower()
    if text in _TRUTH:
        return _TRUTH[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    text = text.replace(".inf", "inf").replace(".nan", "nan")  # as YAML writes them
    return float(text) if _FLOAT.fullmatch(text) else None
