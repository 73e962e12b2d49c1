"""LinearAttention through sessions, against the recurrence of its text in float64.

Tolerance: a state adds up a dozen products of numbers near 1 in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import defs, helper

from rewrite.codegen.isa import Isa
from tests.codegen.harness import isas
from tests.plan.matmul_models import run

Array = np.ndarray[Any, np.dtype[Any]]
OPSET = defs.get_schema("LinearAttention").since_version
MACHINES = pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
NAMES = ["q", "k", "v", "past", "decay", "beta"]


def arrays_of(
    rule: str, heads: int = 4, shared: int = 2, head: int = 8, value: int = 23, steps: int = 6,
    by_element: bool = False, past: bool = True, dtype: Any = np.float32,
) -> dict[str, Array]:  # fmt: skip
    rng = np.random.default_rng(value)
    found = {
        "q": rng.standard_normal((2, steps, heads * head)),
        "k": rng.standard_normal((2, steps, shared * head)) / head**0.5,
        "v": rng.standard_normal((2, steps, shared * value)),
    }
    if past:
        found["past"] = rng.standard_normal((2, shared, head, value))
    if "gated" in rule:
        found["decay"] = -rng.random((2, steps, shared * (head if by_element else 1)))
    if "delta" in rule:
        found["beta"] = rng.random((2, steps, shared))
    return {n: a.astype(dtype) for n, a in found.items()}


def expected(arrays: dict[str, Array], heads: int, shared: int, scale: float) -> list[Array]:
    wide = {n: a.astype(np.float64) for n, a in arrays.items()}
    batch, steps, width = wide["q"].shape
    head, value = width // heads, wide["v"].shape[2] // shared
    y = np.zeros((batch, steps, heads, value))
    states = wide.get("past", np.zeros((batch, shared, head, value))).copy()
    for b in range(batch):
        for h in range(shared):
            state = states[b, h]
            for t in range(steps):
                k = wide["k"][b, t, h * head : (h + 1) * head]
                v = wide["v"][b, t, h * value : (h + 1) * value]
                if "decay" in wide:
                    state = state * np.exp(wide["decay"][b, t].reshape(shared, -1)[h])[:, None]
                if "beta" in wide:
                    v = np.resize(wide["beta"][b, t], shared)[h] * (v - state.T @ k)
                state = state + np.outer(k, v)
                for g in range(h * heads // shared, (h + 1) * heads // shared):
                    y[b, t, g] = scale * (wide["q"][b, t, g * head : (g + 1) * head] @ state)
            states[b, h] = state
    return [y.reshape(batch, steps, -1), states]


def check(
    rule: str, isa: Isa | None = None, heads: int = 4, shared: int = 2, tolerance: float = 2e-5,
    scale: float = 0.0, **kind: Any,
) -> None:  # fmt: skip
    arrays = arrays_of(rule, heads, shared, **kind)
    names = [n if n in arrays else "" for n in NAMES]
    while not names[-1]:
        names.pop()
    node = helper.make_node(
        "LinearAttention", names, ["y", "s"], update_rule=rule, q_num_heads=heads,
        kv_num_heads=shared, scale=scale,
    )  # fmt: skip
    head = arrays["q"].shape[2] // heads
    want = expected(arrays, heads, shared, scale or head**-0.5)
    for x, y in zip(run([node], arrays, isa=isa, opset=OPSET), want, strict=True):
        assert x.dtype == arrays["q"].dtype
        np.testing.assert_allclose(x.astype(np.float64), y, rtol=0, atol=tolerance)


@MACHINES
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_rules(rule: str, isa: Isa) -> None:
    check(rule, isa)
    check(rule, isa, by_element=True, past=False, value=64)


@pytest.mark.parametrize("shared", [1, 4])
def test_groups_of_heads(shared: int) -> None:
    check("gated_delta", shared=shared, scale=0.3)


def test_one_step_and_small_sizes() -> None:
    check("gated", steps=1)
    check("delta", heads=1, shared=1, head=1, value=1)


def test_float16() -> None:
    check("gated_delta", tolerance=1e-2, dtype=np.float16)
