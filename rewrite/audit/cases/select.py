"""Which tests are run: `-k` expressions over the names of tests.

In: `softmax and not (case or rejects)`. Out: a predicate on names. A word holds where the name has
it, whatever the case of letters. Raises `RewriteError` (RW002) where it is no expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rewrite.errors import RewriteError, error

Wanted = Callable[[str], bool]

MOST_WORDS = 200
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")


def wanted(expression: str) -> Wanted:
    """Whether a name is meant by the expression."""
    words = _TOKEN.findall(expression)
    if not words or len(words) > MOST_WORDS:
        raise _no_expression(expression)
    parser = _Parser(expression, words)
    found = parser.either()
    if parser.at < len(words):
        raise _no_expression(expression)
    return found


def _no_expression(expression: str) -> RewriteError:
    hint = "words with `and`, `or`, `not` and parentheses, as `softmax and not rejects`"
    return error("RW002", f"-k: `{expression}` is not an expression", hint=hint)


class _Parser:
    def __init__(self, expression: str, words: list[str]) -> None:
        self.expression = expression
        self.words = words
        self.at = 0

    def _accept(self, word: str) -> bool:
        if self.at < len(self.words) and self.words[self.at].lower() == word:
            self.at += 1
            return True
        return False

    def either(self) -> Wanted:
        parts = [self._both()]
        while self._accept("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda name: any(part(name) for part in parts)

    def _both(self) -> Wanted:
        parts = [self._one()]
        while self._accept("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda name: all(part(name) for part in parts)

    def _one(self) -> Wanted:
        if self._accept("not"):
            inner = self._one()
            return lambda name: not inner(name)
        if self._accept("("):
            inner = self.either()
            if not self._accept(")"):
                raise _no_expression(self.expression)
            return inner
        word = self.words[self.at].lower() if self.at < len(self.words) else ")"
        if word in (")", "and", "or"):
            raise _no_expression(self.expression)
        self.at += 1
        return lambda name: word in name.lower()
