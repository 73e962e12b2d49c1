"""A checked rule becomes a pattern: names resolved, anchor and order of statements decided.

In: `ast.Rule` without pattern calls, the `Vocabulary`. Out: `CompiledRule`. `lang.check` has found
what authors do wrong; what is raised here (RW270) are patterns that cannot be ordered or anchored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rewrite.errors import RewriteError, Span, error
from rewrite.lang import ast
from rewrite.lang.opsets import opset_range
from rewrite.lang.printer import print_pattern
from rewrite.lang.versions import Range
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.walk import nodes
from rewrite.match import form as f
from rewrite.match.operators import COMPARE
from rewrite.match.rule import CompiledRule, Source
from rewrite.schema import DTYPE_CLASSES, DTYPES, OLDEST_OPSET, OpSchema


def compile_rule(
    rule: ast.Rule, vocabulary: Vocabulary, opset: Range | None = None
) -> CompiledRule:
    """The rule in the form that is matched. `opset` is the range of the pack."""
    pattern = _Compiler(rule, vocabulary).pattern()
    anchor = pattern.statements[pattern.anchor]
    above, aside = _asks_beyond(rule, pattern)
    ways = _ways_to(anchor.over, anchor.form) if isinstance(anchor, f.Each) else None
    return CompiledRule(
        name=rule.name,
        phase=rule.phase,
        opset=_opset(rule, vocabulary, opset or (OLDEST_OPSET, vocabulary.newest_opset)),
        anchors=pattern.anchors,
        size=pattern.size,
        radius=pattern.radius + above,
        sideways=bool(pattern.forward) or isinstance(anchor, f.Each) or aside,
        siblings=anchor.least if isinstance(anchor, f.Each) and ways else 0,
        shared=ways or (),
        over=rule.over,
        roots=pattern.roots,
        source=Source.of(rule, pattern),
    )


# Claims for which a number in a pattern is that number: nothing is left for it to be off by.
_EXACT = ("exact", "certified")

# Functions that ask about nodes which the pattern does not match.
_ASK_ABOVE = frozenset({"op", "operand", "attribute"})
_ASK_ASIDE = frozenset({"uses", "used_by", "is_output"})


def _asks_beyond(rule: ast.Rule, pattern: f.Pattern) -> tuple[int, bool]:
    """How many nodes above the matched ones conditions ask about; whether they ask about users."""
    exprs = [*(s.condition if isinstance(s, ast.Where) else s.value for s in rule.steps)]
    calls = [
        node.function
        for expr in (*exprs, *pattern.guards)
        for node in nodes(expr)
        if isinstance(node, ast.Call)
    ]
    above = sum(name in _ASK_ABOVE for name in calls)
    return min(above, 4), any(name in _ASK_ASIDE for name in calls)


def _ways_to(name: str, form: f.Form, most: int = 16) -> tuple[tuple[int, ...], ...] | None:
    """Where a value lies above a node: places of operands, one after the other.

    None where it may be elsewhere, or there are more than `most` places.
    """
    if isinstance(form, f.Choice):
        parts = [_ways_to(name, branch.form, most) for branch in form.branches]
        known = [part for part in parts if part is not None]
        found = tuple(dict.fromkeys(way for part in known for way in part))
        return found if len(known) == len(parts) and len(found) <= most else None
    if isinstance(form, (f.Any, f.Reference)):
        return ((),) if form.name == name else ()
    if not isinstance(form, f.Op) or form.rest is not None or (form.commutes and form.variadic):
        return () if isinstance(form, (f.Number, f.Absent)) else None
    ways: dict[tuple[int, ...], None] = {}
    for place, operand in enumerate(form.operands):
        inner = _ways_to(name, operand, most)
        if inner is None:
            return None
        places = range(2) if form.commutes and place < 2 else (place,)
        ways.update(dict.fromkeys((i, *way) for i in places for way in inner))
    return tuple(ways) if len(ways) <= most else None


def _opset(rule: ast.Rule, vocabulary: Vocabulary, pack: Range) -> Range:
    """The opsets at which the rule may be used."""
    found = opset_range(rule, vocabulary, pack)
    if found is None:
        raise _refuse("no opset has what the rule emits", rule.span)
    return found


def _refuse(message: str, span: Span, hint: str | None = None) -> RewriteError:
    return error("RW270", message, span, hint)


@dataclass
class _Compiler:
    rule: ast.Rule
    vocabulary: Vocabulary
    owner: dict[str, int] = field(default_factory=dict)  # name -> statement it names
    guards: list[ast.Expr] = field(default_factory=list)
    count: int = 0

    def pattern(self) -> f.Pattern:
        rule = self.rule
        for i, statement in enumerate(rule.match):
            if isinstance(statement, ast.MatchStatement):
                self.owner.update({n: i for n in statement.names if n != "_"})
        statements = tuple(self._statement(i, s) for i, s in enumerate(rule.match))
        roots = self._roots()
        anchor = len(statements) - 1
        anchors = f.tops(statements[anchor].form, statements)
        if not anchors:
            raise _refuse("the last statement must be an operator", statements[anchor].span)
        order = _Order(statements)
        forward = order.forward(anchor)
        forms = tuple(x for s in statements for x in f.walk(s.form))
        return f.Pattern(
            statements=statements,
            anchor=anchor,
            anchors=anchors,
            forward=forward,
            roots=roots,
            names=_names(statements),
            branches=_branch_names(forms),
            exact=rule.claim.kind in _EXACT,
            size=sum(isinstance(x, f.Op) for x in forms)
            + sum(len(x.items) - 1 for x in forms if isinstance(x, f.Bag))
            + sum(x.least for x in forms if isinstance(x, f.Chain)),
            radius=order.depth(anchor)
            + sum(s.reach + order.depth(s.statement) for s in forward)
            + getattr(statements[anchor], "reach", 0),
            forms=tuple(sorted(forms, key=lambda x: x.index)),
            guards=tuple(self.guards),
        )

    def _attribute(self, pattern: ast.AttributePattern, several: bool) -> f.AttributeTest:
        """`several`: some of the operators that may match do not have the attribute at all."""
        bind = None if pattern.bind == "_" else pattern.bind
        limits = () if bind is None else tuple(_limits(bind, self.rule.steps))
        values: tuple[object, ...] | None = pattern.values
        if values is not None and several:
            values = (*values, None)
        return f.AttributeTest(pattern.name, bind, values, limits, pattern.span)

    def _roots(self) -> tuple[str, ...]:
        rule = self.rule
        if rule.group is not None and not rule.emit:
            return (rule.group.value,)
        each = {s.name for s in rule.match if isinstance(s, ast.EachStatement)}
        names = [n for s in rule.emit for n in s.names]
        return tuple(dict.fromkeys(n for n in names if n in self.owner or n in each))

    def _statement(
        self, index: int, statement: ast.MatchStatement | ast.EachStatement
    ) -> f.Statement:
        if isinstance(statement, ast.EachStatement):
            return self._each(index, statement)
        names = tuple(None if n == "_" else n for n in statement.names)
        form = self._form(statement.pattern)
        if len(names) > 1 and not isinstance(form, f.Op):
            raise _refuse("several names need an operator on the right", statement.span)
        return f.Statement(index, names, form, statement.span)

    def _each(self, index: int, statement: ast.EachStatement) -> f.Each:
        form = self._form(statement.pattern)
        bound = dict.fromkeys(n for x in f.walk(form) for n in form_names(x))
        inner = tuple(n for n in bound if n != statement.over and n not in self.owner)
        return f.Each(
            index=index,
            names=(statement.name,),
            form=form,
            span=statement.span,
            over=statement.over,
            guard=self._guard(statement.guard),
            least=statement.least,
            most=statement.most,
            inner=inner,
            reach=_height(form),
        )

    # --- forms ---------------------------------------------------------------------------------

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def _form(self, pattern: ast.Pattern) -> f.Form:
        index = self._next()
        span = pattern.span
        if isinstance(pattern, ast.Variable):
            return self._variable(index, pattern)
        if isinstance(pattern, ast.Absent):
            return f.Absent(index, span)
        if isinstance(pattern, ast.Number):
            tolerance = None if pattern.tolerance is None else float(pattern.tolerance)
            exact = self.rule.claim.kind in _EXACT
            return f.Number(index, span, pattern.value, tolerance, exact)
        if isinstance(pattern, ast.OpPattern):
            return self._operator(index, pattern)
        if isinstance(pattern, ast.Bag):
            items = tuple(self._form(p) for p in pattern.items)
            if len(items) < 2:
                raise _refuse(f"{pattern.kind}{{}} needs at least two items", span)
            name = {"prod": "Mul", "sum": "Add"}[pattern.kind]
            return f.Bag(index, span, ("", name), items, _visit_order(items))
        if isinstance(pattern, ast.Alternatives):
            branches = tuple(
                f.Branch(self._form(b.pattern), b.name, self._guard(b.guard))
                for b in pattern.branches
            )
            return f.Choice(index, span, branches)
        if isinstance(pattern, ast.Chain):
            return self._chain(index, pattern)
        raise _refuse(f"`{print_pattern(pattern)}` cannot be matched here", span)

    def _guard(self, guard: ast.Expr | None) -> int | None:
        if guard is None:
            return None
        self.guards.append(guard)
        return len(self.guards) - 1

    def _variable(self, index: int, pattern: ast.Variable) -> f.Form:
        name = None if pattern.name == "_" else pattern.name
        if name is not None and name in self.owner:
            if pattern.optional or pattern.type is not None:
                message = f"`{name}` names a statement and takes no type or `?` here"
                raise _refuse(message, pattern.span)
            return f.Reference(index, pattern.span, name, self.owner[name])
        return f.Any(index, pattern.span, name, pattern.optional, _type_test(pattern.type))

    def _chain(self, index: int, pattern: ast.Chain) -> f.Chain:
        operators = self.vocabulary.classes.get(pattern.klass)
        if operators is None:
            raise _refuse(f"there is no class of operators `{pattern.klass}`", pattern.span)
        start = self._form(pattern.start)
        return f.Chain(
            index, pattern.span, start, pattern.klass, operators, pattern.least, pattern.most
        )

    def _operator(self, index: int, pattern: ast.OpPattern) -> f.Op:
        domain = self.vocabulary.domains.get(pattern.op.prefix)
        if domain is None:
            raise _refuse(f"there is no operator prefix `{pattern.op.prefix}`", pattern.op.span)
        operator = (domain, pattern.op.name)
        schemas = self.vocabulary.schemas(*operator)
        rest = next((p for p in pattern.operands if isinstance(p, ast.Rest)), None)
        operands = tuple(self._form(p) for p in pattern.operands if not isinstance(p, ast.Rest))
        commutes = operator in self.vocabulary.commutative and not pattern.ordered
        return f.Op(
            index=index,
            span=pattern.span,
            operator=operator,
            operands=operands,
            rest=None if rest is None else _rest(rest),
            attributes=tuple(
                self._attribute(a, bool(pattern.also)) for a in pattern.attributes if not a.ignored
            ),
            commutes=commutes,
            variadic=any(p.option == "variadic" for s in schemas for p in s.inputs),
            shared=pattern.shared,
            legacy=_has_legacy(schemas),
            order=_visit_order(operands),
            also=tuple(self.vocabulary.domains[prefix] for prefix in pattern.also),
        )


def _has_legacy(schemas: tuple[OpSchema, ...]) -> bool:
    return any(s.legacy for s in schemas)


def _rest(pattern: ast.Rest) -> f.Rest:
    name = None if pattern.name == "_" else pattern.name
    return f.Rest(name, _type_test(pattern.type), pattern.span)


def _limits(name: str, steps: Iterable[ast.Node]) -> Iterator[f.Limit]:
    """The comparisons of the name with a number among the conditions."""
    for step in steps:
        if not isinstance(step, ast.Where) or step.when is not None:
            continue
        test = step.condition
        if not isinstance(test, ast.Binary) or test.operator not in COMPARE:
            continue
        if not isinstance(test.left, ast.Name) or not isinstance(test.right, ast.Constant):
            continue
        number = test.right.value
        if test.left.name == name and isinstance(number, (int, float)):
            yield test.operator, number


def _type_test(pattern: ast.TypePattern | None) -> f.TypeTest | None:
    if pattern is None:
        return None
    dtypes: frozenset[str] | None = None
    if pattern.dtypes is not None:
        dtypes = frozenset().union(*(_expand(d) for d in pattern.dtypes))
    shape = None if pattern.shape is None else _shape_test(pattern.shape)
    return f.TypeTest(pattern.const, dtypes, shape, _words(pattern))


def _expand(dtype: str) -> frozenset[str]:
    return frozenset({dtype}) if dtype in DTYPES else DTYPE_CLASSES[dtype]


def _shape_test(dims: tuple[ast.DimPattern, ...]) -> f.ShapeTest:
    places = [i for i, d in enumerate(dims) if d.kind == "ellipsis"]
    if len(places) > 1:
        raise _refuse("a shape has one `...` at most", dims[places[1]].span)
    cut = places[0] if places else len(dims)
    front, back = dims[:cut], dims[cut + 1 :]
    name = dims[cut].name if places else None
    return f.ShapeTest(tuple(map(_dim, front)), bool(places), name, tuple(map(_dim, back)))


def _dim(dim: ast.DimPattern) -> f.ShapeDim:
    return f.ShapeDim(dim.size, dim.name if dim.kind == "name" else None)


def _words(pattern: ast.TypePattern) -> str:
    dtypes = "|".join(pattern.dtypes) if pattern.dtypes is not None else ""
    if pattern.shape is None:
        return dtypes
    return f"{dtypes}[{', '.join(_dim_words(d) for d in pattern.shape)}]"


def _dim_words(dim: ast.DimPattern) -> str:
    if dim.kind == "ellipsis":
        return f"{dim.name or ''}..."
    return "_" if dim.kind == "any" else str(dim.size if dim.kind == "size" else dim.name)


def _visit_order(forms: tuple[f.Form, ...]) -> tuple[int, ...]:
    """Literals first (they decide and bind nothing), then operators, then names."""
    return tuple(sorted(range(len(forms)), key=lambda i: (_rank(forms[i]), i)))


def _rank(form: f.Form) -> int:
    if isinstance(form, (f.Absent, f.Number)):
        return 0
    if isinstance(form, (f.Op, f.Reference)):
        return 1
    return 3 if isinstance(form, f.Any) else 2


# --- names and order ---------------------------------------------------------------------------


def form_names(form: f.Form) -> Iterable[str]:
    """The names that this form itself binds, dims and attributes included."""
    if isinstance(form, f.Any):
        if form.name is not None:
            yield form.name
        yield from _type_names(form.type)
    elif isinstance(form, f.Reference):
        yield form.name
    elif isinstance(form, f.Op):
        yield from (a.bind for a in form.attributes if a.bind is not None)
        if form.rest is not None:
            if form.rest.name is not None:
                yield form.rest.name
            yield from _type_names(form.rest.type)


def _type_names(test: f.TypeTest | None) -> Iterable[str]:
    if test is None or test.shape is None:
        return
    shape = test.shape
    yield from (d.name for d in shape.front + shape.back if d.name is not None)
    if shape.name is not None:
        yield shape.name


def _names(statements: tuple[f.Statement, ...]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for statement in statements:
        found.update(dict.fromkeys(n for n in statement.names if n is not None))
        for form in f.walk(statement.form):
            found.update(dict.fromkeys(form_names(form)))
    return tuple(found)


def _branch_names(forms: tuple[f.Form, ...]) -> tuple[str, ...]:
    names = [b.name for x in forms if isinstance(x, f.Choice) for b in x.branches]
    return tuple(dict.fromkeys(n for n in names if n is not None))


def _height(form: f.Form) -> int:
    """The number of nodes on the longest way down, references not followed."""
    below = max((_height(c) for c in f.children(form)), default=0)
    if isinstance(form, f.Op):
        return below + 1
    if isinstance(form, f.Bag):
        return below + len(form.items) - 1
    return below + form.most if isinstance(form, f.Chain) else below


_BEING_MEASURED = -1


class _Order:
    """Which statements are met through operands, and how the others are found."""

    def __init__(self, statements: tuple[f.Statement, ...]) -> None:
        self.statements = statements
        self.depths: dict[int, int] = {}
        self.mentions: Mapping[int, tuple[int, ...]] = {
            s.index: tuple(
                dict.fromkeys(x.statement for x in f.walk(s.form) if isinstance(x, f.Reference))
            )
            for s in statements
        }

    def closure(self, index: int) -> tuple[int, ...]:
        """The statement and those met through its operands."""
        found: dict[int, None] = {}
        stack = [index]
        while stack:
            top = stack.pop()
            if top not in found:
                found[top] = None
                stack += reversed(self.mentions[top])
        return tuple(found)

    def depth(self, index: int) -> int:
        """Nodes on the longest way down from a statement, references followed."""
        found = self.depths.get(index)
        if found == _BEING_MEASURED:
            raise _refuse("the statements refer to each other in a circle", self._span(index))
        if found is None:
            self.depths[index] = _BEING_MEASURED
            inner = max((self.depth(i) for i in self.mentions[index]), default=0)
            found = self.depths[index] = _height(self.statements[index].form) + inner
        return found

    def forward(self, anchor: int) -> tuple[f.Forward, ...]:
        """How the statements not met from the anchor are found, in the order that works."""
        done = set(self.closure(anchor))
        bound = {n for i in done for n in self._bound(i)}
        waiting = [s.index for s in self.statements if s.index not in done]
        found: list[f.Forward] = []
        while waiting:
            step = self._next(waiting, bound)
            found.append(step)
            for i in self.closure(step.statement):
                done.add(i)
                bound |= set(self._bound(i))
            waiting = [i for i in waiting if i not in done]
        return tuple(found)

    def _next(self, waiting: list[int], bound: set[str]) -> f.Forward:
        mentioned = {i for w in waiting for i in self.mentions[w]}
        tops = [w for w in waiting if w not in mentioned] or waiting
        for index in tops:
            statement = self.statements[index]
            if isinstance(statement, f.Each):
                if statement.over in bound:
                    return f.Forward(index, (statement.over,), statement.reach)
                continue
            names = dict.fromkeys(n for i in self.closure(index) for n in self._values(i))
            through = tuple(n for n in names if n in bound)
            if through:
                return f.Forward(index, through, self.depth(index))
        hint = "write a statement that uses a value which this one also uses"
        span = self._span(tops[0])
        raise _refuse("the statement shares no value with the ones before", span, hint)

    def _bound(self, index: int) -> Iterable[str]:
        statement = self.statements[index]
        yield from (n for n in statement.names if n is not None)
        inner = statement.inner if isinstance(statement, f.Each) else ()
        for form in f.walk(statement.form):
            yield from (n for n in form_names(form) if n not in inner)

    def _values(self, index: int) -> Iterable[str]:
        """The names of values that the statement has as operands."""
        for form in f.walk(self.statements[index].form):
            if isinstance(form, (f.Any, f.Reference)) and form.name is not None:
                yield form.name

    def _span(self, index: int) -> Span:
        return self.statements[index].span
