"""Reductions of `DQ(...)`, `Q(...)` and of the words for granularity in types.

In: the children of one reduction. Out: `Dequantized`, `Quantized`, the parts of a `TypePattern`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.build_base import BuilderBase, Child, Part
from rewrite.lang.machine import Token
from rewrite.lang.quantized_words import GRANULARITIES
from rewrite.lang.walk import nodes
from rewrite.lang.words import suggestion
from rewrite.schema import DTYPE_CLASSES, DTYPES

OPERATORS = ("DQ", "Q")
_KNOWN = frozenset((*DTYPES, *DTYPE_CLASSES, *GRANULARITIES))  # words of types
DQ_FORM = "for example `DQ(X)`, `DQ(B?: s32)` or `DQ(K: const s8 per_axis(0), zp=0)`"
Q_FORM = "for example `y = Q(p)`, `y = Q(p, u8 per_tensor)` or `y = Q(p, Y: u8|s8)`"


@dataclass(frozen=True, slots=True)
class _Element:
    """One word of a type: an element type, or a granularity with its axis."""

    span: Span
    word: str
    axis: int | None


class QuantizedBuilder(BuilderBase):
    # --- types

    def element(self, c: list[Child]) -> Part:
        axis = c[2].value if len(c) == 4 else None
        span, word = self.around(c), str(c[0])
        wrong = axis is not None and (word != "per_axis" or not isinstance(axis, int))
        if wrong and word in _KNOWN:  # others are reported as what they are not
            hint = "only `per_axis(a)` has an axis, a whole number"
            self.report("RW121", f"`{word}` takes no number", span, hint)
        return Part(span, "element", _Element(span, word, axis if isinstance(axis, int) else None))

    def elements(self, c: list[Child]) -> Part:
        found = tuple(x.value for x in c if isinstance(x, Part))
        return Part(self.around(c), "elements", found)

    def typed_parts(
        self, parts: list[Part]
    ) -> tuple[tuple[str, ...] | None, tuple[ast.Granularity, ...] | None]:
        """Element types and granularity, out of one or two lists of words."""
        dtypes: tuple[str, ...] | None = None
        granularity: tuple[ast.Granularity, ...] | None = None
        for part in parts:
            words = [x.word for x in part.value]
            many = [word in GRANULARITIES for word in words]
            if all(many) and granularity is None:
                granularity = tuple(_granularity(x) for x in part.value)
            elif not any(many) and dtypes is None and granularity is None:
                dtypes = tuple(words)
            else:
                self._report_words(words, part)
        self.granular |= granularity is not None
        return dtypes, granularity

    def _report_words(self, words: list[str], part: Part) -> None:
        unknown = next((word for word in words if word not in _KNOWN), None)
        if unknown is None:
            message = "element types stand once, then the granularity once"
            hint = "for example `X: const s8|u8 per_tensor|per_axis(0)`"
        else:
            message = f"there is no granularity `{unknown}`"
            meant = suggestion(unknown, GRANULARITIES)
            hint = meant or f"granularities are {', '.join(GRANULARITIES)}"
        self.report("RW121", message, part, hint)

    # --- operators

    def dequantized(self, c: list[Child], operands: list[Child]) -> ast.Pattern:
        span = self.around(c)
        zp, found = self._settings(operands)
        codes = found[0] if len(found) == 1 else None
        if self._attributes(c, "DQ") or not isinstance(codes, ast.Variable):
            if not isinstance(codes, ast.Variable):
                message = "`DQ` takes one name, that of its codes"
                self.report("RW121", message, span, DQ_FORM)
            return ast.Variable(span, "_")
        return ast.Dequantized(span, codes, zp)

    def quantized(self, c: list[Child], operands: list[Child]) -> ast.Pattern:
        span = self.around(c)
        zp, found = self._settings(operands)
        codes = self._result(found[1]) if len(found) == 2 else None
        named = codes is None or (
            isinstance(codes, ast.Variable)
            and not codes.optional
            and (codes.type is None or not (codes.type.const or codes.type.shape is not None))
        )
        right = named and 1 <= len(found) <= 2 and isinstance(found[0], ast.Pattern)
        if not right:
            message = "`Q` takes the value to quantize, then a name for its codes"
            self.report("RW121", message, span, Q_FORM)
        if self._attributes(c, "Q") or not right:
            return ast.Variable(span, "_")
        return ast.Quantized(span, found[0], codes, zp)

    def _result(self, operand: Child) -> Child:
        """`Y: u8 per_tensor`, or the type alone: then the codes have the statement's name only."""
        elements = _words(operand)
        if elements is None:
            return operand
        parts = [Part(operand.span, "elements", tuple(run)) for run in elements]
        dtypes, granularity = self.typed_parts(parts)
        type_ = ast.TypePattern(operand.span, False, dtypes, None, granularity)
        return ast.Variable(operand.span, "_", type=type_)

    def untyped(self, c: list[Child]) -> Part:
        return Part(self.around(c), "untyped", (c[0], c[1].value))

    def _attributes(self, c: list[Child], name: str) -> bool:
        last = c[-1]
        if not (isinstance(last, Part) and last.kind == "attributes"):
            return False
        hint = "its parameters are fields: `X.scale`, `X.zp`, `X.axis`, `X.block`"
        self.report("RW121", f"`{name}` takes no attributes", last, hint)
        return True

    def _settings(self, operands: list[Child]) -> tuple[int | None, list[Child]]:
        """`zp=0` and the other operands."""
        zp: int | None = None
        others: list[Child] = []
        for operand in operands:
            if isinstance(operand, Token) or getattr(operand, "kind", "") == "attributes":
                continue
            if not (isinstance(operand, Part) and operand.kind == "setting"):
                others.append(operand)
                continue
            word, value = operand.value
            if word != "zp" or not isinstance(value, int) or zp is not None:
                message = "only `zp` can be given here, once, as a whole number"
                hint = None if word == "zp" else suggestion(word, ["zp"])
                self.report("RW121", message, operand, hint or "for example `DQ(K, zp=0)`")
                continue
            zp = value
        return zp, others

    def setting(self, c: list[Child]) -> Part:
        return Part(self.around(c), "setting", (str(c[0]), c[2].value))

    def refuse_granularity(self, item: ast.Node) -> None:
        """Report words for granularity that stand at no codes."""
        if not self.granular:
            return
        self.granular = False
        codes = [n.codes for n in nodes(item) if isinstance(n, ast.Dequantized | ast.Quantized)]
        mine = {c.type.span for c in codes if c is not None and c.type is not None}
        for node in nodes(item):
            if isinstance(node, ast.TypePattern) and node.granularity and node.span not in mine:
                hint = "only codes have scales: `DQ(X: u8 per_tensor)`"
                word = node.granularity[0].kind
                self.report("RW121", f"`{word}` stands only inside `DQ` or `Q`", node, hint)


