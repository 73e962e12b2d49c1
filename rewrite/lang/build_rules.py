"""Reductions of clauses and items: rules, named patterns, refinements.

In: the children of one reduction. Out: `Rule`, `PatternDef`, `Refine` and at last `RuleFile`.
The grammar takes clauses in any order; the order and the presence of each are demanded here.
"""

from __future__ import annotations

from typing import Any

from rewrite.errors import Label, Span
from rewrite.lang import ast
from rewrite.lang.build_base import Child, Part
from rewrite.lang.build_expressions import ExpressionBuilder
from rewrite.lang.limits import NESTING
from rewrite.lang.machine import Token
from rewrite.lang.text import dedent
from rewrite.lang.vocabulary import CLAIMS
from rewrite.lang.walk import resolve_method_arguments, too_deep

ORDER = {
    "doc": 0, "match": 1, "let": 2, "where": 2, "emit": 3, "group": 4, "claim": 5, "example": 6,
}  # fmt: skip
CLAIM_WORDS = " or ".join((", ".join(f"`{c}`" for c in CLAIMS[:-1]), f"`{CLAIMS[-1]}`"))
WANTED = (
    (("doc",), "doc string", 'say in one sentence what it does: `"""..."""` after the `{`'),
    (("match",), "`match` clause", "say what it matches: `match y = Op(x)`"),
    (("emit", "group"), "`emit` clause", "say what replaces the roots, or `group` them"),
    (("claim",), "`claim` clause", f"a claim is {CLAIM_WORDS}"),
)
REPEATED = ("let", "where", "example")
CLAUSES = (
    "the clauses of a rule stand in this order: doc string, `match`, `let` and `where`, "
    "`emit` or `group` or both, `claim`, `example`"
)


