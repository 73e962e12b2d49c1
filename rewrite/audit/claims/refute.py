"""A rule held against given instances.

In: a pack, a rule (of the pack, or a changed one), targets, instances. Out: the first
`Counterexample`, or None. For callers that ask often, in one process: nothing is shrunk, and what
the originals compute is kept (`original`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rewrite.audit.claims.check import Checked, check
from rewrite.audit.claims.counterexample import Counterexample
from rewrite.audit.instances.alone import Alone, Applied, targets_for
from rewrite.audit.instances.instance import Instance
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.target.target import Target


def refute(
    pack: RulePack, rule: ast.Rule, targets: Iterable[Target], instances: Sequence[Instance]
) -> Counterexample | None:
    """The first instance on which the rule fires and breaks its claim.

    An instance that names one of the targets is tried on that one. Raises `RewriteError` where
    the rule does not compile.
    """
    chosen = targets_for(rule, targets)
    for alone in [Alone.of(pack, rule, target) for target in chosen]:
        for instance in instances:
            if _is_elsewhere(instance, alone, chosen):
                continue
            applied = alone.apply(instance.model)
            if applied is None or applied.after is None:
                continue
            checked = check(instance.model, applied.after, applied.bound)
            if checked.status == "broken":
                return counterexample(alone, instance, applied, checked)
    return None


def _is_elsewhere(instance: Instance, alone: Alone, chosen: Sequence[Target]) -> bool:
    """Whether the instance belongs to another of the targets."""
    if instance.target == alone.target.name:
        return False
    return any(instance.target == target.name for target in chosen)


def counterexample(
    alone: Alone, instance: Instance, applied: Applied, checked: Checked
) -> Counterexample:
    """What a broken claim was seen on."""
    assert applied.after is not None
    return Counterexample(
        alone.rule.name,
        alone.target.name,
        instance.model,
        applied.after,
        checked.reason,
        checked.runtime,
        dict(checked.feeds),
        dict(checked.wanted),
        dict(checked.got),
        instance.varied,
        instance.source,
    )
