"""`DQ(X)`, `Q(p)` and the fields of their codes, in terms of operators and functions.

In: a rule whose pattern calls are expanded. Out: the same rule without `Dequantized`, `Quantized`
and fields of codes. What a field stands for:

    X.scale   the operand              X__scale
    X.zp      the operand, or zeros    X__zp ?? zeros(shape(X__scale), dtype(X))
    X.axis    counted from the front   dq__axis(X, X__scale, X__axis, X__block), none if per tensor
    X.block   the block size, or 0     X__block ?? 0

Constraints become conditions: of the branch of an alternative or the `each` that they stand in,
else of the rule. A rule that asks for `.scale` or `.zp` has to say or ask which elements each scale
belongs to (RW233).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from rewrite.errors import Collector, Span
from rewrite.lang import ast
from rewrite.lang.check_patterns import check_dtypes
from rewrite.lang.quantized_words import AXIS, FIELDS, GRANULARITIES, SAME_AXIS, unnamed
from rewrite.lang.walk import nodes, own_names, replace_nodes
from rewrite.schema import DTYPE_CLASSES, DTYPES

_GRANULAR = {"per_axis": ("axis",), "blocked": ("axis", "block")}
Statement = ast.MatchStatement | ast.EachStatement


def expand_quantized(rule: ast.Rule, errors: Collector) -> ast.Rule:
    """The rule with every `DQ` and `Q` as an operator."""
    if not any(_is_quantized(n) for s in rule.match for n in nodes(s)):
        return rule
    return _Quantizer(rule, errors).run()


def expand_fields(rule: ast.Rule) -> ast.Rule:
    """Conditions added later, by `refine`, with fields of codes expanded."""
    return _with_fields(rule, {})


def _is_quantized(node: ast.Node) -> bool:
    return isinstance(node, ast.Dequantized | ast.Quantized)


@dataclass
class _Quantizer:
    rule: ast.Rule
    errors: Collector
    aliases: dict[str, str] = field(default_factory=dict)  # codes of `Q` -> name of the statement
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # name -> granularities left
    places: dict[str, Span] = field(default_factory=dict)
    conditions: list[ast.Expr] = field(default_factory=list)  # of what is looked at
    count: int = 0

    def run(self) -> ast.Rule:
        rule = self.rule
        self.roots = frozenset(n for s in rule.emit for n in s.names)
        statements = [self._renamed(s) for s in rule.match]
        self.asked = _asked(rule, self.aliases)
        match: list[Statement] = []
        wheres: list[ast.Where] = []
        for statement in statements:
            self.conditions = []
            match.append(self._statement(statement))
            wheres += [ast.Where(c.span, c) for c in self.conditions]
        rule = replace(rule, match=tuple(match), steps=(*wheres, *rule.steps))
        self._demand_granularity(rule)
        return _with_fields(rule, self.aliases)

    # --- names of what `Q` makes

    def _renamed(self, statement: Statement) -> Statement:
        """The statement, its name for a second one where it has none itself."""
        for node in _tops(statement.pattern):
            if not isinstance(node, ast.Quantized) or node.codes is None:
                continue
            name = node.codes.name
            if name == "_" and not (statement_name(statement) == "_" and _has_axis(node.codes)):
                continue
            name = self._base(name)
            if isinstance(statement, ast.MatchStatement) and statement.names[0] == "_":
                statement = replace(statement, names=(name, *statement.names[1:]))
            own = statement_name(statement)
            if self.aliases.setdefault(name, own) != own:
                message = f"`{name}` names the codes of two statements"
                self.errors.add("RW221", message, node.codes.span, "choose another name")
        return statement

    # --- patterns

    def _statement(self, statement: Statement) -> Statement:
        name = statement_name(statement)
        pattern = self._top(statement.pattern, name)
        if isinstance(statement, ast.MatchStatement):
            return replace(statement, pattern=pattern)
        guard = _all_of(statement.guard, self.conditions)
        self.conditions = []
        return replace(statement, pattern=pattern, guard=guard)

    def _top(self, pattern: ast.Pattern, name: str) -> ast.Pattern:
        if isinstance(pattern, ast.Quantized):
            return self._quantize(pattern, name)
        if isinstance(pattern, ast.Dequantized):
            return self._dequantize(pattern, shared=name not in self.roots)
        if isinstance(pattern, ast.Alternatives):
            branches = tuple(self._branch(b, name) for b in pattern.branches)
            return replace(pattern, branches=branches)
        return self._inner(pattern)

    def _branch(self, branch: ast.Alternative, name: str | None) -> ast.Alternative:
        outer, self.conditions = self.conditions, []
        inner = branch.pattern
        made = self._inner(inner) if name is None else self._top(inner, name)
        guard = _all_of(branch.guard, self.conditions)
        self.conditions = outer
        return replace(branch, pattern=made, guard=guard)

    def _inner(self, pattern: ast.Pattern) -> ast.Pattern:
        if isinstance(pattern, ast.Dequantized):
            return self._dequantize(pattern, shared=True)
        if isinstance(pattern, ast.Quantized):
            hint = "name it in a match statement of its own: `q = Q(p)`"
            message = "`Q` cannot be an operand"
            self.errors.add("RW232", message, pattern.span, hint)
            return ast.Variable(pattern.span, "_")
        if isinstance(pattern, ast.OpPattern):
            return replace(pattern, operands=tuple(map(self._inner, pattern.operands)))
        if isinstance(pattern, ast.Bag):
            return replace(pattern, items=tuple(map(self._inner, pattern.items)))
        if isinstance(pattern, ast.Chain):
            return replace(pattern, start=self._inner(pattern.start))
        if isinstance(pattern, ast.Alternatives):
            branches = tuple(self._branch(b, None) for b in pattern.branches)
            return replace(pattern, branches=branches)
        return pattern

    def _dequantize(self, pattern: ast.Dequantized, shared: bool) -> ast.Pattern:
        span, codes = pattern.span, pattern.codes
        name = self._base(self.aliases.get(codes.name, codes.name))
        outer, self.conditions = self.conditions, []
        type_ = codes.type
        groups = None if type_ is None else type_.granularity
        plain = replace(codes, optional=False, type=_without_groups(type_))
        if codes.name in self.aliases or _has_axis(codes):
            plain = replace(plain, name=name)
        made = self._operator(span, "DequantizeLinear", name, plain, groups)
        made = replace(made, shared=shared)
        self._zero_point(span, name, pattern.zp)
        own, self.conditions = self.conditions, outer
        if not codes.optional:
            self.conditions += own
            return made
        absent = ast.Alternative(span, ast.Absent(span), None, None)
        present = ast.Alternative(span, made, None, _all_of(None, own))
        return ast.Alternatives(span, (present, absent))

    def _quantize(self, pattern: ast.Quantized, statement: str) -> ast.Pattern:
        name = self._base(statement)
        type_ = None if pattern.codes is None else pattern.codes.type
        groups = None if type_ is None else type_.granularity
        operand = self._inner(pattern.operand)
        made = self._operator(pattern.span, "QuantizeLinear", name, operand, groups)
        if type_ is not None and type_.dtypes is not None and name != statement:
            message = "the codes have an element type and no name"
            self.errors.add("RW121", message, pattern.span, "name the statement: `q = Q(p, u8)`")
        elif type_ is not None and type_.dtypes is not None:
            check_dtypes(type_, self.errors)
            self.conditions.append(_dtype_test(type_.span, name, type_.dtypes))
        self._zero_point(pattern.span, name, pattern.zp)
        return made

    def _base(self, name: str) -> str:
        if name != "_":
            return name
        self.count += 1
        return unnamed(self.count)

    def _operator(
        self,
        span: Span,
        operator: str,
        name: str,
        operand: ast.Pattern,
        groups: tuple[ast.Granularity, ...] | None,
    ) -> ast.OpPattern:
        const = ast.TypePattern(span, True, None, None)
        scale = ast.Variable(span, f"{name}__scale", type=const)
        zero_point = ast.Variable(span, f"{name}__zp", optional=True, type=const)
        kinds = GRANULARITIES if groups is None else tuple(dict.fromkeys(g.kind for g in groups))
        axis_known = groups is not None and all(
            g.kind == "per_tensor" or g.axis is not None for g in groups
        )
        left = kinds if not axis_known else tuple(k for k in kinds if k == "blocked")
        self.codes[name] = tuple(k for k in self.codes.get(name, GRANULARITIES) if k in left)
        self.places.setdefault(name, span)
        if groups is not None and not _is_any_vector(groups):
            tests = [_granularity_test(span, name, g, groups) for g in groups]
            self.conditions.append(_joined("or", tests))
        attributes = [
            ast.AttributePattern(span, "axis", bind=f"{name}__axis"),
            ast.AttributePattern(span, "block_size", bind=f"{name}__block")
            if "blocked" in kinds
            else ast.AttributePattern(span, "block_size", values=(0,)),
            ast.AttributePattern(span, "output_dtype", ignored=True),
        ]
        if operator == "QuantizeLinear":
            # The type of the division: 0 is that of the scale, 1 is float32, as runtimes divide.
            attributes.append(ast.AttributePattern(span, "precision", values=(0, 1)))
            attributes.append(ast.AttributePattern(span, "saturate", values=(1,)))
        op = ast.OpName(span, "", operator)
        operands = (operand, scale, zero_point)
        return ast.OpPattern(span, op, operands, tuple(attributes), also=("ms",))

    # --- conditions

    def _zero_point(self, span: Span, name: str, number: int | None) -> None:
        if number is not None:
            zero = ast.Constant(span, 0, "0")
            given = ast.Binary(span, "??", ast.Name(span, f"{name}__zp"), zero)
            wanted = ast.Constant(span, number, str(number))
            self.conditions.append(ast.Binary(span, "==", given, wanted))

    def _demand_granularity(self, rule: ast.Rule) -> None:
        """What a scale belongs to is either fixed by the pattern, or asked for, or carried."""
        carried = {n for e in rule.emit for node in nodes(e) for n in _carries(node)}
        for name, left in self.codes.items():
            used = {f for n, f in self.asked if n == name}
            if not used & {"scale", "zp"} or self._is_carried(name, carried):
                continue
            missing = [f for kind in left for f in _GRANULAR.get(kind, ()) if f not in used]
            if not missing:
                continue
            fields = " and ".join(f"`{name}.{f}`" for f in dict.fromkeys(missing))
            message = f"which elements a scale of `{name}` belongs to is left open"
            hint = f"constrain it by `per_tensor` or `per_axis(a)`, or ask for {fields}"
            self.errors.add("RW233", message, self.places[name], hint)

    def _is_carried(self, name: str, carried: set[str]) -> bool:
        for statement in self.rule.match:
            own = statement_name(statement)
            for top in _tops(statement.pattern):
                codes = getattr(top, "codes", None)
                mine = {own, getattr(codes, "name", own)}
                if own in carried and name in mine:
                    return True
        return False


# --- parts --------------------------------------------------------------------------------------


def statement_name(statement: Statement) -> str:
    return statement.names[0] if isinstance(statement, ast.MatchStatement) else statement.name


def _tops(pattern: ast.Pattern) -> list[ast.Pattern]:
    if isinstance(pattern, ast.Alternatives):
        return [top for branch in pattern.branches for top in _tops(branch.pattern)]
    return [pattern]


def _carries(node: ast.Node) -> tuple[str, ...]:
    if not isinstance(node, ast.OpExpr):
        return ()
    return (*node.carry, node.op.name) if node.op.prefix == "@" else node.carry


def _dtype_test(span: Span, name: str, dtypes: tuple[str, ...]) -> ast.Expr:
    wanted = [d for d in DTYPES if any(d == n or d in DTYPE_CLASSES.get(n, ()) for n in dtypes)]
    dtype = ast.Call(span, "dtype", (ast.Name(span, name),))
    names = tuple(ast.Name(span, d) for d in wanted)
    return ast.Binary(span, "in", dtype, ast.ListExpr(span, names))


def _has_axis(codes: ast.Variable) -> bool:
    """Whether an axis is asked for: the test counts it from the front by the rank of the codes."""
    groups = () if codes.type is None else codes.type.granularity or ()
    return any(group.axis is not None for group in groups)


def _without_groups(pattern: ast.TypePattern | None) -> ast.TypePattern | None:
    if pattern is None:
        return None
    if not pattern.const and pattern.dtypes is None and pattern.shape is None:
        return None
    return replace(pattern, granularity=None)


def _is_any_vector(groups: Iterable[ast.Granularity]) -> bool:
    """Whether one scale or several will do, along any axis: what is not blocked."""
    free = {g.kind for g in groups if g.axis is None}
    return {"per_tensor", "per_axis"} <= free


def _granularity_test(
    span: Span, name: str, group: ast.Granularity, groups: Iterable[ast.Granularity]
) -> ast.Expr:
    blocks = any(g.kind == "blocked" for g in groups)
    size = ast.Binary(span, "??", ast.Name(span, f"{name}__block"), ast.Constant(span, 0, "0"))
    zero = ast.Constant(span, 0, "0")
    if group.kind == "blocked":
        return ast.Binary(span, "!=", size, zero)
    one: ast.Expr = ast.Call(span, "is_scalar", (ast.Name(span, f"{name}__scale"),))
    whole: list[ast.Expr] = [ast.Binary(span, "==", size, zero)] if blocks else []
    if group.kind == "per_tensor":
        return _joined("and", [*whole, one])
    tests = [*whole, ast.Unary(span, "not", one)]
    if group.axis is not None:
        wanted = ast.Constant(span, group.axis, str(group.axis))
        arguments = (ast.Name(span, name), ast.Name(span, f"{name}__axis"), wanted)
        tests.append(ast.Call(span, SAME_AXIS, arguments))
    return _joined("and", tests)


def _joined(operator: str, tests: list[ast.Expr]) -> ast.Expr:
    found = tests[0]
    for test in tests[1:]:
        found = ast.Binary(found.span, operator, found, test)
    return found


def _all_of(guard: ast.Expr | None, conditions: list[ast.Expr]) -> ast.Expr | None:
    tests = [*([] if guard is None else [guard]), *conditions]
    return _joined("and", tests) if tests else None


# --- fields and second names --------------------------------------------------------------------


def _asked(rule: ast.Rule, aliases: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """The fields that the rule asks for, by the name of the codes."""
    found = set()
    for node in nodes(rule):
        if isinstance(node, ast.Field) and isinstance(node.base, ast.Name):
            name = node.base.name
            found.add((aliases.get(name, name), node.name))
    return frozenset(found)


def _with_fields(rule: ast.Rule, aliases: Mapping[str, str]) -> ast.Rule:
    """Fields of codes expanded. `replace_nodes` goes from the inside out."""
    bound = frozenset(n for s in rule.match for node in nodes(s) for n in own_names(node))

    def change(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Field) and isinstance(node.base, ast.Name):
            known = f"{node.base.name}__scale" in bound and node.name in FIELDS
            return _field(node.span, node.base.name, node.name, bound) if known else node
        return _unaliased(node, aliases)

    result = replace_nodes(rule, change)
    assert isinstance(result, ast.Rule)
    return result


def _unaliased(node: ast.Node, aliases: Mapping[str, str]) -> ast.Node:
    """References to a second name, as references to the first."""
    if not aliases:
        return node
    if isinstance(node, ast.Name | ast.Splat | ast.Variable) and node.name in aliases:
        return replace(node, name=aliases[node.name])
    if isinstance(node, ast.CaseArm) and node.name is not None and node.name in aliases:
        return replace(node, name=aliases[node.name])
    if isinstance(node, ast.Where) and node.when is not None and node.when in aliases:
        return replace(node, when=aliases[node.when])
    if isinstance(node, ast.EmitStatement) and any(n in aliases for n in node.names):
        return replace(node, names=tuple(aliases.get(n, n) for n in node.names))
    if isinstance(node, ast.Group) and node.value in aliases:
        return replace(node, value=aliases[node.value])
    if isinstance(node, ast.OpExpr) and any(n in aliases for n in _carries(node)):
        op = node.op
        if op.prefix == "@":
            op = replace(op, name=aliases.get(op.name, op.name))
        return replace(node, op=op, carry=tuple(aliases.get(n, n) for n in node.carry))
    return node


def _field(span: Span, name: str, what: str, bound: frozenset[str]) -> ast.Expr:
    scale = ast.Name(span, f"{name}__scale")
    zero = ast.Constant(span, 0, "0")
    if what == "scale":
        return scale
    if what == "block":
        block = f"{name}__block"
        return ast.Binary(span, "??", ast.Name(span, block), zero) if block in bound else zero
    value = ast.Name(span, name)
    if what == "axis":
        axis = ast.Name(span, f"{name}__axis")
        return ast.Call(span, AXIS, (value, scale, axis))
    like = (ast.Call(span, "shape", (scale,)), ast.Call(span, "dtype", (value,)))
    return ast.Binary(span, "??", ast.Name(span, f"{name}__zp"), ast.Call(span, "zeros", like))
