"""The abstract syntax of the rule language: one frozen node per construct.

In: nothing. Out: the node classes. The parser builds them, `check` reads them, `match` compiles
them, `printer` turns them back into canonical text. Every node knows its `span`.
docs/language.md gives the meaning of each construct.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from rewrite.errors import Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span = field(compare=False, repr=False)


# --- constraints on operands -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DimPattern(Node):
    """One entry of a shape pattern: a size, a named size, `_`, `...` or `B...`."""

    kind: OneOf["size", "name", "any", "ellipsis"]
    size: int | None = None
    name: str | None = None  # also the name of an ellipsis, None where it binds nothing


@dataclass(frozen=True, slots=True)
class Granularity(Node):
    """`per_tensor`, `per_axis`, `per_axis(0)`, `blocked`: how many scales quantized codes have."""

    kind: OneOf["per_tensor", "per_axis", "blocked"]
    axis: int | None = None  # None: any


@dataclass(frozen=True, slots=True)
class TypePattern(Node):
    """`const u8|s8[O, ...]`: any part may be missing (None: not constrained)."""

    const: bool
    dtypes: tuple[str, ...] | None
    shape: tuple[DimPattern, ...] | None
    granularity: tuple[Granularity, ...] | None = None  # only of the codes of `DQ` and `Q`


# --- patterns ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern(Node):
    """Base of everything that matches a value."""


@dataclass(frozen=True, slots=True)
class Variable(Pattern):
    """`x`, `x: f32[N]`, `B?`, `_`. A second occurrence of a name must be the same value."""

    name: str  # "_" binds nothing
    optional: bool = False
    type: TypePattern | None = None


@dataclass(frozen=True, slots=True)
class Rest(Pattern):
    """`*xs`, `*xs: const`: the remaining operands, one or more, bound as a list."""

    name: str
    type: TypePattern | None = None


@dataclass(frozen=True, slots=True)
class Absent(Pattern):
    """`none`: the operand is not given."""


@dataclass(frozen=True, slots=True)
class Number(Pattern):
    """`0.5`, `0.7979~1e-4`: any constant all of whose elements are this number."""

    text: str
    tolerance: str | None = None

    @property
    def value(self) -> float | int:
        return _number(self.text)


@dataclass(frozen=True, slots=True)
class AttributePattern(Node):
    """`axis: -1`, `perm: p`, `mode: "a" | "b"`, `spatial: ignored`.

    Exactly one of: `ignored`; `bind` (a name); `values` (alternatives to be equal to).
    """

    name: str
    ignored: bool = False
    bind: str | None = None
    values: tuple[int | float | str | tuple[int | float | str, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class OpName(Node):
    """`Conv`, `ms.Gelu`: the prefix is declared in the vocabulary (`ms` is com.microsoft)."""

    prefix: str  # "" for ai.onnx
    name: str


@dataclass(frozen=True, slots=True)
class OpPattern(Pattern):
    """`Conv(x, W: const) { group: 1 }`. Infix operators and unary minus come here too."""

    op: OpName
    operands: tuple[Pattern, ...]
    attributes: tuple[AttributePattern, ...] = ()
    ordered: bool = False  # operands of a commutative operator only in the order written
    shared: bool = False  # its outputs may be used outside the match
    infix: str | None = None  # "+", "-", "*", "/", "neg": how it was written, for the printer
    also: tuple[str, ...] = ()  # prefixes whose operator of this name matches too; see quantized.py


@dataclass(frozen=True, slots=True)
class Dequantized(Pattern):
    """`DQ(X: u8 per_tensor, zp=0)`, `DQ(B?: s32)`: DequantizeLinear of the codes named."""

    codes: Variable
    zp: int | None = None


@dataclass(frozen=True, slots=True)
class Quantized(Pattern):
    """`Q(p)`, `Q(p, Y: u8)`: QuantizeLinear; `codes` is a second name of the statement's value."""

    operand: Pattern
    codes: Variable | None
    zp: int | None = None


@dataclass(frozen=True, slots=True)
class Bag(Pattern):
    """`prod{a, b, c}`, `sum{...}`: an associative-commutative product or sum of these items."""

    kind: OneOf["prod", "sum"]
    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternative(Node):
    """One branch: `Relu(c) as relu if (guard)`."""

    pattern: Pattern
    name: str | None
    guard: Expr | None


@dataclass(frozen=True, slots=True)
class Alternatives(Pattern):
    """`p | q as name | ...`: tried in order; the guards of a branch belong to the branch."""

    branches: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Chain(Pattern):
    """`chain(c, pointwise, 1..8)`: single-use operators of a class, from `start` upwards."""

    start: Pattern
    klass: str
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class PatternCall(Pattern):
    """`cube(x)`: a named pattern with its parameters replaced."""

    name: str
    arguments: tuple[Pattern, ...]


