"""What may be written at a place of rule text.

In: a `Place`, the vocabulary, names of patterns and rules. Out: `Proposal`s in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rewrite.lang.docs import signature
from rewrite.lang.quantized_words import FIELDS
from rewrite.lang.syntax_errors import WORDS
from rewrite.lang.vocabulary import CLAIMS, PHASE_DOCS, Vocabulary
from rewrite.lsp.hover import attribute_words, operator_schema
from rewrite.lsp.place import Bracket, Place
from rewrite.schema import DTYPE_CLASSES, DTYPES

Sort = Literal[
    "operator", "attribute", "function", "pattern", "rule", "name", "type", "word", "field"
]

_NO_NAMES = frozenset(word.lower() for word in WORDS) | {"ignored"}
_RULE = '''rule ${1:name} in ${2:clean} {
  """${3:What it does, in one sentence.}"""
  match y = ${4:Relu}(x)
  emit  y = $5
  claim ${6:exact}
  example fires ${7:plain} """
    g (float[2] x) => (float[2] y) { y = ${4:Relu}(x) }
  """
  example rejects ${8:other} """
    g (float[2] x) => (float[2] y) { y = Abs(x) }
  """
}'''


@dataclass(frozen=True, slots=True)
class Proposal:
    """`insert`: what is written, a snippet with places to fill in where `is_snippet`."""

    label: str
    sort: Sort
    detail: str = ""
    insert: str = ""
    is_snippet: bool = False


def complete(
    place: Place, vocabulary: Vocabulary, patterns: Iterable[str], rules: Iterable[str]
) -> list[Proposal]:
    """What may stand at the place, the likeliest first."""
    if place.hidden:
        return []
    return list(dict.fromkeys(_proposals(place, vocabulary, patterns, rules)))


def _proposals(
    place: Place, vocabulary: Vocabulary, patterns: Iterable[str], rules: Iterable[str]
) -> Iterator[Proposal]:
    before = place.before
    if not place.item:
        yield Proposal("rule", "word", "a rule", _RULE, True)
        yield Proposal("pattern", "word", "a named pattern")
        yield Proposal("refine", "word", "more conditions for a rule")
    elif re.search(r"\btarget\.\w*\Z", before):
        yield from _target(vocabulary)
    elif re.search(r"\b[A-Za-z_]\w*\.\w*\Z", before) and not _is_prefix(before, vocabulary):
        yield from _fields(vocabulary)
    elif not place.clause:
        yield from _head(place, rules)
    elif place.clause == "claim":
        yield from (Proposal(claim, "word") for claim in CLAIMS)
    elif place.clause == "match":
        yield from _pattern(place, vocabulary, patterns)
    elif place.clause in ("let", "where", "emit"):
        yield from _expression(place, vocabulary)


def _is_prefix(before: str, vocabulary: Vocabulary) -> bool:
    found = re.search(r"([A-Za-z_]\w*)\.\w*\Z", before)
    return found is not None and found[1] in vocabulary.domains


def _head(place: Place, rules: Iterable[str]) -> Iterator[Proposal]:
    """Between the name of a rule and its brace."""
    if re.search(r"\bover\b[^{]*\Z", place.before):
        yield from (Proposal(rule, "rule") for rule in rules if rule != place.name)
    elif re.search(r"\bin\s+\w*\Z", place.before):
        yield from (Proposal(phase, "word", doc) for phase, doc in PHASE_DOCS.items())
    elif "{" not in place.before:
        yield from (Proposal(word, "word") for word in ("in", "opset", "over"))
    else:
        yield Proposal("match", "word")


def _pattern(place: Place, vocabulary: Vocabulary, patterns: Iterable[str]) -> Iterator[Proposal]:
    inner = place.brackets[-1] if place.brackets else None
    if inner is not None and inner.sign == "{":
        yield from _attributes(place, inner, vocabulary)
        return
    if re.search(r":\s*(const\s+)?[\w|]*\Z", place.before):
        yield Proposal("const", "word", "known, and nobody can override it")
        yield from (Proposal(name, "type", "element types") for name in DTYPE_CLASSES)
        yield from (Proposal(name, "type") for name in DTYPES)
        return
    yield from _operators(vocabulary)
    yield from (Proposal(name, "pattern", "a named pattern") for name in patterns)
    for word, detail in (
        ("prod{}", "a product in any order"),
        ("sum{}", "a sum in any order"),
        ("chain()", "single-use operators of a class"),
        ("ordered", "operands only as written"),
        ("shared", "may be used elsewhere"),
        ("each", "siblings"),
        ("none", "an absent operand"),
        ("DQ()", "dequantized codes"),
        ("Q()", "quantized codes"),
    ):
        yield Proposal(word, "word", detail)
    yield from _words(("let", "where", "emit", "group"))


def _attributes(place: Place, inner: Bracket, vocabulary: Vocabulary) -> Iterator[Proposal]:
    versions = operator_schema(inner.head, vocabulary)
    if not versions:
        return
    if re.search(r":\s*\w*\Z", place.before):
        yield Proposal("ignored", "word", "any value")
        return
    written = place.text[inner.start : place.offset]
    for name, attribute in versions[-1].attributes.items():
        if not re.search(rf"\b{name}\s*:", written):
            yield Proposal(name, "attribute", attribute_words(attribute), f"{name}: ")
    if place.clause == "emit":
        yield from (Proposal(f"..{name}", "name", "its attributes") for name in _names(place))


def _expression(place: Place, vocabulary: Vocabulary) -> Iterator[Proposal]:
    inner = place.brackets[-1] if place.brackets else None
    if inner is not None and inner.sign == "{" and place.clause == "emit":
        yield from _attributes(place, inner, vocabulary)
        return
    yield from (Proposal(name, "name") for name in _names(place))
    if place.clause == "emit":
        yield from _operators(vocabulary)
    for name, function in vocabulary.functions.items():
        if "__" not in name and (place.clause == "emit" or not function.makes):
            yield Proposal(name, "function", signature(function).strip("`"), f"{name}(")
    yield from _words(("target", "case", "forall", "not", "and", "or", "none", "true", "false"))
    yield from _words(("let", "where", "emit", "claim"))


def _words(words: Iterable[str]) -> Iterator[Proposal]:
    return (Proposal(word, "word") for word in words)


def _operators(vocabulary: Vocabulary) -> Iterator[Proposal]:
    for name in vocabulary.operators():
        yield Proposal(name, "operator")


def _target(vocabulary: Vocabulary) -> Iterator[Proposal]:
    for name, method in vocabulary.target_methods.items():
        yield Proposal(name, "function", method.doc, f"{name}(")
    for name, kind in vocabulary.target_fields.items():
        yield Proposal(name, "field", kind)


def _fields(vocabulary: Vocabulary) -> Iterator[Proposal]:
    for name, kind in vocabulary.value_fields.items():
        yield Proposal(name, "field", kind)
    for name in FIELDS:
        yield Proposal(name, "field", "of quantized codes")


def _names(place: Place) -> list[str]:
    """Lower-case and single capital names of this rule that stand before the place."""
    bound = re.compile(
        r"(?:^|[(,\s|{*])\*?([a-z]\w*|[A-Z]\w?)\s*(?=[?:,)=]|\bover\b)|:\s*([a-z]\w*)\s*(?=[,}])",
        re.MULTILINE,
    )
    body = place.plain[place.body : place.start]
    found = [
        m for m in bound.finditer(body) if m[2] or not body[: m.start(1)].rstrip().endswith(":")
    ]
    return [name for name in dict.fromkeys(m[1] or m[2] for m in found) if name not in _NO_NAMES]
