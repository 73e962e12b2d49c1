"""YAML nodes checked against the table of keys.

In: a composed YAML node, a kind, what names are `Known`. Out: plain Python values in `Facts`, with
the place and the source of each. Every problem goes to the collector; a value that has one is left
out, so that one fault is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import yaml

from rewrite.errors import Collector, Span
from rewrite.lang.words import operator_suggestion, suggestion
from rewrite.schema import DOMAINS, DTYPES
from rewrite.target.kinds import Flag, Kind, ListOf, MapOf, Number, Pair, Table, Text, Word

Path = tuple[str | int, ...]
Value = object

BAD = object()  # a value with a problem, already reported


@dataclass(frozen=True, slots=True)
class Known:
    """Names that words of a target file may be. `operator` None: operators are not checked."""

    packs: frozenset[str]
    prefixes: Mapping[str, str]
    classes: Mapping[str, frozenset[tuple[str, str]]]
    operator: Callable[[str, str], bool] | None
    operators: Callable[[], tuple[str, ...]] = tuple  # all as they are written, for hints


@dataclass
class Facts:
    """The checked values of one file, where each stands and where it comes from."""

    values: dict[str, Value]
    spans: dict[Path, Span] = field(default_factory=dict)
    sources: dict[Path, str] = field(default_factory=dict)


class Reader:
    """Reads one file; problems go to `problems`."""

    def __init__(self, file: str, known: Known, problems: Collector) -> None:
        self.file = file
        self.known = known
        self.problems = problems
        self.facts = Facts({})

    def span(self, node: yaml.Node) -> Span:
        start, end = node.start_mark, node.end_mark
        return Span(self.file, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def read(self, kind: Kind, node: yaml.Node, path: Path) -> Value:
        """The value of a node, `BAD` after a problem, None for null (drop what is inherited)."""
        self.facts.spans[path] = self.span(node)
        if not isinstance(kind, Table | MapOf):
            node = self._unwrap_source(node, path)
        if node.tag == "tag:yaml.org,2002:null":
            return None
        match kind:
            case Table():
                return self._table(kind, node, path)
            case MapOf():
                return self._map(kind, node, path)
            case ListOf():
                return self._list(kind, node, path)
            case Pair():
                return self._pair(kind, node, path)
            case _:
                return self._scalar(kind, node)

    def _unwrap_source(self, node: yaml.Node, path: Path) -> yaml.Node:
        """`{value: v, source: s}` is v, its source noted."""
        if not isinstance(node, yaml.MappingNode) or len(node.value) != 2:
            return node
        parts: dict[str, yaml.Node] = {
            k.value: v for k, v in node.value if isinstance(k, yaml.ScalarNode)
        }
        if set(parts) != {"value", "source"}:
            return node
        self._source(parts["source"], path)
        return parts["value"]

    def _source(self, node: yaml.Node, path: Path) -> None:
        text = self._scalar(Text(), node)
        if isinstance(text, str):
            self.facts.sources[path] = text

    def _wrong(self, node: yaml.Node, expected: str) -> Value:
        found = {"MappingNode": "a table", "SequenceNode": "a list"}.get(type(node).__name__)
        found = found or f"`{node.value}`"
        hint = None
        if isinstance(node, yaml.MappingNode) and _holds_value(node):
            hint = "a fact is {value: …, source: …}; a source with a comma needs quotes"
        self.problems.add("RW404", f"expected {expected}, found {found}", self.span(node), hint)
        return BAD

    # --- tables, maps, lists -------------------------------------------------------------------

    def _pairs(self, node: yaml.MappingNode) -> Iterable[tuple[yaml.ScalarNode, yaml.Node]]:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.problems.add("RW404", "expected a name before the colon", self.span(key))
            elif key.value in seen:
                self.problems.add("RW411", f"`{key.value}` is given twice", self.span(key))
            else:
                seen.add(key.value)
                yield key, value

    def _table(self, kind: Table, node: yaml.Node, path: Path) -> Value:
        if not isinstance(node, yaml.MappingNode):
            return self._wrong(node, "a table")
        values: dict[str, Value] = {}
        for key, value_node in self._pairs(node):
            name = key.value
            if name == "source":
                self._source(value_node, path)
            elif name not in kind.keys:
                hint = suggestion(name, kind.keys)
                self.problems.add("RW403", f"unknown key `{name}`", self.span(key), hint)
            else:
                value = self.read(kind.keys[name].kind, value_node, (*path, name))
                if value is not BAD:
                    values[name] = value
        return values

    def _map(self, kind: MapOf, node: yaml.Node, path: Path) -> Value:
        if not isinstance(node, yaml.MappingNode):
            return self._wrong(node, "a table")
        values: dict[Value, Value] = {}
        for key_node, value_node in self._pairs(node):
            if key_node.value == "source" and not isinstance(kind.value, Text):
                self._source(value_node, path)
                continue
            key = self._scalar(kind.key, key_node)
            value = self.read(kind.value, value_node, (*path, key_node.value))
            if key is not BAD and value is not BAD:
                values[key] = value
        return values

    def _list(self, kind: ListOf, node: yaml.Node, path: Path) -> Value:
        if kind.or_all and isinstance(node, yaml.ScalarNode) and node.value == "all":
            return "all"
        if not isinstance(node, yaml.SequenceNode):
            return self._wrong(node, "a list, or `all`" if kind.or_all else "a list")
        items = [self.read(kind.item, n, (*path, i)) for i, n in enumerate(node.value)]
        return [item for item in items if item is not BAD and item is not None]

    def _pair(self, kind: Pair, node: yaml.Node, path: Path) -> Value:
        if not isinstance(node, yaml.SequenceNode) or len(node.value) != 2:
            return self._wrong(node, "two numbers, [least, most]")
        low, high = (self.read(kind.item, n, (*path, i)) for i, n in enumerate(node.value))
        if not isinstance(low, int | float) or not isinstance(high, int | float):
            return BAD
        if low > high:
            self.problems.add("RW406", f"{low} is more than {high}", self.span(node))
            return BAD
        return (low, high)

    # --- scalars -------------------------------------------------------------------------------

    def _scalar(self, kind: Kind, node: yaml.Node) -> Value:
        if not isinstance(node, yaml.ScalarNode):
            return self._wrong(node, kind.label())
        match kind:
            case Flag():
                return self._flag(node)
            case Number():
                return self._number(kind, node)
            case Text():
                return self._text(kind, node)
            case Word():
                return self._word(kind, node)
            case _:
                return self._wrong(node, kind.label())

    def _flag(self, node: yaml.ScalarNode) -> Value:
        if node.tag != "tag:yaml.org,2002:bool":
            return self._wrong(node, "true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def _number(self, kind: Number, node: yaml.ScalarNode) -> Value:
        text = node.value.replace("_", "")
        try:
            # YAML 1.1 takes 1e9 for text, people do not
            number = int(text, 0) if kind.integer else float(text)
        except ValueError:
            return self._wrong(node, kind.label())
        problem = _bound(kind, number)
        if problem is None:
            return number
        self.problems.add("RW406", f"{node.value} {problem}", self.span(node))
        return BAD

    def _text(self, kind: Text, node: yaml.ScalarNode) -> Value:
        text = str(node.value)
        if not kind.choices or text in kind.choices:
            return text
        hint = suggestion(text, kind.choices) or f"known: {', '.join(kind.choices)}"
        self.problems.add("RW406", f"`{text}` is not allowed here", self.span(node), hint)
        return BAD

    def _word(self, kind: Word, node: yaml.ScalarNode) -> Value:
        text = str(node.value)
        if kind.role == "pack":
            return self._listed(text, node, "RW407", "pack", self.known.packs)
        if kind.role == "dtype":
            return self._listed(text, node, "RW406", "element type", DTYPES)
        if kind.role == "operator or class" and text.islower():
            # classes are spelled in lower case, operators in UpperCase
            return self._class(text, node)
        return self._operator(text, node)

    def _listed(
        self,
        text: str,
        node: yaml.Node,
        code: str,
        what: str,
        known: Iterable[str],
        operators: Iterable[str] = (),
    ) -> Value:
        """One of the names that are known. `operators`: what else may be meant."""
        names = sorted(known)
        if text in names:
            return text
        hint = suggestion(text, names) or operator_suggestion(text, operators)
        hint = hint or f"known: {', '.join(names)}"
        self.problems.add(code, f"no {what} is called `{text}`", self.span(node), hint)
        return BAD

    def _class(self, text: str, node: yaml.ScalarNode) -> Value:
        if self.known.operator is None:
            return text
        known, operators = self.known.classes, self.known.operators()
        return self._listed(text, node, "RW410", "class of operators", known, operators)

    def _operator(self, text: str, node: yaml.ScalarNode) -> Value:
        prefix, _, name = text.rpartition(".")
        domain = self.known.prefixes.get(prefix)
        if domain is None:
            hint = "prefixes: " + ", ".join(p for p in sorted(self.known.prefixes) if p)
            self.problems.add("RW410", f"unknown prefix in `{text}`", self.span(node), hint)
            return BAD
        if self.known.operator is None or self.known.operator(domain, name):
            return (domain, name)
        near = operator_suggestion(text, self.known.operators())
        self.problems.add("RW410", f"no operator is called `{text}`", self.span(node), near)
        return BAD


def _holds_value(node: yaml.MappingNode) -> bool:
    return any(isinstance(k, yaml.ScalarNode) and k.value == "value" for k, _ in node.value)


def _bound(kind: Number, number: float) -> str | None:
    if number != number or number in (float("inf"), float("-inf")):
        return "is not finite"
    if kind.least is not None and number < kind.least:
        return f"is less than {kind.least:g}"
    if kind.most is not None and number > kind.most:
        return f"is more than {kind.most:g}"
    if kind.power and int(number) & (int(number) - 1):
        return "is not a power of two"
    return None


def written(name: object) -> str:
    """How a key of a map stands in the file: operators have been resolved to pairs."""
    if not isinstance(name, tuple):
        return str(name)
    domain, operator = name
    prefix = next(p for p, d in DOMAINS.items() if d == domain)
    return f"{prefix}.{operator}" if prefix else operator
