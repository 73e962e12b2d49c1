"""Softmax and normalizations as a session runs them, against numpy in float64.

Tolerance: a normalization divides by a deviation: the mean is off by (log2 n + 4) roundings of the
largest element, and so is each deviation from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.codegen.harness import isas
from tests.plan.conv_models import model_of, run_model

ISAS = isas()
EPS = 2.0**-24
MICROSOFT = "com.microsoft"

Array = np.ndarray[Any, np.dtype[Any]]


def normal(shape: Sequence[int], seed: int = 1, kind: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(kind)


EPSILON = float(np.float32(1e-5))  # attributes are float32


def standardized(x: Array, axes: tuple[int, ...], epsilon: float = EPSILON) -> Array:
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)


def close(y: Array, wanted: Array, rounds: float = 40) -> None:
    """Relative to the largest value."""
    assert y.shape == wanted.shape
    largest = max(1.0, float(np.max(np.abs(wanted), initial=0)))
    np.testing.assert_allclose(y.astype(np.float64), wanted, atol=rounds * EPS * largest, rtol=0)


def one(
    name: str,
    feeds: Mapping[str, Array],
    outputs: Sequence[str] = ("y",),
    opset: int = 22,
    domain: str = "",
    isa: Any = None,
    **attributes: Any,
) -> list[Array]:
    """One operator over graph inputs."""
    node = helper.make_node(
        name, [n if not n.startswith("_") else "" for n in feeds], list(outputs), domain=domain,
        **attributes,
    )  # fmt: skip
    given = {n: a for n, a in feeds.items() if not n.startswith("_")}
    asked = [o for o in outputs if o]
    return run_model(model_of([node], given, {}, asked, opset), given, isa)


# --- softmax -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("shape", [(7,), (3, 1), (2, 5, 33), (2, 3, 4, 21)], ids=str)
def test_softmax(name: str, opset: int, shape: tuple[int, ...]) -> None:
    """Before opset 13 all dimensions from the axis on are one."""
    x = 3 * normal(shape)
    wide = x.astype(np.float64)
    for axis in range(-len(shape), len(shape)):
        axes: Any = axis if opset >= 13 else tuple(range(axis % len(shape), len(shape)))
        raised = np.exp(wide - wide.max(axes, keepdims=True))
        wanted = raised / raised.sum(axes, keepdims=True)
        wanted = np.log(wanted) if name == "LogSoftmax" else wanted
        for isa in ISAS:
            (y,) = one(name, {"x": x}, opset=opset, isa=isa, axis=axis)
            np.testing.assert_allclose(y, wanted, rtol=60 * EPS, atol=4 * EPS)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_softmax_of_other_floats(name: str, kind: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    x = normal((4, 50), kind=dtype)
    (y,) = one(name, {"x": x}, axis=-1)
    wide = x.astype(np.float64)
    wanted = np.exp(wide) / np.exp(wide).sum(1, keepdims=True)
    wanted = np.log(wanted) if name == "LogSoftmax" else wanted
    ulp = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 1e-14}[kind]
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=ulp + 60 * EPS * (ulp > 1e-9),
                               atol=2.0**-25 * (ulp > 1e-9))  # fmt: skip


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_softmax_of_masked_rows(name: str) -> None:
    """-inf has the weight 0 exactly; a row of nothing else is NaN; numbers of any size."""
    x = normal((6, 40))
    x[0, ::3] = -np.inf
    x[1] = -np.inf
    x[2, 5] = np.nan
    x[3, 9] = np.inf
    x[4] *= 1e38
    x[5] *= 1e-40
    (y,) = one(name, {"x": x}, axis=1)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        shifted = wide - wide.max(1, keepdims=True)
        total = np.exp(shifted).sum(1, keepdims=True)
        wanted = shifted - np.log(total) if name == "LogSoftmax" else np.exp(shifted) / total
        wanted = wanted.astype(np.float32)
    np.testing.assert_allclose(y, wanted, rtol=40 * EPS, atol=1e-37)
    if name == "Softmax":
        assert np.all(y[0, ::3] == 0)


# --- normalizations of ONNX --------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, 1, 0, -2])
@pytest.mark.parametrize("with_bias", [False, True])
def test_layer_normalization(axis: int, with_bias: bool) -> None:
    shape = (3, 5, 37)
    x = normal(shape) + 2
    axes = tuple(range(axis % 3, 3))
    scale = normal([shape[a] for a in axes], 2)
    bias = normal(scale.shape, 3)
    feeds = {"x": x, "scale": scale, **({"bias": bias} if with_bias else {})}
    wide = x.astype(np.float64)
    mean = wide.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(((wide - mean) ** 2).mean(axes, keepdims=True) + 1e-3)
    for isa in ISAS:
        y, m, i = one(
            "LayerNormalization", feeds, ["y", "m", "i"], isa=isa, axis=axis, epsilon=1e-3
        )
        close(y, (wide - mean) * inverse * scale + (bias if with_bias else 0))
        close(m, mean)
        close(i, inverse)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_layer_normalization_of_other_floats(kind: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    x, scale, bias = normal((4, 70), 1, dtype), normal((70,), 2, dtype), normal((70,), 3, dtype)
    y, mean = one("LayerNormalization", {"x": x, "s": scale, "b": bias}, ["y", "m"])
    wanted = standardized(x, (1,)) * scale.astype(np.float64) + bias.astype(np.float64)
    ulp = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 1e-13}[kind]
    assert y.dtype == dtype
    assert mean.dtype == np.float32
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=ulp, atol=ulp)


def test_scale_of_one_element() -> None:
    """Scale and bias are broadcast."""
    x = normal((3, 20))
    scale, bias = np.array([2], np.float32), np.array([[0.5]], np.float32)
    (y,) = one("LayerNormalization", {"x": x, "s": scale, "b": bias})
    close(y, standardized(x, (1,)) * 2 + 0.5)


@pytest.mark.parametrize("scale_shape", [(5, 1), (1, 37), (37,), (5, 37)], ids=str)
def test_scale_along_some_dimensions_of_the_row(scale_shape: tuple[int, ...]) -> None:
    x, scale = normal((3, 5, 37)), normal(scale_shape, 2)
    wanted = standardized(x, (1, 2)) * scale
    for isa in ISAS:
        (y,) = one("LayerNormalization", {"x": x, "s": scale}, isa=isa, axis=1)
        close(y, wanted)


@pytest.mark.parametrize("name", ["RMSNormalization", "SimplifiedLayerNormalization"])
@pytest.mark.parametrize("axis", [-1, 1])
def test_root_mean_square(name: str, axis: int) -> None:
    if name.startswith("Simplified"):
        axis = -1
    x = normal((3, 5, 37))
    scale = normal(x.shape[axis % 3 :], 2)
    axes = tuple(range(axis % 3, 3))
    wide = x.astype(np.float64)
    wanted = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-5) * scale
    opset = 23 if name == "RMSNormalization" else 17
    (y,) = one(name, {"x": x, "s": scale}, opset=opset, axis=axis, epsilon=1e-5)
    close(y, wanted)


@pytest.mark.parametrize("shape", [(2, 3, 17), (2, 70, 5, 6), (1, 4, 3, 4, 5)], ids=str)
def test_instance_normalization(shape: tuple[int, ...]) -> None:
    x, scale, bias = normal(shape) + 1, normal(shape[1:2], 2), normal(shape[1:2], 3)
    along = (-1, *(1,) * (len(shape) - 2))
    axes = tuple(range(2, len(shape)))
    wanted = standardized(x, axes) * scale.reshape(along) + bias.reshape(along)
    for isa in ISAS:
        (y,) = one("InstanceNormalization", {"x": x, "s": scale, "b": bias}, isa=isa)
        close(y, wanted, 80)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("rest", [(17,), (5, 4), ()], ids=str)
def test_group_normalization(groups: int, rest: tuple[int, ...]) -> None:
    shape = (2, 12, *rest)
    x = normal(shape)
    scale, bias = normal((12,), 2), normal((12,), 3)
    y = standardized(x.reshape(2, groups, -1), (2,)).reshape(shape)
    along = (-1, *(1,) * len(rest))
    (found,) = one("GroupNormalization", {"x": x, "s": scale, "b": bias}, num_groups=groups)
    close(found, y * scale.reshape(along) + bias.reshape(along), 80)


def test_channels_last_operands_stay_where_they_are() -> None:
    x = normal((2, 5, 4, 24))
    scale, bias = normal((24,), 2), normal((24,), 3)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("GroupNormalization", ["t", "s", "b"], ["g"], num_groups=4),
        helper.make_node("InstanceNormalization", ["g", "s", "b"], ["i"]),
        helper.make_node("Transpose", ["i"], ["y"], perm=[0, 2, 3, 1]),
    ]
    known = {"s": scale, "b": bias}
    (y,) = run_model(model_of(nodes, {"x": x}, known), {"x": x})
    grouped = x.astype(np.float64).transpose(0, 3, 1, 2)
    along = (-1, 1, 1)
    g = standardized(grouped.reshape(2, 4, -1), (2,)).reshape(grouped.shape)
    g = g * scale.reshape(along) + bias.reshape(along)
    i = standardized(g, (2, 3)) * scale.reshape(along) + bias.reshape(along)
    close(y, i.transpose(0, 2, 3, 1), 400)


@pytest.mark.parametrize("axes", [None, [1], [0, 2, 3], [2, -1]], ids=str)
def test_mean_variance_normalization(axes: list[int] | None) -> None:
    x = normal((3, 4, 5, 6))
    attributes = {} if axes is None else {"axes": axes}
    over = tuple(axes or (0, 2, 3))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(over, keepdims=True)
    wanted = centred / (np.sqrt((centred**2).mean(over, keepdims=True)) + 1e-9)
    (y,) = one("MeanVarianceNormalization", {"x": x}, opset=13, **attributes)
    close(y, wanted)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_division_by_a_norm(p: int, axis: int) -> None:
    x = normal((4, 5, 21))
    x[1], x[:, 2], x[:, :, 3] = 0, 0, 0
    wide = np.abs(x.astype(np.float64))
    norm = (wide**p).sum(axis, keepdims=True) ** (1 / p)
    wanted = np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))
    (y,) = one("LpNormalization", {"x": x}, p=p, axis=axis)
    close(y, wanted)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("shape", [(4, 7), (2, 5, 9), (2, 33, 4, 6)], ids=str)
def test_batch_normalization(known: bool, shape: tuple[int, ...]) -> None:
    x = normal(shape)
    s, b, m = (normal(shape[1:2], k) for k in (2, 3, 4))
    v = np.abs(normal(shape[1:2], 5)) + 0.1
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=1e-3)
    given = {"x": x, "s": s, "b": b, "m": m, "v": v}
    feeds = {"x": x} if known else given
    model = model_of([node], feeds, {n: a for n, a in given.items() if n not in feeds})
    along = (-1, *(1,) * (len(shape) - 2))
    wide = [a.astype(np.float64).reshape(along) for a in (s, b, m, v)]
    wanted = (x - wide[2]) / np.sqrt(wide[3] + 1e-3) * wide[0] + wide[1]
    (y,) = run_model(model, feeds)
    close(y, wanted)


def test_batch_normalization_and_what_follows() -> None:
    """A residual and Relu in the same kernel."""
    x, r = normal((2, 33, 4, 6)), normal((2, 33, 4, 6), 7)
    known = {n: normal((33,), k) for k, n in enumerate("sbm")}
    known["v"] = np.abs(normal((33,), 5)) + 0.1
    nodes = [
        helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Add", ["n", "r"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    model = model_of(nodes, {"x": x, "r": r}, known)
    s, b, m, v = (known[n].astype(np.float64).reshape(-1, 1, 1) for n in "sbmv")
    wanted = np.maximum((x - m) / np.sqrt(v + EPSILON) * s + b + r, 0)
    (y,) = run_model(model, {"x": x, "r": r})
    close(y, wanted)


@pytest.mark.parametrize("shape", [(4, 7), (2, 33, 4, 6)], ids=str)
def test_batch_normalization_in_training(shape: tuple[int, ...]) -> None:
    x = normal(shape)
    s, b, m = (normal(shape[1:2], k) for k in (2, 3, 4))
    v = np.abs(normal(shape[1:2], 5))
    node = helper.make_node(
        "BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "rm", "rv"],
        training_mode=1, momentum=0.8, epsilon=1e-3,
    )  # fmt: skip
    feeds = {"x": x, "s": s, "b": b, "m": m, "v": v}
    model = model_of([node], feeds, {}, ["y", "rm", "rv"])
    wanted = ReferenceEvaluator(model).run(
        None, {n: a.astype(np.float64) for n, a in feeds.items()}
    )
    for found, value in zip(run_model(model, feeds), wanted, strict=True):
        close(found, value)


# --- ONNX Runtime's own ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("skip_shape", [(2, 5, 40), (5, 40), (1, 5, 40)], ids=str)
def test_skip_normalizations(name: str, extra: int, skip_shape: tuple[int, ...]) -> None:
    """With bias and beta, and the sum as a result."""
    plain = "Simplified" in name
    operands = {"x": normal((2, 5, 40)), "skip": normal(skip_shape, 2), "gamma": normal((40,), 3)}
    for k, other in enumerate(("bias",) if plain else ("beta", "bias")):
        if k < extra:
            operands[other] = normal((40,), 4 + k)
    node = helper.make_node(
        name, list(operands), ["y", "", "", "sum"], domain=MICROSOFT, epsilon=1e-3
    )
    total = sum(operands[n].astype(np.float64) for n in ("x", "skip", "bias") if n in operands)
    if plain:
        y = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-3) * operands["gamma"]
    else:
        y = standardized(total, (2,), 1e-3) * operands["gamma"] + operands.get("beta", 0)
    found = run_model(model_of([node], operands, {}, ["y", "sum"]), operands)
    close(found[0], y)
    close(found[1], total, 4)


def test_bias_softmax() -> None:
    x, bias = normal((2, 3, 4, 30)), normal((2, 1, 1, 30), 2)
    (y,) = one("BiasSoftmax", {"x": x, "b": bias}, domain=MICROSOFT, axis=3, is_inner_broadcast=1)
    raised = np.exp(x.astype(np.float64) + bias)
    close(y, raised / raised.sum(-1, keepdims=True))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_quantized_softmax_and_mean(kind: Any) -> None:
    """Quantized from the real numbers, rounded half to even."""
    x = np.random.default_rng(1).integers(0, 100, (3, 4, 25)).astype(kind)
    real = (x.astype(np.float64) - 20) * 0.05
    operands = {
        "x": x, "xs": np.array(0.05, np.float32), "xz": np.array(20, kind),
        "ys": np.array(1 / 256, np.float32), "yz": np.array(3, kind),
    }  # fmt: skip
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    raised = np.exp(real) / np.exp(real).sum(-1, keepdims=True)
    node = helper.make_node(
        "QLinearSoftmax", list(operands), ["y"], domain=MICROSOFT, axis=-1, opset=13
    )
    (y,) = run_model(model_of([node], operands, {}), operands)
    wanted = np.clip(np.rint(raised * 256) + 3, low, high)
    assert np.max(np.abs(y.astype(int) - wanted)) <= 1
    assert np.mean(y == wanted) > 0.99
    operands["ys"] = np.array(0.02, np.float32)
    node = helper.make_node(
        "QLinearReduceMean", list(operands), ["y"], domain=MICROSOFT, axes=[1], keepdims=0
    )
    (mean,) = run_model(model_of([node], operands, {}), operands)
    wanted = np.clip(np.rint(real.mean(1) / 0.02) + 3, low, high)
    assert np.max(np.abs(mean.astype(int) - wanted)) <= 1
    assert np.mean(mean == wanted) > 0.95


@pytest.mark.parametrize("with_segments", [False, True])
@pytest.mark.parametrize("with_places", [False, True])
def test_embeddings(with_segments: bool, with_places: bool) -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 30, (3, 7)).astype(np.int32)
    segments = rng.integers(0, 2, (3, 7)).astype(np.int32)
    places = rng.integers(0, 9, (3, 7)).astype(np.int32)
    mask = (np.arange(7) < np.array([[7], [2], [0]])).astype(np.int32)
    words, positions, kinds = normal((30, 20)), normal((9, 20), 2), normal((2, 20), 3)
    scale, bias = normal((20,), 4), normal((20,), 5)
    feeds = {
        "ids": ids, "segments" if with_segments else "_s": segments, "words": words,
        "positions": positions, "kinds" if with_segments else "_k": kinds, "scale": scale,
        "bias": bias, "mask": mask, "places" if with_places else "_p": places,
    }  # fmt: skip
    y, lengths, total = one(
        "EmbedLayerNormalization", feeds, ["y", "lengths", "total"], domain=MICROSOFT
    )
    wanted = words.astype(np.float64)[ids] + positions[places if with_places else np.arange(7)]
    wanted = wanted + kinds[segments] if with_segments else wanted
    close(total, wanted, 4)
    close(y, standardized(wanted, (2,), 1e-12) * scale + bias)
    assert lengths.tolist() == [7, 2, 0]
