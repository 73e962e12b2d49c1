"""Checks of attributes that are ignored or carried."""

from __future__ import annotations

from collections.abc import Iterator

from rewrite.audit.lint.finding import Found
from rewrite.audit.lint.ignoring import changed
from rewrite.audit.lint.registry import check
from rewrite.audit.lint.subject import Subject
from rewrite.lang import ast
from rewrite.lang.check_patterns import tops
from rewrite.lang.versions import attributes
from rewrite.lang.walk import nodes
from rewrite.schema import AttributeSchema


@check("RW931", "error")
def ignored_and_not_without_meaning(subject: Subject) -> Iterator[Found]:
    '''An ignored attribute changes the result.

    `ignored` says that the rule holds whatever the attribute is. In an example of the rule the
    attribute was given another value; the rule still applied, and the numbers differ by more than
    it promises. (An attribute that is neither asked for nor ignored is an error when the pack is
    loaded, RW209.)

    ```rule bad
    rule softmax_of_shifted in clean opset 13.. {
      """softmax(x + c) = softmax(x) for a constant along the axis."""
      match y = Softmax(x + (c: const)) { axis: ignored }
      where rank(x) == 2, shape(x) == shape(y), rank(c) == 2, dim(c, 1) == 1
      emit  y = Softmax(x) { axis: -1 }
      claim equal(rtol=1e-5)
      example fires plain """
        g (float[2,3] x) => (float[2,3] y) <float[2,1] c = {1,2}>
        { a = Add(x, c)  y = Softmax(a) }
      """
      example rejects along_rows """
        g (float[2,3] x) => (float[2,3] y) <float[1,3] c = {1,2,3}>
        { a = Add(x, c)  y = Softmax(a) }
      """
    }
    ```

    ```rule good
    rule softmax_of_shifted in clean opset 13.. {
      """softmax(x + c) = softmax(x) for a constant along the axis."""
      match y = Softmax(x + (c: const)) { axis: -1 | 1 }
      where rank(x) == 2, shape(x) == shape(y), rank(c) == 2, dim(c, 1) == 1
      emit  y = Softmax(x) { axis: -1 }
      claim equal(rtol=1e-5)
      example fires plain """
        g (float[2,3] x) => (float[2,3] y) <float[2,1] c = {1,2}>
        { a = Add(x, c)  y = Softmax(a) }
      """
      example rejects along_rows """
        g (float[2,3] x) => (float[2,3] y) <float[1,3] c = {1,2,3}>
        { a = Add(x, c)  y = Softmax(a) }
      """
    }
    ```
    '''
    for rule in subject.own():
        if rule.group is not None and not rule.emit:
            continue  # the nodes stay as they are
        matchers = subject.matchers_of(rule.name)
        for one in changed(rule, subject.witnesses, matchers, subject.operators):
            name = one.ignored.attribute
            message = f"the ignored attribute `{name}` of {one.ignored.operator} matters"
            hint = f"with {name} = {one.value} in `{one.witness.label}`: {one.difference}"
            yield Found(message, one.ignored.pattern.span, rule.name, hint)


@check("RW932", "warning")
def carried_to_another_operator(subject: Subject) -> Iterator[Found]:
    '''An attribute is carried to an operator where it means something else.

    `..c` carries what the pattern leaves open. The emitted operator is another one, and an
    attribute of that name has another kind or default there: a node that does not give it means
    one thing before and another one after.

    ```rule bad
    rule leaky_of_positive in fuse {
      """Of nothing negative LeakyRelu is Elu: both are the value."""
      match y = LeakyRelu(Relu(x))
      emit  y = Elu(Relu(x)) { ..y }
      claim equal(rtol=0)
      example fires plain """g (float[2] x) => (float[2] y) { r = Relu(x)  y = LeakyRelu(r) }"""
      example rejects other """g (float[2] x) => (float[2] y) { r = Abs(x)  y = LeakyRelu(r) }"""
    }
    ```

    ```rule good
    rule leaky_of_positive in fuse {
      """Of nothing negative LeakyRelu is Elu: both are the value."""
      match y = LeakyRelu(Relu(x)) { alpha: ignored }
      emit  y = Elu(Relu(x)) { alpha: 1.0 }
      claim equal(rtol=0)
      example fires plain """g (float[2] x) => (float[2] y) { r = Relu(x)  y = LeakyRelu(r) }"""
      example rejects other """g (float[2] x) => (float[2] y) { r = Abs(x)  y = LeakyRelu(r) }"""
    }
    ```
    '''
    for rule in subject.own():
        for emitted in rule.emit:
            for node in nodes(emitted):
                if isinstance(node, ast.OpExpr):
                    for name in node.carry:
                        yield from _carried(subject, rule, node, name)


def _carried(subject: Subject, rule: ast.Rule, made: ast.OpExpr, name: str) -> Iterator[Found]:
    opsets = (rule.opset[0] or 0, rule.opset[1] or subject.vocabulary.newest_opset)
    there = attributes(subject.operators.within(made.op, opsets))
    given = {a.name for a in made.attributes}
    for statement in rule.match:
        names = statement.names if isinstance(statement, ast.MatchStatement) else (statement.name,)
        if name not in names:
            continue
        for top in tops(statement.pattern):
            if top.op.name == made.op.name:
                continue
            here = attributes(subject.operators.within(top.op, opsets))
            listed = {a.name for a in top.attributes}
            for key in sorted(here.keys() & there.keys() - given - listed):
                if _differ(here[key], there[key]):
                    message = f"`..{name}` carries `{key}` of {top.op.name} to {made.op.name}, "
                    message += f"where its default is {_word(there[key])}"
                    hint = f"here it is {_word(here[key])}; bind it and give it by name"
                    yield Found(message, made.span, rule.name, hint)


def _differ(here: AttributeSchema, there: AttributeSchema) -> bool:
    return here.kind != there.kind or here.default != there.default


def _word(attribute: AttributeSchema) -> str:
    default = attribute.default
    if default is None:
        return "none"
    return f"{default:g}" if isinstance(default, float) else str(default)
