"""Groups against integer arithmetic written here from the kernels' sources.

Each twin is rewritten for each target with groups, and its body run by onnxruntime and by the exact
oracle. Both must give, bit for bit, what `twin_arithmetic` gives for the sums that `twin_models`
counts and the numbers that stand in the attributes of the group; and the certificate must hold for
sums next to every step.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cache

import numpy as np
import onnx
import pytest
from twin_arithmetic import Array, codes, nearest
from twin_models import CONVOLUTIONS, Twin
from twin_products import PRODUCTS

import rewrite
from rewrite.audit.oracle.run import Oracle

ort = pytest.importorskip("onnxruntime")

TARGETS = ("hexagon", "x86-avx2", "cortex-m", "ethos-u55")
CASES = {case.name: case for case in (*CONVOLUTIONS, *PRODUCTS)}
ARM = ("cortex-m", "ethos-u55")
REQUANTIZERS = {
    "hexagon": "hvx", "x86-avx2": "ort_x86", "cortex-m": "tflite_double", "ethos-u55": "vela",
}  # fmt: skip
MOST_EXHAUSTED = 70_000
STEPS = 600  # of a channel of 16-bit codes


@cache
def twin_of(name: str) -> Twin:
    return CASES[name].twin()


@cache
def rewritten(name: str, target: str) -> onnx.ModelProto:
    return rewrite.apply(twin_of(name).graph.proto(), target=target).model


def taken(twin: Twin, target: str) -> bool:
    """Whether the target contracts such codes: its dtypes, in words."""
    x, k = twin.pair
    if x in ("u16", "s16"):
        pairs = {"hexagon": ("u16",), "x86-avx2": ("u16", "s16")}.get(target, ("s16",))
        return x in pairs and (target not in ARM or twin.zeros[0] == 0)
    if len(twin.zeros) == 2:
        return True
    if target in ARM:
        # Weights of s8 with zero point 0, or the same numbers in u8.
        return twin.weight_zero == (128 if k == "u8" else 0)
    return x != "s8" or twin.weight_zero == 0 or target == "x86-avx2"


def group(model: onnx.ModelProto) -> onnx.NodeProto | None:
    found = [node for node in model.graph.node if node.domain]
    assert len(found) <= 1
    return found[0] if found and found[0].op_type.startswith("Q") else None


def attributes(node: onnx.NodeProto) -> dict:
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}


def certificate(node: onnx.NodeProto) -> str:
    return next(p.value for p in node.metadata_props if p.key == "rewrite.certificate")


def run(model: onnx.ModelProto, feeds: dict[str, Array]) -> Array:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


EVERY = pytest.mark.parametrize("name", CASES)
EACH = pytest.mark.parametrize("target", TARGETS)


@EACH
@EVERY
def test_body_agrees_with_attributes(name: str, target: str) -> None:
    twin, model = twin_of(name), rewritten(name, target)
    node = group(model)
    assert (node is not None) == taken(twin, target), [n.op_type for n in model.graph.node]
    if node is None:
        return
    given = attributes(node)
    moved = _moved(twin, target)
    assert node.op_type.split("_")[0] == twin.kind
    assert given["requantizer"] == _requantizer(twin, target)
    assert given["output_zero_point"] == twin.zero + moved
    assert (given["low"], given["high"]) == (twin.low + moved, twin.high + moved)
    _derived(given, twin.ratio)
    wanted = codes(twin.sums, given, twin.axis) - moved
    result = run(model, twin.graph.feeds)
    np.testing.assert_array_equal(result.astype(np.int64), wanted)
    exact = next(iter(Oracle(model).run(twin.graph.feeds).outputs.values()))
    np.testing.assert_array_equal(np.asarray(exact), result)
    real = nearest(twin.sums, twin.ratio, twin.zero, twin.low, twin.high, twin.axis)
    assert np.abs(wanted - real).max() <= _claimed(certificate(node))


def _moved(twin: Twin, target: str) -> int:
    """Targets whose codes are signed: u8 less 128."""
    return -128 if target in ARM and twin.dtype == "u8" else 0


def _requantizer(twin: Twin, target: str) -> str:
    """Vela: convolutions of 16-bit codes round once (get_rounding_mode)."""
    if target == "ethos-u55" and twin.kind == "QConv" and twin.pair[0] == "s16":
        return "vela_natural"
    return REQUANTIZERS[target]


def _derived(given: dict, ratio: list[Fraction]) -> None:
    """Arm's compilers take the nearest multiplier of 31 bits; others of ours are near."""
    found = given["multiplier"]
    shifts = given["shift"] if len(given["shift"]) == len(found) else given["shift"] * len(found)
    for multiplier, shift, exact in zip(found, shifts, ratio, strict=True):
        made = Fraction(multiplier) / (1 << shift)
        assert abs(made / exact - 1) < Fraction(1, 1 << 11)
        if given["requantizer"] in ("tflite_double", "vela", "vela_natural"):
            mantissa, exponent = math.frexp(float(exact))
            q = math.floor(Fraction(mantissa) * (1 << 31) + Fraction(1, 2))
            assert made == Fraction(q) / Fraction(2) ** (31 - exponent)


