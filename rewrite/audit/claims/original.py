"""A model as it was, run once for all that is compared with it.

In: a model. Out: `Original`: its outputs in an independent runtime on all inputs of its `Domain`;
or why nothing runs it. They are kept: a rule is mutated often, its instances are the same.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx

from rewrite.audit.claims.domain import domain
from rewrite.audit.compare import differ
from rewrite.audit.feeds import Array, Feeds, NoFeedsError, coarsest
from rewrite.audit.runtimes import (
    CannotRunError,
    Runner,
    Runtime,
    runners,
    source_of,
    working_plan,
)
from rewrite.engine.determinism import RANDOM
from rewrite.engine.ledger import EXACT

Step = Callable[[str], None]  # told what is about to be done: natively, it may end the process

_KEPT = 512
_REFUSED = "RUNTIME_EXCEPTION"  # at load: a kernel that does not take the node's attributes
_NOT_IMPLEMENTED = ("NOT_IMPLEMENTED", "Could not find an implementation", "No implementation for")


@dataclass(frozen=True, slots=True)
class Run:
    """One set of inputs and what came of it."""

    what: str
    feeds: Feeds
    outputs: Sequence[Array | None]


@dataclass(frozen=True, slots=True)
class Original:
    """`points`: how many inputs there are, if the runs are on all of them; `eps` as in `differ`;
    `varies`: a second run gives something else."""

    model: onnx.ModelProto
    runtime: Runtime
    runner: Runner
    runs: tuple[Run, ...]
    points: int
    eps: float
    varies: bool

    @property
    def factor(self) -> float:
        """Claims are stated for float32: by what a coarser type multiplies them."""
        return max(1.0, self.eps * 2.0**23)

    @property
    def names(self) -> list[str]:
        return [value.name for value in self.model.graph.output]


_known: OrderedDict[tuple[bytes, bool], tuple[Original | str, ...]] = OrderedDict()


def originals(model: onnx.ModelProto, exact: bool, step: Step) -> tuple[Original | str, ...]:
    """The model in every runtime that takes it, most independent first; else the reason.

    Where a kernel refuses the model, or every input of it, no other runtime is asked: the reference
    evaluator takes what ONNX forbids.
    """
    data = model.SerializeToString(deterministic=True)
    key = (hashlib.blake2b(data, digest_size=16).digest(), exact)
    found = _known.get(key)
    if found is not None:
        _known.move_to_end(key)
        return found
    made: list[Original | str] = []
    for runtime in runners():
        try:
            step(f"{runtime.name} loads the original")
            runner = runtime(source_of(model))
        except CannotRunError as problem:
            made.append(f"{runtime.name}: {problem}")
            if _REFUSED in str(problem):
                break
            continue
        one = _original(model, runtime, runner, exact, step)
        made.append(one)
        if isinstance(one, str) and not lacks_kernel(one):
            break
    _known[key] = tuple(made)
    while len(_known) > _KEPT:
        _known.popitem(last=False)
    return _known[key]


def lacks_kernel(problem: object) -> bool:
    """Whether it is the runtime that does not go so far."""
    return any(words in str(problem) for words in _NOT_IMPLEMENTED)


def _original(
    model: onnx.ModelProto, runtime: Runtime, runner: Runner, exact: bool, step: Step
) -> Original | str:
    try:
        step(f"{runtime.name} runs the original")
        plan, _ = working_plan(runner, model, seed=0)
        asked = domain(model, plan, exact)
    except (CannotRunError, NoFeedsError) as problem:
        return f"{runtime.name}: {problem}"
    runs = []
    for what, feeds in asked.feeds:
        try:
            runs.append(Run(what, feeds, runner.run(feeds)))
        except CannotRunError:
            continue  # the original does not take these inputs
    if not runs:
        return f"{runtime.name}: it takes none of the inputs"
    points = asked.points if len(runs) == len(asked.feeds) else 0
    varies = _draws(model) and differs_from_itself(runner, runs[0])
    return Original(model, runtime, runner, tuple(runs), points, coarsest(model), varies)


def _draws(model: onnx.ModelProto) -> bool:
    """Whether there are operators that may draw random numbers."""
    operators = {node.op_type for node in model.graph.node}
    return bool(operators & {*RANDOM, "Dropout"})


def differs_from_itself(runner: Runner, run: Run) -> bool:
    """Whether two runs on the same inputs give something else."""
    outputs = runner.run(run.feeds), runner.run(run.feeds)
    return any(differ("", a, b, EXACT) for a, b in zip(*outputs, strict=True))
