"""Static checks: everything about rules that can be told before any model is seen.

In: expanded rules, a `Vocabulary`, opset ranges. Out: diagnostics in a `Collector`, all of one run.
The parts: `check_patterns` (operators matched), `scope` (names), `check_expressions`,
`check_emission`, `check_structure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rewrite.errors import Collector, Label
from rewrite.lang import ast
from rewrite.lang.check_emission import EmissionChecker
from rewrite.lang.check_expressions import ExpressionChecker, presence
from rewrite.lang.check_group import check_group
from rewrite.lang.check_patterns import PatternChecker, tops
from rewrite.lang.check_structure import check_structure, check_unused, statement_names
from rewrite.lang.expand import Expander
from rewrite.lang.kinds import WORDS, Info
from rewrite.lang.opsets import narrowed, opset_range, usable, written_range
from rewrite.lang.scope import Facts, Scope, build_scope
from rewrite.lang.versions import Operators, Range
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.walk import nodes
from rewrite.lang.words import suggestion
from rewrite.schema import DTYPES, OpSchema

MOST_STEPS = 255  # of `lsb(n)`

__all__ = ["check", "check_rules", "opset_range"]


def check(file: ast.RuleFile, vocabulary: Vocabulary, opset: Range) -> Collector:
    """The diagnostics of one file by itself, as if it were a pack with this opset range."""
    errors = Collector()
    definitions = {d.name: d for d in file.patterns}
    expander = Expander(definitions, errors)
    expanded = [expander.expand(rule) for rule in file.rules]
    rules = [rule for rule in expanded if rule is not None]
    ranges = dict.fromkeys((r.name for r in rules), opset)
    check_rules(rules, file.patterns, vocabulary, ranges, errors)
    return errors


def check_rules(
    rules: Iterable[ast.Rule],
    definitions: Iterable[ast.PatternDef],
    vocabulary: Vocabulary,
    ranges: Mapping[str, Range],
    errors: Collector,
) -> None:
    """Check rules, each for the opset range of its pack, and named patterns, used or not.

    Whether a pattern leaves attributes open shows only in the rules that use it.
    """
    operators = Operators(vocabulary)
    everywhere = (min(r[0] for r in ranges.values()), vocabulary.newest_opset) if ranges else None
    for definition in definitions:
        opsets = everywhere or (1, vocabulary.newest_opset)
        checker = PatternChecker(operators, opsets, errors, closed=False)
        checker.definition(definition)
    for rule in rules:
        _Rule(rule, operators, errors).check(ranges[rule.name])


class _Rule:
    """The checks of one rule."""

    def __init__(self, rule: ast.Rule, operators: Operators, errors: Collector) -> None:
        self.rule = rule
        self.operators = operators
        self.vocabulary = operators.vocabulary
        self.errors = errors

    def check(self, pack_range: Range) -> None:
        self._header()
        self._claim()
        self._examples()
        opsets = self._opsets(pack_range)
        scope = build_scope(self.rule, self.errors)
        self._reserved(scope)
        closed = self.rule.group is None or bool(self.rule.emit)  # else nodes stay as they are
        patterns = PatternChecker(self.operators, opsets, self.errors, scope, closed)
        for statement in self.rule.match:
            patterns.statement(statement, self._carriers(statement, opsets))
        expressions = ExpressionChecker(scope, self.vocabulary, self.errors)
        self._guards(expressions)
        facts = self._steps(expressions)
        self._certificate(expressions, facts)
        if self.rule.emit:
            EmissionChecker(self.rule, expressions, self.operators, opsets, facts).run()
        if self.rule.group is not None:
            check_group(self.rule.group, expressions, facts)
        check_structure(self.rule, self.vocabulary, self.errors)
        check_unused(self.rule, scope, self.errors)

    # --- the header

    def _header(self) -> None:
        rule, phases = self.rule, self.vocabulary.phases
        if rule.phase not in phases:
            hint = suggestion(rule.phase, phases) or f"the phases are {', '.join(phases)}"
            self.errors.add("RW201", f"there is no phase `{rule.phase}`", rule.span, hint)

    def _opsets(self, pack_range: Range) -> Range:
        """The range that is checked; where it is empty the pack's, so that checking goes on."""
        low, high = self.rule.opset
        name, span = self.rule.name, self.rule.span
        outside = [o for o in (low, high) if o is not None and not _within(o, pack_range)]
        written = written_range(self.rule, pack_range)
        if outside or written is None:
            message = f"the opset range of the rule `{name}` is not within that of its pack"
            hint = f"the pack is for opsets {pack_range[0]} to {pack_range[1]}"
            if low is not None and high is not None and low > high:
                message, hint = f"the opset range {low}..{high} is empty", "the smaller comes first"
            self.errors.add("RW219", message, span, hint)
            return written or pack_range
        usable = narrowed(self.rule, self.operators, pack_range)
        if usable is not None:
            return usable
        if all(narrowed_alone for narrowed_alone in self._single_ranges(written)):
            message = f"the operators that the rule `{name}` emits exist in no opset together"
            self.errors.add("RW204", message, self.rule.emit[0].span, "see `opset` and pack.yaml")
        return written

    def _single_ranges(self, opsets: Range) -> list[Range | None]:
        """Of every emitted operator by itself: what is empty is reported where it stands."""
        made = [n for s in self.rule.emit for n in nodes(s) if isinstance(n, ast.OpExpr)]
        return [usable(n, self.operators, opsets) for n in made if n.op.prefix != "@"]

    def _claim(self) -> None:
        claim = self.rule.claim
        message = None
        if claim.kind == "lsb" and not 0 <= claim.lsb <= MOST_STEPS:
            message = f"`lsb(n)` is for 0 to {MOST_STEPS} steps"
        elif claim.kind == "equal" and not 0 <= claim.rtol < 1:
            message = "`equal(rtol=r)` is for 0 ≤ r < 1"
        elif claim.kind == "approx" and not 0 < claim.atol < float("inf"):
            message = "`approx(atol=a)` is for a > 0"
        if message is not None:
            exact = "`exact` claims equal bits, `equal(rtol=0)` equal values"
            hint = exact if claim.kind != "lsb" else "`lsb(0)` claims equal codes"
            self.errors.add("RW250", message, claim.span, hint)

    def _certificate(self, expressions: ExpressionChecker, facts: Facts) -> None:
        """`certified(p)`: a `let`, present in every match, of what is not known before one."""
        name, span = self.rule.claim.certificate, self.rule.claim.span
        if name is None:
            return
        expressions.scope.used.add(name)
        if name not in expressions.lets:
            message = f"`certified` names a `let`, and no `let` is named `{name}`"
            hint = suggestion(name, expressions.lets) or "`let p = ...`, then `claim certified(p)`"
            self.errors.add("RW251", message, span, hint)
            return
        info = expressions.let(name, facts)
        if info.absent is not None:
            self.errors.add("RW251", f"`{name}` may be absent, and then nothing is claimed", span)
        elif info.kind != "any":
            message = f"`{name}` is {WORDS[info.kind]}, and no evidence"
            hint = "a function that proves something gives it, for example `requantization(...)`"
            self.errors.add("RW251", message, span, hint)

    def _examples(self) -> None:
        rule = self.rule
        for fires, word in ((True, "fires"), (False, "rejects")):
            if not any(e.fires == fires for e in rule.examples):
                message = f"the rule `{rule.name}` has no example that {word}"
                hint = f'add `example {word} name """model"""`'
                self.errors.add("RW248", message, rule.span, hint)
        seen: dict[tuple[bool, str | None], ast.Example] = {}
        for example in rule.examples:
            key = (example.fires and example.name is None, example.name)
            if key in seen:
                note = (Label(seen[key].span, "the first one"),)
                message = f"two examples are named `{example.name}`"
                if example.name is None:
                    message = "two examples of one sort have no name"
                self.errors.add("RW249", message, example.span, "name each", note)
            seen.setdefault(key, example)

    # --- names and expressions

    def _reserved(self, scope: Scope) -> None:
        for binding in scope.bindings.values():
            name = binding.name
            if name in DTYPES or name == "target":
                what = "the target" if name == "target" else "an element type"
                message = f"`{name}` is {what} and cannot be bound"
                self.errors.add("RW221", message, binding.span, "choose another name")
            elif name[0].isupper() and self.vocabulary.schemas("", name):
                message = f"{name} is an operator; without operands it is not a value"
                hint = f"write `{name}(...)`, or choose another name for the value"
                self.errors.add("RW228", message, binding.span, hint)

    def _guards(self, expressions: ExpressionChecker) -> None:
        """A guard sees the names of its own branch."""
        for guard, way, inside_each in expressions.scope.guards:
            expressions.inside_each = inside_each
            expressions.condition(guard, Facts().with_choices(way))
        expressions.inside_each = False

    def _steps(self, expressions: ExpressionChecker) -> Facts:
        """Check `let` and `where`; what holds after them."""
        scope, facts = expressions.scope, Facts()
        for step in self.rule.steps:
            if isinstance(step, ast.Let):
                self._let(step, expressions, facts)
                continue
            inner = facts
            if step.when is not None:
                expressions.check_fact(step, step.when, facts)
                inner = scope.assume(step.when, facts, True)
            expressions.condition(step.condition, inner)
            told = presence(step.condition) if step.when is None else None
            if told is not None:
                facts = scope.assume(told[0], facts, told[1])
        return facts

    def _let(self, step: ast.Let, expressions: ExpressionChecker, facts: Facts) -> None:
        scope = expressions.scope
        info: Info = expressions.infer(step.value, facts)
        if info.absent == "branch":
            expressions.report_absent(step.value, info)
        taken = step.name in scope.bindings or step.name in expressions.lets
        if taken or step.name in scope.branches or step.name in DTYPES or step.name == "target":
            message = f"`{step.name}` is bound already"
            self.errors.add("RW221", message, step.span, "choose another name")
            return
        if step.name == "_":
            self.errors.add(
                "RW222",
                "nothing can use what `let _` computes",
                step.span,
                "give it a name, or remove it",
            )
            return
        expressions.lets[step.name] = (info, step.value)

    # --- attributes that are carried

    def _carriers(
        self, statement: ast.MatchStatement | ast.EachStatement, opsets: Range
    ) -> list[OpSchema]:
        """Operators in `emit` with `..name` of this statement, in their newest version."""
        names = statement_names(statement)
        found: list[OpSchema] = []
        for emitted in self.rule.emit:
            for node in nodes(emitted):
                if not isinstance(node, ast.OpExpr):
                    continue
                if node.op.prefix == "@" and node.op.name in names:
                    found += [v for top in tops(statement.pattern) for v in self._newest(top.op)]
                elif any(n in names for n in node.carry):
                    found += self.operators.within(node.op, opsets)[-1:]
        return found

    def _newest(self, op: ast.OpName) -> tuple[OpSchema, ...]:
        return self.operators.all(op)[-1:]


def _within(opset: int, bounds: Range) -> bool:
    return bounds[0] <= opset <= bounds[1]
