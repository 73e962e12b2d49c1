"""Static checks of expressions: names, kinds of values, presence, constness.

In: an expression, the scope of its rule, the facts where it stands. Out: `Info`, what the
expression is; diagnostics on the way. Kinds are coarse: only what is surely wrong is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rewrite.errors import Collector
from rewrite.lang import ast
from rewrite.lang.check_calls import CallChecker
from rewrite.lang.kinds import (
    ACCEPTED,
    ANY,
    ARITHMETIC,
    BOOL,
    MAKES_NODES,
    NUMBER,
    NUMERIC,
    TENSOR,
    VALUE,
    WORDS,
    Info,
    join,
)
from rewrite.lang.quantized_words import FIELDS, written
from rewrite.lang.scope import Facts
from rewrite.lang.vocabulary import Kind
from rewrite.lang.words import suggestion
from rewrite.schema import DTYPES


class ExpressionChecker(CallChecker):
    """Checks the expressions of one rule."""

    def condition(self, expr: ast.Expr, facts: Facts) -> None:
        info = self.present(expr, facts)
        if info.kind not in ACCEPTED["bool"]:
            message = f"{WORDS[info.kind]} is not a condition"
            self.errors.add("RW266", message, expr.span, "compare it with something")

    def present(self, expr: ast.Expr, facts: Facts) -> Info:
        """The info of an expression that must not be absent."""
        info = self.infer(expr, facts)
        if info.absent is None:
            return info
        self.report_absent(expr, info)
        return replace(info, absent=None)

    def report_absent(self, expr: ast.Expr, info: Info) -> None:
        name = f"`{written(expr.name)}`" if isinstance(expr, ast.Name) else "this"
        if info.absent == "branch":
            message = f"{name} is bound only in some branches"
            hint = "use it under `if name:`, in an arm of `case`, or with `??`"
            self.errors.add("RW224", message, expr.span, hint)
        else:
            message = f"{name} may be absent"
            hint = "write `name ?? default`, or use it under `if name:` or in an arm of `case`"
            self.errors.add("RW225", message, expr.span, hint)

    def infer(self, expr: ast.Expr, facts: Facts) -> Info:
        method = _METHODS[type(expr)]
        info: Info = getattr(self, method)(expr, facts)
        return info

    # --- atoms

    def constant(self, expr: ast.Constant, facts: Facts) -> Info:
        if expr.value is None:
            return Info("any", "none")
        if isinstance(expr.value, bool):
            return BOOL
        return Info("string") if isinstance(expr.value, str) else NUMBER

    def name(self, expr: ast.Name, facts: Facts) -> Info:
        name = expr.name
        if name in self.local:
            self.scope.used.add(name)
            return self.local[name]
        if name in self.lets:
            self.scope.used.add(name)
            return self.let(name, facts)
        if name in self.scope.bindings:
            return self.bound(name, facts)
        if name in DTYPES:
            return Info("dtype")
        self.report_name(expr)
        return ANY

    def let(self, name: str, facts: Facts) -> Info:
        """What a `let` is; one that may be absent is looked at again under the facts here."""
        info, expr = self.lets[name]
        if info.absent is None or self.depth > 2:
            return info
        if name in facts.present:
            return replace(info, absent=None)
        heard, self.errors = self.errors, Collector()
        self.depth += 1
        info = self.infer(expr, facts)
        self.depth -= 1
        self.errors = heard
        return info

    def bound(self, name: str, facts: Facts) -> Info:
        self.scope.used.add(name)
        binding = self.scope.bindings[name]
        kind: Kind = "tensor" if binding.kind == "value" and binding.const else binding.kind
        info = Info(kind)
        if binding.sort == "list of values":
            info = Info("list", element=TENSOR if binding.const else VALUE)
        if binding.listed and not self.inside_each:
            info = Info("list", element=info)
        if self.scope.available(name, facts):
            may_lack = binding.sort == "attribute" and binding.optional
            return (
                replace(info, absent="optional") if may_lack and not _known(name, facts) else info
            )
        return replace(info, absent="optional" if binding.optional else "branch")

    def report_name(self, expr: ast.Name) -> None:
        name = expr.name
        if name == "_":
            message = "`_` binds nothing and has no value"
            self.errors.add("RW222", message, expr.span, "give the operand a name")
        elif name in self.scope.branches:
            message = f"`{name}` is an alternative, not a value"
            hint = f"ask for it by `if {name}: ...` or `case {{ {name}: ...; else: ... }}`"
            self.errors.add("RW230", message, expr.span, hint)
        elif name[0].isupper() and self.vocabulary.schemas("", name):
            message = f"{name} is an operator; without operands it is not a value"
            self.errors.add("RW228", message, expr.span, f"write `{name}(...)`")
        elif name == "target":
            hint = "ask it something: `target.has(Gelu)`"
            self.errors.add("RW220", "`target` is not a value by itself", expr.span, hint)
        else:
            bound = [n for n in self.scope.bindings if written(n) == n]
            known = [*bound, *self.lets, *self.local]
            hint = suggestion(name, known) or "names are bound by `match` and `let`"
            self.errors.add("RW220", f"nothing is named `{name}`", expr.span, hint)

    def splat(self, expr: ast.Splat, facts: Facts) -> Info:
        info = self.present(ast.Name(expr.span, expr.name), facts)
        if info.kind not in ("list", "any"):
            message = f"`{expr.name}` is {WORDS[info.kind]}, not a list"
            self.errors.add("RW227", message, expr.span, "leave the `*` out")
        return info.element or ANY

    def list_expr(self, expr: ast.ListExpr, facts: Facts) -> Info:
        infos = [self.present(item, facts) for item in expr.items]
        element = infos[0] if infos else ANY
        for info in infos[1:]:
            element = join(element, info)
        return Info("list", element=element)

    # --- parts of values

    def field(self, expr: ast.Field, facts: Facts) -> Info:
        known = self.vocabulary.value_fields
        of = "a value"
        if isinstance(expr.base, ast.Name) and self.is_target(expr.base.name):
            known, of = self.vocabulary.target_fields, "a target"
        else:
            base = self.present(expr.base, facts)
            if base.kind not in ("value", "tensor", "any"):
                of = WORDS[base.kind]
                known = {}
        if expr.name in known:
            return Info(known[expr.name])
        fields = FIELDS if self._is_codes(expr.base) else ()
        hint = suggestion(expr.name, (*known, *fields))
        if expr.name in FIELDS and of == "a value":
            hint = "only codes that the rule names in `DQ(X)` or `Q(p, Y)` have one"
        if hint is None and expr.name in self.vocabulary.functions:
            hint = f"it is a function: `{expr.name}(...)`"
        if hint is None and known:
            hint = f"{of} has {', '.join(f'`.{name}`' for name in (*known, *fields))}"
        self.errors.add("RW261", f"{of} has no `.{expr.name}`", expr.span, hint)
        return ANY

    def _is_codes(self, expr: ast.Expr) -> bool:
        return isinstance(expr, ast.Name) and f"{expr.name}__scale" in self.scope.bindings

    def index(self, expr: ast.Index, facts: Facts) -> Info:
        base = self.present(expr.base, facts)
        if base.kind not in ACCEPTED["list"]:
            code = "RW265" if base.kind == "value" else "RW227"
            message = f"{WORDS[base.kind]} has no elements to be asked for"
            self.errors.add(code, message, expr.base.span, "`shape(x)[0]` asks for a size")
        for part in (expr.start, expr.stop):
            if part is not None:
                self.demand("number", part, facts, "an index")
        if expr.is_slice:
            return Info("list", element=base.element)
        return base.element or ANY

    # --- operators

    def unary(self, expr: ast.Unary, facts: Facts) -> Info:
        if expr.operator == "not":
            self.condition(expr.operand, facts)
            return BOOL
        info = self.present(expr.operand, facts)
        if info.kind == "value" and self.emitting:
            return VALUE
        self.numeric(info, expr.operand, "-")
        return info

    def binary(self, expr: ast.Binary, facts: Facts) -> Info:
        operator = expr.operator
        if operator in ("and", "or"):
            self.condition(expr.left, facts)
            self.condition(expr.right, facts)
            return BOOL
        if operator == "??":
            left, right = self.infer(expr.left, facts), self.infer(expr.right, facts)
            return replace(join(left, right), absent=right.absent)
        if operator in ("==", "!=") and (_is_none(expr.left) or _is_none(expr.right)):
            self.infer(expr.left, facts)
            self.infer(expr.right, facts)
            return BOOL
        left, right = self.present(expr.left, facts), self.present(expr.right, facts)
        if operator in ("in", "not in"):
            if right.kind not in ACCEPTED["list"]:
                message = f"{WORDS[right.kind]} is not a list"
                self.errors.add("RW227", message, expr.right.span, "write `x in [a, b]`")
            return BOOL
        if operator in ARITHMETIC:
            return self.arithmetic(expr, left, right)
        if operator in ("==", "!=") and left.kind == right.kind:
            return BOOL
        self.comparison(expr, left, right)
        return BOOL

    def arithmetic(self, expr: ast.Binary, left: Info, right: Info) -> Info:
        if self.emitting and "value" in (left.kind, right.kind):
            if expr.operator not in MAKES_NODES:
                message = f"`{expr.operator}` of values makes no node"
                hint = "write the operator: `Mod(a, b)`, `Pow(a, b)`"
                self.errors.add("RW264", message, expr.span, hint)
            for info, side in ((left, expr.left), (right, expr.right)):
                if info.kind not in ACCEPTED["value"]:
                    self.numeric(info, side, expr.operator)
            return VALUE
        self.numeric(left, expr.left, expr.operator)
        self.numeric(right, expr.right, expr.operator)
        kind = join(left, right).kind
        return Info("tensor" if kind == "value" else kind)

    def numeric(self, info: Info, expr: ast.Expr, operator: str) -> None:
        if info.kind in NUMERIC:
            return
        if info.kind == "value":
            self.not_constant(expr)
            return
        message = f"`{operator}` computes with numbers; this is {WORDS[info.kind]}"
        self.errors.add("RW264", message, expr.span)

    def comparison(self, expr: ast.Binary, left: Info, right: Info) -> None:
        for info, side, other in ((left, expr.left, right), (right, expr.right, left)):
            if info.kind == "value" and other.kind not in ("value", "any"):
                self.not_constant(side)
                return
        ordered = expr.operator not in ("==", "!=")
        kinds = (left.kind, right.kind)
        comparable = all(k in NUMERIC for k in kinds) or "any" in kinds
        text = [k for k in kinds if k in ("string", "dtype")]
        if comparable or (len(text) == 2 and not ordered):
            return
        message = f"{WORDS[left.kind]} and {WORDS[right.kind]} cannot be compared by "
        self.errors.add("RW264", message + f"`{expr.operator}`", expr.span)

    # --- choices

    def case(self, expr: ast.Case, facts: Facts) -> Info:
        result: Info | None = None
        closed = False
        for arm in expr.arms:
            if closed:
                self.errors.add("RW231", "no arm can follow `else`", arm.span)
            if self.scope.impossible(facts):
                break  # an arm before holds wherever these facts do
            inner = facts
            if arm.name is not None:
                self.check_fact(arm, arm.name, facts)
                inner = self.scope.assume(arm.name, facts, True)
                facts = self.scope.assume(arm.name, facts, False)
            closed |= arm.name is None
            if not self.scope.impossible(inner):
                info = self.infer(arm.value, inner)
                result = info if result is None else join(result, info)
        if not closed and not self.scope.impossible(facts):
            hint = "add `else: ...`, or an arm for each branch of an alternative"
            self.errors.add("RW231", "the `case` has no arm for some matches", expr.span, hint)
        return result or ANY

    def check_fact(self, at: ast.Node, name: str, facts: Facts) -> None:
        """`name` can be asked for: an alternative, something that may be absent, a condition."""
        self.scope.used.add(name)
        if name in self.scope.branches:
            return
        info = self.let(name, facts) if name in self.lets else None
        if info is None and name in self.scope.bindings:
            info = self.bound(name, facts)
        if info is None:
            known = [*self.scope.branches, *self.scope.bindings, *self.lets]
            hint = suggestion(name, known) or "name an alternative with `as`"
            message = f"no alternative or optional operand is named `{name}`"
            self.errors.add("RW230", message, at.span, hint)
        elif info.absent is None and info.kind not in ("bool", "any") and name not in facts.present:
            message = f"`{name}` is always present, so there is nothing to ask"
            hint = "only an alternative, an optional operand or a condition can be asked for"
            self.errors.add("RW230", message, at.span, hint)

    def for_all(self, expr: ast.ForAll, facts: Facts) -> Info:
        over = self.present(expr.over, facts)
        if over.kind not in ACCEPTED["list"]:
            message = f"`forall` goes over a list, not {WORDS[over.kind]}"
            self.errors.add("RW227", message, expr.over.span)
        if expr.name in self.scope.bindings or expr.name in self.lets or expr.name in self.local:
            message = f"`{expr.name}` is bound already"
            self.errors.add("RW221", message, expr.span, "choose another name")
        outer = dict(self.local)
        self.local[expr.name] = over.element or ANY
        self.condition(expr.condition, facts)
        self.local = outer
        return BOOL

    def make(self, expr: ast.OpExpr, facts: Facts) -> Info:
        message = "nodes are made only by `emit`, not inside other expressions"
        self.errors.add("RW260", message, expr.span, "compute constants with functions")
        return VALUE


_METHODS: Mapping[type[ast.Expr], str] = {
    ast.Constant: "constant", ast.Name: "name", ast.Splat: "splat", ast.ListExpr: "list_expr",
    ast.Field: "field", ast.Index: "index", ast.Call: "call", ast.MethodCall: "method",
    ast.Unary: "unary", ast.Binary: "binary", ast.Case: "case", ast.ForAll: "for_all",
    ast.OpExpr: "make",
}  # fmt: skip


def presence(condition: ast.Expr) -> tuple[str, bool] | None:
    """`x != none` and `x == none`: the name, and whether the condition says that it is present."""
    if not isinstance(condition, ast.Binary) or condition.operator not in ("==", "!="):
        return None
    name, other = condition.left, condition.right
    if _is_none(name):
        name, other = other, name
    if not isinstance(name, ast.Name) or not _is_none(other):
        return None
    return name.name, condition.operator == "!="


def _is_none(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is None


def _known(name: str, facts: Facts) -> bool:
    return name in facts.present
