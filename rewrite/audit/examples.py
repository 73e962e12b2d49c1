"""The examples inside rules, run.

In: a `RulePack` and targets. Out: one `Outcome` per example, with a positioned diagnostic where it
fails.

An example is a model in ONNX's text form. Only its rule is applied. `fires`: the rule applies, the
result is valid ONNX, and on random inputs its outputs agree with those of the original within the
claim of the rule, in a runtime that is not ours. Claims of steps (`lsb`, `certified`) are held
against the real-number meaning, by the exact oracle where it has a value for both models; then the
runtime, which computes the original in float32, has to agree within one step more.
`rejects`: the rule does not apply. Where a pack refines a rule of another one, examples that fire
without the added conditions may no longer do so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import onnx
from onnx import parser

from rewrite.audit import exactly
from rewrite.audit.compare import differ
from rewrite.audit.feeds import NoFeedsError, Plan, coarsest, make_feeds, styles
from rewrite.audit.runtimes import CannotRunError, Runner, runners, source_of, working_plan
from rewrite.audit.verify import ORACLE
from rewrite.audit.whynot import why_not
from rewrite.engine import driver
from rewrite.engine.ledger import Bound, Ledger
from rewrite.engine.limits import Options
from rewrite.errors import Diagnostic, RewriteError
from rewrite.graph import io
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.lang.walk import nodes
from rewrite.match import matcher as matching
from rewrite.match.rule import CompiledRule
from rewrite.target.target import Target

Matchers = Sequence[tuple[Target, matching.Matcher]]

_SEEDS = 2
# What ONNX's parser and checker raise too, where numbers are none or too large.
_UNREADABLE = (ValueError, LookupError, RuntimeError)
_ORACLE_RUNS = 4  # one of each style of inputs
_QUALIFIED = re.compile(r"\b([a-z][\w]*(?:\.[a-z][\w]*)*)\.[A-Z]\w*\s*[(<]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`problem` None: the example holds. `runtime`: what its numbers were compared with."""

    rule: str
    example: ast.Example
    number: int  # among the examples of the rule, from 1
    problem: Diagnostic | None
    runtime: str = ""

    @property
    def name(self) -> str:
        kind = "fires" if self.example.fires else "rejects"
        return f"{self.rule}: {kind} {self.example.name or self.number}"


def run_pack(
    pack: RulePack, targets: Sequence[Target], only: frozenset[str] | None = None
) -> Iterator[Outcome]:
    """Every example of every rule (`only` those named), in the order of the text."""
    for rule in pack.rules:
        if only is None or rule.name in only:
            yield from run_rule(pack, rule, targets)


def run_rule(pack: RulePack, rule: ast.Rule, targets: Sequence[Target]) -> Iterator[Outcome]:
    """The examples of one rule; targets after the first matter only to rules that ask."""
    alone = replace(pack, rules=(replace(rule, over=()),))
    chosen = targets if asks_target(rule) else targets[:1]
    matchers = [(target, matching.build(alone, target)) for target in chosen]
    written = _as_written(alone, chosen)
    for number, example in enumerate(rule.examples, 1):
        try:
            runtime = _Example(pack, rule, example, matchers, written).run()
        except _Failed as failed:
            yield Outcome(rule.name, example, number, failed.diagnostic)
        else:
            yield Outcome(rule.name, example, number, None, runtime)


def _as_written(alone: RulePack, targets: Sequence[Target]) -> Matchers:
    """The one rule of the pack without what `refine` added to it; nothing where it did not."""
    (rule,) = alone.rules
    refinements = (r for file in alone.files for r in file.tree.refinements)
    added = sum(len(r.where) for r in refinements if r.rule == rule.name)
    if not added:
        return ()
    written = replace(alone, rules=(replace(rule, steps=rule.steps[:-added]),))
    return [(target, matching.build(written, target)) for target in targets]


def asks_target(rule: ast.Rule) -> bool:
    """Whether what the rule does depends on the target."""
    if rule.group is not None:
        return True
    for node in nodes(rule):
        if isinstance(node, ast.MethodCall) and node.base == "target":
            return True
        if isinstance(node, ast.Name) and node.name == "target":
            return True
    return False


