"""Models that take another branch of an alternative, built from the pattern.

In: a rule, a model that it matches. Out: `Change`s: where the match met an alternative, the nodes
of another branch stand instead. Values that the match has bound are used again; what the other
branch needs besides becomes a constant or an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from rewrite.audit.coverage.trace import Traced, trace
from rewrite.audit.instances.draft import Draft, cast, tensor, value_info
from rewrite.audit.instances.registry import Change
from rewrite.engine.completion import Completer
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.facts import Facts
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule
from rewrite.schema import DTYPE_CLASSES, DTYPES, Type
from rewrite.target.target import Target

_USUAL = ("Relu", "Abs", "Neg", "Tanh")  # for a chain of pointwise operators
_SEVERAL = ("f32", "s8", "u8", "s32", "s64")


class _CannotBuildError(Exception):
    """A form that no nodes are made for."""


def branches(rule: CompiledRule, model: onnx.ModelProto, target: Target) -> list[Change]:
    """A change for each branch that the match does not take."""
    if not any(isinstance(form, f.Choice) for form in rule.pattern.forms):
        return []
    try:
        facts = io.load(model).facts
    except RewriteError:
        return []
    facts.complete = Completer(facts)
    found: dict[str, Change] = {}
    for node in [n for graph in facts.graphs() for n in graph]:
        traced = trace(rule, node, facts, target)
        if traced is not None:
            for change in _of_match(rule, traced, facts):
                found.setdefault(change.label, change)
    return list(found.values())


def _of_match(rule: CompiledRule, traced: Traced, facts: Facts) -> Iterator[Change]:
    """One alternative at a time; then all of them, since one branch may ask for another one."""
    values = {i: v for i, v in traced.visits if v is not None}
    names = {name: str(v.name) for name, v in traced.match.env.items() if isinstance(v, ir.Value)}
    together: dict[int, list[_Exchange]] = {}
    for index, value in values.items():
        form = rule.pattern.forms[index]
        if not isinstance(form, f.Choice):
            continue
        for number, branch in enumerate(form.branches, 1):
            if branch.form.index in values:
                continue
            plan = _Plan(rule, names, str(value.name), facts.type(value), dict(traced.match.env))
            exchange = _Exchange(plan, branch.form)
            together.setdefault(number, []).append(exchange)
            label = f"{branch.name or f'branch {number}'} for {value.name}"
            yield Change(label, partial(_exchange, exchanges=[exchange]))
    for number, exchanges in together.items():
        if len(exchanges) > 1:
            yield Change(f"branch {number} everywhere", partial(_exchange, exchanges=exchanges))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is known where a branch is to be built. `names`: name of the rule -> value."""

    rule: CompiledRule
    names: Mapping[str, str]
    value: str
    type: Type
    env: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Exchange:
    """`form` is to stand where the value of the plan is."""

    plan: _Plan
    form: f.Form


def _exchange(draft: Draft, exchanges: Sequence[_Exchange]) -> bool:
    """All of them, operands before what they are operands of."""
    renamed: dict[str, str] = {}
    for one in exchanges:
        names = {name: renamed.get(value, value) for name, value in one.plan.names.items()}
        made = _one(draft, replace(one.plan, names=names), one.form)
        if made is None:
            return False
        renamed[one.plan.value] = made
    draft.drop_dead()
    return _sort(draft)


def _one(draft: Draft, plan: _Plan, form: f.Form) -> str | None:
    """The value that stands there now; None where nothing can be built."""
    builder = _Builder(draft, plan, dict(plan.names))
    try:
        made = builder.form(form)
    except _CannotBuildError:
        return None
    if not made or made == plan.value:
        return None
    own = {name for node in builder.made for name in node.output}
    for node in draft.graph.node:
        node.input[:] = [made if n == plan.value else n for n in node.input]
    draft.graph.node.extend(builder.made)
    shown = any(v.name == plan.value for v in draft.graph.output)
    _show(draft, plan.value, made, own)
    return plan.value if shown else made


def _show(draft: Draft, old: str, made: str, own: set[str]) -> None:
    """An output of the graph keeps its name."""
    if not any(v.name == old for v in draft.graph.output):
        return
    if made not in own:
        draft.graph.node.append(helper.make_node("Identity", [made], [old]))
    before = draft.fresh(f"{old}_before")
    for node in draft.graph.node:
        if own.intersection(node.output):  # it may be computed from what it stands for
            node.input[:] = [before if n == old else n for n in node.input]
        elif old in node.output and made not in node.input:
            node.output[:] = [before if n == old else n for n in node.output]
    for node in draft.graph.node:
        node.input[:] = [old if n == made and made in own else n for n in node.input]
        if own.intersection(node.output):
            node.output[:] = [old if n == made else n for n in node.output]


def _sort(draft: Draft) -> bool:
    """Nodes after what they read; False where that goes in a circle."""
    graph = draft.graph
    waiting, done = list(graph.node), list[onnx.NodeProto]()
    made = {name for node in waiting for name in node.output}
    while waiting:
        ready = next((n for n in waiting if not made.intersection(n.input)), None)
        if ready is None:
            return False
        waiting.remove(ready)
        made.difference_update(ready.output)
        done.append(ready)
    del graph.node[:]
    graph.node.extend(done)
    return True


