"""Models built from a pattern, on top of a model that it matches.

In: a rule, alone, and a model on which it matches. Out: `Seed`s: for each branch of an alternative
that was not taken, and each optional operand that was absent, the model with the pattern built
that way in place of what was matched.

What the match binds stays what it is: operands have types that fit each other, attributes values
that conditions want. What only the other branch names is invented: constants of one element, inputs
of the type of the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from rewrite.audit.instances.alone import Alone
from rewrite.audit.instances.draft import Draft, cast, tensor, value_info
from rewrite.audit.instances.seeds import Seed
from rewrite.engine.completion import Completer
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.facts import Facts
from rewrite.match import form as f
from rewrite.match import interpreter
from rewrite.match.rule import Match
from rewrite.schema import DTYPES, Type

_MOST = 24  # seeds of one model
_LINK = "Relu"  # what a chain is made of, where its class has it


def grown(alone: Alone, model: onnx.ModelProto, source: str) -> Iterator[Seed]:
    """Other ways to build the pattern; models that come out invalid are left out."""
    try:
        facts = io.load(model).facts
    except RewriteError:
        return
    facts.complete = Completer(facts)
    found = _match(alone, facts)
    if found is None:
        return
    for count, (label, choice) in enumerate(_choices(alone.compiled.pattern, found)):
        if count == _MOST:
            return
        draft = Draft(model)
        builder = _Builder(draft, alone.compiled.pattern, found, facts, choice)
        made = draft.finish() if builder.run() else None
        if made is not None:
            yield Seed(made, f"{source}, {label}")


def _match(alone: Alone, facts: Facts) -> Match | None:
    """The first match in the main graph."""
    for node in facts.graphs()[0]:
        found = interpreter.match(alone.compiled, node, facts, alone.target)
        if isinstance(found, Match):
            return found
    return None


Choice = Mapping[int, int]  # the number of a form -> the branch; 1 for a present operand


def _choices(pattern: f.Pattern, found: Match) -> Iterator[tuple[str, Choice]]:
    for form in pattern.forms:
        if isinstance(form, f.Choice):
            for place, branch in enumerate(form.branches):
                if branch.name is None or branch.name not in found.branches:
                    yield f"branch {branch.name or place + 1}", {form.index: place}
        elif isinstance(form, f.Any) and form.optional and form.name is not None:
            if found.env.get(form.name) is not None:
                continue
            yield f"with {form.name}", {form.index: 1}


@dataclass(slots=True)
class _Builder:
    """Adds the nodes of a pattern to a draft."""

    draft: Draft
    pattern: f.Pattern
    found: Match
    facts: Facts
    choice: Choice
    made: dict[str, str] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def run(self) -> bool:
        """Whether the pattern was built, its roots in place of those matched."""
        statements = self.pattern.statements
        if any(isinstance(s, f.Each) for s in statements):
            return False  # siblings are what the model has of them
        for statement in statements:
            self._statement(statement)
        return self._take_over()

    def _statement(self, statement: f.Statement) -> str | None:
        name = next((n for n in statement.names if n is not None), None)
        if name is None or len(statement.names) > 1:
            return None
        if name not in self.made:
            value = self._value(statement.form)
            if value is None:
                return None
            self.made[name] = value
        return self.made[name]

    def _take_over(self) -> bool:
        """The new values take the names of the old ones; what they replace goes."""
        draft = self.draft
        roots = [n for n in self.pattern.roots if n in self.made]
        if len(roots) != len(self.pattern.roots):
            return False
        for name in roots:
            old = self.found.env.get(name)
            if not isinstance(old, ir.Value) or old.name is None:
                return False
            aside = draft.fresh(f"{old.name}_old")
            for node in draft.nodes:
                node.output[:] = [aside if n == old.name else n for n in node.output]
            for node in self.nodes:
                node.input[:] = [old.name if n == self.made[name] else n for n in node.input]
                node.output[:] = [old.name if n == self.made[name] else n for n in node.output]
        draft.graph.node.extend(self.nodes)
        draft.drop_dead()
        return _in_order(draft)

    # --- values --------------------------------------------------------------------------------

    def _value(self, form: f.Form) -> str | None:
        """The name of a value of the form; "" absent; None where it cannot be built."""
        if isinstance(form, f.Any):
            return self._operand(form)
        if isinstance(form, f.Absent):
            return ""
        if isinstance(form, f.Number):
            return self._constant(form.value)
        if isinstance(form, f.Reference):
            return self._statement(self.pattern.statements[form.statement])
        if isinstance(form, f.Choice):
            return self._value(form.branches[self._branch(form)].form)
        if isinstance(form, f.Bag):
            return self._bag(form)
        if isinstance(form, f.Chain):
            return self._chain(form)
        return self._node(form) if isinstance(form, f.Op) else None

    def _branch(self, form: f.Choice) -> int:
        if form.index in self.choice:
            return self.choice[form.index]
        taken = [i for i, b in enumerate(form.branches) if b.name in self.found.branches]
        return taken[0] if taken else len(form.branches) - 1

    def _operand(self, form: f.Any) -> str | None:
        bound = None if form.name is None else self.found.env.get(form.name)
        if isinstance(bound, ir.Value):
            return bound.name
        if form.name is not None and form.name in self.made:
            return self.made[form.name]
        if form.optional and form.index not in self.choice:
            return ""
        made = self._constant(2) if form.type is None or form.type.const else self._input()
        if form.name is not None and made is not None:
            self.made[form.name] = made
        return made

    def _type(self) -> Type:
        """Of the first root."""
        root = self.found.roots[0]
        return self.facts.type(root)

    def _constant(self, number: float) -> str | None:
        dtype = self._type().dtype
        if dtype is None or dtype == "string":
            return None
        name = self.draft.fresh("number")
        array = cast(np.array(float(number)), dtype)
        self.draft.graph.initializer.append(tensor(name, array))
        return name

    def _input(self) -> str | None:
        type_ = self._type()
        if type_.dtype is None or type_.shape is None:
            return None
        name = self.draft.fresh("given")
        dims = [d if isinstance(d, int) else None for d in type_.shape]
        self.draft.graph.input.append(value_info(name, DTYPES[type_.dtype], dims))
        return name

    def _bag(self, form: f.Bag) -> str | None:
        leaves = [self._value(item) for item in form.items]
        total = leaves[0]
        for leaf in leaves[1:]:
            if not total or not leaf:
                return None
            total = self._add(form.operator, [total, leaf], {})
        return total

    def _chain(self, form: f.Chain) -> str | None:
        value = self._value(form.start)
        names = sorted(name for domain, name in form.operators if domain == "")
        link = _LINK if _LINK in names else names[0] if names else None
        for _ in range(form.least if value and link else 0):
            value = self._add(("", str(link)), [str(value)], {})
        return value

    def _node(self, form: f.Op) -> str | None:
        operands = [self._value(operand) for operand in form.operands]
        if any(operand is None for operand in operands):
            return None
        rest = None if form.rest is None else self.found.env.get(form.rest.name or "")
        if form.rest is not None and not isinstance(rest, tuple):
            return None
        given = [operand or "" for operand in operands]
        if isinstance(rest, tuple):
            given += [v.name or "" for v in rest if isinstance(v, ir.Value)]
        attributes: dict[str, object] = {}
        for test in form.attributes:
            value: object = self.found.env.get(test.bind) if test.bind else None
            if test.values:
                value = test.values[0]
            if isinstance(value, (int, float, str, tuple)):
                attributes[test.name] = list(value) if isinstance(value, tuple) else value
        return self._add(form.operator, given, attributes)

    def _add(
        self, operator: f.Operator, operands: list[str], attributes: Mapping[str, object]
    ) -> str:
        while operands and not operands[-1]:
            operands = operands[:-1]
        taken = {o for n in self.nodes for o in n.output}
        name = self.draft.fresh(f"grown{len(taken)}")
        node = helper.make_node(operator[1], operands, [name], domain=operator[0])
        for key, value in attributes.items():
            if value != []:
                node.attribute.append(helper.make_attribute(key, value))
        self.nodes.append(node)
        return name


def _in_order(draft: Draft) -> bool:
    """Put operands before what uses them; False where they go in a circle."""
    waiting = draft.nodes
    known = {v.name for v in draft.graph.input} | {t.name for t in draft.constants()} | {""}
    ordered: list[onnx.NodeProto] = []
    while waiting:
        ready = [n for n in waiting if all(name in known for name in n.input)]
        if not ready:
            return False
        ordered += ready
        known |= {o for n in ready for o in n.output}
        waiting = [n for n in waiting if n not in ready]
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in ordered]
    del draft.graph.node[:]
    draft.graph.node.extend(copies)
    return True
