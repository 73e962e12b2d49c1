"""Tests of rules, ready to be run.

In: nothing. Out: `Case`, one entry of a `*.cases.yaml`; `RuleTest`, an example or a case; `Outcome`
of a test that was run; `TestModel`, the model of a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import onnx

from rewrite.errors import Diagnostic, Span
from rewrite.target.target import Target

Number = int | float | bool
Numbers = Number | Sequence["Numbers"]

OPEN = ""  # an `after` or a `rejects` that `--update` is to fill in


@dataclass(frozen=True, slots=True)
class Case:
    """One entry of a file of cases. `spans`: key -> the place of its value; None: not given."""

    rule: str
    name: str
    before: str
    span: Span
    spans: Mapping[str, Span]
    target: str | None = None
    opsets: tuple[int, ...] = ()  # each is a test of its own; none: that of the examples
    after: str | None = None
    rejects: str | None = None
    because: str | None = None
    inputs: Mapping[str, Numbers] | None = None
    outputs: Mapping[str, Numbers] | None = None
    fired: int | None = None

    def place(self, key: str) -> Span:
        """Where the value of a key stands, else where the case begins."""
        return self.spans.get(key, self.span)


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A model that a rule fires on, or not. `name`: `fires plain`, `rejects 2`, `case zero`."""

    rule: str
    name: str
    fires: bool
    text: str  # the model, in ONNX's text form
    span: Span
    case: Case | None = None  # None: an example inside the rule
    opset: int | None = None  # of a model that does not give one; None: that of the examples


@dataclass(frozen=True, slots=True)
class Finding:
    """What of a test does not hold. `details`: lines to show below it, such as a difference.

    `proposed`: key of the case -> what `--update` may write there.
    """

    problem: Diagnostic
    details: tuple[str, ...] = ()
    proposed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """`finding` None: the test holds.

    `runtime`: what numbers were compared with, "" where none were. `refined`: the rule fires
    without the conditions that a pack has added to it, and does not with them. `seconds`: of the
    processor.
    """

    test: RuleTest
    finding: Finding | None
    runtime: str = ""
    refined: bool = False
    seconds: float = 0.0

    @property
    def problem(self) -> Diagnostic | None:
        """Why the test does not hold."""
        return None if self.finding is None else self.finding.problem

    @property
    def name(self) -> str:
        return f"{self.test.rule}: {self.test.name}"


@dataclass(frozen=True, slots=True)
class TestModel:
    """The model of a test. `target`: the one to match for; None: any."""

    __test__: ClassVar[bool] = False  # pytest: not a class of tests

    name: str
    fires: bool
    proto: onnx.ModelProto
    opset: int
    target: Target | None
