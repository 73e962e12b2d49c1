"""Models that show something new become cases.

In: `Found`s of a rule. Out: `Proposal`s: a case in YAML with what was observed. Each was run as
`rewrite test` runs it; one that does not hold is a finding about the rule, not a case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx

from rewrite.audit.cases.case import OPEN, Case
from rewrite.audit.cases.find import tests_of_case
from rewrite.audit.cases.run import RuleRunner
from rewrite.audit.cases.words import NoTextError
from rewrite.audit.cases.writer import write_model
from rewrite.audit.coverage.suggest.search import Found
from rewrite.audit.examples import asks_target, has_header, opset_of
from rewrite.errors import Diagnostic, RewriteError, Span
from rewrite.lang import ast
from rewrite.lang.pack import RulePack

_LONGEST_NAME = 76  # of the 80 that a name may have, with a number behind it
_MORE = " and more"
_OPSET = re.compile(r"opset \d+(?: \d+)?(?=,|$)")  # of the changes that a name tells
_UNNAMED = re.compile(r"[^\x20-\x7e]|::|[\"'#{}\[\]&*!|>%@`]")


@dataclass(frozen=True, slots=True)
class Proposal:
    """`keys`: of the items that it shows and that nothing showed before."""

    case: Case
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A model on which the rule does not do what it promises, or that no test can run."""

    rule: str
    words: str
    keys: tuple[str, ...]
    problem: Diagnostic
    text: str


def propose(
    pack: RulePack, rule: ast.Rule, found: Sequence[Found], wanted: frozenset[str], taken: set[str]
) -> tuple[list[Proposal], list[Doubt]]:
    """A case for each model, as far as its text can be written. `taken`: names of cases."""
    proposals: list[Proposal] = []
    doubts: list[Doubt] = []
    left, waiting = set(wanted), list(found)
    while waiting:
        one = waiting.pop(0)
        keys = tuple(sorted(one.keys & left))
        made = _proposal(pack, rule, one, keys, taken) if keys else None
        if keys and one.parts and not isinstance(made, Proposal):
            waiting = [*one.parts, *waiting]  # one of them may be at fault
            continue
        if isinstance(made, Proposal):
            proposals.append(made)
            taken.add(made.case.name)
            left -= one.keys
        elif made is not None:
            doubts.append(made)
    return _several_opsets(proposals, opset_of(pack, rule), taken), doubts


def _several_opsets(proposals: Sequence[Proposal], usual: int, taken: set[str]) -> list[Proposal]:
    """Cases that differ in nothing but their opset are one. `usual`: the opset of those without."""
    groups: dict[object, list[Proposal]] = {}
    for proposal in proposals:
        c = proposal.case
        own = c.name if has_header(c.before) else ""  # it gives its opsets itself
        said = (own, c.target, c.before, c.after, c.fired, c.rejects, c.because)
        groups.setdefault(said, []).append(proposal)
    return [_merged(group, usual, taken) for group in groups.values()]


def _merged(group: Sequence[Proposal], usual: int, taken: set[str]) -> Proposal:
    case = group[0].case
    if len(group) == 1:
        return group[0]
    opsets = {n for one in group for n in one.case.opsets or (usual,)}
    plain = _OPSET.sub("", case.name).strip(" ,") or "other opsets"
    taken -= {one.case.name for one in group}
    name = _unique(plain, taken)
    taken.add(name)
    keys = tuple(key for one in group for key in one.keys)
    return Proposal(replace(case, name=name, opsets=tuple(sorted(opsets))), keys)


def _proposal(
    pack: RulePack, rule: ast.Rule, found: Found, keys: tuple[str, ...], taken: set[str]
) -> Proposal | Doubt | None:
    usual = opset_of(pack, rule)
    opset = next((e.version for e in found.model.opset_import if not e.domain), usual)
    try:
        text = write_model(_plain(found.model), opset, header=False)
    except NoTextError:
        return None
    case = Case(
        rule=rule.name,
        name=_name(found, taken),
        before=text,
        span=_NOWHERE,
        spans={},
        target=found.target.name if asks_target(rule) else None,
        opsets=() if opset == usual or text.lstrip().startswith("<") else (opset,),
        after=OPEN if found.fires and not _only_moved(found) else None,
        fired=found.applied if found.fires and _only_moved(found) else None,
        rejects=None if found.fires else OPEN,
    )
    runner = RuleRunner(pack, rule, [found.target])
    filled, problem = _filled(case, runner)
    if problem is not None and problem.code == "RW717":  # what becomes of it has no text
        filled, problem = _filled(replace(case, after=None, fired=found.applied), runner)
    if problem is not None:
        return Doubt(rule.name, case.name, keys, problem, text)
    if filled.rejects is not None:
        filled = replace(filled, because=_because(keys))
        filled = filled if _problem(filled, runner) is None else replace(filled, because=None)
    return Proposal(filled, keys)


_NOWHERE = Span("", 1, 1, 1, 1)


def _filled(case: Case, runner: RuleRunner) -> tuple[Case, Diagnostic | None]:
    """The case with what was observed, and what still does not hold."""
    for _ in range(2):
        outcome = runner.run(tests_of_case(case)[0])
        if outcome.finding is None:
            return case, None
        if not outcome.finding.proposed:
            return case, outcome.finding.problem
        seen = dict(outcome.finding.proposed)
        after, rejects = seen.get("after", case.after), seen.get("rejects", case.rejects)
        case = replace(case, after=after, rejects=rejects)
    return case, _problem(case, runner)


def _problem(case: Case, runner: RuleRunner) -> Diagnostic | None:
    try:
        return runner.run(tests_of_case(case)[0]).problem
    except RewriteError as problem:
        return problem.diagnostics[0]


def _because(keys: Sequence[str]) -> str | None:
    """The one test that does not hold, where there is one."""
    false = [key.removesuffix("=false") for key in keys if key.endswith("=false")]
    return false[0] if len(false) == 1 else None


def _only_moved(found: Found) -> bool:
    """Whether only the opset is another one, so that the result is as in the test."""
    return all(change.label.startswith("opset ") for change in found.changed)


def _name(found: Found, taken: set[str]) -> str:
    """What was changed, in words: as many changes as there is room for, each told once."""
    labels = [_plain_label(change.label) for change in found.changed] or [
        _plain_label(found.source)
    ]
    plain, *others = dict.fromkeys(labels)
    for label in others:
        if len(f"{plain}, {label}{_MORE}") > _LONGEST_NAME:
            plain += _MORE
            break
        plain += f", {label}"
    return _unique(plain, taken)


def _unique(plain: str, taken: set[str]) -> str:
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain} {number}", number + 1
    return name


def _plain_label(text: str) -> str:
    words = " ".join(_UNNAMED.sub(" ", text).replace(":", " ").split())
    return words[:_LONGEST_NAME].strip(" ,-")


def _plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without what the text does not say."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    copy.ClearField("producer_name")
    return copy
