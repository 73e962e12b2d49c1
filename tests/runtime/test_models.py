"""Whole models against onnxruntime: networks made by code, groups, a part of the corpus.

The whole corpus is tests/bench/models.py; its tolerances (models_tolerance.py) are tested here too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rewrite
from rewrite.audit.runtimes import OnnxRuntime, source_of
from rewrite.errors import RewriteError
from rewrite.graph import io, upgrade
from rewrite.runtime.session import Options, Session

BENCH = Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))

from corpus import corpus, models  # noqa: E402
from models import EXPLAINED, FAILURES, check  # noqa: E402
from models_real import REAL, real_feeds  # noqa: E402
from models_tolerance import compare, judge, tolerance_of  # noqa: E402

from tests.runtime.models import groups, networks  # noqa: E402

pytest.importorskip("onnxruntime")

STRIDE = 16  # of the corpus
# Some seconds each; the bench has them.
SKIPPED = (
    "derived/basic-pitch",
    "derived/magika",
    "onnx/light",
    "ort/pytransformers/models/TFBert",
    "real/ppocr-v4",
    "real/smart-turn",
)


def differs(model: onnx.ModelProto, feeds: dict, session: Session) -> str | None:
    source = source_of(model)
    expected = OnnxRuntime(source).run(feeds)
    results = session.run(feeds)
    found = [results[value.name] for value in model.graph.output]
    return judge(source, feeds, expected, found).reason


# --- made by code ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", networks.SMALL)
def test_networks(name, target):
    model = networks.SMALL[name]()
    with rewrite.compile(model, target=target, strict=True) as session:
        for seed in range(2):
            assert differs(model, networks.feeds_of(model, seed), session) is None


@pytest.mark.parametrize("group", groups.GROUPS, ids=[g.name for g in groups.GROUPS])
@pytest.mark.parametrize("fuse", [True, False])
def test_groups(group, fuse):
    model = group.make(0.01)
    feeds = groups.feeds_of(model)
    if fuse:
        with rewrite.compile(model, target="host", strict=True) as session:
            assert differs(model, feeds, session) is None
    else:
        with Session(io.load(model), Options(strict=True, fuse=False)) as session:
            assert differs(model, feeds, session) is None


@pytest.mark.parametrize("group", groups.GROUPS, ids=[g.name for g in groups.GROUPS])
def test_fusion_saves_traffic(group):
    """Bytes of the plan, at the size of the bench; nothing is timed here."""
    model = group.make(0.05)
    feeds = groups.feeds_of(model)
    moved = []
    with (
        rewrite.compile(model, target="host") as fused,
        Session(io.load(model), Options(fuse=False)) as plain,
    ):
        for session in (fused, plain):
            session.run(feeds)
            moved.append(sum(call.bytes for plan in session.plan for call in plan.calls))
    assert moved[0] < moved[1]
    if group.memory_bound:
        assert 2 * moved[0] <= moved[1]


# --- the corpus --------------------------------------------------------------------------------


def part_of_the_corpus() -> list[str]:
    folder = corpus()
    if folder is None:
        return []
    names = [n for n in models(folder) if not n.startswith(SKIPPED) and n not in EXPLAINED]
    real = [n for n in names if n.startswith("real/")]
    return [*real, *[n for n in names if n not in real][::STRIDE]]


@pytest.mark.parametrize("name", part_of_the_corpus())
def test_corpus(name):
    folder = corpus()
    assert folder is not None
    how = {"strict": name.startswith("real/"), "reference": False}
    for row in check(str(folder / name), name, ("none", "host"), how):
        assert row["verdict"] not in FAILURES, row


@pytest.mark.skipif(corpus() is None, reason="no corpus: set REWRITE_CORPUS")
def test_real_models_have_feeds():
    folder = corpus()
    assert folder is not None
    for name in models(folder):
        if name.startswith(("real/", "derived/")):
            assert real_feeds(name) is not None, name
    assert real_feeds("onnx/other.onnx") is None
    assert all(x.size for make in REAL.values() for x in make(np.random.default_rng(0)).values())


# --- old opsets --------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [None, "host"])
def test_models_of_old_opsets_run(target):
    """Opset 6 broadcasts by an attribute; the converter to 7 puts an Unsqueeze there."""
    node = helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=0)
    graph = helper.make_graph(
        [node],
        "old",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    x, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([10, 20], np.float32)
    with rewrite.compile(model, target=target) as session:
        assert np.array_equal(session.run({"x": x, "b": b})["y"], x + b[:, None])


@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("version", [3, 8])
def test_weights_of_old_models_stay_constants(target, version):
    """From IR version 4 on an initializer need not be an input."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    b = np.array([10, 20], np.float32)
    if version < 4:
        inputs.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [2]))
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=0)],
        "old",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(b, "b")],
    )
    opsets = [helper.make_opsetid("", 6)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=version)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with rewrite.compile(model, target=target) as session:
        assert [p.name for p in session.inputs if not p.optional] == ["x"]
        assert np.array_equal(session.run({"x": x})["y"], x + b[:, None])


