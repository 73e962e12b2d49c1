"""Reductions of pattern syntax: each method builds the node of the grammar rule of its name.

In: the children of one reduction. Out: a pattern node, or a `Part` that the caller takes apart.
"""

from __future__ import annotations

from dataclasses import replace

from rewrite.lang import ast
from rewrite.lang.build_base import LITERAL_NAMES, Child, Part
from rewrite.lang.build_quantized import QuantizedBuilder
from rewrite.lang.machine import Token
from rewrite.lang.operators import group
from rewrite.lang.text import unescape

INFIX = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "neg": "Neg"}


class PatternBuilder(QuantizedBuilder):
    # --- alternatives and infix operators

    def branches(self, c: list[Child]) -> ast.Pattern:
        """`p as name if (guard) | q`: even a single branch with a name or guard comes here."""
        found: list[ast.Alternative] = []
        i = 0
        while i < len(c):
            first, pattern = c[i], c[i]
            name, guard, last = None, None, c[i]
            i += 1
            if i < len(c) and _is(c[i], "AS"):
                name, last = self.lower(c[i + 1], "an alternative"), c[i + 1]
                i += 2
            if i < len(c) and _is(c[i], "IF"):
                guard, last = c[i + 2], c[i + 3]
                i += 4
            found.append(ast.Alternative(self.span(first, last), pattern, name, guard))
            i += 1  # the bar
        return ast.Alternatives(self.around(c), tuple(found))

    def operation(self, c: list[Child]) -> ast.Pattern:
        if len(c) == 3 and isinstance(c[1], Token) and not isinstance(c[0], Token):
            return self.infixed(str(c[1]), c[0], c[2])
        items = self._apply_prefixes(c)
        result: ast.Pattern = group(items, self.prefixed, self.infixed)
        return result

    def _apply_prefixes(self, c: list[Child]) -> list[Child]:
        """`ordered`, `shared` and signs bind to the operand after them, before any infix."""
        items: list[Child] = []
        waiting: list[Token] = []
        for child in c:
            operand_expected = not items or isinstance(items[-1], Token)
            if isinstance(child, Token) and operand_expected:
                waiting.append(child)
                continue
            if not isinstance(child, Token):
                while waiting:
                    child = self.prefixed(waiting.pop(), "", child)
            items.append(child)
        return items

    def prefixed(self, token: Token, _: str, operand: ast.Pattern) -> ast.Pattern:
        span = self.span(token, operand)
        if token.type == "MINUS":
            if isinstance(operand, ast.Number) and not operand.text.startswith("-"):
                return ast.Number(span, "-" + operand.text, operand.tolerance)
            op = ast.OpName(self.span(token, token), "", "Neg")
            return ast.OpPattern(span, op, (operand,), infix="neg")
        if not isinstance(operand, ast.OpPattern):
            hint = "write it before an operator; an infix expression needs parentheses"
            self.report("RW113", f"`{token}` belongs before an operator", token, hint)
            return operand
        if token.type == "ORDERED":
            return replace(operand, span=span, ordered=True)
        return replace(operand, span=span, shared=True)

    def infixed(self, operator: str, left: ast.Pattern, right: ast.Pattern) -> ast.Pattern:
        span = self.span(left, right)
        op = ast.OpName(span, "", INFIX[operator])
        return ast.OpPattern(span, op, (left, right), infix=operator)

    def parentheses(self, c: list[Child]) -> ast.Pattern:
        inner: ast.Pattern = c[1]
        return replace(inner, span=self.around(c))

    # --- atoms

    def variable(self, c: list[Child]) -> ast.Pattern:
        if str(c[0]) == "inf":
            return ast.Number(self.around(c), "inf")
        return ast.Variable(self.around(c), self._value_name(c[0]))

    def number(self, c: list[Child]) -> ast.Number:
        tolerance = self.number_text(c[2]) if len(c) == 3 else None
        return ast.Number(self.around(c), self.number_text(c[0]), tolerance)

    def operator(self, c: list[Child]) -> ast.Pattern:
        if c[0] == "DQ":
            return self.dequantized(c, c[2:])
        if c[0] == "Q":
            return self.quantized(c, c[2:])
        op = ast.OpName(self.span(c[0], c[0]), "", self.word(c[0]))
        return self._op_pattern(op, c, c[1:])

    def prefixed_operator(self, c: list[Child]) -> ast.OpPattern:
        op = ast.OpName(self.span(c[0], c[2]), str(c[0]), self.word(c[2]))
        return self._op_pattern(op, c, c[3:])

    def _op_pattern(self, op: ast.OpName, c: list[Child], rest: list[Child]) -> ast.OpPattern:
        attributes: tuple[ast.AttributePattern, ...] = ()
        if isinstance(rest[-1], Part) and rest[-1].kind == "attributes":
            attributes = rest.pop().value
        operands = self.operand_list(rest, "an operator")
        return ast.OpPattern(self.around(c), op, operands, attributes)

    def pattern_call(self, c: list[Child]) -> ast.Pattern:
        if isinstance(c[-1], Part):
            hint = "operators are UpperCase; only they have attributes"
            self.report("RW113", f"`{c[0]}` is a pattern and takes no attributes", c[-1], hint)
            c = c[:-1]
        if c[0] == "chain":
            return self._chain(c)
        arguments = self.operand_list(c[1:], "a pattern")
        return ast.PatternCall(self.around(c), self.word(c[0]), arguments)

    def bag(self, c: list[Child]) -> ast.Bag:
        kind = str(c[0])
        if kind not in ("prod", "sum"):
            hint = "attributes in braces follow an operator's parentheses: `Op(x) { axis: 1 }`"
            message = f"only `prod` and `sum` have items in braces, not `{kind}`"
            self.report("RW113", message, c[0], hint)
        items = self.operand_list(c[1:], "a bag")
        return ast.Bag(self.around(c), "sum" if kind == "sum" else "prod", items)

    def _chain(self, c: list[Child]) -> ast.Pattern:
        parts = [x for x in c[2:-1] if not _is(x, "COMMA")]
        span = self.around(c)
        shape_ok = (
            len(parts) == 3
            and isinstance(parts[0], ast.Pattern)
            and isinstance(parts[1], ast.Variable)
            and isinstance(parts[2], Part)
            and parts[2].kind == "range"
        )
        if not shape_ok:
            message = "`chain` takes a pattern, a class of operators and a range"
            self.report("RW113", message, span, "for example `chain(c, pointwise, 1..8)`")
            return ast.Variable(span, "_")
        least, most = parts[2].value
        return ast.Chain(span, self._inner(parts[0], "a chain"), parts[1].name, least, most)

    # --- operands

    def operand_list(self, c: list[Child], where: str) -> tuple[ast.Pattern, ...]:
        """Between parentheses or braces, commas dropped, misplaced forms reported."""
        found = [x for x in c[1:-1] if not isinstance(x, Token)]
        if where == "an operator":
            for operand in found[:-1]:
                if isinstance(operand, ast.Rest):
                    message = f"`*{operand.name}` takes all remaining operands and must come last"
                    self.report("RW114", message, operand)
            return tuple(self._no_range(x) for x in found)
        return tuple(self._inner(x, where) for x in found)

    def _inner(self, operand: Child, where: str) -> ast.Pattern:
        if isinstance(operand, ast.Rest | ast.Absent) or (
            isinstance(operand, ast.Variable) and operand.optional
        ):
            form = {ast.Rest: "`*name`", ast.Absent: "`none`"}.get(type(operand), "`name?`")
            message = f"{form} can only be an operand of an operator, not in {where}"
            self.report("RW114", message, operand)
        return self._no_range(operand)

    def _no_range(self, operand: Child) -> ast.Pattern:
        if isinstance(operand, Part):
            self._misplaced(operand)
            return ast.Variable(operand.span, "_")
        pattern: ast.Pattern = operand
        return pattern

    def _misplaced(self, operand: Part) -> None:
        """Report what only `chain`, `DQ` or `Q` take."""
        if operand.kind == "untyped":  # only `Q` has a type without a name there
            word = operand.value[1][0]
            self.report("RW101", f"found `{word.word}`, expected `,` or `)`", word)
            return
        message = "a range is only the last part of `chain(...)`"
        if operand.kind == "setting":
            message = f"`{operand.value[0]}=` is only for `DQ` and `Q`"
        self.report("RW114", message, operand)

    def typed(self, c: list[Child]) -> ast.Variable:
        return ast.Variable(self.around(c), self._value_name(c[0]), type=c[2])

    def optional(self, c: list[Child]) -> ast.Variable:
        kind = c[3] if len(c) == 4 else None
        return ast.Variable(self.around(c), self._value_name(c[0]), optional=True, type=kind)

    def rest(self, c: list[Child]) -> ast.Rest:
        kind = c[3] if len(c) == 4 else None
        return ast.Rest(self.around(c), self._value_name(c[1]), type=kind)

    def absent(self, c: list[Child]) -> ast.Absent:
        return ast.Absent(self.around(c))

    def bounds(self, c: list[Child]) -> Part:
        return Part(self.around(c), "range", (self.integer(c[0]), self.integer(c[2])))

    def _value_name(self, token: Token) -> str:
        text = self.word(token)
        if text in LITERAL_NAMES:
            hint = "match a boolean constant by an attribute, or compare it in `where`"
            self.report("RW107", f"`{text}` cannot be matched as a value", token, hint)
        return text

    # --- types

    def constraint(self, c: list[Child]) -> ast.TypePattern:
        parts = [x for x in c if isinstance(x, Part)]
        dtypes, granularity = self.typed_parts([x for x in parts if x.kind == "elements"])
        dims = next((x.value for x in parts if x.kind == "shape"), None)
        return ast.TypePattern(self.around(c), _is(c[0], "CONST"), dtypes, dims, granularity)

    def shape(self, c: list[Child]) -> Part:
        return Part(self.around(c), "shape", tuple(x for x in c if isinstance(x, ast.DimPattern)))

    def dim(self, c: list[Child]) -> ast.DimPattern:
        span, first = self.around(c), c[0]
        if first.type == "NUMBER":
            return ast.DimPattern(span, "size", size=self.integer(first))
        if first.type == "ELLIPSIS":
            return ast.DimPattern(span, "ellipsis")
        name = None if first == "_" else self.target(first)
        if len(c) == 2:
            return ast.DimPattern(span, "ellipsis", name=name)
        return ast.DimPattern(span, "any" if name is None else "name", name=name)

    # --- attributes

    def attributes(self, c: list[Child]) -> Part:
        found = tuple(x for x in c if isinstance(x, ast.AttributePattern))
        return Part(self.around(c), "attributes", found)

    def attribute(self, c: list[Child]) -> ast.AttributePattern:
        span, name = self.around(c), str(c[0])
        literals = [x for x in c[2:] if not _is(x, "BAR")]
        names = self.names(literals)
        if names and len(literals) > 1:
            hint = "bind the attribute and test it in `where`, or write literals only"
            self.report("RW114", "a name cannot be one of several values", names[0], hint)
            return ast.AttributePattern(span, name, ignored=True)
        if not names:
            values = tuple(self.literal_value(x) for x in literals)
            return ast.AttributePattern(span, name, values=values)
        if names[0] == "ignored":
            return ast.AttributePattern(span, name, ignored=True)
        return ast.AttributePattern(span, name, bind=self.target(names[0]))

    def literal_value(self, child: Child) -> int | float | str | tuple[int | float | str, ...]:
        if isinstance(child, Token):
            return self.string_content(child)
        value: int | float | tuple[int | float | str, ...] = child.value
        return value

    def literal_list(self, c: list[Child]) -> Part:
        scalars = [x for x in c if isinstance(x, Part) or _is(x, "STRING")]
        return Part(self.around(c), "list", tuple(self.literal_value(x) for x in scalars))

    def signed(self, c: list[Child]) -> Part:
        text = self.number_text(c[-1])
        value = ast.Number(self.around(c), text).value
        return Part(self.around(c), "number", -value if len(c) == 2 else value)

    def string_content(self, token: Token) -> str:
        content = unescape(str(token))
        if content is None:
            hint = 'the escapes are \\n, \\t, \\" and \\\\'
            self.report("RW117", "unknown escape in a string", token, hint)
            return ""
        return content


def _is(child: Child, kind: str) -> bool:
    return isinstance(child, Token) and child.type == kind
