"""An instance that z3 suggests. In: a rule on a target. Out: `Tried`, or nothing."""

from __future__ import annotations

from collections.abc import Iterator

from rewrite.audit.claims.smt import is_installed
from rewrite.audit.instances.alone import Alone
from rewrite.audit.instances.generate import Tried
from rewrite.audit.instances.instance import Instance


def suggested(alone: Alone, seconds: float) -> Iterator[Tried]:
    """The model on which z3 says that both sides differ, where there is one and the rule fires.

    What was found for the same rule and seconds before is not looked for again.
    """
    if not is_installed():
        return
    from rewrite.audit.claims.smt.values import settle
    from rewrite.audit.claims.smt.witness import model_of

    found = settle(alone.compiled, seconds)
    model = None if found.apart is None else model_of(alone.compiled, found.apart)
    applied = None if model is None else alone.apply(model)
    if model is not None and applied is not None and applied.after is not None:
        instance = Instance(model, True, (), "numbers that z3 found", alone.target.name)
        yield Tried(instance, applied)
