"""Hints for misspelled names.

In: a name and the names that exist. Out: `did you mean ...`, or None.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """The names most like this one, capitals aside."""
    by_lower: dict[str, str] = {}
    for word in known:
        by_lower.setdefault(word.lower(), word)
    close = get_close_matches(name.lower(), by_lower, n=2, cutoff=0.7)
    if not close:
        return None
    return "did you mean " + " or ".join(f"`{by_lower[c]}`" for c in close) + "?"
