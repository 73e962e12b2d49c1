"""What generated code calls.

In: facts, a rule, values and nodes. Out: answers for the straight-line code of codegen.py, and
`load`, which makes a callable of a `Program`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.match import budget, structure
from rewrite.match import form as f
from rewrite.match.accept import FORM, Taken, accept
from rewrite.match.codecheck import RUNTIME
from rewrite.match.operators import COMPARE, NUMBERS
from rewrite.match.program import Program
from rewrite.match.rule import CompiledRule, Match
from rewrite.match.values import Unknown
from rewrite.target.target import Target

Operand = ir.Value | None
Operands = Sequence[Operand]
Matching = Callable[[ir.Node, Facts, CompiledRule, Target | None], Match | None]

UNSET = object()


def tick() -> None:
    """Count a choice."""
    steps = budget.step()
    if steps > structure.MOST_STEPS:
        raise structure.OutOfSteps
    if steps % structure.CLOCK_EVERY == 0:
        budget.look_at_clock()


def attribute(facts: Facts, node: ir.Node, test: f.AttributeTest) -> object:
    """The attribute as expressions see it; UNSET where it is not as the pattern wants it."""
    try:
        raw = structure.raw_attribute(facts, node, test.name)
        if not structure.attribute_holds(test, raw):
            return UNSET
        return structure.as_value(test.name, raw)
    except Unknown:
        return UNSET


def breaks(value: object, limit: f.Limit) -> bool:
    """Whether the value is a number that a condition does not admit."""
    return value.__class__ in NUMBERS and not COMPARE[limit[0]](value, limit[1])


def padded(operands: Operands, count: int, always: bool) -> Operands | None:
    """So many operands, None for those absent. Where there are more: None, or all if `always`."""
    found = structure.trimmed(operands) if not always else tuple(operands)
    if len(found) > count:
        return found if always else None
    return (*found, *(None,) * (count - len(found)))


def both(pair: Operands) -> tuple[Operands, ...]:
    """Two operands in both orders; in one, where there are fewer than two."""
    return (pair, pair[::-1]) if pair[1] is not None else (pair,)


def arranged(rule: CompiledRule, index: int, count: int) -> Iterator[tuple[int, ...]]:
    form = rule.pattern.forms[index]
    assert isinstance(form, f.Op)
    for order in structure.arrangements(form, count):
        tick()
        yield order


def chosen(operands: Operands, order: tuple[int, ...], place: int) -> Operand:
    """The operand that an arrangement puts at a place of the pattern."""
    return operands[order[place]] if order[place] < len(operands) else None


def remaining(operands: Operands, order: tuple[int, ...]) -> tuple[ir.Value, ...] | None:
    """The operands left for `*rest`; None where one of them is absent."""
    found = [v for i, v in enumerate(operands) if i not in order]
    present = tuple(v for v in found if v is not None)
    return present if len(present) == len(found) else None


def all_constant(facts: Facts, values: tuple[ir.Value, ...]) -> bool:
    return all(facts.constant(v) is not None for v in values)


def chains(
    rule: CompiledRule, index: int, value: ir.Value, graph: object
) -> Iterator[tuple[tuple[ir.Node, ...], ir.Value]]:
    form = rule.pattern.forms[index]
    assert isinstance(form, f.Chain)
    return structure.paths(value, form, rule.starts[index], graph)


def all_taken(index: int, nodes: tuple[ir.Node, ...]) -> tuple[Taken, ...]:
    return tuple([(index, node, False, 1) for node in nodes])


def by_form(taken: tuple[Taken, ...]) -> list[Taken]:
    """What was taken, in the order of the pattern's text."""
    return sorted(taken, key=FORM)


def present(value: object) -> object:
    """None where no alternative that was taken binds the name."""
    return None if value is UNSET else value


def finish(
    rule: CompiledRule,
    facts: Facts,
    target: Target | None,
    names: tuple[str, ...],
    values: tuple[object, ...],
    typed: tuple[tuple[f.TypeTest, object], ...],
    taken: Sequence[Taken],
    branches: tuple[str, ...],
    guards: tuple[int, ...],
) -> Match | None:
    """The match, if types and everything that concerns all of it hold.

    `names` are all names of the pattern; `taken` is in the order of its text.
    """
    bound = dict(zip(names, values, strict=True))
    for test, value in typed:
        if not _has_type(test, value, facts, bound):
            return None
    found = accept(rule, bound, taken, branches, guards, facts, target)
    return found if found.__class__ is Match else None


def _has_type(test: f.TypeTest, value: object, facts: Facts, names: dict[str, object]) -> bool:
    if isinstance(value, tuple):
        return not any(structure.type_mismatch(facts, v, test, names) for v in value)
    if not isinstance(value, ir.Value):
        return True  # absent, where that is allowed
    return structure.type_mismatch(facts, value, test, names) is None


_NAMESPACE: dict[str, object] = {
    "consumers_within": structure.consumers_within,
    "cuts": structure.cuts,
    "fewest_uses": structure.fewest_uses,
    "number_holds": structure.number_holds,
    "same_attribute": structure.same_attribute,
    "trimmed": structure.trimmed,
}


def load(program: Program) -> Matching:
    """The `match` of a program. Its code came from codegen.py, which checked it."""
    names = {name: _NAMESPACE.get(name) or globals()[name] for name in RUNTIME}
    constants = {f"c{i}": value for i, value in enumerate(program.constants)}
    space: dict[str, object] = {
        "__builtins__": {"len": len, "range": range},
        **names,
        **constants,
    }
    exec(program.code, space)  # noqa: S102 - checked by codecheck before it was compiled
    run = cast(Matching, space["match"])
    return _limited(run)


def _limited(run: Matching) -> Matching:
    """The same within an allowance of work and a number of choices."""

    def match(
        node: ir.Node, facts: Facts, rule: CompiledRule, target: Target | None
    ) -> Match | None:
        budget.begin()
        try:
            return run(node, facts, rule, target)
        except (structure.OutOfSteps, budget.Exhausted):
            return None

    return match
