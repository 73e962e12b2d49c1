"""The fixpoint: rules applied phase by phase until nothing applies, or a limit says stop.

In: a loaded model, a `Matcher`, a `Target`, limits. Out: the model rewritten in place and a
`Journal`.

Each phase has a worklist of the nodes its rules may be anchored at, first all of them in
topological order. An application puts what it may have changed on every list. When all lists of
all phases are empty the graph is at its fixpoint; then groups are made, once, from the last node
to the first, so that the longest chains win. Nothing depends on hashes or addresses: the same
model gives the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from rewrite.engine.apply import Applier, Done
from rewrite.engine.certified import certified, note
from rewrite.engine.cleanup import Tidier
from rewrite.engine.completion import Completer
from rewrite.engine.evaluation import nbytes
from rewrite.engine.folding import Folder
from rewrite.engine.grouping import Grouper, emitted, group_bodies
from rewrite.engine.journal import Applied, Journal, Log, Reason, Refused, Stop
from rewrite.engine.ledger import Bound
from rewrite.engine.limits import Limits, Options, Progress
from rewrite.engine.loops import LoopWatch
from rewrite.engine.quantized_drift import Drift
from rewrite.engine.quantized_faults import Faults
from rewrite.engine.refused import RefusedError
from rewrite.engine.worklist import Dispatch, Worklist
from rewrite.graph import collector
from rewrite.graph.model import LoadedModel
from rewrite.graph.uses import nodes_of, use_count
from rewrite.lang.vocabulary import PHASES
from rewrite.match.budget import deadline
from rewrite.match.matcher import Matcher
from rewrite.match.rule import CompiledRule, Match
from rewrite.match.values import element_limit
from rewrite.target.target import Target

_CLOCK_EVERY = 64  # visits between looks at the clock
_FEW_USES = 8  # a value used more often than this is not inside any pattern (bags have 8 items)


def run(
    loaded: LoadedModel,
    matcher: Matcher,
    target: Target,
    limits: Limits | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Journal:
    """Rewrite the model. The cyclic garbage collector is off meanwhile: onnx-ir's graphs are cyclic
    and large, and nothing here becomes garbage until the end."""
    with collector.paused():
        work = _Run(loaded, matcher, target, limits or Limits(), options or Options(), progress)
        token = element_limit.set(Limits.most_elements(work.weights))
        ending = deadline.set(work.deadline)
        try:
            with np.errstate(all="ignore"):  # what overflows is seen in the values
                return work.run()
        finally:
            deadline.reset(ending)
            element_limit.reset(token)


class _Phase:
    """One phase: its rules' anchors, how far they look, and what is left to look at."""

    def __init__(self, name: str, matcher: Matcher) -> None:
        rules = matcher.rules(name)
        self.name = name
        self.rules = rules
        self.work = Worklist()
        self.reach: dict[str, int] = {}  # operator -> how far its rules look
        for rule in rules:
            for _, operator in sorted(rule.anchors):
                self.reach[operator] = max(rule.radius, self.reach.get(operator, 0))
        # Rules that go from a value to its other users: what such a match depends on does not
        # lie downstream of the anchor alone.
        self.sideways = frozenset(a for rule in rules if rule.sideways for a in rule.anchors)


