"""The models of tests: text to checked models, for the opset and the targets of a rule.

In: ONNX's text form, a rule and its pack. Out: a checked `ModelProto`, or `UnreadableError`; the
opset of examples that do not give one; whether the rule asks about the target.
`rewrite.audit.cases` runs them.
"""

from __future__ import annotations

import re
from functools import lru_cache

import onnx
from onnx import parser

from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.lang.walk import nodes

# What ONNX's parser and checker raise, also where numbers are none or too large.
INVALID = (
    parser.ParseError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    ValueError,
    LookupError,
    RuntimeError,
)
_QUALIFIED = re.compile(r"\b([a-z][\w]*(?:\.[a-z][\w]*)*)\.[A-Z]\w*\s*[(<]")
_PLACE = re.compile(r"\(line: (\d+) column: (\d+)\)")
_KEPT = 512  # models; the tests of a rule are run more than once where rules are mutated


class UnreadableError(Exception):
    """The text is no valid model; the message says why, in one line."""


@lru_cache(maxsize=_KEPT)
def model_of(text: str, opset: int) -> onnx.ModelProto:
    """The model; callers do not change it. Raises `UnreadableError`."""
    whole = with_header(text, opset)
    try:
        model = parser.parse_model(whole)
        onnx.checker.check_model(model, full_check=True)
    except parser.ParseError as problem:
        added = whole.count("\n") - text.count("\n")
        raise UnreadableError(_place_and_words(problem, added)) from problem
    except INVALID as problem:
        raise UnreadableError(first_lines(problem)) from problem
    return model


def with_header(text: str, opset: int) -> str:
    """The text with a header that imports what it uses, where it has none."""
    if has_header(text):
        return text
    domains = sorted(set(_QUALIFIED.findall(text)))
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    return f"<ir_version: 10, opset_import: [{imports}]>\n{text}"


def has_header(text: str) -> bool:
    return text.lstrip().startswith("<")


def opset_of(pack: RulePack, rule: ast.Rule) -> int:
    """The `example_opset` of the pack that wrote the rule, moved into the rule's range."""
    low, high = rule.opset
    wanted = pack.origins[rule.name].example_opset
    return max(low or wanted, min(wanted, high or wanted))


def asks_target(rule: ast.Rule) -> bool:
    """Whether what the rule does depends on the target."""
    if rule.group is not None:
        return True
    for node in nodes(rule):
        if isinstance(node, ast.MethodCall) and node.base == "target":
            return True
        if isinstance(node, ast.Name) and node.name == "target":
            return True
    return False


def _place_and_words(problem: parser.ParseError, added: int) -> str:
    """What ONNX's parser says, with the line of the text that it was given `added` lines before.

    It says `[ParseError at position (line: 3 column: 9)]`, `Error context: …` and the words, as
    bytes, in lines of their own.
    """
    raw = problem.args[0] if problem.args else b""
    said = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    place = _PLACE.search(said)
    words = said.strip().splitlines()[-1:] or ["it cannot be read"]
    if place is None:
        return words[0]
    return f"line {int(place[1]) - added}, column {place[2]}: {words[0]}"


def first_lines(problem: Exception) -> str:
    """The words of ONNX's checker, which come in many lines."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return " ".join(lines[:3])[:400]