def _words(operand: Child) -> list[list[_Element]] | None:
    """The lists of words that a type without a name was read as; None where it is something else.

    `u8|s8 per_tensor` is read as alternatives and what follows them.
    """
    if isinstance(operand, Part) and operand.kind == "untyped":
        pattern, elements = operand.value
        first = _words(pattern)
        return None if first is None else [*first, list(elements)]
    branches = [operand]
    if isinstance(operand, ast.Alternatives):
        branches = [b.pattern for b in operand.branches if b.name is None and b.guard is None]
        if len(branches) < len(operand.branches):
            return None
    words = [_word(branch) for branch in branches]
    found = [word for word in words if word is not None]
    return [found] if len(found) == len(words) else None


def _word(pattern: Child) -> _Element | None:
    """An element type or a granularity that was read as a name or as a call."""
    name = getattr(pattern, "name", "")
    if name not in _KNOWN:
        return None
    if isinstance(pattern, ast.Variable) and pattern.type is None and not pattern.optional:
        return _Element(pattern.span, name, None)
    if not isinstance(pattern, ast.PatternCall) or name != "per_axis":
        return None
    axis = pattern.arguments[0] if len(pattern.arguments) == 1 else None
    if not isinstance(axis, ast.Number) or not isinstance(axis.value, int):
        return None
    return _Element(pattern.span, name, axis.value)


def _granularity(element: _Element) -> ast.Granularity:
    kind = "blocked" if element.word == "blocked" else "per_axis"
    if element.word == "per_tensor":
        return ast.Granularity(element.span, "per_tensor")
    return ast.Granularity(element.span, kind, element.axis)  # type: ignore[arg-type]
