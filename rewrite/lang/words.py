"""Hints for misspelled names.

In: a name and the names that exist. Out: `did you mean ...`, or None.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 2  # names that a hint offers
_LIKE, _SOMEWHAT = 0.7, 0.6  # of difflib's measure; three letters with one wrong have 0.67
_LONGEST = 200  # characters of a name that is compared


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """The names most like this one, capitals aside."""
    if len(name) > _LONGEST:
        return None
    by_lower: dict[str, str] = {}
    for word in known:
        by_lower.setdefault(word.lower(), word)
    wanted = name.lower()
    close = get_close_matches(wanted, by_lower, _MOST, _LIKE)
    close = close or get_close_matches(wanted, by_lower, 1, _SOMEWHAT)
    return _question(by_lower[c] for c in close)


def operator_suggestion(name: str, known: Iterable[str]) -> str | None:
    """The operators most like this one. All are written with prefixes: `Conv`, `ms.Gelu`.

    One that is called so in another domain, capitals aside, is meant rather than a similar one.
    """
    names = list(known)
    bare = name.rpartition(".")[2].lower()
    same = [word for word in names if word.rpartition(".")[2].lower() == bare]
    return _question(same[:_MOST]) or suggestion(name, names)


def _question(words: Iterable[str]) -> str | None:
    text = " or ".join(f"`{word}`" for word in words)
    return f"did you mean {text}?" if text else None