@dataclass
class _Builder:
    """Nodes for a form, operands first. `names` grows with what is built."""

    draft: Draft
    plan: _Plan
    names: dict[str, str]
    made: list[onnx.NodeProto] = field(default_factory=list)
    count: int = 0

    def form(self, form: f.Form) -> str:
        """The value that the form describes, "" for an absent operand."""
        build = _BUILDS.get(type(form))
        if build is None:
            raise _CannotBuildError
        return build(self, form)

    def absent(self, _: f.Absent) -> str:
        return ""

    def number(self, form: f.Number) -> str:
        return self.constant(float(form.value), self.dtype(None))

    def choice(self, form: f.Choice) -> str:
        return self.form(form.branches[0].form)

    def reference(self, form: f.Reference) -> str:
        if form.name not in self.names:
            statement = self.plan.rule.pattern.statements[form.statement]
            self.names[form.name] = self.form(statement.form)
        return self.names[form.name]

    def bag(self, form: f.Bag) -> str:
        parts = [self.form(item) for item in form.items]
        made = parts[0]
        for part in parts[1:]:
            made = self.node(form.operator, [made, part], {})
        return made

    def chain(self, form: f.Chain) -> str:
        name = next((n for n in _USUAL if ("", n) in form.operators), None)
        if name is None:
            raise _CannotBuildError
        made = self.form(form.start)
        for _ in range(form.least):
            made = self.node(("", name), [made], {})
        return made

    def any(self, form: f.Any) -> str:
        if form.name is not None and form.name in self.names:
            return self.names[form.name]
        dtype = self.dtype(form.type)
        if form.type is not None and form.type.const:
            self.count += 1
            made = self.constant(float(self.count), dtype)
        elif form.optional:
            return ""
        else:
            shape = self.plan.type.shape
            if shape is None:
                raise _CannotBuildError
            made = self.draft.fresh(form.name or "other")
            dims = [None if isinstance(d, str) and d.startswith("?") else d for d in shape]
            self.draft.graph.input.append(value_info(made, DTYPES[dtype], dims))
        if form.name is not None:
            self.names[form.name] = made
        return made

    def dtype(self, test: f.TypeTest | None) -> str:
        """The element type of the value that is replaced, or one that the pattern wants."""
        own = self.plan.type.dtype
        if test is None or test.dtypes is None or own in test.dtypes:
            if own is None:
                raise _CannotBuildError
            return own
        return next((t for t in _SEVERAL if t in test.dtypes), sorted(test.dtypes)[0])

    def constant(self, value: float, dtype: str) -> str:
        if dtype == "string":
            raise _CannotBuildError
        made = self.draft.fresh("k")
        whole = dtype in DTYPE_CLASSES["int"]
        array = cast(np.array(round(value) if whole else value), dtype)
        self.draft.graph.initializer.append(tensor(made, array))
        return made

    def operator(self, form: f.Op) -> str:
        operands = [self.form(operand) for operand in form.operands]
        if form.rest is not None:
            operands.append(self.form(f.Any(-1, form.span, None, False, form.rest.type)))
        while operands and not operands[-1]:
            operands.pop()
        attributes: dict[str, Any] = {}
        for test in form.attributes:
            values = [v for v in test.values or () if v is not None]
            if values:
                attributes[test.name] = (
                    list(values[0]) if isinstance(values[0], tuple) else values[0]
                )
            elif test.bind is not None and isinstance(self.plan.env.get(test.bind), (int, float)):
                attributes[test.name] = self.plan.env[test.bind]
        return self.node(form.operator, operands, attributes)

    def node(self, operator: f.Operator, operands: list[str], attributes: dict[str, Any]) -> str:
        made = self.draft.fresh("v")
        taken = {name for node in self.made for name in node.output}
        number = 0
        while made in taken:
            number += 1
            made = self.draft.fresh(f"v{number}")
        domain, name = operator
        known = _known(operator)
        kept = {k: v for k, v in attributes.items() if k in known}
        self.made.append(helper.make_node(name, operands, [made], domain=domain, **kept))
        if domain and all(e.domain != domain for e in self.draft.model.opset_import):
            self.draft.model.opset_import.append(helper.make_opsetid(domain, 1))
        return made


_BUILDS: Mapping[type[f.Form], Callable[..., str]] = {
    f.Any: _Builder.any,
    f.Absent: _Builder.absent,
    f.Number: _Builder.number,
    f.Choice: _Builder.choice,
    f.Reference: _Builder.reference,
    f.Bag: _Builder.bag,
    f.Chain: _Builder.chain,
    f.Op: _Builder.operator,
}


def _known(operator: f.Operator) -> frozenset[str]:
    """The attributes of the newest version."""
    from rewrite.ops import schemas

    versions = schemas.versions(*operator)
    return frozenset(versions[-1].attributes) if versions else frozenset()