@pytest.mark.parametrize(
    "problem", [RuntimeError("no adapter"), upgrade.version_converter.ConvertError("no adapter")]
)
def test_what_no_converter_takes_keeps_its_error(monkeypatch, problem):
    def refuse(model, version):
        raise problem

    monkeypatch.setattr(upgrade.version_converter, "convert_version", refuse)
    text = (
        """<ir_version: 3, opset_import: ["" : 6]> g (float[2] x) => (float[2] y) { y = Abs(x) }"""
    )
    with pytest.raises(RewriteError, match="RW504"):
        rewrite.compile(onnx.parser.parse_model(text), target=None)


# --- tolerances --------------------------------------------------------------------------------

PRODUCT = """<ir_version: 10, opset_import: ["" : 20]>
g (float[4,K] x) => (float[4,4] y, int64[4] best) <float[K,4] w = {W}> {
  y = MatMul(x, w)
  best = ArgMax <axis = 1, keepdims = 0> (y)
}"""


def product(k: int) -> tuple[onnx.ModelProto, dict]:
    rng = np.random.default_rng(k)
    weights = ",".join(str(round(float(v), 4)) for v in rng.standard_normal(4 * k))
    model = onnx.parser.parse_model(PRODUCT.replace("K", str(k)).replace("W", weights))
    return model, {"x": rng.standard_normal((4, k)).astype(np.float32)}


def test_tolerance_grows_with_the_length_of_sums():
    short, long = (tolerance_of(*product(k)) for k in (16, 1024))
    assert (short.length, long.length) == (16, 1024)
    assert long.relative / short.relative == pytest.approx(8, rel=1e-6)
    assert long.relative == pytest.approx(4 * 2.0**-24 * 32)


def test_tolerance_admits_other_orders_of_sums_and_little_more():
    model, feeds = product(1024)
    source = source_of(model)
    expected = OnnxRuntime(source).run(feeds)
    tolerance = tolerance_of(model, feeds)
    exact = feeds["x"].astype(np.float64) @ onnx.numpy_helper.to_array(model.graph.initializer[0])
    found = [exact.astype(np.float32), expected[1]]
    used, reason = compare(model, expected, found, tolerance, None)
    assert reason is None
    assert used < 0.5
    worse = [expected[0] * np.float32(1 + 1e-4), expected[1]]
    assert judge(source, feeds, expected, worse).reason is not None


def test_integers_are_equal():
    model, feeds = product(16)
    source = source_of(model)
    expected = OnnxRuntime(source).run(feeds)
    wrong = [expected[0], (expected[1] + 1) % 4]
    assert "elements differ" in (judge(source, feeds, expected, wrong).reason or "")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda y: y.astype(np.float64),
        lambda y: y[:1],
        lambda y: np.where(y == y[0, 0], np.nan, y),
        lambda y: np.where(y == y[0, 0], np.inf, y).astype(np.float32),
    ],
)
def test_other_types_shapes_and_nan_differ(wrong):
    model, feeds = product(16)
    source = source_of(model)
    expected = OnnxRuntime(source).run(feeds)
    assert judge(source, feeds, expected, [wrong(expected[0]), expected[1]]).reason is not None