class RuleBuilder(ExpressionBuilder):
    """The callbacks of the whole grammar."""

    def start(self, c: list[Child]) -> ast.RuleFile:
        span = self.around(c) if c else Span(self.file, 1, 1, 1, 1)
        return ast.RuleFile(
            span,
            tuple(x for x in c if isinstance(x, ast.PatternDef)),
            tuple(x for x in c if isinstance(x, ast.Rule)),
            tuple(x for x in c if isinstance(x, ast.Refine)),
        )

    def pattern_def(self, c: list[Child]) -> ast.PatternDef:
        name, *parameters = self.names(c)
        words = tuple(self.target(x) for x in parameters)
        definition = ast.PatternDef(self.around(c), self.lower(name, "a pattern"), words, c[-1])
        self._shallow(definition)
        return definition

    def refine(self, c: list[Child]) -> ast.Refine:
        conditions = tuple(condition for where in c[3:] for condition in where.value)
        refinement = ast.Refine(self.around(c), self.lower(c[1], "a rule"), conditions)
        self._shallow(refinement)
        return refinement

    # --- the rule and its clauses

    def rule(self, c: list[Child]) -> ast.Rule:
        clauses = [x for x in c if isinstance(x, Part)]
        header = {x.kind: x.value for x in clauses if x.kind in ("opset", "over")}
        clauses = [x for x in clauses if x.kind not in header]
        self._demand_order(clauses)
        self._demand_presence(clauses, c[1])
        body: dict[str, Any] = {}
        for clause in clauses:
            body.setdefault(clause.kind, clause.value)
        rule = ast.Rule(
            self.around(c),
            self.lower(c[1], "a rule"),
            self.lower(c[3], "a phase"),
            header.get("opset", (None, None)),
            header.get("over", ()),
            body.get("doc", ""),
            body.get("match", ()),
            tuple(s for x in clauses if x.kind in ("let", "where") for s in x.value),
            body.get("emit", ()),
            body.get("group"),
            body.get("claim", ast.Claim(self.span(c[1], c[1]), "exact")),
            tuple(x.value for x in clauses if x.kind == "example"),
        )
        if self._shallow(rule) and self.bare_operators:
            rule = resolve_method_arguments(rule)
        self.bare_operators = False
        return rule

    def _shallow(self, item: ast.Node) -> bool:
        self.refuse_loose()
        self.refuse_granularity(item)
        deep = too_deep(item, NESTING)
        if deep is None:
            return True
        hint = "name inner parts with `let`, further match statements or patterns"
        self.report("RW110", f"nested deeper than {NESTING} levels", deep, hint)
        return False

    def _demand_order(self, clauses: list[Part]) -> None:
        latest: Part | None = None
        seen: dict[str, Part] = {}
        for clause in clauses:
            kind = clause.kind
            if kind in seen and kind not in REPEATED:
                note = Label(seen[kind].span, "the first one")
                what = "doc string" if kind == "doc" else f"`{clause.kind}` clause"
                self.report("RW106", f"a second {what} in one rule", clause, CLAUSES, note)
            elif latest is not None and ORDER[clause.kind] < ORDER[latest.kind]:
                note = Label(latest.span, "this one comes later in the order")
                what = "the doc string" if kind == "doc" else f"`{clause.kind}`"
                message = f"{what} cannot follow `{latest.kind}`"
                self.report("RW106", message, clause, CLAUSES, note)
            seen.setdefault(kind, clause)
            if latest is None or ORDER[clause.kind] > ORDER[latest.kind]:
                latest = clause

    def _demand_presence(self, clauses: list[Part], name: Token) -> None:
        kinds = {x.kind for x in clauses}
        for names, what, hint in WANTED:
            if not kinds.intersection(names):
                self.report("RW105", f"the rule `{name}` has no {what}", name, hint)

    def opset(self, c: list[Child]) -> Part:
        dots = next(i for i, x in enumerate(c) if x.type == "DOTS")
        low = self.integer(c[1]) if dots == 2 else None
        high = self.integer(c[-1]) if c[-1].type == "NUMBER" and dots + 1 < len(c) else None
        return Part(self.around(c), "opset", (low, high))

    def over(self, c: list[Child]) -> Part:
        return Part(
            self.around(c), "over", tuple(self.lower(x, "a rule") for x in self.names(c[1:]))
        )

    def doc(self, c: list[Child]) -> Part:
        text = dedent(str(c[0])[3:-3])
        if not text:
            hint = "say in one sentence what the rule does"
            self.report("RW105", "the doc string is empty", c[0], hint)
        return Part(self.around(c), "doc", text)

    def match(self, c: list[Child]) -> Part:
        return Part(self.around(c), "match", tuple(c[1:]))

    def statement(self, c: list[Child]) -> ast.MatchStatement:
        return ast.MatchStatement(self.around(c), self.target_names(c), c[-1])

    def target_names(self, c: list[Child]) -> tuple[str, ...]:
        tokens = self.names(c)
        return tuple(self.target(x) for x in tokens)

    def each(self, c: list[Child]) -> ast.EachStatement:
        least, most = 2, 16
        if isinstance(c[-1], Token):
            least, most = self.integer(c[6]), self.integer(c[8])
        pattern, guard = c[5], None
        if isinstance(pattern, ast.Alternatives) and len(pattern.branches) == 1:
            only = pattern.branches[0]
            if only.name is None:
                pattern, guard = only.pattern, only.guard
        name, over = self.target(c[1]), self.target(c[3])
        return ast.EachStatement(self.around(c), name, over, pattern, guard, least, most)

    def let(self, c: list[Child]) -> Part:
        return Part(self.around(c), "let", tuple(c[1:]))

    def binding(self, c: list[Child]) -> ast.Let:
        return ast.Let(self.around(c), self.target(c[0]), c[2])

    def where(self, c: list[Child]) -> Part:
        found: list[ast.Where] = []
        for child in c[1:]:
            if isinstance(child, Part):
                found += child.value
            elif not isinstance(child, Token):
                found.append(ast.Where(child.span, child))
        return Part(self.around(c), "where", tuple(found))

    def when(self, c: list[Child]) -> Part:
        name = self.word(c[1])
        conditions = [x for x in c[3:] if not isinstance(x, Token)]
        return Part(self.around(c), "when", [ast.Where(x.span, x, name) for x in conditions])

    def emit(self, c: list[Child]) -> Part:
        return Part(self.around(c), "emit", tuple(c[1:]))

    def emission(self, c: list[Child]) -> ast.EmitStatement:
        return ast.EmitStatement(self.around(c), self.target_names(c), c[-1])

    def group(self, c: list[Child]) -> Part:
        name = self.word(c[3])
        if c[3].type == "LOWER":
            hint = f"write `{name.title().replace('_', '')}`"
            self.report("RW107", f"a group is named like an operator, not `{name}`", c[3], hint)
        attributes: tuple[ast.AttributeEmit, ...] = ()
        if isinstance(c[-1], Part):
            attributes, carry = c[-1].value
            if carry:
                hint = "only an operator carries attributes; write each one that the group has"
                self.report("RW113", f"a group carries nothing: `..{carry[0]}`", c[-1], hint)
        span = self.around(c)
        return Part(span, "group", ast.Group(span, self.word(c[1]), name, attributes))

    def example(self, c: list[Child]) -> Part:
        kind = str(c[1])
        if kind not in ("fires", "rejects"):
            hint = '`example fires name """model"""` or `example rejects name """model"""`'
            message = f"an example `fires` or `rejects`; `{kind}` is neither"
            self.report("RW108", message, c[1], hint)
        name = self.lower(c[2], "an example") if len(c) == 4 else None
        text = dedent(str(c[-1])[3:-3])
        span = self.around(c)
        return Part(span, "example", ast.Example(span, kind == "fires", name, text))

    # --- claims

    def claim(self, c: list[Child]) -> Part:
        span, kind = self.around(c), str(c[1])
        given = [x for x in c[2:] if not isinstance(x, Token)]
        claim = self._claim(span, kind, given)
        if claim is None:
            self.report("RW108", f"`{kind}` with these arguments is not a claim", span, CLAIM_WORDS)
            claim = ast.Claim(span, "exact")
        return Part(span, "claim", claim)

    def _claim(self, span: Span, kind: str, given: list[Child]) -> ast.Claim | None:
        if kind == "exact":
            return None if given else ast.Claim(span, "exact")
        if len(given) != 1:
            return None
        value, word = given[0], ""
        if isinstance(value, Part):
            word, value = value.value
        if (kind, word) == ("certified", "") and isinstance(value, ast.Name):
            return ast.Claim(span, "certified", certificate=value.name)
        if not isinstance(value, ast.Constant) or isinstance(value.value, bool | str | None):
            return None
        number = value.value
        if (kind, word) == ("lsb", "") and isinstance(number, int):
            return ast.Claim(span, "lsb", lsb=number)
        if (kind, word) == ("equal", "rtol"):
            return ast.Claim(span, "equal", rtol=float(number))
        if (kind, word) == ("approx", "atol"):
            return ast.Claim(span, "approx", atol=float(number))
        return None
