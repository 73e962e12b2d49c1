"""Reductions of expression syntax: `let`, `where`, `emit`.

In: the children of one reduction. Out: an expression node, or a `Part` that the caller takes apart.
"""

from __future__ import annotations

from dataclasses import replace

from rewrite.lang import ast
from rewrite.lang.build_base import Child, Part
from rewrite.lang.build_patterns import PatternBuilder
from rewrite.lang.machine import Token
from rewrite.lang.operators import GroupingError, group


class ExpressionBuilder(PatternBuilder):
    def forall(self, c: list[Child]) -> ast.ForAll:
        return ast.ForAll(self.around(c), self.target(c[1]), c[3], c[5])

    def formula(self, c: list[Child]) -> ast.Expr:
        try:
            result: ast.Expr = group(c, self._unary, self._binary)
        except GroupingError as slip:
            self.report("RW119", str(slip), slip.token)
            return ast.Constant(self.around(c), None, "none")
        return result

    def _unary(self, token: Token, operator: str, operand: ast.Expr) -> ast.Expr:
        span = self.span(token, operand)
        if operator == "neg" and isinstance(operand, ast.Constant) and _unsigned(operand):
            value = -operand.value  # type: ignore[operator]  # _unsigned: a number
            return ast.Constant(span, value, "-" + operand.text)
        return ast.Unary(span, "-" if operator == "neg" else operator, operand)

    def _binary(self, operator: str, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return ast.Binary(self.span(left, right), operator, left, right)

    def expr_parentheses(self, c: list[Child]) -> ast.Expr:
        inner: ast.Expr = c[1]
        return replace(inner, span=self.around(c))

    # --- atoms

    def name(self, c: list[Child]) -> ast.Expr:
        span, text = self.around(c), str(c[0])
        if text in ("true", "false"):
            return ast.Constant(span, text == "true", text)
        if text == "inf":
            return ast.Constant(span, float("inf"), text)
        return ast.Name(span, self.word(c[0]))

    def constant(self, c: list[Child]) -> ast.Constant:
        text = self.number_text(c[0])
        span = self.around(c)
        return ast.Constant(span, ast.Number(span, text).value, text)

    def string(self, c: list[Child]) -> ast.Constant:
        return ast.Constant(self.around(c), self.string_content(c[0]), str(c[0]))

    def nothing(self, c: list[Child]) -> ast.Constant:
        return ast.Constant(self.around(c), None, "none")

    def list_expr(self, c: list[Child]) -> ast.ListExpr:
        return ast.ListExpr(self.around(c), _nodes(c))

    def case(self, c: list[Child]) -> ast.Case:
        return ast.Case(self.around(c), tuple(x for x in c if isinstance(x, ast.CaseArm)))

    def arm(self, c: list[Child]) -> ast.CaseArm:
        name = None if c[0].type == "ELSE" else self.word(c[0])
        return ast.CaseArm(self.around(c), name, c[2])

    # --- calls

    def call(self, c: list[Child]) -> ast.Call:
        positional: list[ast.Expr] = []
        keywords: list[tuple[str, ast.Expr]] = []
        for argument in _nodes(c[2:-1]):
            if not isinstance(argument, Part):
                if keywords:
                    self.report("RW115", "an argument without name follows one with name", argument)
                positional.append(argument)
                continue
            word, value = argument.value
            if any(word == other for other, _ in keywords):
                self.report("RW115", f"the argument `{word}` is given twice", argument)
            keywords.append((word, value))
        return ast.Call(self.around(c), self.word(c[0]), tuple(positional), tuple(keywords))

    def splat(self, c: list[Child]) -> ast.Splat:
        return ast.Splat(self.around(c), self.word(c[1]))

    def keyword(self, c: list[Child]) -> Part:
        return Part(self.around(c), "keyword", (str(c[0]), c[2]))

    def method(self, c: list[Child]) -> ast.Expr:
        span = self.around(c)
        if not isinstance(c[0], ast.Name):
            self.report("RW116", "only a name has methods", c[0], "for example `target.has(Gelu)`")
            return ast.Constant(span, None, "none")
        arguments = tuple(self._method_argument(x) for x in _nodes(c[4:-1]))
        return ast.MethodCall(span, c[0].name, self.word(c[2]), arguments)

    def _method_argument(self, argument: Child) -> ast.Expr | ast.OpName:
        """A bare UpperCase name is an operator here, until the rule is seen to bind it."""
        if isinstance(argument, Part):
            self.report("RW115", "a method takes no named arguments", argument)
            argument = argument.value[1]
        if isinstance(argument, ast.Name) and argument.name[0].isupper():
            self.bare_operators = True
            return ast.OpName(argument.span, "", argument.name)
        self.loose = [op for op in self.loose if op is not argument]
        found: ast.Expr | ast.OpName = argument
        return found

    # --- operators and parts of values

    def make(self, c: list[Child]) -> ast.OpExpr:
        return self._make(ast.OpName(self.span(c[0], c[0]), "", self.word(c[0])), c, c[1:])

    def make_again(self, c: list[Child]) -> ast.OpExpr:
        """`@m(x)`: the prefix `@` marks an operator named by the value that it produced."""
        return self._make(ast.OpName(self.span(c[0], c[1]), "@", self.word(c[1])), c, c[2:])

    def prefixed_make(self, c: list[Child]) -> ast.OpExpr:
        return self._make(self._prefixed(c[:3]), c, c[3:])

    def _make(self, op: ast.OpName, c: list[Child], rest: list[Child]) -> ast.OpExpr:
        attributes: tuple[ast.AttributeEmit, ...] = ()
        carry: tuple[str, ...] = ()
        if isinstance(rest[-1], Part):
            attributes, carry = rest.pop().value
        operands = []
        for argument in _nodes(rest[1:-1]):
            if not isinstance(argument, Part):
                operands.append(argument)
                continue
            hint = f"write `{op.name}(...) {{ {argument.value[0]}: ... }}`"
            self.report("RW115", "attributes of an operator go in braces", argument, hint)
        return ast.OpExpr(self.around(c), op, tuple(operands), attributes, carry)

    def operator_name(self, c: list[Child]) -> ast.OpName:
        op = self._prefixed(c)
        self.loose.append(op)
        return op

    def _prefixed(self, c: list[Child]) -> ast.OpName:
        span = self.around(c)
        if isinstance(c[0], ast.Name) and c[0].name[0].islower():
            return ast.OpName(span, c[0].name, self.word(c[2]))
        hint = "an operator of another domain is `prefix.Name`, for example `ms.Gelu`"
        self.report("RW116", f"`{c[2]}` follows something that is not a prefix", span, hint)
        return ast.OpName(span, "", str(c[2]))

    def field(self, c: list[Child]) -> ast.Field:
        return ast.Field(self.around(c), c[0], self.word(c[2]))

    def index(self, c: list[Child]) -> ast.Index:
        return ast.Index(self.around(c), c[0], c[2], None, is_slice=False)

    def slicing(self, c: list[Child]) -> ast.Index:
        colon = next(i for i, x in enumerate(c) if isinstance(x, Token) and x.type == "COLON")
        start = c[2] if colon == 3 else None
        stop = c[colon + 1] if colon + 3 == len(c) else None
        return ast.Index(self.around(c), c[0], start, stop, is_slice=True)

    # --- attributes of emitted operators

    def emit_attributes(self, c: list[Child]) -> Part:
        found = _nodes(c)
        attributes = tuple(x for x in found if isinstance(x, ast.AttributeEmit))
        carry = tuple(x.value for x in found if isinstance(x, Part))
        return Part(self.around(c), "attributes", (attributes, carry))

    def emit_attribute(self, c: list[Child]) -> ast.AttributeEmit:
        return ast.AttributeEmit(self.around(c), str(c[0]), c[2])

    def carry(self, c: list[Child]) -> Part:
        return Part(self.around(c), "carry", self.word(c[1]))


def _nodes(c: list[Child]) -> tuple[Child, ...]:
    return tuple(x for x in c if not isinstance(x, Token))


def _unsigned(constant: ast.Constant) -> bool:
    number = isinstance(constant.value, int | float) and not isinstance(constant.value, bool)
    return number and not constant.text.startswith("-")
