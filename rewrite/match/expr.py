"""Expressions of rule text as Python closures.

In: a checked `ast.Expr`. Out: a function from `Env` to the value. No text is ever evaluated: each
node of the tree becomes a closure over its parts.

`and`, `or` and `not` are Kleene's: an operand that is unknown does not matter where the other one
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rewrite.errors import error
from rewrite.lang import ast
from rewrite.match import budget
from rewrite.match.builtins import registry
from rewrite.match.operators import binary, compare, decided, member, negative
from rewrite.match.targets import FIELDS, METHODS
from rewrite.match.values import ElementType, Env, Unknown
from rewrite.schema import DOMAINS, DTYPES

Closure = Callable[[Env], object]


def compile_expr(expr: ast.Expr) -> Closure:
    """The meaning of an expression that makes no nodes."""
    compiler = _COMPILERS.get(type(expr))
    if compiler is None:
        raise error("RW260", "nodes are made only by `emit`", expr.span)
    return compiler(expr)


def compile_condition(expr: ast.Expr) -> Callable[[Env], bool]:
    """The expression as a truth value; raises `Unknown` where it cannot be told."""
    closure = compile_expr(expr)
    return lambda env: registry.to_bool(env, closure(env))


def _constant(expr: ast.Constant) -> Closure:
    value = expr.value
    return lambda env: value


def _name(expr: ast.Name) -> Closure:
    name = expr.name
    if name in DTYPES:
        element_type = ElementType(name)
        return lambda env: env.names.get(name, element_type)
    return lambda env: env.lookup(name)


def _list(expr: ast.ListExpr) -> Closure:
    items = _arguments(expr.items)
    return lambda env: items(env)


def _arguments(exprs: tuple[ast.Expr, ...]) -> Callable[[Env], tuple[object, ...]]:
    """The values of arguments in a row, `*xs` spread."""
    if not any(isinstance(e, ast.Splat) for e in exprs):
        closures = tuple(compile_expr(e) for e in exprs)
        return lambda env: tuple([c(env) for c in closures])
    parts = tuple(_part(e) for e in exprs)
    return lambda env: tuple([item for part in parts for item in part(env)])


def _part(expr: ast.Expr) -> Callable[[Env], tuple[object, ...]]:
    if not isinstance(expr, ast.Splat):
        closure = compile_expr(expr)
        return lambda env: (closure(env),)
    name = expr.name

    def spread(env: Env) -> tuple[object, ...]:
        return registry.to_items(env, env.lookup(name))

    return spread


def _field(expr: ast.Field) -> Closure:
    if isinstance(expr.base, ast.Name) and expr.base.name == "target":
        read = FIELDS.get(expr.name)
        if read is None:
            raise error("RW261", f"a target has no field `{expr.name}`", expr.span)
        return read
    if expr.name not in ("shape", "dtype", "rank"):
        raise error("RW261", f"a value has no field `{expr.name}`", expr.span)
    base, call = compile_expr(expr.base), registry.find(expr.name).call
    return lambda env: call(env, (base(env),), {})


def _index(expr: ast.Index) -> Closure:
    base = compile_expr(expr.base)
    start = compile_expr(expr.start) if expr.start is not None else None
    stop = compile_expr(expr.stop) if expr.stop is not None else None

    def place(env: Env, closure: Closure | None) -> int | None:
        return None if closure is None else registry.to_int(env, closure(env))

    def item(env: Env) -> object:
        sequence, i = registry.to_items(env, base(env)), place(env, start)
        if i is None or not -len(sequence) <= i < len(sequence):
            raise Unknown(f"place {i} is not within a list of {len(sequence)}")
        return sequence[i]

    def part(env: Env) -> object:
        return registry.to_items(env, base(env))[slice(place(env, start), place(env, stop))]

    return part if expr.is_slice else item


def _call(expr: ast.Call) -> Closure:
    try:
        call = registry.find(expr.function).call
    except KeyError:
        raise error("RW262", f"there is no function `{expr.function}`", expr.span) from None
    arguments = _arguments(expr.arguments)
    keywords = {name: compile_expr(value) for name, value in expr.keywords}
    if not keywords:
        return lambda env: call(env, arguments(env), {})
    return lambda env: call(env, arguments(env), {k: c(env) for k, c in keywords.items()})


def _method(expr: ast.MethodCall) -> Closure:
    method = METHODS.get(expr.method)
    if expr.base != "target" or method is None:
        raise error("RW262", f"there is no method `{expr.base}.{expr.method}`", expr.span)
    closures = tuple(
        _operator_name(a) if isinstance(a, ast.OpName) else compile_expr(a) for a in expr.arguments
    )
    return lambda env: method.call(env, tuple([c(env) for c in closures]))


def _operator_name(name: ast.OpName) -> Closure:
    operator = (DOMAINS[name.prefix], name.name)
    return lambda env: operator


def _unary(expr: ast.Unary) -> Closure:
    if expr.operator == "not":
        condition = compile_condition(expr.operand)
        return lambda env: not condition(env)
    operand = compile_expr(expr.operand)
    return lambda env: negative(operand(env), env)


def _binary(expr: ast.Binary) -> Closure:
    symbol = expr.operator
    if symbol in ("and", "or"):
        return _kleene(expr)
    left, right = compile_expr(expr.left), compile_expr(expr.right)
    if symbol == "??":

        def present(env: Env) -> object:
            found = left(env)
            return right(env) if found is None else found

        return present
    if symbol == "in":
        return lambda env: member(left(env), right(env))
    if symbol == "not in":
        return lambda env: not member(left(env), right(env))
    if symbol in ("==", "!=", "<", "<=", ">", ">="):
        return lambda env: compare(symbol, left(env), right(env), env)
    return lambda env: binary(symbol, left(env), right(env), env)


def _kleene(expr: ast.Binary) -> Closure:
    sides = compile_condition(expr.left), compile_condition(expr.right)
    if expr.operator == "or":
        return lambda env: decided(lambda side: side(env), sides)
    return lambda env: not decided(lambda side: not side(env), sides)


def _case(expr: ast.Case) -> Closure:
    arms = tuple((arm.name, compile_expr(arm.value)) for arm in expr.arms)

    def choose(env: Env) -> object:
        for name, value in arms:
            if name is None or env.holds(name):
                return value(env)
        raise Unknown("no arm of the case holds")

    return choose


def _for_all(expr: ast.ForAll) -> Closure:
    over, condition, name = compile_expr(expr.over), compile_condition(expr.condition), expr.name

    def fails(env: Env, item: object) -> bool:
        budget.spend(budget.PER_CALL)
        return not condition(env.bound(name, item))

    def hold(env: Env) -> bool:
        items = registry.to_items(env, over(env))
        return not decided(lambda item: fails(env, item), items)

    return hold


def names_in(expr: ast.Expr) -> frozenset[str]:
    """The names that an expression reads, `case` arms and `forall` lists included."""
    found: set[str] = set()
    _collect(expr, found)
    return frozenset(found)


def _collect(part: object, found: set[str]) -> None:
    if isinstance(part, tuple):
        for item in part:
            _collect(item, found)
        return
    if isinstance(part, (ast.Name, ast.Splat)):
        found.add(part.name)
    elif isinstance(part, ast.CaseArm):
        if part.name is not None:
            found.add(part.name)
        _collect(part.value, found)
    elif isinstance(part, ast.ForAll):
        inner: set[str] = set()
        _collect(part.condition, inner)
        found |= inner - {part.name}
        _collect(part.over, found)
    elif isinstance(part, ast.Node):
        for slot in part.__dataclass_fields__:
            if slot != "span":
                _collect(getattr(part, slot), found)


_COMPILERS: Mapping[type[ast.Expr], Callable[..., Closure]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.ListExpr: _list,
    ast.Field: _field,
    ast.Index: _index,
    ast.Call: _call,
    ast.MethodCall: _method,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.Case: _case,
    ast.ForAll: _for_all,
}
