"""Infix operators: the flat lists of the grammar become trees by precedence.

In: operands with the operator tokens between and before them. Out: one node.
The stacks are explicit, so that long input cannot exhaust Python's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rewrite.lang.machine import Token

# Higher binds tighter. Prefix operators have their own line: `not a == b` is `not (a == b)`,
# `-a ** b` is `-(a ** b)`.
PRECEDENCE: dict[str, int] = {
    "??": 1, "or": 2, "and": 3, "not": 4,
    "==": 5, "!=": 5, "<": 5, "<=": 5, ">": 5, ">=": 5, "in": 5, "not in": 5,
    "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7, "neg": 8, "**": 9,
}  # fmt: skip
COMPARISON = 5
ATOM = 10

PREFIX_NAMES = {"-": "neg", "not": "not"}

T = TypeVar("T")


def binds_right(operator: str) -> bool:
    """`a ** b ** c` is `a ** (b ** c)`; all others group to the left."""
    return operator == "**"


class GroupingError(ValueError):
    """A combination that has no meaning without parentheses; `token` is the second operator."""

    def __init__(self, token: Token, message: str) -> None:
        super().__init__(message)
        self.token = token


def group(
    items: Sequence[T | Token],
    unary: Callable[[Token, str, T], T],
    binary: Callable[[str, T, T], T],
) -> T:
    """The tree of a flat list such as `- a * b + c` (shunting-yard)."""
    operands: list[T] = []
    pending: list[tuple[str, Token, bool]] = []  # operator, token, whether it is a prefix

    def reduce() -> None:
        operator, token, prefix = pending.pop()
        right = operands.pop()
        if prefix:
            operands.append(unary(token, operator, right))
            return
        operands.append(binary(operator, operands.pop(), right))

    for operator, token, prefix, operand in _steps(items):
        if token is None:
            assert operand is not None
            operands.append(operand)
            continue
        if not prefix:
            _refuse_ambiguous(pending, operator, token)
            while pending and _goes_first(pending[-1][0], operator):
                reduce()
        elif operator == "not" and pending and PRECEDENCE[pending[-1][0]] > PRECEDENCE["not"]:
            raise GroupingError(token, "`not` after an operator needs parentheses")
        pending.append((operator, token, prefix))
    while pending:
        reduce()
    return operands[0]


def _steps(items: Sequence[T | Token]) -> list[tuple[str, Token | None, bool, T | None]]:
    """(operator, its token, whether prefix, None) or ("", None, False, operand)."""
    steps: list[tuple[str, Token | None, bool, T | None]] = []
    expect_operand = True
    previous: Token | None = None
    for item in items:
        if not isinstance(item, Token):
            steps.append(("", None, False, item))
            expect_operand = False
        elif expect_operand and previous is not None and previous.type == "NOT" and item == "in":
            steps[-1] = ("not in", previous, False, None)
        elif expect_operand:
            steps.append((PREFIX_NAMES.get(str(item), str(item)), item, True, None))
        else:
            steps.append((str(item), item, False, None))
            expect_operand = True
        previous = item if isinstance(item, Token) else None
    return steps


def _goes_first(earlier: str, later: str) -> bool:
    if PRECEDENCE[earlier] == PRECEDENCE[later]:
        return not binds_right(earlier)
    return PRECEDENCE[earlier] > PRECEDENCE[later]


def _refuse_ambiguous(pending: list[tuple[str, Token, bool]], operator: str, token: Token) -> None:
    if PRECEDENCE[operator] != COMPARISON:
        return
    for earlier, _, _ in reversed(pending):
        if PRECEDENCE[earlier] < COMPARISON:
            return
        if PRECEDENCE[earlier] == COMPARISON:
            raise GroupingError(token, "comparisons do not chain; write `a < b and b < c`")
