"""The opset classes of a rule, and what the operators' schemas rule out in each.

In: a `CompiledRule`, the `Vocabulary`. Out: runs of opsets in which every operator of the rule has
the same version; for each of them, why the pattern cannot match there, or "".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrite.lang import ast
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.walk import nodes
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule
from rewrite.ops import legacy
from rewrite.schema import OpSchema


@dataclass(frozen=True, slots=True)
class OpsetClass:
    """Opsets `low` to `high`: within them nothing that the rule names changes."""

    low: int
    high: int

    @property
    def words(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"


def classes(rule: CompiledRule, vocabulary: Vocabulary) -> tuple[OpsetClass, ...]:
    """The runs of opsets, ascending."""
    versioned = [vocabulary.schemas(*operator) for operator in operators(rule)]
    found: list[OpsetClass] = []
    last: list[int | None] = []
    for opset in range(rule.opset[0], rule.opset[1] + 1):
        now = [_since(versions, opset) for versions in versioned]
        if found and now == last:
            found[-1] = OpsetClass(found[-1].low, opset)
        else:
            found.append(OpsetClass(opset, opset))
        last = now
    return tuple(found)


def operators(rule: CompiledRule) -> tuple[f.Operator, ...]:
    """Every operator of ai.onnx that the rule names, matched or emitted."""
    found: dict[f.Operator, None] = {}
    for form in rule.pattern.forms:
        if isinstance(form, f.Op):
            found |= dict.fromkeys(sorted(form.operators))
        elif isinstance(form, f.Bag):
            found[form.operator] = None
    for statement in rule.emit:
        for node in nodes(statement):
            if isinstance(node, ast.OpExpr) and node.op.prefix == "":
                found["", node.op.name] = None
    return tuple(operator for operator in found if operator[0] == "")


def in_force(versions: tuple[OpSchema, ...], opset: int) -> OpSchema | None:
    """The version at this opset, None where there is none; other domains have one for all."""
    if versions and versions[0].domain != "":
        return versions[-1]
    known = [v for v in versions if v.since <= opset and not v.deprecated]
    newest = [v for v in versions if v.since <= opset]
    return known[-1] if known and known[-1] is newest[-1] else None


def _since(versions: tuple[OpSchema, ...], opset: int) -> int | None:
    found = in_force(versions, opset)
    return None if found is None else found.since


def impossible(rule: CompiledRule, opset: int, vocabulary: Vocabulary) -> str:
    """Why no model of this opset matches, by the operators' schemas; "" where one may."""
    pattern = rule.pattern
    for statement in mandatory(pattern):
        reason = _form(statement.form, opset, vocabulary)
        if reason:
            return reason
    return ""


def mandatory(pattern: f.Pattern, focus: int = -1) -> Iterator[f.Statement]:
    """The statements that every match has, from the anchor on; those with the form `focus` too."""
    waiting = [pattern.anchor, *(step.statement for step in pattern.forward)]
    waiting += [
        s.index for s in pattern.statements if any(x.index == focus for x in f.walk(s.form))
    ]
    seen: set[int] = set()
    while waiting:
        index = waiting.pop(0)
        if index in seen:
            continue
        seen.add(index)
        yield pattern.statements[index]
        waiting += [r.statement for r in _references(pattern.statements[index].form, focus)]


def _references(form: f.Form, focus: int) -> Iterator[f.Reference]:
    """References that are followed whichever alternatives are taken."""
    if isinstance(form, f.Reference):
        yield form
        return
    if isinstance(form, f.Choice):
        taken = [b.form for b in form.branches if holds(b.form, focus)]
        for inner in taken[:1]:
            yield from _references(inner, focus)
        return
    for child in f.children(form):
        yield from _references(child, focus)


def holds(form: f.Form, focus: int) -> bool:
    """Whether the form of that number is this one or inside."""
    return any(x.index == focus for x in f.walk(form))


# --- one form at one opset -----------------------------------------------------------------------


def _form(form: f.Form, opset: int, vocabulary: Vocabulary) -> str:
    """Why nothing at this opset is of the form."""
    if isinstance(form, f.Choice):
        reasons = [_form(b.form, opset, vocabulary) for b in form.branches]
        return reasons[0] if all(reasons) else ""
    if isinstance(form, f.Op):
        reasons = [_operator(form, o, opset, vocabulary) for o in sorted(form.operators)]
        if all(reasons):
            return reasons[0]
    if isinstance(form, f.Bag) and in_force(vocabulary.schemas(*form.operator), opset) is None:
        return f"{form.operator[1]} is not in this opset"
    inner = (_form(child, opset, vocabulary) for child in f.children(form))
    return next((reason for reason in inner if reason), "")


def _operator(form: f.Op, operator: f.Operator, opset: int, vocabulary: Vocabulary) -> str:
    name = operator[1]
    versions = vocabulary.schemas(*operator)
    if not versions:
        return ""  # nothing is known of it
    schema = in_force(versions, opset)
    if schema is None:
        return f"{name} is not in this opset"
    variadic = bool(schema.inputs) and schema.inputs[-1].option == "variadic"
    for place, operand in enumerate(form.operands):
        given = not isinstance(operand, f.Absent) and not may_be_absent(operand)
        if given and place >= len(schema.inputs) and not variadic:
            return f"{name} has {len(schema.inputs)} operands in this opset"
        needed = place < len(schema.inputs) and schema.inputs[place].option == "single"
        if isinstance(operand, f.Absent) and needed and place not in schema.legacy:
            return f"operand {place + 1} of {name} cannot be left out in this opset"
    for test in form.attributes:
        if test.values is None or test.name in schema.attributes or form.also:
            continue
        newest = next((v.attributes[test.name] for v in reversed(versions)
                       if test.name in v.attributes), None)  # fmt: skip
        implied = legacy.implied_attribute(*operator, opset, test.name)
        default = newest.default if newest is not None else None
        if (default if implied is None else implied) not in test.values:
            return f"{name} has no attribute {test.name} in this opset, which is as its default"
    return ""


def may_be_absent(form: f.Form) -> bool:
    """Whether the form also matches where no operand is given."""
    if isinstance(form, f.Any):
        return form.optional
    if isinstance(form, f.Choice):
        return any(may_be_absent(b.form) for b in form.branches)
    return isinstance(form, f.Absent)
