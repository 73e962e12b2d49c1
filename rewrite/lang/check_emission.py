"""Static checks of `emit`: operators, operands, attributes, roots and temporaries.

In: the emit statements of an expanded rule, the scope of its match. Out: diagnostics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rewrite.errors import Label
from rewrite.lang import ast
from rewrite.lang.check_expressions import ExpressionChecker
from rewrite.lang.check_patterns import (
    known_versions,
    literal_fits,
    literal_words,
    report_attribute,
    tops,
)
from rewrite.lang.kinds import ACCEPTED, MAKES_NODES, VALUE, WORDS, Info
from rewrite.lang.opsets import operand_count, usable
from rewrite.lang.scope import Facts
from rewrite.lang.versions import (
    Operators,
    Range,
    attributes,
    least_inputs,
    most_inputs,
    most_outputs,
)
from rewrite.lang.vocabulary import Kind
from rewrite.schema import DTYPE_ATTRIBUTES, AttributeKind, OpSchema

# What an emitted attribute of each kind may be computed from.
TAKES: Mapping[AttributeKind, Kind] = {
    "int": "number", "float": "number", "string": "string", "ints": "list", "floats": "list",
    "strings": "list", "tensor": "tensor",
}  # fmt: skip


@dataclass
class EmissionChecker:
    """Checks the emit statements of one rule, in order."""

    rule: ast.Rule
    expressions: ExpressionChecker
    operators: Operators
    opsets: Range
    facts: Facts

    def __post_init__(self) -> None:
        self.errors = self.expressions.errors
        self.scope = self.expressions.scope
        self.statements = _by_name(self.rule)
        self.emitted: dict[str, ast.EmitStatement] = {}
        self.used: set[str] = set()

    def run(self) -> None:
        maker = _Maker(self)
        for statement in self.rule.emit:
            self._roots_used_too_early(statement)
            info = maker.infer(statement.value, self.facts)
            self._targets(statement)
            self._value(statement, info)
            self._outputs(statement)
            for name in statement.names:
                if name != "_":
                    self.emitted[name] = statement
                    maker.local[name] = info if info.kind == "list" else VALUE
        if any(name in self.statements for name in self.emitted):
            self._unused(maker)
        else:
            last = self.rule.match[-1]
            name = last.names[0] if isinstance(last, ast.MatchStatement) else last.name
            message = "`emit` replaces none of the matched values"
            hint = f"assign to the name of a match statement: `emit {name} = ...`"
            self.errors.add("RW240", message, self.rule.emit[0].span, hint)

    def _roots_used_too_early(self, statement: ast.EmitStatement) -> None:
        """A root is replaced; an emitted node that used it would use itself."""
        roots = {n for s in self.rule.emit for n in s.names if n in self.statements}
        for node in _names_used(statement.value, self.is_maker):
            if node.name in roots and node.name not in self.emitted:
                message = f"`{node.name}` is replaced here and cannot be an operand"
                hint = "use what it was computed from"
                self.errors.add("RW241", message, node.span, hint)

    def is_maker(self, expr: ast.Expr) -> bool:
        """Whether it calls a function that makes nodes."""
        if not isinstance(expr, ast.Call):
            return False
        signature = self.expressions.vocabulary.functions.get(expr.function)
        return signature is not None and signature.makes

    def _targets(self, statement: ast.EmitStatement) -> None:
        for name in statement.names:
            if name in self.emitted:
                note = (Label(self.emitted[name].span, "the first one"),)
                message = f"`{name}` is emitted twice"
                self.errors.add("RW241", message, statement.span, None, note)
            elif name not in self.statements and (
                name in self.scope.bindings or name in self.expressions.lets
            ):
                binding = self.scope.bindings.get(name)
                what = "operand" if binding is not None and binding.sort == "value" else "name"
                message = f"`{name}` is an {what} of the match and cannot be replaced"
                if what == "name":
                    message = f"`{name}` is bound already and cannot be emitted"
                hint = "roots are names of match statements; give a temporary a name of its own"
                self.errors.add("RW245", message, statement.span, hint)

    def _value(self, statement: ast.EmitStatement, info: Info) -> None:
        if info.absent is not None:
            self.expressions.report_absent(statement.value, info)
        elif info.kind not in ("value", "tensor", "any") and not self._is_list(statement, info):
            message = f"{WORDS[info.kind]} cannot replace a value: it has no element type"
            hint = "compute a constant of the right type: `cast(e, dtype(x))`"
            self.errors.add("RW246", message, statement.value.span, hint)

    def _is_list(self, statement: ast.EmitStatement, info: Info) -> bool:
        """The root of an `each`, or a temporary that a function makes."""
        if info.kind != "list":
            return False
        root = self.statements.get(statement.names[0])
        return isinstance(root, ast.EachStatement) or (
            root is None and self.is_maker(statement.value)
        )

    def _outputs(self, statement: ast.EmitStatement) -> None:
        if len(statement.names) == 1:
            return
        if not isinstance(statement.value, ast.OpExpr):
            message = "several names need an operator with several outputs"
            self.errors.add("RW212", message, statement.span, "for example `a, b = Split(x)`")
            return
        op = statement.value.op
        mosts = [most_outputs(v) for v in self.operators.within(op, self.opsets)]
        if mosts and None not in mosts and max(m or 0 for m in mosts) < len(statement.names):
            message = f"{op.name} has {max(m or 0 for m in mosts)} outputs"
            names = len(statement.names)
            self.errors.add("RW212", f"{message}, but {names} are named", statement.span)

    def _unused(self, maker: _Maker) -> None:
        for name, statement in self.emitted.items():
            if name not in self.statements and name not in maker.scope.used:
                message = f"the temporary `{name}` is never used"
                self.errors.add("RW245", message, statement.span, "remove it, or emit a root")


class _Maker(ExpressionChecker):
    """The expression checker where operators make nodes."""

    def __init__(self, checker: EmissionChecker) -> None:
        base = checker.expressions
        super().__init__(base.scope, base.vocabulary, base.errors, base.lets, emitting=True)
        self.checker = checker
        self.computing = 0  # inside what is computed before the nodes are made

    def infer(self, expr: ast.Expr, facts: Facts) -> Info:
        if not _is_computed(expr) or self.checker.is_maker(expr):
            return super().infer(expr, facts)
        self.computing += 1
        info = super().infer(expr, facts)
        self.computing -= 1
        return info

    def makes_nodes(self) -> bool:
        return not self.computing

    def make(self, expr: ast.OpExpr, facts: Facts) -> Info:
        if self.computing:
            return super().make(expr, facts)
        for operand in expr.operands:
            self._operand(operand, facts)
        if expr.op.prefix == "@":
            self._again(expr, facts)
            return VALUE
        operators, opsets = self.checker.operators, self.checker.opsets
        versions = known_versions(expr.op, operators, opsets, self.errors)
        if versions:
            carried = self._carried(expr)
            self._attributes(expr, versions, facts)
            self._required(expr, versions, carried)
            self._fitting(expr, versions)
        else:
            for attribute in expr.attributes:
                self.infer(attribute.value, facts)
        return VALUE

    def _again(self, expr: ast.OpExpr, facts: Facts) -> None:
        """`@m(x)`: the operator that produced `m`, whichever of its alternatives was taken."""
        name = expr.op.name
        self.scope.used.add(name)
        statement = self.checker.statements.get(name)
        pattern = statement.pattern if isinstance(statement, ast.MatchStatement) else None
        sources = tops(pattern) if pattern is not None else []
        one_of_chain = isinstance(pattern, ast.Chain) and pattern.most == 1
        if not sources and not one_of_chain:
            message = f"`@{name}` repeats an operator, but `{name}` is not a matched operator"
            hint = (
                "name it in a match statement: `m = Relu(x) | Sigmoid(x)`, `m = chain(x, c, 1..1)`"
            )
            self.errors.add("RW211", message, expr.op.span, hint)
        for source in sources:
            versions = self.checker.operators.within(source.op, self.checker.opsets)
            if versions:
                alike = replace(expr, op=replace(source.op, span=expr.op.span))
                self._attributes(alike, versions, facts)
                self._fitting(alike, versions)
        if not sources:
            for attribute in expr.attributes:
                self.infer(attribute.value, facts)

    def _operand(self, operand: ast.Expr, facts: Facts) -> None:
        info = self.infer(operand, facts)
        if info.absent == "branch":
            self.report_absent(operand, info)
        elif info.kind not in ACCEPTED["value"]:
            message = f"{WORDS[info.kind]} cannot be an operand"
            self.errors.add("RW264", message, operand.span, "attributes go in braces")
        elif info.kind == "list" and info.element is not None and info.element.kind == "value":
            message = "a list of values cannot be one operand"
            hint = f"spread it: `*{operand.name}`" if isinstance(operand, ast.Name) else None
            self.errors.add("RW226", message, operand.span, hint)

    def _attributes(self, expr: ast.OpExpr, versions: tuple[OpSchema, ...], facts: Facts) -> None:
        known = attributes(versions)
        seen: set[str] = set()
        for attribute in expr.attributes:
            schema = known.get(attribute.name)
            if attribute.name in seen:
                message = f"the attribute `{attribute.name}` is given twice"
                self.errors.add("RW208", message, attribute.span)
            elif schema is None:
                report_attribute(expr.op, attribute.name, attribute.span, versions, self.errors)
                self.infer(attribute.value, facts)
            else:
                self._attribute(attribute, schema.kind, facts)
            seen.add(attribute.name)

    def _attribute(self, attribute: ast.AttributeEmit, kind: AttributeKind, facts: Facts) -> None:
        value = attribute.value
        self.computing += 1
        info = self.infer(value, facts)
        self.computing -= 1
        if info.absent == "branch":
            self.report_absent(value, info)
            info = replace(info, absent=None)
        wanted = TAKES.get(kind)
        literal = value.value if isinstance(value, ast.Constant) else None
        wrong = wanted is None or (
            info.kind not in ACCEPTED[wanted]
            or (literal is not None and kind == "int" and not literal_fits(literal, kind))
        )
        if kind == "int" and info.kind == "dtype":
            return  # an element type stands for its number in ONNX, as in `to: f16`
        if info.kind == "value":
            self.not_constant(value)
        elif info.kind == "dtype" and attribute.name in DTYPE_ATTRIBUTES:
            return
        elif wrong and info.absent != "none":
            message = f"the attribute `{attribute.name}` is {literal_words(kind)}"
            self.errors.add("RW207", message, attribute.span)

    def _carried(self, expr: ast.OpExpr) -> list[ast.OpName]:
        """The operators whose attributes `..name` carries over."""
        found: list[ast.OpName] = []
        for name in expr.carry:
            self.scope.used.add(name)
            statement = self.checker.statements.get(name)
            sources = tops(statement.pattern) if statement is not None else []
            if not sources:
                message = f"`..{name}` carries attributes, but `{name}` is not a matched operator"
                hint = "name the operator in a match statement: `c = Conv(...)`"
                self.errors.add("RW211", message, expr.span, hint)
            found += [s.op for s in sources]
        return found

    def _required(
        self, expr: ast.OpExpr, versions: tuple[OpSchema, ...], carried: list[ast.OpName]
    ) -> None:
        given = {a.name for a in expr.attributes}
        for op in carried:
            for version in self.checker.operators.within(op, self.checker.opsets):
                given.update(version.attributes)
        for name, schema in attributes(versions).items():
            if name in given or not all(
                name in v.attributes and v.attributes[name].required for v in versions
            ):
                continue
            message = f"{expr.op.name} needs its attribute `{schema.name}`"
            self.errors.add("RW210", message, expr.op.span, f"write `{{ {name}: ... }}`")

    def _fitting(self, expr: ast.OpExpr, versions: tuple[OpSchema, ...]) -> None:
        """Some version in the range takes these operands and attributes."""
        operators, opsets = self.checker.operators, self.checker.opsets
        if usable(expr, operators, opsets) is not None:
            return
        count, spread = operand_count(expr)
        newest = versions[-1]
        most = most_inputs(newest)
        too_few = count < least_inputs(newest) and not spread
        if too_few or (most is not None and count > most):
            names = [f"{x.name}?" if x.option == "optional" else x.name for x in newest.inputs]
            message = f"{expr.op.name} does not take {count} operands"
            hint = f"its operands are {', '.join(names)}"
            self.errors.add("RW205", message, expr.span, hint)
        elif all(a.name in attributes(versions) for a in expr.attributes):
            message = f"no version of {expr.op.name} has all these operands and attributes"
            self.errors.add("RW204", message, expr.span, "see `opset` and pack.yaml")


def _is_computed(expr: ast.Expr) -> bool:
    """Whether the parts of an expression are values, not nodes: no operator can stand there."""
    if isinstance(expr, ast.Binary):
        return expr.operator not in MAKES_NODES and expr.operator != "??"
    if isinstance(expr, ast.Unary):
        return expr.operator == "not"
    return not isinstance(expr, ast.OpExpr | ast.Case | ast.Name | ast.Splat | ast.Constant)


def _by_name(rule: ast.Rule) -> dict[str, ast.MatchStatement | ast.EachStatement]:
    """Match statements by the names that they give."""
    found: dict[str, ast.MatchStatement | ast.EachStatement] = {}
    for statement in rule.match:
        names = statement.names if isinstance(statement, ast.MatchStatement) else (statement.name,)
        for name in names:
            if name != "_":
                found.setdefault(name, statement)
    return found


def _names_used(expr: ast.Expr, is_maker: Callable[[ast.Expr], bool]) -> list[ast.Name | ast.Splat]:
    """Values that an emitted expression takes as operands.

    Arguments of functions do not count, unless the function makes nodes.
    """
    if isinstance(expr, ast.Name | ast.Splat):
        return [expr]
    parts: tuple[ast.Expr, ...] = ()
    if isinstance(expr, ast.OpExpr):
        parts = expr.operands
    elif isinstance(expr, ast.Binary):
        parts = (expr.left, expr.right)
    elif isinstance(expr, ast.Unary):
        parts = (expr.operand,)
    elif isinstance(expr, ast.Case):
        parts = tuple(arm.value for arm in expr.arms)
    elif isinstance(expr, ast.Index):
        parts = (expr.base,)
    elif isinstance(expr, ast.Call) and is_maker(expr):
        parts = (*expr.arguments, *(value for _, value in expr.keywords))
    return [name for part in parts for name in _names_used(part, is_maker)]
