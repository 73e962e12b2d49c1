"""Checks of claims, literals, docs and examples."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rewrite.audit.lint.checks.overlap import head
from rewrite.audit.lint.finding import Found
from rewrite.audit.lint.promises import computes, lost_in_half, other_arithmetic
from rewrite.audit.lint.registry import check
from rewrite.audit.lint.subject import Subject
from rewrite.audit.lint.witness import Witness
from rewrite.graph.uses import nodes_of
from rewrite.lang import ast
from rewrite.lang.walk import nodes
from rewrite.match.accept import applies
from rewrite.match.near import MOST_VIOLATIONS, near

# Functions that turn sums into codes in the target's arithmetic, which is not that of reals.
_REQUANTIZE = frozenset(("requantize", "add_codes", "mean_codes"))
_FILLERS = frozenset(("a", "an", "and", "for", "in", "is", "of", "or", "rule", "that", "the", "to"))


@check("RW933", "warning")
def literal_outside_of_float16(subject: Subject) -> Iterator[Found]:
    '''A literal that no float16 constant equals.

    In float16 the number is 0 or infinite, so the rule cannot match models of that type, or matches
    a constant 0. A condition with a bound, or a pattern that asks for `f32`, says what is meant.

    ```rule bad
    rule unmasked in fuse {
      """softmax(x + 0 · -1e9), where the mask is nothing, is softmax(x)."""
      match y = Softmax(x + Mul(0, -1000000000)) { axis: axis }
      where shape(x) == shape(y)
      emit  y = Softmax(x) { axis: axis }
      claim equal(rtol=0)
      example fires plain """
        g (float[2,3] x) => (float[2,3] y) <float z = {0}, float m = {-1000000000}>
        { k = Mul(z, m)  a = Add(x, k)  y = Softmax(a) }
      """
      example rejects one """
        g (float[2,3] x) => (float[2,3] y) <float z = {1}, float m = {-1000000000}>
        { k = Mul(z, m)  a = Add(x, k)  y = Softmax(a) }
      """
    }
    ```

    ```rule good
    rule unmasked in fuse {
      """softmax(x + 0 m), where the mask is nothing, is softmax(x)."""
      match y = Softmax(x + Mul(0, m: const)) { axis: axis }
      where shape(x) == shape(y), m < -10000, m > lowest(m)
      emit  y = Softmax(x) { axis: axis }
      claim equal(rtol=0)
      example fires plain """
        g (float[2,3] x) => (float[2,3] y) <float z = {0}, float m = {-1000000000}>
        { k = Mul(z, m)  a = Add(x, k)  y = Softmax(a) }
      """
      example rejects small """
        g (float[2,3] x) => (float[2,3] y) <float z = {0}, float m = {-1}>
        { k = Mul(z, m)  a = Add(x, k)  y = Softmax(a) }
      """
    }
    ```
    '''
    for rule in subject.own():
        for statement in rule.match:
            for node in nodes(statement):
                found = lost_in_half(node) if isinstance(node, ast.Number) else None
                if found is not None and isinstance(node, ast.Number):
                    message = f"`{node.text}` is {found} in float16"
                    hint = "bind the constant and compare it in a condition"
                    yield Found(message, node.span, rule.name, hint)


@check("RW941", "warning")
def doc_says_nothing(subject: Subject) -> Iterator[Found]:
    '''A doc string that only repeats the name.

    It is shown by `rewrite rules` and in reports: a formula or a sentence says more.

    ```rule bad
    rule remove_double_negation in clean {
      """Remove the double negation."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```

    ```rule good
    rule remove_double_negation in clean {
      """-(-x) = x."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```
    '''
    for rule in subject.own():
        words = set(re.findall(r"\w+", rule.doc.lower()))
        letters = any(character.isalpha() for character in rule.doc)
        if letters and words <= {*rule.name.lower().split("_"), *_FILLERS}:
            message = f"the doc of `{rule.name}` says no more than its name"
            yield Found(message, head(rule.span), rule.name, "say what becomes of what, and why")


@check("RW942", "warning")
def rejects_from_afar(subject: Subject) -> Iterator[Found]:
    '''No rejecting example comes near the rule.

    In each of them more than three tests of the rule do not hold at every node, whatever the
    target: it would be rejected even if most of the pattern and the conditions were left out. An
    example that fires, with one thing changed, says what the rule is careful about. (A rule without
    any rejecting example is an error when the pack is loaded, RW248.)

    ```rule bad
    rule double_negation in clean {
      """-(-x) = x."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects other """g (float x) => (float y) { y = Abs(x) }"""
    }
    ```

    ```rule good
    rule double_negation in clean {
      """-(-x) = x."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```
    '''
    for rule in subject.own():
        rejecting = [w for w in subject.witnesses if w.rule == rule.name and not w.fires]
        if rejecting and not any(_near(subject, rule.name, w) for w in rejecting):
            message = f"no rejecting example of `{rule.name}` comes near to what it matches"
            hint = "change one thing of an example that fires"
            place = next(e.span for e in rule.examples if not e.fires)
            yield Found(message, place, rule.name, hint)


def _near(subject: Subject, name: str, witness: Witness) -> bool:
    """Whether few tests fail at some node, for some target."""
    loaded = witness.load()
    if loaded is None:
        return True  # `rewrite test` says what is wrong
    rule = subject.compiled[name]
    anchors = [
        node
        for graph in loaded.facts.graphs()
        for node in nodes_of(graph)
        if applies(rule, node, loaded.facts) is None
    ]
    return any(
        near(rule, node, loaded.facts, target, MOST_VIOLATIONS)
        for target, _ in subject.matchers_of(name)
        for node in anchors
    )


@check("RW943", "error")
def exact_in_other_arithmetic(subject: Subject) -> Iterator[Found]:
    '''Floats are computed by other operators, and the claim is `exact`.

    `exact` promises the same bits. Sums and products of floats are rounded at every step, so other
    steps give other bits for some inputs, even if none of the examples shows it. Where the factors
    are powers of two, or values small integers, it holds all the same: say so in a comment.

    ```rule bad
    rule common_factor in fold {
      """x z + w z = (x + w) z."""
      match y = x * z + w * z
      emit  y = (x + w) * z
      claim exact
      example fires empty """
        g (float[2,0] x, float[2,0] w, float[2,1] z) => (float[2,0] y, float[2,1] n)
        { a = Mul(x, z)  b = Mul(w, z)  y = Add(a, b)  n = Neg(z) }
      """
      example rejects other """
        g (float[2] x, float[2] w, float[2] z, float[2] v) => (float[2] y)
        { a = Mul(x, z)  b = Mul(w, v)  y = Add(a, b) }
      """
    }
    ```

    ```rule good
    rule common_factor in fold {
      """x z + w z = (x + w) z."""
      match y = x * z + w * z
      emit  y = (x + w) * z
      claim approx(atol=1e-5)
      example fires plain """
        g (float[2] x, float[2] w, float[2] z) => (float[2] y)
        { a = Mul(x, z)  b = Mul(w, z)  y = Add(a, b) }
      """
      example rejects other """
        g (float[2] x, float[2] w, float[2] z, float[2] v) => (float[2] y)
        { a = Mul(x, z)  b = Mul(w, v)  y = Add(a, b) }
      """
    }
    ```
    '''
    for rule in subject.own():
        if rule.claim.kind != "exact":
            continue
        found = other_arithmetic(rule, subject.operators)
        if found is not None:
            before, after = (
                ", ".join(f"{count} {name}" for name, count in sorted(side.items())) or "nothing"
                for side in found
            )
            message = f"`exact`, but floats are computed by {after} instead of {before}"
            hint = "claim equal(rtol=...), or say in a comment why no bit changes"
            yield Found(message, rule.claim.span, rule.name, hint)


@check("RW944", "warning")
def requantized_without_certificate(subject: Subject) -> Iterator[Found]:
    '''Sums become codes in the target's arithmetic, and no certificate says how exact that is.

    A multiplier and a shift stand for a real factor; by how many steps they miss it depends on the
    scales, so a number of steps written into the rule is a guess. `claim certified(r)` holds each
    application against the evidence computed for its own scales.

    ```rule bad
    rule sum_of_codes in lower {
      """A sum of codes, in the arithmetic of the target."""
      match y = Q(DQ(A: u8 per_tensor) + DQ(B: u8 per_tensor), u8 per_tensor)
      let   sum = code_sum(A, number(A.scale), number(A.zp), B, number(B.scale), number(B.zp),
                      y, number(y.scale), number(y.zp), 0, 255)
      where target.requantizes(), sound(A.scale), sound(B.scale), sound(y.scale)
      emit  y = add_codes(A, B, sum)
      claim lsb(1)
      example fires plain """
        g (uint8[2] a, uint8[2] b) => (uint8[2] y)
        <float s = {0.11}, float t = {0.27}, uint8 o = {5}>
        { d = DequantizeLinear(a, s, o)  e = DequantizeLinear(b, s, o)  f = Add(d, e)
          y = QuantizeLinear(f, t, o) }
      """
      example rejects not_quantized """
        g (uint8[2] a, float[2] b) => (uint8[2] y)
        <float s = {0.11}, float t = {0.27}, uint8 o = {5}>
        { d = DequantizeLinear(a, s, o)  f = Add(d, b)  y = QuantizeLinear(f, t, o) }
      """
    }
    ```

    ```rule good
    rule sum_of_codes in lower {
      """A sum of codes, in the arithmetic of the target."""
      match y = Q(DQ(A: u8 per_tensor) + DQ(B: u8 per_tensor), u8 per_tensor)
      let   sum = code_sum(A, number(A.scale), number(A.zp), B, number(B.scale), number(B.zp),
                      y, number(y.scale), number(y.zp), 0, 255)
      where target.requantizes(), sound(A.scale), sound(B.scale), sound(y.scale)
      emit  y = add_codes(A, B, sum)
      claim certified(sum)
      example fires plain """
        g (uint8[2] a, uint8[2] b) => (uint8[2] y)
        <float s = {0.11}, float t = {0.27}, uint8 o = {5}>
        { d = DequantizeLinear(a, s, o)  e = DequantizeLinear(b, s, o)  f = Add(d, e)
          y = QuantizeLinear(f, t, o) }
      """
      example rejects not_quantized """
        g (uint8[2] a, float[2] b) => (uint8[2] y)
        <float s = {0.11}, float t = {0.27}, uint8 o = {5}>
        { d = DequantizeLinear(a, s, o)  f = Add(d, b)  y = QuantizeLinear(f, t, o) }
      """
    }
    ```
    '''
    for rule in subject.own():
        if rule.claim.kind not in ("exact", "lsb"):
            continue
        calls = [n for e in rule.emit for n in nodes(e) if isinstance(n, ast.Call)]
        used = sorted({c.function for c in calls if c.function in _REQUANTIZE})
        if used:
            message = f"`{', '.join(used)}` is as exact as the scales allow; the claim is a guess"
            hint = "bind what says how exact it is, and write `claim certified(...)`"
            yield Found(message, rule.claim.span, rule.name, hint)


@check("RW945", "warning")
def no_number_computed(subject: Subject) -> Iterator[Found]:
    '''No example that fires computes a number.

    The claim is held against the outputs of examples. Those of this rule have no element, so any
    claim would hold.

    ```rule bad
    rule double_negation in clean {
      """-(-x) = x."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """
        g (float[0] x) => (float[0] y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }
      """
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```

    ```rule good
    rule double_negation in clean {
      """-(-x) = x."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```
    '''
    for rule in subject.own():
        firing = [w.model for w in subject.witnesses if w.rule == rule.name and w.fires]
        models = [model for model in firing if model is not None]
        if models and not any(map(computes, models)):
            message = f"no example of `{rule.name}` that fires has an output with an element"
            hint = "give one of them sizes above 0"
            place = next(e.span for e in rule.examples if e.fires)
            yield Found(message, place, rule.name, hint)
