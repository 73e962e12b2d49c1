"""What generated code may consist of.

In: the text that codegen.py made. Out: nothing, or an error: every token must be one of those that
the generator writes. There are no strings, no imports, no names from rules among them.
"""

from __future__ import annotations

import re

RUNTIME = frozenset(
    {
        "UNSET", "all_constant", "all_taken", "arranged", "attribute", "both", "breaks", "by_form",
        "chains", "chosen", "consumers_within", "cuts", "fewest_uses", "finish", "number_holds",
        "padded", "present", "remaining", "same_attribute", "tick", "trimmed",
    }
)  # fmt: skip
_KEYWORDS = (
    "def", "for", "in", "if", "is", "not", "and", "or", "return", "continue", "yield", "from",
    "None", "True", "False",
)  # fmt: skip
_LOCALS = ("match", "node", "facts", "rule", "target", "graph", "len", "range")
_ATTRIBUTES = (
    "_outputs", "_inputs", "_producer", "_op_type", "_domain", "_graph", "_index", "constant",
    "operands",
)  # fmt: skip
_WORDS = "|".join((*_KEYWORDS, *_LOCALS, *sorted(RUNTIME)))
_TOKENS = re.compile(
    r"(?:[ \n()\[\],:=*;-]|!=|\b[vc]\d+\b|\b(?:branch|choice)_\d+\b|\b\d+\b"
    rf"|\b(?:{_WORDS})\b|\.(?:{'|'.join(_ATTRIBUTES)})\b)*"
)


def check(text: str) -> None:
    """Refuse a program that has anything in it that the generator does not write."""
    found = _TOKENS.match(text)
    end = 0 if found is None else found.end()
    if end != len(text):
        raise ValueError(f"generated code has {text[end : end + 20]!r}")
