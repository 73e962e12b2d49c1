"""Reductions of `DQ(...)`, `Q(...)` and of the words for granularity in types.

In: the children of one reduction. Out: `Dequantized`, `Quantized`, the parts of a `TypePattern`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token

from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.build_base import BuilderBase, Child, Part
from rewrite.lang.walk import nodes

GRANULARITIES = ("per_tensor", "per_axis", "blocked")
OPERATORS = ("DQ", "Q")
DQ_FORM = "for example `DQ(X)`, `DQ(B?: s32)` or `DQ(K: const s8 per_axis(0), zp=0)`"
Q_FORM = "for example `y = Q(p)` or `y = Q(p, Y: u8 per_tensor)`"


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
        if axis is not None and (word != "per_axis" or not isinstance(axis, int)):
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
                hint = "element types come first: `X: const s8|u8 per_tensor|per_axis(0)`"
                self.report("RW121", "one list of element types, then one of groups", part, hint)
        return dtypes, granularity

    # --- operators

    def dequantized(self, c: list[Child], operands: list[Child]) -> ast.Pattern:
        span = self.around(c)
        zp, found = self._settings(operands)
        codes = found[0] if len(found) == 1 else None
        if self._attributes(c, "DQ") or not isinstance(codes, ast.Variable):
            if not isinstance(codes, ast.Variable):
                message = "`DQ` takes the name of its codes"
                self.report("RW121", message, span, DQ_FORM)
            return ast.Variable(span, "_")
        return ast.Dequantized(span, codes, zp)

    def quantized(self, c: list[Child], operands: list[Child]) -> ast.Pattern:
        span = self.around(c)
        zp, found = self._settings(operands)
        codes = found[1] if len(found) == 2 else None
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
                message = "the only thing to be set is `zp`, once, to a whole number"
                self.report("RW121", message, operand, "for example `DQ(K, zp=0)`")
                continue
            zp = value
        return zp, others

    def setting(self, c: list[Child]) -> Part:
        return Part(self.around(c), "setting", (str(c[0]), c[2].value))

    def refuse_granularity(self, item: ast.Node) -> None:
        """Report words for granularity that stand at no codes."""
        mine = {
            node.codes.type.span
            for node in nodes(item)
            if isinstance(node, ast.Dequantized | ast.Quantized)
            and node.codes is not None
            and node.codes.type is not None
        }
        for node in nodes(item):
            if isinstance(node, ast.TypePattern) and node.granularity and node.span not in mine:
                hint = "it says how many scales codes have: `DQ(X: u8 per_tensor)`"
                word = node.granularity[0].kind
                self.report("RW121", f"`{word}` belongs into `DQ` or `Q`", node, hint)


def _granularity(element: _Element) -> ast.Granularity:
    kind = "blocked" if element.word == "blocked" else "per_axis"
    if element.word == "per_tensor":
        return ast.Granularity(element.span, "per_tensor")
    return ast.Granularity(element.span, kind, element.axis)  # type: ignore[arg-type]
