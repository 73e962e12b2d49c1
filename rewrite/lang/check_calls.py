"""Static checks of calls: functions of the closed set, methods of the target.

In: a call, the signatures of the vocabulary. Out: the kind of its result; diagnostics on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rewrite.errors import Collector
from rewrite.lang import ast
from rewrite.lang.kinds import ANY, TAKEN, WORDS, Info, counts, positional, usage
from rewrite.lang.scope import Facts, Scope
from rewrite.lang.vocabulary import FunctionSignature, Kind, Parameter, Vocabulary
from rewrite.lang.words import operator_suggestion, suggestion


@dataclass
class CallChecker:
    """The part of the expression checker that knows calls.

    `lets` and `local` say what the names are that `let`, `forall` and earlier statements of `emit`
    bind. `emitting`: operators make nodes. `inside_each`: what `each` binds is no list there.
    """

    scope: Scope
    vocabulary: Vocabulary
    errors: Collector
    lets: dict[str, tuple[Info, ast.Expr]] = field(default_factory=dict)
    local: dict[str, Info] = field(default_factory=dict)
    emitting: bool = False
    inside_each: bool = False
    depth: int = 0  # of `let`s looked at again

    def infer(self, expr: ast.Expr, facts: Facts) -> Info:
        """What the expression is. The expression checker fills this in."""
        raise TypeError(f"no check for {type(expr).__name__}")

    def present(self, expr: ast.Expr, facts: Facts) -> Info:
        """The info of an expression that must not be absent."""
        return self.infer(expr, facts)

    def is_target(self, name: str) -> bool:
        return name == "target" and name not in self.scope.bindings and name not in self.lets

    def call(self, expr: ast.Call, facts: Facts) -> Info:
        signature = self.vocabulary.functions.get(expr.function)
        if signature is None:
            hint = suggestion(expr.function, self.vocabulary.functions)
            operator = expr.function.capitalize()
            if hint is None and self.vocabulary.schemas("", operator):
                hint = f"the operator is `{operator}(...)`, in `match` and `emit` only"
            self.errors.add("RW262", f"there is no function `{expr.function}`", expr.span, hint)
            self._infer_all(expr, facts)
            return ANY
        if signature.makes and not self.makes_nodes():
            message = f"`{signature.name}` makes nodes"
            hint = "call it in `emit`, not in what is computed before"
            self.errors.add("RW260", message, expr.span, hint)
        self.arguments(signature, expr, facts)
        return Info(signature.result)

    def makes_nodes(self) -> bool:
        """Whether nodes can be made here; the checker of `emit` fills this in."""
        return False

    def _infer_all(self, expr: ast.Call, facts: Facts) -> None:
        for argument in (*expr.arguments, *(value for _, value in expr.keywords)):
            self.infer(argument, facts)

    def arguments(self, signature: FunctionSignature, expr: ast.Call, facts: Facts) -> None:
        parameters = signature.parameters
        given: list[str] = []
        spread = any(isinstance(a, ast.Splat) for a in expr.arguments)
        for i, argument in enumerate(expr.arguments):
            parameter = positional(parameters, i)
            if parameter is None:
                message = f"`{signature.name}` takes {counts(parameters)}, not {i + 1} or more"
                self.errors.add("RW263", message, argument.span, usage(signature))
                return
            given.append(parameter.name)
            self.argument(parameter, argument, facts)
        by_name = {p.name: p for p in parameters}
        for word, argument in expr.keywords:
            known = by_name.get(word)
            if known is None or word in given:
                wrong = "is given twice" if known is not None else "is not a parameter"
                message = f"`{word}` {wrong} of `{signature.name}`"
                self.errors.add("RW263", message, argument.span, usage(signature))
                continue
            given.append(word)
            self.argument(known, argument, facts)
        for parameter in parameters:
            left_out = parameter.optional or parameter.variadic or parameter.name in given
            if not left_out and not spread:
                message = f"`{signature.name}` needs its argument `{parameter.name}`"
                self.errors.add("RW263", message, expr.span, usage(signature))

    def argument(self, parameter: Parameter, expr: ast.Expr, facts: Facts) -> None:
        takes_absent = parameter.optional or parameter.nullable
        if takes_absent and self.infer(expr, facts).absent in ("optional", "none"):
            return
        self.demand(parameter.kind, expr, facts, f"`{parameter.name}`")

    def demand(self, kind: Kind, expr: ast.Expr, facts: Facts, what: str) -> None:
        """Report an expression that cannot be of this kind."""
        info = self.present(expr, facts)
        if info.kind in TAKEN[kind]:
            return
        if info.kind == "value":
            self.not_constant(expr)
        elif info.kind == "list" and kind != "list":
            message = f"{what} is {WORDS[kind]}, this is a list"
            self.errors.add("RW226", message, expr.span, "take one element: `xs[0]`")
        elif kind == "list":
            message = f"{what} is a list, this is {WORDS[info.kind]}"
            self.errors.add("RW227", message, expr.span, "write `[a]` for a list of one")
        else:
            message = f"{what} is {WORDS[kind]}, this is {WORDS[info.kind]}"
            self.errors.add("RW264", message, expr.span)

    def method(self, expr: ast.MethodCall, facts: Facts) -> Info:
        methods = self.vocabulary.target_methods
        if not self.is_target(expr.base) or expr.method not in methods:
            hint = suggestion(expr.method, methods) or f"a target has {', '.join(methods)}"
            if not self.is_target(expr.base):
                hint = f"write `{expr.method}({expr.base}, ...)`; only `target` has methods"
            message = f"there is no method `{expr.base}.{expr.method}`"
            self.errors.add("RW262", message, expr.span, hint)
            return ANY
        signature = methods[expr.method]
        needed = sum(not p.optional for p in signature.parameters)
        if not needed <= len(expr.arguments) <= len(signature.parameters):
            message = f"`{expr.method}` takes {counts(signature.parameters)}"
            self.errors.add("RW263", message, expr.span, usage(signature))
        for parameter, argument in zip(signature.parameters, expr.arguments, strict=False):
            self.method_argument(parameter, argument, facts)
        return Info(signature.result)

    def method_argument(
        self, parameter: Parameter, argument: ast.Expr | ast.OpName, facts: Facts
    ) -> None:
        if isinstance(argument, ast.OpName):
            domain = self.vocabulary.domains.get(argument.prefix)
            if parameter.kind != "operator":
                message = f"nothing is named `{argument.name}`"
                self.errors.add("RW220", message, argument.span)
            elif domain is None:
                message = f"there is no operator prefix `{argument.prefix}`"
                self.errors.add("RW202", message, argument.span)
            elif not self.vocabulary.schemas(domain, argument.name):
                written = f"{argument.prefix}.{argument.name}".lstrip(".")
                message = f"there is no operator {written}"
                hint = operator_suggestion(written, self.vocabulary.operators())
                self.errors.add("RW203", message, argument.span, hint)
        elif parameter.kind == "operator":
            message = f"`{parameter.name}` is an operator, such as `Gelu` or `ms.Gelu`"
            self.errors.add("RW264", message, argument.span)
        else:
            self.demand(parameter.kind, argument, facts, f"`{parameter.name}`")

    def not_constant(self, expr: ast.Expr) -> None:
        name = f"`{expr.name}`" if isinstance(expr, ast.Name) else "this"
        message = f"the content of {name} is not known: it is not constant"
        hint = "match it with `: const`; of other values only shape, dtype and uses are known"
        self.errors.add("RW265", message, expr.span, hint)
