"""Checks that a run comes to an end, and to the same one whatever goes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rewrite.audit.lint.checks.overlap import head
from rewrite.audit.lint.finding import Found
from rewrite.audit.lint.loops import find_loops
from rewrite.audit.lint.measure import Change, changes_of, unordered
from rewrite.audit.lint.outcome import Outcome, outcomes
from rewrite.audit.lint.registry import check
from rewrite.audit.lint.subject import Subject
from rewrite.audit.lint.witness import Meeting
from rewrite.errors import Label
from rewrite.lang.vocabulary import PHASES


@check("RW903", "warning")
def does_not_join(subject: Subject) -> Iterator[Found]:
    '''Two rules take the same node, and the result depends on which comes first.

    They match at two anchors and have a node in common, so the one that is applied first keeps the
    other from it, and no `over` decides: which anchor is looked at first depends on the model. From
    there, the rules of the pack do not lead to the same graph (float constants apart). A further
    rule that brings both results together, a condition, or another phase for one of the rules mends
    it. The finding names the model, made of an example of each rule where no example is one, and
    the operators that each order ends with. It stands at the rule that is in most of such pairs.
    Where both results are as good, or nodes are looked at in an order that leads to the better one,
    say so in a comment.

    ```rule bad
    rule absolute_of_product in clean {
      """|k x| = |x| k, of k > 0."""
      match y = Abs(Mul(x, k: const))
      where size(k) == 1, k > 0
      emit  y = Abs(x) * k
      claim exact
      example fires plain """
        g (float[2] x) => (float[2] y) <float k = {3}> { a = Mul(x, k)  y = Abs(a) }
      """
      example rejects negative """
        g (float[2] x) => (float[2] y) <float k = {-3}> { a = Mul(x, k)  y = Abs(a) }
      """
    }

    rule product_of_absolute in clean {
      """Twice the magnitude of a sum of a value with itself."""
      match y = Mul(shared Neg(x), 2)
      emit  y = Sub(Neg(x), x)
      claim equal(rtol=1e-6)
      example fires plain """
        g (float[2] x) => (float[2] y) <float k = {2}> { n = Neg(x)  a = Mul(n, k)  y = Abs(a) }
      """
      example rejects other """
        g (float[2] x) => (float[2] y) <float k = {3}> { n = Neg(x)  y = Mul(n, k) }
      """
    }
    ```

    ```rule good
    rule absolute_of_product in clean {
      """|k x| = |x| k, of k > 0."""
      match y = Abs(Mul(x, k: const))
      where size(k) == 1, k > 0
      emit  y = Abs(x) * k
      claim exact
      example fires plain """
        g (float[2] x) => (float[2] y) <float k = {3}> { a = Mul(x, k)  y = Abs(a) }
      """
      example rejects negative """
        g (float[2] x) => (float[2] y) <float k = {-3}> { a = Mul(x, k)  y = Abs(a) }
      """
    }
    ```
    '''
    found: dict[tuple[str, str], tuple[Meeting, tuple[Outcome, Outcome]]] = {}
    for pair, meetings in subject.meetings.pairs.items():
        for meeting in meetings:
            ends = None if meeting.same_anchor or meeting.phase == PHASES[-1] else outcomes(meeting)
            if ends is not None and ends[0].structure != ends[1].structure:
                found[pair] = meeting, ends
                break
    for here, other in _hubs(list(found), frozenset(subject.written)):
        pair = (here, other) if (here, other) in found else (other, here)
        yield _apart(subject, here, other, *found[pair])


def _hubs(pairs: list[tuple[str, str]], own: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Each pair once, at the rule of the pack that is in most of those that are left."""
    left = list(pairs)
    while left:
        counts = Counter(name for pair in left for name in pair if name in own)
        most = max(counts.values())
        hub = next(name for pair in left for name in pair if counts[name] == most)
        for first, second in left:
            if hub in (first, second):
                yield hub, second if hub == first else first
        left = [pair for pair in left if hub not in pair]


def _apart(
    subject: Subject, here: str, other: str, meeting: Meeting, ends: tuple[Outcome, Outcome]
) -> Found:
    message = f"`{here}` and `{other}` take the same node, and do not lead to one result"
    shown = " or ".join(", ".join(end.operators) or "nothing" for end in ends)
    hint = f"on `{meeting.witness.label}` they end with {shown}"
    note = Label(subject.expanded[other].span, "the other rule")
    return Found(message, head(subject.expanded[here].span), here, hint, (note,))


