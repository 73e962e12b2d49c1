"""Fixtures of the matcher's tests: ask whether a rule matches, compute an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rewrite.lang.parser import parse
from rewrite.match.expr import compile_expr
from rewrite.match.matcher import entry_of
from rewrite.match.values import Env
from rewrite.target.target import Target
from tests.match.support import (
    EMIT,
    Answer,
    Model,
    ask_everyone,
    compile_text,
    read_model,
    rule_text,
)

Ask = Callable[..., Answer]


@pytest.fixture
def ask() -> Ask:
    """`ask(match clause, model text, anchor output)`."""

    def run(
        match: str,
        model: str | Model,
        anchor: str = "y",
        more: str = "",
        *,
        emit: str = EMIT,
        claim: str = "exact",
        opset: int = 18,
        ir_version: int = 8,
        target: Target | None = None,
    ) -> Answer:
        found = read_model(model, opset, ir_version) if isinstance(model, str) else model
        text = match if match.startswith(("rule", "pattern")) else ""
        rule = compile_text(text or rule_text(match, more, emit=emit, claim=claim))
        return Answer(ask_everyone(entry_of(rule), found.node(anchor), found.facts, target))

    return run


@pytest.fixture
def compute() -> Callable[..., Any]:
    """`compute(expression, names, model)`: the value of an expression."""

    def run(text: str, names: dict[str, object] | None = None, model: Model | None = None) -> Any:
        found = model or read_model("g (float[1] x) => (float[1] y) { y = Relu(x) }")
        rule = parse(rule_text("y = Relu(x)", f"let e = {text}"), "test.rules").rules[0]
        env = Env(dict(names or {}), found.facts)
        step = rule.steps[0]
        return compile_expr(step.value)(env)

    return run
