"""The bound of outputs in steps is never less than what the exact oracle finds."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest
from network import FORMS, Form, build

import rewrite
from rewrite.audit.oracle.compare import compare_exact
from rewrite.engine.quantized_walk import Source, Walk

ort = pytest.importorskip("onnxruntime")

SEEN = tuple(form for form in FORMS if form.name in ("qdq_u8s8", "qdq_s8s8", "qoperator"))
TARGETS = ("hexagon", "cortex-m", "onnxruntime-cpu")
NEAR = 1 + 1e-5  # scores are float32 numbers


@cache
def _result(form: Form, target: str) -> rewrite.Result:
    return rewrite.apply(build(form), target=target)


def _images(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    sizes = np.geomspace(0.2, 6.0, count)
    return [{"image": rng.normal(0, s, (1, 3, 9, 9)).astype(np.float32)} for s in sizes]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", SEEN, ids=lambda form: form.name)
def test_never_less_than_what_is_measured(form: Form, target: str) -> None:
    result = _result(form, target)
    found = compare_exact(build(form), result.model, _images(12))
    bounds = result.stats["lsb_bound"]
    assert set(bounds) == {"scores", "total"}
    for gap in found.gaps:
        assert gap.lsb <= bounds[gap.output] * NEAR


def test_without_an_error_it_is_0() -> None:
    assert _result(FORMS[0], "hexagon").stats["lsb_bound"] == {"scores": 0, "total": 0}


def test_one_step_is_bounded_and_happens() -> None:
    """The target rounds twice: codes differ, and the bound is not all that a code can be."""
    result = _result(FORMS[0], "cortex-m")
    found = compare_exact(build(FORMS[0]), result.model, _images(12))
    gaps = {gap.output: gap.lsb for gap in found.gaps}
    assert 1 <= gaps["total"] <= result.stats["lsb_bound"]["total"] < 10


@pytest.mark.parametrize("error", [1, 3])
@pytest.mark.parametrize("target", [*TARGETS, "x86-avx2"])
def test_errors_of_the_input_on_their_way(target: str, error: int) -> None:
    """Two runs, on codes that differ by so much, differ by no more than errors may become."""
    result = _result(FORMS[0], target)
    facts = result.loaded.facts
    first = next(n for n in facts.model.graph if n.op_type == "QuantizeLinear")
    groups = frozenset(g.node for g in result.journal.groups if g.emitted)
    walk = Walk(facts, {first.outputs[0]: Source(float(error))}, groups)
    walk.run(list(facts.model.graph))
    outputs = {v.name: walk.errors[v] for v in facts.model.graph.outputs}
    scale = 0.0231  # of the codes of the image
    session = ort.InferenceSession(
        onnx.load_from_string(result.model.SerializeToString()).SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    rng = np.random.default_rng(6)
    for _ in range(25):
        codes = rng.integers(-120, 121, (1, 3, 9, 9))
        moved = codes + error * rng.choice([-1, 1], codes.shape)
        runs = [
            session.run(None, {"image": (c * scale).astype(np.float32)}) for c in (codes, moved)
        ]
        for name, one, other in zip(("scores", "total"), *runs, strict=True):
            apart = np.abs(one.astype(np.float64) - other.astype(np.float64)).max()
            assert apart <= outputs[name].error * NEAR