def _claimed(text: str) -> int:
    found = re.match(r"(?:exact|lsb\((\d+)\)): ", text)
    assert found, text
    return int(found[1] or 0)


@EACH
@EVERY
def test_certificate_holds(name: str, target: str) -> None:
    """Next to every step, at the ends, at random; every sum where there are few."""
    twin = twin_of(name)
    node = group(rewritten(name, target))
    if node is None:
        return
    given, text = attributes(node), certificate(node)
    cases, differing = (int(n) for n in re.findall(r"(\d+) (?:cases|differ)", text))
    channels = len(twin.ratio)
    bound = (cases // channels - 1) // 2
    assert cases == channels * (2 * bound + 1)
    assert np.abs(twin.sums).max() <= bound
    difference, whole = _differences(given, twin.ratio, bound)
    assert difference.max() <= _claimed(text)
    if whole:
        assert (difference > 0).sum() == differing
    witness = re.search(r"at \((-?\d+), (\d+)\) by (\d+)", text)
    assert (witness is None) == (_claimed(text) == 0)
    if witness:
        at = int(witness[2])
        one = {n: [given[n][at if len(given[n]) > 1 else 0]] for n in ("multiplier", "shift")}
        acc = np.array([int(witness[1])])
        assert abs(int(_gap(acc, given | one, [twin.ratio[at]])[0])) == int(witness[3])


def _differences(given: dict, ratio: list[Fraction], bound: int) -> tuple[Array, bool]:
    """Differences of codes to the exact ones, and whether of every sum."""
    if (2 * bound + 1) * len(ratio) <= MOST_EXHAUSTED:
        every = np.repeat(np.arange(-bound, bound + 1)[:, None], len(ratio), 1)
        return np.abs(_gap(every, given, ratio)), True
    zero, low, high = (given[n] for n in ("output_zero_point", "low", "high"))
    steps = np.unique(np.linspace(low + 1, high, STEPS).astype(np.int64)) - zero
    rng = np.random.default_rng(7)
    columns = []
    for r in ratio:
        near = np.array([math.ceil((Fraction(int(c)) - Fraction(1, 2)) / r) for c in steps])
        beside = (near[None] + np.arange(-2, 3)[:, None]).reshape(-1)
        random = rng.integers(-bound, bound + 1, 500)
        columns.append(np.concatenate([beside, random, [-bound, bound, -1, 0, 1]]))
    acc = np.stack(columns, 1)
    return np.abs(_gap(np.clip(acc, -bound, bound).astype(np.int64), given, ratio)), False


def _gap(acc: Array, given: dict, ratio: list[Fraction]) -> Array:
    zero, low, high = (given[n] for n in ("output_zero_point", "low", "high"))
    return codes(acc, given, acc.ndim - 1) - nearest(acc, ratio, zero, low, high, acc.ndim - 1)
