"""Syntax errors in the words of the language: what was found, what was expected, what to do.

In: the exception of the machine. Out: a `Diagnostic`.
"""

from __future__ import annotations

from rewrite.errors import Diagnostic, Label, Span
from rewrite.lang.machine import END, Misplaced, Token, Unreadable

ITEMS = ("RULE", "PATTERN", "REFINE")
OPENING = {"LPAR": ("(", ")"), "LBRACE": ("{", "}"), "LSQB": ("[", "]")}
CLOSING = {"RPAR": ")", "RBRACE": "}", "RSQB": "]"}
NAMES = frozenset(("LOWER", "UPPER", "OVER", "OPSET", "WITH"))
CLAUSES = frozenset(("MATCH", "LET", "WHERE", "EMIT", "GROUP", "CLAIM", "EXAMPLE"))
WORDS = CLAUSES | frozenset((
    "RULE", "PATTERN", "REFINE", "IN", "EACH", "AS", "IF", "ORDERED",
    "SHARED", "NONE", "CONST", "FORALL", "CASE", "ELSE", "AND", "OR", "NOT",
))  # fmt: skip
# Terminals that together mean one thing: (if all of these are accepted, say this instead of them).
GROUPS: tuple[tuple[frozenset[str], str, frozenset[str]], ...] = (
    (
        frozenset(("LOWER", "NUMBER", "STRING", "LPAR", "CASE", "MINUS")),
        "an expression",
        NAMES
        | {"NUMBER", "STRING", "LPAR", "CASE", "MINUS", "NOT", "NONE", "LSQB", "FORALL", "AT"},
    ),
    (
        frozenset(("LOWER", "NUMBER", "LPAR", "ORDERED")),
        "a pattern",
        NAMES | {"NUMBER", "LPAR", "ORDERED", "SHARED", "MINUS", "NONE", "STAR"},
    ),
    (
        frozenset(("LOWER", "NUMBER", "STRING", "LSQB", "MINUS")),
        "a literal, a name or `ignored`",
        NAMES | {"NUMBER", "STRING", "LSQB", "MINUS"},
    ),
    (
        frozenset(("CONST", "LSQB", "LOWER")),
        "`const`, an element type or a shape",
        frozenset(("CONST", "LSQB", "LOWER")),
    ),
    (
        frozenset(("NUMBER", "STRING", "MINUS")),
        "a number or a string",
        frozenset(("NUMBER", "STRING", "MINUS")),
    ),
    (frozenset(("LOWER", "GROUP", "IN")), "a name", NAMES | WORDS),
    (NAMES, "a name", NAMES),
    (frozenset(("LOWER",)), "a lower_case name", frozenset(("LOWER",))),
    (frozenset(("UPPER",)), "an operator name", frozenset(("UPPER",))),
    (frozenset(("CLAIM", "EXAMPLE", "MATCH")), "the next clause", CLAUSES | {"TEXT"}),
    (frozenset(ITEMS), "a `rule`, `pattern` or `refine`", frozenset(ITEMS)),
)
# Never worth naming among the expected: they continue what stands there already.
CONTINUING = frozenset((
    "PLUS", "MINUS", "STAR", "SLASH", "FLOOR", "PERCENT", "POWER", "SAME", "DIFFERENT", "LESS",
    "LESS_SAME", "MORE", "MORE_SAME", "AND", "OR", "NOT", "COALESCE", "DOT", "TILDE", "QUESTION",
    "ELLIPSIS",
))  # fmt: skip
SPELLING = {
    "COMMA": "`,`", "COLON": "`:`", "SEMICOLON": "`;`", "DOTS": "`..`", "EQUAL": "`=`",
    "BAR": "`|`",
    "LPAR": "`(`", "RPAR": "`)`", "LBRACE": "`{`", "RBRACE": "`}`", "LSQB": "`[`", "RSQB": "`]`",
    "NUMBER": "a number", "STRING": "a string", "TEXT": 'a text in `"""`',
    END: "the end of the file", "DOT": "`.`", "TILDE": "`~`", "QUESTION": "`?`",
    "ELLIPSIS": "`...`", "COALESCE": "`??`",
}  # fmt: skip
CHARACTER_HINTS = {
    "'": 'strings stand in double quotes: "..."',
    "&": "write `and`",
    "!": "write `not`",
    "^": "powers are written `a ** b`",
    "\\": "no line continuation is needed; line ends mean nothing",
    ";": "statements need nothing between them",
}