class _Run:
    def __init__(
        self,
        loaded: LoadedModel,
        matcher: Matcher,
        target: Target,
        limits: Limits,
        options: Options,
        progress: Progress | None,
    ) -> None:
        self.model = loaded.model
        self.facts = loaded.facts
        self.completer = self.facts.complete = Completer(self.facts)
        self.matcher = matcher
        self.limits = limits
        self.options = options
        self.progress = progress
        self.log = Log()
        self.applier = Applier(self.facts, target)
        self.faults = Faults(self.facts)
        self.drift = Drift(self.facts, self.faults.any)
        self.closed = group_bodies(self.facts, target)  # kernels: no rule looks inside
        self.phases = [_Phase(name, matcher) for name in PHASES[:-1]]
        self.phases = [phase for phase in self.phases if phase.rules and self._wanted(phase.name)]
        self.dispatch = Dispatch([(phase.work, phase.reach) for phase in self.phases])
        self.seconds = {"match": 0.0, "fold": 0.0}
        self.bounds: dict[CompiledRule, Bound] = {}
        self.certified: dict[CompiledRule, str] = {}  # the `let` with the certificate
        self.stop: Reason | None = None
        self.swept = False
        self.refined = 0  # applications and folds when types were last looked at
        self.applications = self.visits = self.rounds = 0
        self.nodes = sum(len(graph) for graph in self.facts.graphs())
        self.watch = LoopWatch(self.nodes + 64)
        self.most_nodes = limits.most_nodes(self.nodes)
        self.most_applications = limits.most_applications(self.nodes)
        self.weights = self._weights()
        self.most_bytes = limits.most_bytes(self.weights)
        self.made = 0  # bytes of constants that rules made since they were last counted
        self.folder = Folder(self.facts, self.log, limits, options, self.weights)
        self.tidier = Tidier(self.facts, self.log, self.drift)
        self.grouper = Grouper(self.facts, matcher, target, self.log, self._attempt, self.drift)
        self.deadline = time.perf_counter() + limits.seconds

    def _weights(self) -> int:
        """Bytes of all initializers."""
        return sum(
            nbytes(value.const_value)
            for graph in self.facts.graphs()
            for value in graph.initializers.values()
            if value.const_value is not None
        )

    def _wanted(self, phase: str) -> bool:
        return self.options.phases is None or phase in self.options.phases

    # --- the road ------------------------------------------------------------------------------

    def run(self) -> Journal:
        faults = self.faults.all()
        self._tidy()
        self._seed()
        self._fold()
        while self.stop is None:
            self.rounds += 1
            before = self.applications
            for phase in self.phases:
                self._drain(phase)
            if self.applications > before:
                self._tidy()
            self._fold()
            self.dispatch.settle()
            if not any(phase.work for phase in self.phases) and not self._more():
                break
            if self.rounds >= self.limits.rounds:
                self.stop = self.stop or "limit_applications"
        if self._wanted(PHASES[-1]):
            self._timed("match", self.grouper.run)
        reason: Reason = self.stop or ("cycle" if self.log.cycles else "fixpoint")
        computed = [name for fold in self.log.folded for name in fold.outputs]
        stop = Stop(reason, self.rounds, self.applications)
        return self.log.close(stop, self.seconds, self.drift.final(computed), faults)

    def _seed(self) -> None:
        for graph in self.facts.graphs():
            nodes = nodes_of(graph)
            self.dispatch.seed(nodes)
            self.folder.seed(nodes)

    def _more(self) -> bool:
        """At a fixpoint: whether better types or a sideways look give more to look at."""
        done = self.applications + len(self.log.folded)
        if done > self.refined:
            self.refined = done
            better = self.completer.refine()
            self.dispatch.changed((), better)
            self.folder.changed([use.node for v in better for use in v.uses()], ())
            self._fold()
            if self.dispatch.settle() and any(phase.work for phase in self.phases):
                return True
        return self._sweep()

    def _sweep(self) -> bool:
        """Once more all anchors of rules that look sideways; False where that was done already."""
        if self.swept or self.applications == 0:
            return False
        self.swept = True
        for phase in self.phases:
            if phase.sideways:
                for graph in self.facts.graphs():
                    phase.work.seed(
                        [n for n in nodes_of(graph) if (n._domain, n._op_type) in phase.sideways]
                    )
        return any(phase.work for phase in self.phases)

    def _tidy(self) -> None:
        if self.options.tidy:
            start = time.perf_counter()
            touched = self.tidier.run()
            fallen, producers = self._freed()
            self.dispatch.changed(producers, (*touched, *fallen))
            self.seconds["fold"] += time.perf_counter() - start

    def _fold(self) -> None:
        start = time.perf_counter()
        for new, values in self.folder.run():
            self.folder.changed(new, values)
            fallen, producers = self._freed()
            self.dispatch.changed((*new, *producers), (*values, *fallen))
            if time.perf_counter() > self.deadline:
                self.stop = "limit_time"
                break
        self.seconds["fold"] += time.perf_counter() - start

    def _timed(self, name: str, step: Callable[[], object]) -> None:
        start = time.perf_counter()
        step()
        self.seconds[name] += time.perf_counter() - start

    # --- one phase -----------------------------------------------------------------------------

    def _drain(self, phase: _Phase) -> None:
        start = time.perf_counter()
        folding = self.seconds["fold"]
        match, facts, work = self.matcher.match, self.facts, phase.work
        while self.stop is None:
            node = work.pop()
            if node is None:
                if self.dispatch.settle():
                    continue
                break
            if node._graph in self.closed:
                continue
            found = match(phase.name, node, facts)
            while found is not None and not self._attempt(phase.name, node, found):
                found = match(phase.name, node, facts, found.rule)
            self.visits += 1
            if self.visits % _CLOCK_EVERY == 0:
                self._look_at_clock(phase)
        spent = time.perf_counter() - start
        self.seconds["match"] += spent - (self.seconds["fold"] - folding)

    def _look_at_clock(self, phase: _Phase) -> None:
        if time.perf_counter() > self.deadline:
            self.stop = "limit_time"
        if self.progress is not None:
            self.progress(phase.name, self.visits, len(phase.work))

    def _attempt(self, phase: str, node: ir.Node, found: Match) -> bool:
        """Apply a match, or record why not."""
        rule = found.rule
        graph = node.graph
        assert graph is not None
        name = str(graph.name or "")
        anchor = str(node.outputs[0].name)
        inside = found.nodes
        operators = tuple([n.op_type for n in inside])
        matched = tuple([str(n.outputs[0].name) for n in inside])
        roots = tuple([str(root.name) for root in found.roots])

        def approve(new: Sequence[ir.Node]) -> None:
            cycle = self.watch.check(rule.name, inside, anchor, new)
            if cycle is not None:
                self.log.cycle(cycle)
                raise RefusedError("the rules undo each other: " + " -> ".join(cycle.rules))

        bound = self.bounds.get(rule)
        if bound is None:
            bound = self.bounds[rule] = Bound.of(rule.claim)
            if rule.claim.certificate is not None:
                self.certified[rule] = rule.claim.certificate
        certificate = None
        try:
            bad = self.faults.among(inside)
            if bad is not None:
                raise RefusedError(bad)
            if rule in self.certified:
                name_of = self.certified[rule]
                certificate, bound = certified(found, name_of, self.options.max_class)
            leaving = self.drift.leaving(inside, found.roots)
            done = self.applier.apply(found, approve)
        except RefusedError as refused:
            self.log.refuse(Refused(rule.name, phase, name, anchor, refused.reason))
            return False
        self.drift.settle(leaving, done.roots, rule.name, bound)
        if certificate is not None:
            note(done.added, certificate)
        added = tuple([n.op_type for n in done.added])
        branches = tuple(sorted(found.branches))
        made = tuple([str(n.outputs[0].name) for n in done.added])
        self.log.applied.append(
            Applied(
                rule.name, phase, bound, name, roots, operators, added, branches, certificate,
                matched, made, done.renamed,
            )
        )  # fmt: skip
        if done.group is not None:
            self.closed.add(done.group.function.graph)
            self.log.groups.append(emitted(done.group, rule.name, name))
        self._after(done, inside)
        return True

    def _after(self, done: Done, inside: Sequence[ir.Node]) -> None:
        self.watch.inherit(inside, done.added)
        self.applications += 1
        self.swept = False
        self.nodes += len(done.added) - len(done.removed)
        if self.applications >= self.most_applications:
            self.stop = "limit_applications"
        elif self.nodes > self.most_nodes:
            self.stop = "limit_growth"
        self.made += done.nbytes
        if self.made > self.most_bytes:  # most of it may have taken the place of other constants
            self.made = 0
            if self._weights() > self.weights + self.most_bytes:
                self.stop = "limit_growth"
        fallen, producers = self._freed()
        self.dispatch.changed((*done.added, *producers), (*done.roots, *fallen))
        self.folder.changed(done.added, done.roots)
        if self.folder.work:
            self._fold()

    def _freed(self) -> tuple[list[ir.Value], list[ir.Node]]:
        """Values that lost uses since the last time and have few left, and what computes them.

        A pattern may want a value to have no other use.
        """
        values: list[ir.Value] = []
        producers: list[ir.Node] = []
        for value in self.facts.freed:
            producer = value._producer
            if producer is None or producer._graph is None or use_count(value) > _FEW_USES:
                continue
            values.append(value)
            producers.append(producer)
        self.facts.freed.clear()
        return values, producers