class _Failed(Exception):  # noqa: N818 - carries the diagnostic of a failed example
    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _Example:
    """One example under one or several targets."""

    def __init__(
        self,
        pack: RulePack,
        rule: ast.Rule,
        example: ast.Example,
        matchers: Matchers,
        written: Matchers,
    ) -> None:
        self.pack = pack
        self.rule = rule
        self.example = example
        self.matchers = matchers
        self.written = written
        self.bound = Bound.of(rule.claim)

    def run(self) -> str:
        """The runtime that the outputs were compared with, "" where nothing was to compare."""
        before = self._model()
        reasons = []
        for target, matcher in self.matchers:
            after, reason = self._applied(before, target, matcher)
            if after is None:
                reasons.append(reason)
            elif self.example.fires:
                return self._compare(before, after)
            else:
                self._fail("RW703", f"`{self.rule.name}` applies, and must not")
        if self.example.fires and not self._refined_away(before):
            told = "; ".join(dict.fromkeys(reasons))
            self._fail("RW702", f"`{self.rule.name}` does not apply: {told}")
        return ""

    def _refined_away(self, before: onnx.ModelProto) -> bool:
        """Whether the rule would apply without the conditions that the pack has added."""
        return any(self._applied(before, t, m)[0] is not None for t, m in self.written)

    def _fail(self, code: str, message: str, hint: str | None = None) -> None:
        raise _Failed(Diagnostic(code, message, self.example.span, hint))

    # --- the model -----------------------------------------------------------------------------

    def _model(self) -> onnx.ModelProto:
        compiled = self.matchers[0][1].rules(self.rule.phase)
        text = with_header(self.example.text, self._opset(compiled))
        try:
            model = parser.parse_model(text)
            onnx.checker.check_model(model, full_check=True)
        except (
            parser.ParseError,
            *_UNREADABLE,
            onnx.checker.ValidationError,
            onnx.shape_inference.InferenceError,
        ) as problem:
            self._fail("RW701", f"the example is not a valid model: {_first_lines(problem)}")
        return model

    def _opset(self, compiled: Sequence[CompiledRule]) -> int:
        """The `example_opset` of the pack that wrote the rule, moved into the rule's range."""
        low, high = compiled[0].opset
        return max(low, min(self.pack.origins[self.rule.name].example_opset, high))

    def _applied(
        self, before: onnx.ModelProto, target: Target, matcher: matching.Matcher
    ) -> tuple[onnx.ModelProto | None, str]:
        """The rewritten model, or None and why the rule does not apply."""
        try:
            loaded = io.load(before)
        except RewriteError as problem:
            self._fail("RW701", f"the example is not a valid model: {problem}")
        options = Options(fold=False, tidy=False)
        journal = driver.run(loaded, matcher, target, options=options)
        if self.rule.claim.kind == "certified":  # then each application says what it promises
            self.bound = Ledger.of(journal).total
        if journal.applied or journal.groups:
            return io.to_proto(loaded), ""
        if journal.refused:
            return None, "refused: " + journal.refused[0].reason
        return None, why_not(before, matcher.rules(self.rule.phase)[0], target)

    # --- the numbers ---------------------------------------------------------------------------

    def _compare(self, before: onnx.ModelProto, after: onnx.ModelProto) -> str:
        try:
            onnx.checker.check_model(after, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as problem:
            self._fail("RW706", f"the result is not valid ONNX: {_first_lines(problem)}")
        judged = self._by_oracle(before, after)
        bound = self.bound + Bound("lsb", 1) if judged else self.bound
        old, new = source_of(before), source_of(after)
        reasons = []
        for runtime in runners():
            try:
                first, second = runtime(old), runtime(new)
                plan, _ = working_plan(first, before, seed=0)
                self._runs(first, second, before, plan, bound)
            except (CannotRunError, NoFeedsError) as problem:
                reasons.append(f"{runtime.name}: {problem}")
                continue
            return ORACLE if judged else runtime.name
        self._fail("RW705", "the example cannot be run: " + "; ".join(reasons))
        return ""

    def _by_oracle(self, before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
        """Whether the exact oracle has judged the claim; then it holds."""
        if not exactly.applies(self.bound):
            return False
        judged = exactly.judge(before, after, _ORACLE_RUNS, self.bound)
        if isinstance(judged, str):
            return False
        if not judged.ok:
            self._fail("RW704", f"under the exact oracle {judged.reason}")
        return True

    def _runs(
        self, first: Runner, second: Runner, before: onnx.ModelProto, plan: Plan, bound: Bound
    ) -> None:
        eps = coarsest(before)
        names = [value.name for value in before.graph.output]
        for style in styles(before, bound.kind == "exact"):
            for seed in range(_SEEDS):
                feeds = make_feeds(before, plan, seed, style)
                outputs = zip(names, first.run(feeds), second.run(feeds), strict=True)
                for name, a, b in outputs:
                    found = differ(name, a, b, bound, eps=eps)
                    if found is not None:
                        self._fail("RW704", f"on {style} inputs (seed {seed}) {found}")
                if not feeds:
                    return


def with_header(text: str, opset: int) -> str:
    """The text with a header that imports what it uses, where it has none."""
    if text.lstrip().startswith("<"):
        return text
    domains = sorted(set(_QUALIFIED.findall(text)))
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    return f"<ir_version: 10, opset_import: [{imports}]>\n{text}"


def _first_lines(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return " ".join(lines[:3])[:400]