def character(error: Unreadable, text: str, file: str) -> Diagnostic:
    """A character that begins no word of the language: mostly a string that is not closed."""
    span = Span(file, error.line, error.column, error.line, error.column + 1)
    rest = text[error.offset :]
    if rest.startswith('"""'):
        hint = 'close it with `"""`'
        return Diagnostic("RW103", 'a text opened with `"""` is not closed', _wider(span, 2), hint)
    if rest.startswith('"'):
        hint = 'close it with `"` on the same line; texts of several lines stand in `"""`'
        return Diagnostic("RW103", "a string is not closed on its line", span, hint)
    hint2 = CHARACTER_HINTS.get(rest[0])
    return Diagnostic("RW102", f"the character `{rest[0]}` has no meaning here", span, hint2)


def _wider(span: Span, by: int) -> Span:
    return Span(span.file, span.line, span.column, span.end_line, span.end_column + by)


def token(error: Misplaced, file: str) -> Diagnostic:
    """A word in the wrong place."""
    found: Token = error.token
    accepted = error.accepted
    span = _span(found, file)
    unclosed = _bracket(error, found, accepted, file)
    if unclosed is not None:
        return unclosed
    message = f"found {_describe(found)}, expected {expectation(accepted)}"
    return Diagnostic("RW101", message, span, _hint(found, accepted, error))


def _bracket(
    error: Misplaced, found: Token, accepted: frozenset[str], file: str
) -> Diagnostic | None:
    """Where the word shows that a bracket was not closed."""
    brackets = _open_brackets(error)
    if not brackets:
        return None
    opened = brackets[-1]
    closing = OPENING[opened.type][1]
    if found.type == END:
        message = f"`{opened}` is not closed before the end of the file"
        return Diagnostic("RW104", message, _span(opened, file), f"add the missing `{closing}`")
    inside_clause = len(brackets) > 1 or opened.type != "LBRACE"
    note = Label(_span(opened, file), "opened here")
    if found.type in ITEMS or (found.type in CLAUSES and inside_clause):
        what = "item" if found.type in ITEMS else "clause"
        message = f"`{found}` begins a new {what}, but `{opened}` is not closed"
        hint = f"add the missing `{closing}` before it"
        return Diagnostic("RW104", message, _span(found, file), hint, (note,))
    if found.type in CLOSING and closing != found:
        message = f"`{found}` does not close `{opened}`; expected {expectation(accepted)}"
        return Diagnostic("RW104", message, _span(found, file), None, (note,))
    return None


def _open_brackets(error: Misplaced) -> list[Token]:
    """Read and not closed, the innermost last. Closed ones may wait for their reduction, too."""
    found: list[Token] = []
    for value in error.values:
        if isinstance(value, Token) and value.type in OPENING:
            found.append(value)
        elif isinstance(value, Token) and value.type in CLOSING and found:
            found.pop()
    return found


def _span(found: Token, file: str) -> Span:
    line, column = found.line or 1, found.column or 1
    if found.type == END:
        return Span(file, line, column, line, column + 1)
    return Span(file, line, column, found.end_line or line, found.end_column or column + 1)


def _describe(found: Token) -> str:
    if found.type == END:
        return "the end of the file"
    if found.type == "TEXT":
        return 'a text in `"""`'
    if found.type in WORDS:
        return f"the word `{found}`"
    text = str(found)
    return f"`{text}`" if len(text) <= 40 else f"`{text[:37]}...`"


