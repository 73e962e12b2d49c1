"""What a word of rule text means: operators with their schema, functions, patterns, names.

In: a `Place`, the vocabulary, the definitions that are visible. Out: Markdown, or None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rewrite.lang.docs import signature
from rewrite.lang.vocabulary import PHASE_DOCS, Vocabulary
from rewrite.lsp.place import Place, first_use
from rewrite.schema import DTYPE_CLASSES, DTYPES, AttributeSchema, OpSchema


def hover(place: Place, vocabulary: Vocabulary, definitions: Mapping[str, str]) -> str | None:
    """What to show for the word at the place. `definitions`: the text of named patterns."""
    word = place.word
    if not word or place.hidden:
        return None
    attribute = _attribute(place, vocabulary)
    if attribute is not None:
        return attribute
    prefix, _, name = word.rpartition(".")
    if prefix == "target":
        return _of_target(name, vocabulary)
    operator = _operator(word, vocabulary)
    if operator is not None:
        return operator
    function = vocabulary.functions.get(word)
    if function is not None and place.text[place.end : place.end + 1] == "(":
        return f"{signature(function)}\n\n{function.doc}"
    if word in definitions:
        return f"```\n{definitions[word]}\n```"
    if word in vocabulary.classes:
        members = sorted(name for _, name in vocabulary.classes[word])
        return f"`{word}`: {len(members)} operators: {', '.join(members)}"
    if word in DTYPE_CLASSES:
        members = [name for name in DTYPES if name in DTYPE_CLASSES[word]]
        return f"`{word}`: {', '.join(members)}"
    if word in DTYPES and place.clause != "let":
        return f"`{word}`: an element type"
    if word in PHASE_DOCS and not place.clause:
        return f"phase `{word}`: {PHASE_DOCS[word]}"
    return _binding(place)


def operator_schema(word: str, vocabulary: Vocabulary) -> tuple[OpSchema, ...]:
    """All versions of an operator as it is written: `Conv`, `ms.Gelu`."""
    prefix, _, name = word.rpartition(".")
    if prefix not in vocabulary.domains or not name[:1].isupper():
        return ()
    return vocabulary.schemas(vocabulary.domains[prefix], name)


def _operator(word: str, vocabulary: Vocabulary) -> str | None:
    versions = operator_schema(word, vocabulary)
    if not versions:
        return None
    newest = versions[-1]
    inputs = ", ".join(_operand(o.name, o.option) for o in newest.inputs)
    outputs = ", ".join(_operand(o.name, o.option) for o in newest.outputs)
    rows = [f"**{word}**({inputs}) → {outputs}", ""]
    for name, attribute in newest.attributes.items():
        rows.append(f"- `{name}`: {attribute_words(attribute)}")
    types = [f"- {name}: {', '.join(sorted(admitted))}" for name, admitted in newest.types.items()]
    if types:
        rows += ["", *types]
    since = ", ".join(str(version.since) for version in versions)
    domain = newest.domain or "ai.onnx"
    rows += ["", f"{domain}, versions {since}"]
    if newest.deprecated:
        rows.append("deprecated")
    return "\n".join(rows)


def _operand(name: str, option: str) -> str:
    return {"optional": f"{name}?", "variadic": f"*{name}"}.get(option, name)


def attribute_words(attribute: AttributeSchema) -> str:
    """`int, default 1`."""
    if attribute.required:
        return f"{attribute.kind}, required"
    if attribute.default is None:
        return attribute.kind
    return f"{attribute.kind}, default {attribute.default!r}"


def _attribute(place: Place, vocabulary: Vocabulary) -> str | None:
    """The attribute of an operator, where the word stands before a colon in its braces."""
    if not place.brackets or place.brackets[-1].sign != "{":
        return None
    if not re.match(r"\s*:", place.text[place.end :]):
        return None
    versions = operator_schema(place.brackets[-1].head, vocabulary)
    if not versions or place.word not in versions[-1].attributes:
        return None
    words = attribute_words(versions[-1].attributes[place.word])
    return f"`{place.word}` of {place.brackets[-1].head}: {words}"


def _of_target(name: str, vocabulary: Vocabulary) -> str | None:
    method = vocabulary.target_methods.get(name)
    if method is not None:
        return f"{signature(method, 'target.')}\n\n{method.doc}"
    kind = vocabulary.target_fields.get(name)
    return None if kind is None else f"`target.{name}` → {kind}"


def _binding(place: Place) -> str | None:
    """Where a name of this rule is bound: the first line of the rule that has it, from `match`."""
    found = first_use(place)
    if found is None:
        return None
    row = place.text.rfind("\n", 0, found) + 1
    end = place.text.find("\n", found)
    line = place.text[row : end if end >= 0 else len(place.text)].strip()
    return f"```\n{line}\n```"
