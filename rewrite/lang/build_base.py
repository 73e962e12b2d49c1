"""What the three builders share: spans, names, numbers, and the list of errors.

In: tokens and nodes from the parser's reductions. Out: spans and checked words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rewrite.errors import Collector, Label, Span
from rewrite.lang import ast
from rewrite.lang.limits import NAME_CHARACTERS, NUMBER_CHARACTERS
from rewrite.lang.machine import Token

NAME_TYPES = ("LOWER", "UPPER", "OVER", "OPSET", "WITH")
LITERAL_NAMES = ("true", "false", "inf")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of syntax that is no node of the tree by itself: a clause, a list, a range."""

    span: Span
    kind: str
    value: Any


Child = Any  # Token, ast.Node or Part: what the reductions hand over


class BuilderBase:
    """State of one parse: the file name for spans, the errors found on the way."""

    def __init__(self) -> None:
        self.file = ""
        self.errors = Collector()
        self.bare_operators = False  # a method got an UpperCase name: operator or value?
        self.granular = False  # some type has words for granularity
        self.loose: list[ast.OpName] = []  # `prefix.Name` seen, not yet an argument of a method

    def begin(self, file: str, errors: Collector) -> None:
        self.file = file
        self.errors = errors
        self.bare_operators = False
        self.granular = False
        self.loose = []

    def span(self, first: Child, last: Child) -> Span:
        """From the start of one child to the end of another."""
        if isinstance(first, Token):
            line, column = first.line, first.column
        else:
            line, column = first.span.line, first.span.column
        if isinstance(last, Token):
            return Span(self.file, line, column, last.end_line, last.end_column)
        return Span(self.file, line, column, last.span.end_line, last.span.end_column)

    def around(self, children: list[Child]) -> Span:
        return self.span(children[0], children[-1])

    def report(
        self, code: str, message: str, at: Child, hint: str | None = None, note: Label | None = None
    ) -> None:
        span = self.span(at, at) if isinstance(at, Token) else at
        if not isinstance(span, Span):
            span = span.span
        self.errors.add(code, message, span, hint, () if note is None else (note,))

    # --- words

    def word(self, token: Token) -> str:
        """Any name as written, within the bounds on names."""
        text = str(token)
        if len(text) > NAME_CHARACTERS:
            self.report("RW107", f"a name has at most {NAME_CHARACTERS} characters", token)
        elif "__" in text or (text[0] == "_" and text != "_"):
            hint = "names with `__` or a leading `_` are made by the tool when it expands patterns"
            self.report("RW107", f"`{text}` is reserved", token, hint)
        return text

    def lower(self, token: Token, what: str) -> str:
        """The name of a rule, a pattern, an alternative or a parameter."""
        text = self.word(token)
        if token.type == "UPPER":
            hint = f"write `{_snake(text)}`; UpperCase names are operators"
            self.report("RW107", f"the name of {what} is lower_case, not `{text}`", token, hint)
        elif text == "_" or text in LITERAL_NAMES:
            self.report("RW107", f"`{text}` cannot be the name of {what}", token)
        return text

    def target(self, token: Token) -> str:
        """A name that a statement binds."""
        text = self.word(token)
        if text in LITERAL_NAMES:
            self.report("RW107", f"`{text}` is a literal and cannot be bound", token)
        return text

    def names(self, children: Iterable[Child]) -> list[Token]:
        """The names in a list, without commas and keywords."""
        return [c for c in children if isinstance(c, Token) and c.type in NAME_TYPES]

    def refuse_loose(self) -> None:
        """Report operator names that stand where a value should."""
        for op in self.loose:
            hint = f"write `{op.prefix}.{op.name}(...)`"
            self.report("RW116", f"{op.prefix}.{op.name} without operands is not a value", op, hint)
        self.loose = []

    # --- numbers

    def number_text(self, token: Token) -> str:
        """A number as written, refused where it exceeds what a tensor element can hold."""
        text = str(token)
        value = _value(text) if len(text) <= NUMBER_CHARACTERS else None
        if value is None:
            self.report("RW109", f"a number has at most {NUMBER_CHARACTERS} characters", token)
            return "0"
        if isinstance(value, int) and value >= 1 << 64:
            self.report("RW109", f"{text} does not fit into 64 bits", token)
            return "0"
        if isinstance(value, float) and math.isinf(value):
            hint = "write `inf` where infinity is meant"
            self.report("RW109", f"{text} is larger than every float64", token, hint)
            return "0"
        return text

    def integer(self, token: Token) -> int:
        """A whole number, as sizes and bounds are."""
        text = self.number_text(token)
        value = _value(text)
        if isinstance(value, int):
            return value
        self.report("RW109", f"a whole number is expected here, not {text}", token)
        return 0


def _value(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))
