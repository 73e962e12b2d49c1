"""The form of a pattern that is matched: names resolved, operators with their domain.

In: nothing; `pattern.compile_rule` builds it. Out: the classes of `Pattern`, which the interpreter
walks and codegen turns into Python. Both visit operands in `Op.order`, so both meet the choices
of a pattern in the same sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rewrite.errors import Span
from rewrite.lang import ast

Operator = tuple[str, str]  # (domain, name), "" being ai.onnx


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern of one value. `index` numbers the forms of a rule in the order of its text."""

    index: int
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ShapeDim:
    """One entry of a shape: exactly one of a size, a name, or neither (anything)."""

    size: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ShapeTest:
    """`[front..., ellipsis, back...]`; without an ellipsis the rank is that of `front`."""

    front: tuple[ShapeDim, ...]
    ellipsis: bool
    name: str | None  # of the ellipsis
    back: tuple[ShapeDim, ...]


@dataclass(frozen=True, slots=True)
class TypeTest:
    const: bool
    dtypes: frozenset[str] | None
    shape: ShapeTest | None
    words: str  # the type as written, for reasons


@dataclass(frozen=True, slots=True)
class Any(Form):
    """A value bound to a name, or absent where that is allowed. `name` None: not bound."""

    name: str | None
    optional: bool
    type: TypeTest | None


@dataclass(frozen=True, slots=True)
class Absent(Form):
    """No operand."""


@dataclass(frozen=True, slots=True)
class Number(Form):
    """A constant of one number. `tolerance` None: that of the rule, which may be `exact`."""

    value: int | float
    tolerance: float | None
    exact: bool


Limit = tuple[str, int | float]  # a comparison and what is on its right


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """`bind` a name, or be equal to one of `values`; neither: any value.

    `limits`: comparisons with numbers that conditions demand of the name. What breaks one cannot
    match, so that generated code need not look any further.
    """

    name: str
    bind: str | None
    values: tuple[object, ...] | None
    limits: tuple[Limit, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Rest:
    """The remaining operands as a list."""

    name: str | None
    type: TypeTest | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Op(Form):
    """A node of this operator; the value is its first output.

    In a statement with several names the value may be any of the outputs named.
    """

    operator: Operator
    operands: tuple[Form, ...]
    rest: Rest | None
    attributes: tuple[AttributeTest, ...]
    commutes: bool
    variadic: bool
    shared: bool
    legacy: bool  # some version carries operands as attributes
    order: tuple[int, ...]  # in which the operands are visited
    also: tuple[str, ...] = ()  # other domains whose operator of this name will do

    @property
    def operators(self) -> frozenset[Operator]:
        """The operators that the node may be of."""
        name = self.operator[1]
        return frozenset((domain, name) for domain in (self.operator[0], *self.also))


@dataclass(frozen=True, slots=True)
class Bag(Form):
    """A tree of one associative and commutative operator with these leaves."""

    operator: Operator
    items: tuple[Form, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    form: Form
    name: str | None
    guard: int | None  # its place in Pattern.guards


@dataclass(frozen=True, slots=True)
class Choice(Form):
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Chain(Form):
    """`least` to `most` single-use nodes of a class, from `start` upwards."""

    start: Form
    klass: str
    operators: frozenset[Operator]
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Reference(Form):
    """The value that a statement names: matched there the first time it is met."""

    name: str
    statement: int


@dataclass(frozen=True, slots=True)
class Statement:
    """`names` are the outputs of the node, None where the text has `_`."""

    index: int
    names: tuple[str | None, ...]
    form: Form
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Each(Statement):
    """Siblings that share `over`; `inner` names become lists."""

    over: str = ""
    guard: int | None = None  # its place in Pattern.guards
    least: int = 1
    most: int = 1
    inner: tuple[str, ...] = ()
    reach: int = 1  # how many nodes above `over` the sibling's value may lie


@dataclass(frozen=True, slots=True)
class Forward:
    """A statement found through the uses of values already bound."""

    statement: int
    through: tuple[str, ...]  # names of the statement that an earlier one binds
    reach: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """`anchor` is matched first, backwards; then `forward`, in this order."""

    statements: tuple[Statement, ...]
    anchor: int
    anchors: frozenset[Operator]
    forward: tuple[Forward, ...]
    roots: tuple[str, ...]
    names: tuple[str, ...]  # every name that a match binds, in the order of the text
    branches: tuple[str, ...]  # named alternatives
    exact: bool
    size: int  # number of operators written
    radius: int  # how many nodes away from the anchor the match may look
    forms: tuple[Form, ...]
    guards: tuple[ast.Expr, ...]


def children(form: Form) -> tuple[Form, ...]:
    """The forms directly inside, references not followed."""
    if isinstance(form, Op):
        return form.operands
    if isinstance(form, Bag):
        return form.items
    if isinstance(form, Choice):
        return tuple(b.form for b in form.branches)
    if isinstance(form, Chain):
        return (form.start,)
    return ()


def walk(form: Form) -> Iterator[Form]:
    """The form and everything inside, in the order of the text."""
    stack = [form]
    while stack:
        form = stack.pop()
        yield form
        stack += reversed(children(form))


def tops(form: Form, statements: tuple[Statement, ...]) -> frozenset[Operator] | None:
    """The operators that may produce a value of this form; None: anything, or absent."""
    return _tops(form, statements, {})


def _tops(
    form: Form, statements: tuple[Statement, ...], known: dict[int, frozenset[Operator] | None]
) -> frozenset[Operator] | None:
    if isinstance(form, Op):
        return form.operators
    if isinstance(form, Bag):
        return frozenset({form.operator})
    if isinstance(form, Chain):
        return form.operators
    if isinstance(form, Reference):
        if form.statement not in known:
            known[form.statement] = None  # while it is looked at: a circle has no operators
            inner = statements[form.statement].form
            known[form.statement] = _tops(inner, statements, known)
        return known[form.statement]
    if not isinstance(form, Choice):
        return None
    parts = [_tops(branch.form, statements, known) for branch in form.branches]
    sure = [part for part in parts if part is not None]
    return frozenset().union(*sure) if len(sure) == len(parts) else None