def expectation(accepted: frozenset[str]) -> str:
    """The expected terminals as a phrase: `a name, "," or ")"`."""
    rest = accepted
    phrases: list[str] = []
    for wanted, phrase, covered in GROUPS:
        if wanted <= rest:
            phrases.append(phrase)
            rest -= covered
    useful = rest - CONTINUING or rest
    phrases += [SPELLING.get(t, f"`{t.lower()}`") for t in sorted(useful, key=_rank)]
    if len(phrases) > 1:
        return ", ".join(phrases[:-1]) + " or " + phrases[-1]
    return phrases[0] if phrases else "something else"


def _rank(terminal: str) -> tuple[int, str]:
    order = list(SPELLING)
    return (order.index(terminal) if terminal in SPELLING else len(order), terminal)


def _hint(found: Token, accepted: frozenset[str], error: Misplaced) -> str | None:
    kind = found.type
    previous = _previous(error)
    if kind == "EQUAL" and "COLON" in accepted:
        return "attributes and types follow a colon: `name: value`"
    if kind == "COLON" and "EQUAL" in accepted and "COMMA" in accepted:
        return "a statement is `name = ...`"
    if kind == "COLON" and "BAR" in accepted:
        return "a type inside an infix pattern or alternative needs parentheses: `a + (b: const)`"
    if kind == "BAR" and {"LSQB", "COMMA"} <= accepted:
        return "a typed value among alternatives needs parentheses: `(x: const) | Relu(x)`"
    if kind == "QUESTION":
        return "`name?` can only be an operand of an operator: `Conv(x, W, B?)`"
    if kind == "EQUAL" and "SAME" in accepted:
        return "equality is written `==`"
    if kind == "EQUAL" and "AS" in accepted:
        return "attributes stand in braces after the operands: `Op(x) { axis: 1 }`"
    if kind == "BAR" and "OR" in accepted:
        return "alternatives belong in `match`; between conditions write `or`"
    if kind == "UPPER" and previous == "BAR" and "LOWER" in accepted:
        return "a typed value among alternatives needs parentheses: `(x: f32) | Relu(x)`"
    if kind == "UPPER" and "LOWER" in accepted:
        return f"names other than those of operators and values are lower_case, not `{found}`"
    if kind == "LOWER" and "UPPER" in accepted and "LOWER" not in accepted:
        return f"operators are written as in ONNX, in UpperCase; `{found}` is not"
    return _word_hint(found, accepted, error)


def _word_hint(found: Token, accepted: frozenset[str], error: Misplaced) -> str | None:
    kind = found.type
    if kind == "AS" and _after_guard(error):
        return "the name comes before the guard: `pattern as name if (condition)`"
    if kind == "WHERE" and "SEMICOLON" in accepted:
        return "close the `case` with `}` first"
    if kind in WORDS and accepted & NAMES and kind not in CLAUSES | {"AS", "IF"}:
        return f"`{found}` is a reserved word; choose another name"
    if kind == "DOT" and "NUMBER" in accepted:
        return "a number begins with a digit: `0.5`"
    if kind == "LBRACE" and "AS" in accepted:
        return "attributes in braces follow an operator's parentheses: `Relu(x) { ... }`"
    if kind == "NUMBER" and "OPSET" in accepted:
        return "an opset range is written `opset 9..` or `opset 9..17`"
    if kind == "LBRACE" and "IN" in accepted:
        return "a rule names its phase: `rule name in fold {`"
    if kind in NAMES and not accepted & NAMES and accepted & {"COMMA", "RPAR"}:
        return "is a comma missing?"
    if kind == "STRING" and "TEXT" in accepted:
        return 'a doc string stands in `"""..."""`'
    if kind in NAMES and "TEXT" in accepted:
        return "a clause begins with `match`, `let`, `where`, `emit`, `group`, `claim` or `example`"
    return None


def _after_guard(error: Misplaced) -> bool:
    """Whether `if (condition)` was read last."""
    last = error.values[-4:]
    types = [value.type if isinstance(value, Token) else None for value in last]
    return types[:2] == ["IF", "LPAR"] and types[3:] == ["RPAR"]


def _previous(error: Misplaced) -> str | None:
    stack = error.values
    last = stack[-1] if stack else None
    return last.type if isinstance(last, Token) else None
