"""Recurrent kernels against the equations of ONNX in numpy, in float64.

Tolerance: a sum of `hidden` products of states below 1 with weights below 1 is off by hidden 2^-24
at most; the activations' slopes are below 1, and so are the factors by which a step passes errors
on, so that a few steps add up to less than 1e-5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from rewrite.codegen.compile import to_object
from rewrite.codegen.isa import AARCH64, BASELINE, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.specs.attention import bits_of
from rewrite.plan.specs.recurrent import GATES, Activation, Integers, Recurrent, scratch_of
from tests.codegen.harness import isas, run

Array = np.ndarray
LSTM = (Activation("Sigmoid"), Activation("Tanh"), Activation("Tanh"))
GRU = LSTM[:2]


@dataclass
class Layer:
    """What the operator is given, batch second; W x is given as it is."""

    kind: str
    projected: Array  # steps, batch, directions, gates, hidden
    r: Array  # directions, gates, hidden, hidden
    bias: Array | None = None  # directions, gates (+ 1), hidden
    peepholes: Array | None = None  # directions, 3, hidden
    lengths: Array | None = None
    h0: Array | None = None  # directions, batch, hidden
    c0: Array | None = None
    backwards: int = 0
    clip: float = 0.0
    coupled: bool = False
    reset_after: bool = False
    activations: tuple[Activation, ...] = field(default=LSTM)
    dtype: type = np.float32


def act(how: Activation, x: Array) -> Array:
    a, b = how.alpha, how.beta
    table: dict[str, Any] = {
        "Sigmoid": lambda: 0.5 * (1 + np.tanh(x / 2)),
        "Tanh": lambda: np.tanh(x),
        "Relu": lambda: np.maximum(x, 0),
        "Affine": lambda: a * x + b,
        "ScaledTanh": lambda: a * np.tanh(b * x),
        "LeakyRelu": lambda: np.where(x < 0, a * x, x),
        "ThresholdedRelu": lambda: np.where(x > a, x, 0),
        "HardSigmoid": lambda: np.clip(a * x + b, 0, 1),
        "Elu": lambda: np.where(x < 0, a * (np.exp(x) - 1), x),
        "Softsign": lambda: x / (1 + np.abs(x)),
        "Softplus": lambda: np.log(1 + np.exp(x)),
    }
    return np.asarray(table[how.name]())


def expected(layer: Layer) -> tuple[Array, Array, Array]:
    steps, batch, directions, _, hidden = layer.projected.shape
    y = np.zeros((steps, directions, batch, hidden))
    y_h, y_c = np.zeros((directions, batch, hidden)), np.zeros((directions, batch, hidden))
    for d in range(directions):
        for b in range(batch):
            n = steps if layer.lengths is None else int(layer.lengths[b])
            h = np.zeros(hidden) if layer.h0 is None else layer.h0[d, b].astype(float)
            c = np.zeros(hidden) if layer.c0 is None else layer.c0[d, b].astype(float)
            order = range(n)[::-1] if layer.backwards >> d & 1 else range(n)
            for t in order:
                h, c = one_step(layer, d, layer.projected[t, b, d].astype(float), h, c)
                y[t, d, b] = h
            y_h[d, b], y_c[d, b] = h, c
    return y, y_h, y_c


def one_step(layer: Layer, d: int, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    r = layer.r[d].astype(float)
    bias = np.zeros((5, len(h))) if layer.bias is None else layer.bias[d].astype(float)
    functions = layer.activations

    def call(which: int, v: Array, bounded: bool = True) -> Array:
        bounds = (-layer.clip, layer.clip) if layer.clip and bounded else (-np.inf, np.inf)
        return act(functions[which], np.clip(v, *bounds))

    if layer.kind == "RNN":
        return call(0, x[0] + r[0] @ h + bias[0]), c
    if layer.kind == "GRU":
        z = call(0, x[0] + r[0] @ h + bias[0])
        reset = call(0, x[1] + r[1] @ h + bias[1])
        if layer.reset_after:
            inner = reset * (r[2] @ h + bias[3])
        else:
            inner = r[2] @ (reset * h)
        return (1 - z) * call(1, x[2] + inner + bias[2]) + z * h, c
    peep = np.zeros((3, len(h))) if layer.peepholes is None else layer.peepholes[d].astype(float)
    gate = [x[g] + r[g] @ h + bias[g] for g in range(4)]
    i = call(0, gate[0] + peep[0] * c)
    forget = 1 - i if layer.coupled else call(0, gate[2] + peep[2] * c)
    new = forget * c + i * call(1, gate[3])
    o = call(0, gate[1] + peep[1] * new)
    return o * call(2, new, bounded=False), new


def in_blocks(x: Array, unit: int) -> Array:
    """(…, sets, hidden) as (…, block, set, unit)."""
    pad = -x.shape[-1] % unit
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)])
    x = x.reshape(*x.shape[:-1], x.shape[-1] // unit, unit)
    return np.ascontiguousarray(np.moveaxis(x, -3, -2))


def packed_weights(r: Array, passes: tuple[tuple[int, ...], ...], unit: int) -> Array:
    found = []
    for direction in r:
        for gates in passes:
            part = direction[list(gates)].transpose(2, 0, 1)  # k, gate, hidden
            blocks = in_blocks(part, unit)  # k, block, gate, unit
            found.append(blocks.transpose(1, 0, 2, 3).reshape(-1))
    return np.concatenate(found)


def computed(
    layer: Layer, isa: Isa | None = None, unit: int = 16, rows: int = 1, splits: int = 1
) -> tuple[Array, Array, Array]:
    steps, batch, directions, _, hidden = layer.projected.shape
    wide = np.float64 if layer.dtype == np.float64 else np.float32
    name = {np.float32: "f32", np.float64: "f64", np.float16: "f16"}[layer.dtype]  # type: ignore[index]
    spec = Recurrent(
        layer.kind, name, hidden, unit, 1 if layer.lengths is not None else rows,
        layer.activations, layer.bias is not None, layer.peepholes is not None,
        layer.lengths is not None, layer.h0 is not None, layer.c0 is not None,
        True, True, layer.kind == "LSTM", layer.clip != 0, layer.coupled, layer.reset_after,
    )  # fmt: skip
    x = in_blocks(layer.projected.astype(wide), unit)
    x = np.ascontiguousarray(x)
    y = np.full((steps, directions, batch, hidden), 7, layer.dtype)
    y_h, y_c = (np.full((directions, batch, hidden), 7, layer.dtype) for _ in "hc")
    words: dict[str, Array | None] = {
        "projected": x,
        "weights": packed_weights(layer.r.astype(wide), spec.passes, unit),
        "bias": None if layer.bias is None else in_blocks(layer.bias.astype(wide), unit),
        "peepholes": (
            None if layer.peepholes is None else in_blocks(layer.peepholes.astype(wide), unit)
        ),
        "lengths": layer.lengths, "h0": layer.h0, "c0": layer.c0,
        "y": y, "y_h": y_h, "y_c": y_c,
    }  # fmt: skip
    size = spec.blocks * spec.gates * unit
    integers = Integers(
        batch, steps, layer.backwards, batch * directions * size, directions * size, size,
        directions * batch * hidden, hidden, batch * hidden, hidden, batch * hidden,
        bits_of(layer.clip),
    )  # fmt: skip
    given = [np.ascontiguousarray(words[n]) for n in spec.operands]
    for index, operand in enumerate(spec.operands):
        if operand in ("y", "y_h", "y_c"):
            given[index] = words[operand]  # type: ignore[assignment]
    status = run(
        spec, [*given, *integers.words()], directions * batch,
        isa=isa, splits=splits, scratch=scratch_of(spec),
    )  # fmt: skip
    assert status == 0
    return y, y_h, y_c


def check(layer: Layer, tolerance: float = 1e-5, **how: Any) -> None:
    found, want = computed(layer, **how), expected(layer)
    count = 3 if layer.kind == "LSTM" else 2
    for x, y in zip(found[:count], want[:count], strict=True):
        np.testing.assert_allclose(x.astype(float), y, rtol=0, atol=tolerance)


def layer_of(
    kind: str, steps: int = 4, batch: int = 3, directions: int = 1, hidden: int = 21, seed: int = 0,
    **given: Any,
) -> Layer:  # fmt: skip
    rng = np.random.default_rng(seed)
    dtype = given.get("dtype", np.float32)
    gates = GATES[kind]
    projected = rng.normal(0, 1, (steps, batch, directions, gates, hidden)).astype(dtype)
    r = rng.uniform(-1, 1, (directions, gates, hidden, hidden)).astype(dtype) / hidden**0.5
    given.setdefault("activations", {"LSTM": LSTM, "GRU": GRU, "RNN": LSTM[1:2]}[kind])
    return Layer(kind, projected, r.astype(dtype), **given)


def everything(kind: str, **sizes: Any) -> Layer:
    """Every operand that the kind has."""
    layer = layer_of(kind, **sizes)
    _, batch, directions, gates, hidden = layer.projected.shape
    rng = np.random.default_rng(9)

    def make(*shape: int) -> Array:
        return rng.uniform(-1, 1, shape).astype(layer.dtype)

    layer.bias = make(directions, gates + (1 if layer.reset_after else 0), hidden)
    layer.h0 = make(directions, batch, hidden)
    if kind == "LSTM":
        layer.c0 = make(directions, batch, hidden)
        layer.peepholes = make(directions, 3, hidden)
    return layer


KINDS = ["LSTM", "GRU", "RNN"]
MACHINES = pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")


@MACHINES
@pytest.mark.parametrize("unit", [16, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str, unit: int, isa: Isa) -> None:
    check(layer_of(kind, directions=2, backwards=2), isa=isa, unit=unit, splits=2)


@MACHINES
@pytest.mark.parametrize("kind", KINDS)
def test_every_operand(kind: str, isa: Isa) -> None:
    check(everything(kind, directions=2, backwards=2), isa=isa)


@MACHINES
@pytest.mark.parametrize("kind", KINDS)
def test_several_rows_at_once(kind: str, isa: Isa) -> None:
    check(everything(kind, batch=7, directions=2, backwards=1), isa=isa, rows=4, splits=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [1, 16, 33])
def test_sizes(kind: str, hidden: int) -> None:
    check(everything(kind, hidden=hidden, batch=1, steps=1))
    check(everything(kind, hidden=hidden, batch=2, steps=3))


@pytest.mark.parametrize("isa", isas()[:2], ids=lambda i: f"{i.vector_bytes}")
@pytest.mark.parametrize("kind", KINDS)
def test_float64(kind: str, isa: Isa) -> None:
    check(everything(kind, dtype=np.float64), 1e-12, isa=isa)


@pytest.mark.parametrize("kind", KINDS)
def test_float16(kind: str) -> None:
    check(everything(kind, dtype=np.float16), 2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths(kind: str) -> None:
    layer = everything(kind, directions=2, backwards=2, batch=4)
    layer.lengths = np.array([4, 1, 0, 3], np.int32)
    check(layer, splits=2)


@pytest.mark.parametrize("kind", KINDS)
def test_no_steps(kind: str) -> None:
    check(everything(kind, steps=0))


def test_reset_after_the_product() -> None:
    check(everything("GRU", reset_after=True, directions=2, backwards=2))
    check(layer_of("GRU", reset_after=True), rows=4)


@pytest.mark.parametrize("kind", KINDS)
def test_clip(kind: str) -> None:
    check(everything(kind, clip=0.3))


def test_coupled_gates() -> None:
    check(everything("LSTM", coupled=True))


OTHERS = [
    Activation("Relu"), Activation("Affine", 0.5, 0.1), Activation("LeakyRelu", 0.2),
    Activation("ThresholdedRelu", 0.3), Activation("ScaledTanh", 0.7, 0.4),
    Activation("HardSigmoid", 0.2, 0.5), Activation("Elu", 0.8), Activation("Softsign"),
    Activation("Softplus"),
]  # fmt: skip


@pytest.mark.parametrize("how", OTHERS, ids=lambda a: a.name)
def test_activations(how: Activation) -> None:
    check(layer_of("RNN", activations=(how,)), 5e-5)


def test_extreme_gates() -> None:
    layer = layer_of("LSTM")
    layer.projected[0, 0, 0, :, :4] = [[1e4], [np.inf], [-1e4], [-np.inf]]
    check(layer)


def test_other_machines_get_code() -> None:
    for isa in (AARCH64, BASELINE):
        assert to_object(generate(Recurrent("LSTM", "f32", 128, 16, 1, LSTM), isa, "k"), isa, False)