@check("RW904", "error")
def loops(subject: Subject) -> Iterator[Found]:
    '''Rules that do not come to an end.

    A rule applies to its own result, or rules undo each other, on one of the pack's own examples.
    The engine stops such rules at a limit, and what is left depends on where it did.

    ```rule bad
    rule doubled in clean {
      """x + x = 2 x."""
      match y = x + x
      emit  y = x * 2
      claim equal(rtol=0)
      example fires plain """g (float[2] x) => (float[2] y) { y = Add(x, x) }"""
      example rejects other """g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }"""
    }

    rule halved in clean {
      """2 x = x + x."""
      match y = x * 2
      emit  y = x + x
      claim equal(rtol=0)
      example fires plain """
        g (float[2] x) => (float[2] y) <float k = {2}> { y = Mul(x, k) }
      """
      example rejects three """
        g (float[2] x) => (float[2] y) <float k = {3}> { y = Mul(x, k) }
      """
    }
    ```

    ```rule good
    rule doubled in clean {
      """x + x = 2 x."""
      match y = x + x
      emit  y = x * 2
      claim equal(rtol=0)
      example fires plain """g (float[2] x) => (float[2] y) { y = Add(x, x) }"""
      example rejects other """g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }"""
    }
    ```
    '''
    own = [w for w in subject.witnesses if w.rule in subject.written and w.fires]
    told: set[frozenset[str]] = set()
    for loop in (x for w in own for x in find_loops(w, subject.matchers_of(w.rule))):
        names = [name for name in dict.fromkeys(loop.rules) if name in subject.written]
        if not names or frozenset(loop.rules) in told:
            continue
        told.add(frozenset(loop.rules))
        message = f"these rules do not come to an end: {' -> '.join(loop.rules)}"
        hint = f"as in `{loop.witness.label}`; a condition has to end it"
        yield Found(message, head(subject.expanded[names[0]].span), names[0], hint)


@check("RW905", "warning")
def grows(subject: Subject) -> Iterator[Found]:
    '''A rule adds nodes, and nothing shows that it ends.

    Each rule of a phase should make something less, so that a run comes to an end whatever the
    model: the number of nodes of one operator after the other, then that of all nodes. No order of
    operators was found in which this rule, with those of its phase, does so, and it adds nodes.
    What ends it has to be a condition: say in a `# lint: allow RW905:` comment which one.

    ```rule bad
    rule negated_subtrahend in lower {
      """A subtrahend is negated twice, so that a kernel for sums may take it."""
      match y = Sub(x, z)
      where op(z) != "Neg"
      emit  y = Sub(x, Neg(Neg(z)))
      claim exact
      example fires plain """g (float x, float z) => (float y) { y = Sub(x, z) }"""
      example rejects negated """
        g (float x, float z) => (float y) { n = Neg(z)  y = Sub(x, n) }
      """
    }
    ```

    ```rule good
    rule negated_subtrahend in lower {
      """x - (-z) = x + z."""
      match y = Sub(x, Neg(z))
      emit  y = x + z
      claim exact
      example fires plain """g (float x, float z) => (float y) { n = Neg(z)  y = Sub(x, n) }"""
      example rejects positive """g (float x, float z) => (float y) { y = Sub(x, z) }"""
    }
    ```
    '''
    for phase in PHASES:
        rules = [rule for rule in subject.pack.rules if rule.phase == phase]
        if not any(rule.name in subject.written for rule in rules):
            continue
        left = unordered([c for rule in rules for c in changes_of(rule, subject.vocabulary)])
        growing = {c.rule: c for c in reversed(left) if c.total > 0}
        for rule in rules:
            if rule.name in growing and rule.name in subject.written:
                change = growing[rule.name]
                message = f"`{rule.name}` takes {_counted(change, 'least')} away and adds "
                message += f"{_counted(change, 'most')}; nothing shows that it ends"
                hint = "say which condition ends it: `# lint: allow RW905: ...`"
                yield Found(message, head(rule.span), rule.name, hint)


def _counted(change: Change, side: str) -> str:
    counts = change.least if side == "least" else change.most
    words: Sequence[str] = [f"{n} {name}" for name, n in sorted(counts.items()) if n]
    return ", ".join(words) or "nothing"
