"""Hints for misspelled names.

In: a name and the names that exist. Out: `did you mean ...`, or None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from rewrite.schema import DTYPE_CLASSES, DTYPES

_MOST = 2  # names that a hint offers
_LIKE, _SOMEWHAT = 0.7, 0.6  # of difflib's measure; three letters with one wrong have 0.67
_LONGEST = 200  # characters of a name that is compared

# Element types as others write them.
_OTHER_NAMES = {"float": "f32", "double": "f64", "half": "f16", "str": "string"}
_NUMBERED = re.compile(r"(u?int|i|b?float)(\d+[a-z0-9]*)")


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


def element_type_suggestion(name: str, others: Iterable[str] = ()) -> str | None:
    """The element types most like this one; those of numpy, C and ONNX text are translated."""
    plain = name.lower()
    found = _OTHER_NAMES.get(plain)
    number = _NUMBERED.fullmatch(plain)
    if number is not None:
        letters = {"int": "s", "i": "s", "uint": "u", "float": "f", "bfloat": "bf"}[number[1]]
        found = f"{letters}{number[2]}"
    if found is not None and found in DTYPES:
        return _question([found])
    return suggestion(name, (*DTYPES, *DTYPE_CLASSES, *others))


def _question(words: Iterable[str]) -> str | None:
    text = " or ".join(f"`{word}`" for word in words)
    return f"did you mean {text}?" if text else None
