"""Patterns and expressions as canonical text.

In: nodes of the syntax tree. Out: documents for `layout`. Parentheses stand where the grammar needs
them and nowhere else: parsing the text gives the same tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewrite.lang import ast
from rewrite.lang.layout import SPACE, Break, Doc, Group, Nest, fill
from rewrite.lang.operators import ATOM, COMPARISON, PRECEDENCE, binds_right
from rewrite.lang.text import quote

LOWEST = 0  # `forall`
FORMULA = 1
INFIX_ATOM = 8  # in patterns: tighter than `*`
INDENT = 4


def number(value: float, keep_float: bool = True) -> str:
    """A number as short as it can be read back: `1e-5`, `0.1`, `3`."""
    text = repr(value)
    if not keep_float and isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        text = str(int(value))
    return re.sub(r"e([+-]?)0*(\d)", lambda m: "e" + m[1].replace("+", "") + m[2], text)


# --- patterns -----------------------------------------------------------------------------------


def pattern_doc(pattern: ast.Pattern, tightness: int = 0) -> Doc:
    """A pattern where an infix operand of this tightness is expected; 0: anything."""
    if isinstance(pattern, ast.Alternatives):
        return _parens(Group(branches(pattern)), tightness > 0)
    if isinstance(pattern, ast.Variable):
        return _parens(_variable(pattern), pattern.type is not None)
    if isinstance(pattern, ast.Number):
        tolerance = f"~{pattern.tolerance}" if pattern.tolerance is not None else ""
        return pattern.text + tolerance
    if isinstance(pattern, ast.OpPattern):
        return _operator(pattern, tightness)
    if isinstance(pattern, ast.Bag):
        return Group((pattern.kind + "{", Nest(INDENT, fill(map(operand_doc, pattern.items))), "}"))
    if isinstance(pattern, ast.Chain):
        bounds = f"{pattern.least}..{pattern.most}"
        parts = (operand_doc(pattern.start), pattern.klass, bounds)
        return Group(("chain(", Nest(INDENT, fill(parts)), ")"))
    if isinstance(pattern, ast.Dequantized | ast.Quantized):
        return _quantized(pattern)
    if isinstance(pattern, ast.PatternCall):
        arguments = fill(map(operand_doc, pattern.arguments))
        return Group((pattern.name + "(", Nest(INDENT, arguments), ")"))
    return operand_doc(pattern)


def operand_doc(pattern: ast.Pattern) -> Doc:
    """A pattern as an operand: here types, `name?`, `*name` and `none` may stand."""
    if isinstance(pattern, ast.Variable):
        return _variable(pattern)
    if isinstance(pattern, ast.Rest):
        return "*" + pattern.name + _typed(pattern.type)
    if isinstance(pattern, ast.Absent):
        return "none"
    return pattern_doc(pattern)


def branches(pattern: ast.Alternatives) -> tuple[Doc, ...]:
    """The branches with possible line ends between them."""
    first, *others = map(branch_doc, pattern.branches)
    return (first, *((Break(" | ", "| "), Nest(4, other)) for other in others))


def branch_doc(branch: ast.Alternative) -> Doc:
    parts: list[Doc] = [pattern_doc(branch.pattern, 1)]
    if branch.name is not None:
        parts.append(f" as {branch.name}")
    if branch.guard is not None:
        parts.append(guard_doc(branch.guard))
    return tuple(parts)


def guard_doc(guard: ast.Expr) -> Doc:
    return Nest(2, Group((SPACE, "if (", Nest(4, expr_doc(guard)), ")")))


def _variable(pattern: ast.Variable) -> str:
    return pattern.name + ("?" if pattern.optional else "") + _typed(pattern.type)


def _typed(pattern: ast.TypePattern | None) -> str:
    return "" if pattern is None else ": " + type_text(pattern)


def type_text(pattern: ast.TypePattern) -> str:
    words = ["const"] if pattern.const else []
    rest = "|".join(pattern.dtypes or ())
    if pattern.shape is not None:
        rest += "[" + ", ".join(map(_dim, pattern.shape)) + "]"
    groups = "|".join(map(_granularity, pattern.granularity or ()))
    return " ".join([*words, *(x for x in (rest, groups) if x)])


def _granularity(node: ast.Granularity) -> str:
    return node.kind if node.axis is None else f"{node.kind}({node.axis})"


def _quantized(pattern: ast.Dequantized | ast.Quantized) -> Doc:
    codes, quantized = pattern.codes, isinstance(pattern, ast.Quantized)
    parts: list[Doc] = [] if codes is None else [_variable(codes)]
    if isinstance(pattern, ast.Quantized):
        if codes is not None and codes.name == "_" and codes.type is not None:
            parts = [type_text(codes.type)]
        parts.insert(0, operand_doc(pattern.operand))
    if pattern.zp is not None:
        parts.append(f"zp={pattern.zp}")
    return Group(("Q(" if quantized else "DQ(", Nest(INDENT, fill(parts)), ")"))


def _dim(dim: ast.DimPattern) -> str:
    if dim.kind == "size":
        return str(dim.size)
    if dim.kind == "ellipsis":
        return (dim.name or "") + "..."
    return dim.name if dim.kind == "name" and dim.name is not None else "_"


def _operator(pattern: ast.OpPattern, tightness: int) -> Doc:
    flags = ("ordered " if pattern.ordered else "") + ("shared " if pattern.shared else "")
    if pattern.infix is None:
        return (flags, _op_call(pattern)) if flags else _op_call(pattern)
    if pattern.infix == "neg":
        return (flags + "-", pattern_doc(pattern.operands[0], INFIX_ATOM))
    mine = PRECEDENCE[pattern.infix]
    left, right = pattern.operands
    body: Doc = Group((
        pattern_doc(left, mine), f" {pattern.infix}",
        Nest(INDENT, (SPACE, pattern_doc(right, mine + 1))),
    ))  # fmt: skip
    if flags:
        return (flags, _parens(body, True))
    return _parens(body, tightness > mine)


def _op_call(pattern: ast.OpPattern) -> Doc:
    operands = fill(map(operand_doc, pattern.operands))
    call: Doc = (op_text(pattern.op) + "(", Nest(INDENT, operands), ")")
    if not pattern.attributes:
        return Group(call)
    attributes = fill(map(_attribute, pattern.attributes))
    return (Group(call), Nest(INDENT, Group((SPACE, "{ ", Nest(2, attributes), " }"))))


def op_text(op: ast.OpName) -> str:
    if op.prefix == "@":
        return "@" + op.name
    return f"{op.prefix}.{op.name}" if op.prefix else op.name


def _attribute(attribute: ast.AttributePattern) -> Doc:
    if attribute.values is not None:
        return (f"{attribute.name}: ", Nest(2, fill(map(_literal, attribute.values), " |")))
    return f"{attribute.name}: {attribute.bind or 'ignored'}"


def _literal(value: object) -> Doc:
    if isinstance(value, tuple):
        return ("[", Nest(2, fill(map(_literal, value))), "]")
    if isinstance(value, str):
        return quote(value)
    assert isinstance(value, int | float)
    return number(value)


# --- expressions --------------------------------------------------------------------------------


def expr_doc(expr: ast.Expr, tightness: int = LOWEST) -> Doc:
    """An expression where an operand that binds at least so tightly is expected."""
    doc: Doc = _PRINTERS[type(expr)](expr)
    return _parens(doc, precedence(expr) < tightness)


def precedence(expr: ast.Expr) -> int:
    if isinstance(expr, ast.ForAll):
        return LOWEST
    if isinstance(expr, ast.Binary):
        return PRECEDENCE[expr.operator]
    if isinstance(expr, ast.Unary):
        return PRECEDENCE["neg" if expr.operator == "-" else "not"]
    if isinstance(expr, ast.Constant) and expr.text.startswith("-"):
        return PRECEDENCE["neg"]
    return ATOM


def _constant(expr: ast.Constant) -> Doc:
    return quote(expr.value) if isinstance(expr.value, str) else expr.text


def _list(expr: ast.ListExpr) -> Doc:
    return Group(("[", Nest(2, fill(map(expr_doc, expr.items))), "]"))


def _field(expr: ast.Field) -> Doc:
    return (expr_doc(expr.base, ATOM), "." + expr.name)


def _index(expr: ast.Index) -> Doc:
    start = expr_doc(expr.start) if expr.start is not None else ""
    stop = expr_doc(expr.stop) if expr.stop is not None else ""
    wide = not all(isinstance(x, ast.Constant | ast.Name | None) for x in (expr.start, expr.stop))
    colon = ""
    if expr.is_slice:
        colon = " : " if wide and expr.start is not None and expr.stop is not None else ":"
    return (expr_doc(expr.base, ATOM), "[", start, colon, stop, "]")


def _call(expr: ast.Call) -> Doc:
    arguments: list[Doc] = [expr_doc(a) for a in expr.arguments]
    arguments += [(f"{word}=", expr_doc(value)) for word, value in expr.keywords]
    return Group((expr.function + "(", Nest(INDENT, fill(arguments)), ")"))


def _method(expr: ast.MethodCall) -> Doc:
    arguments = [op_text(a) if isinstance(a, ast.OpName) else expr_doc(a) for a in expr.arguments]
    return Group((f"{expr.base}.{expr.method}(", Nest(INDENT, fill(arguments)), ")"))


def _unary(expr: ast.Unary) -> Doc:
    if expr.operator == "not":
        return ("not ", expr_doc(expr.operand, PRECEDENCE["not"]))
    return ("-", expr_doc(expr.operand, PRECEDENCE["neg"]))


def _binary(expr: ast.Binary) -> Doc:
    mine = PRECEDENCE[expr.operator]
    left, right = mine, mine + 1
    if mine == COMPARISON:
        left = mine + 1
    elif binds_right(expr.operator):
        left, right = mine + 1, mine
    if binds_right(expr.operator) and precedence(expr.right) == PRECEDENCE["neg"]:
        right = PRECEDENCE["neg"]  # a sign may follow any operator: `a ** -b`
    return Group((
        expr_doc(expr.left, left), f" {expr.operator}",
        Nest(INDENT, (SPACE, expr_doc(expr.right, right))),
    ))  # fmt: skip


def _case(expr: ast.Case) -> Doc:
    arms = [(f"{arm.name or 'else'}: ", expr_doc(arm.value)) for arm in expr.arms]
    return Group(("case { ", Nest(INDENT, fill(arms, ";")), " }"))


def _for_all(expr: ast.ForAll) -> Doc:
    over, condition = expr_doc(expr.over, FORMULA), expr_doc(expr.condition)
    return Group((f"forall {expr.name} in ", over, ":", Nest(INDENT, (SPACE, condition))))


def _make(expr: ast.OpExpr) -> Doc:
    operands = fill(expr_doc(x) for x in expr.operands)
    call: Doc = (op_text(expr.op) + "(", Nest(INDENT, operands), ")")
    if not expr.carry and not expr.attributes:
        return Group(call)
    return (Group(call), attributes_doc(expr.attributes, expr.carry))


def attributes_doc(attributes: Sequence[ast.AttributeEmit], carry: Sequence[str]) -> Doc:
    """` { ..c, name: value }`, in braces behind what has the attributes."""
    entries: list[Doc] = [f"..{name}" for name in carry]
    entries += [(f"{a.name}: ", expr_doc(a.value)) for a in attributes]
    return Nest(INDENT, Group((SPACE, "{ ", Nest(2, fill(entries)), " }")))


_PRINTERS: Mapping[type[ast.Expr], Callable[[Any], Doc]] = {
    ast.Constant: _constant,
    ast.Name: lambda expr: expr.name,
    ast.Splat: lambda expr: "*" + expr.name,
    ast.ListExpr: _list,
    ast.Field: _field,
    ast.Index: _index,
    ast.Call: _call,
    ast.MethodCall: _method,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.Case: _case,
    ast.ForAll: _for_all,
    ast.OpExpr: _make,
}


def _parens(doc: Doc, wanted: bool) -> Doc:
    return ("(", Nest(1, doc), ")") if wanted else doc