# --- expressions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr(Node):
    """Base of everything in `let`, `where` and `emit`."""


@dataclass(frozen=True, slots=True)
class Constant(Expr):
    """A number, string, `true`, `false` or `none`; `text` keeps a number as written."""

    value: int | float | str | bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """A bound name."""

    name: str


@dataclass(frozen=True, slots=True)
class Splat(Expr):
    """`*xs` among arguments: the elements of a list, each an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class ListExpr(Expr):
    """`[a, b, c]`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """`x.name`, `target.opset`."""

    base: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index(Expr):
    """`xs[0]`, `xs[1:]`, `xs[-2:]`."""

    base: Expr
    start: Expr | None
    stop: Expr | None
    is_slice: bool


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """`sqrt(v + eps)`, `concat(Ws, axis=0)`: a function of the closed set."""

    function: str
    arguments: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class MethodCall(Expr):
    """`target.fuses(y)`, `target.has(ms.Gelu)`. The base is always a name."""

    base: str
    method: str
    arguments: tuple[Expr | OpName, ...]


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`-a`, `not a`."""

    operator: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """`a + b`; operators: + - * / // % ** == != < <= > >= in `not in` and or ??"""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class CaseArm(Node):
    """`relu: e`: chosen where the alternative, optional operand or condition named holds."""

    name: str | None  # None: else
    value: Expr


@dataclass(frozen=True, slots=True)
class Case(Expr):
    """`case { relu: a; clip: b; else: c }`: the first arm that holds."""

    arms: tuple[CaseArm, ...]


@dataclass(frozen=True, slots=True)
class ForAll(Expr):
    """`forall w in Ws: rank(w) == 2`."""

    name: str
    over: Expr
    condition: Expr


@dataclass(frozen=True, slots=True)
class AttributeEmit(Node):
    """`axis: a` in an emitted operator."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class OpExpr(Expr):
    """`Conv(x, W * s, b) { ..c, group: 1 }`: a node to be made. Only in `emit`."""

    op: OpName
    operands: tuple[Expr, ...]
    attributes: tuple[AttributeEmit, ...] = ()
    carry: tuple[str, ...] = ()  # matched values whose node's attributes are carried over


# --- statements and rules ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MatchStatement(Node):
    """`y = p`, `a, b = Split(x)`."""

    names: tuple[str, ...]
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class EachStatement(Node):
    """`each ys over x = MatMul(x, W: const) if (rank(W) == 2) 2..16`: siblings that share `x`.

    Names bound inside become lists in graph order.
    """

    name: str
    over: str
    pattern: Pattern
    guard: Expr | None
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Let(Node):
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Where(Node):
    """One condition; `when` names the alternative or optional operand it depends on."""

    condition: Expr
    when: str | None = None


@dataclass(frozen=True, slots=True)
class EmitStatement(Node):
    """`y = Conv(...)`; a name not bound by `match` is a temporary."""

    names: tuple[str, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Group(Node):
    """`group y as ConvPointwise { axis: a }`: nodes as a function, its call with attributes.

    The nodes are those matched; in a rule that emits, those that make the new value of `y`.
    """

    value: str
    name: str
    attributes: tuple[AttributeEmit, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim(Node):
    """`exact`, `lsb(1)`, `equal(rtol=1e-5)`, `approx(atol=1e-6)`, `certified(p)`."""

    kind: OneOf["exact", "lsb", "equal", "approx", "certified"]
    lsb: int = 0
    rtol: float = 0.0
    atol: float = 0.0
    certificate: str | None = None  # the `let` that each application is held against


@dataclass(frozen=True, slots=True)
class Example(Node):
    """`example fires name \"\"\"ONNX text\"\"\"`."""

    fires: bool
    name: str | None
    text: str


@dataclass(frozen=True, slots=True)
class PatternDef(Node):
    """`pattern cube(x) = Pow(x, 3) | prod{x, x, x}`."""

    name: str
    parameters: tuple[str, ...]
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Rule(Node):
    name: str
    phase: str
    opset: tuple[int | None, int | None]  # inclusive; None: no bound
    over: tuple[str, ...]
    doc: str
    match: tuple[MatchStatement | EachStatement, ...]
    steps: tuple[Let | Where, ...]  # in the order written
    emit: tuple[EmitStatement, ...]  # empty where `group` takes what was matched
    group: Group | None
    claim: Claim
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class Refine(Node):
    """`refine rule with where ...`: the same rule with more conditions."""

    rule: str
    where: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class RuleFile(Node):
    """One parsed `.rules` file."""

    patterns: tuple[PatternDef, ...]
    rules: tuple[Rule, ...]
    refinements: tuple[Refine, ...]


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return float(text)
