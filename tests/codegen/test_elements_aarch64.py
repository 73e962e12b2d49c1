"""Scalar programs, conversions and moves in the code of aarch64, run by an emulator.

All kernels of one test are calls of one plan, so that the emulator starts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.ops.evaluate import differs, evaluate, tolerance
from rewrite.plan.pointwise import pointwise
from rewrite.plan.spec import Body, Call, Place, Plan
from rewrite.plan.view import View, dense
from rewrite.schema import DTYPES
from tests.codegen import emulator
from tests.codegen.bodies import step
from tests.codegen.elements import everything, same, sample
from tests.codegen.test_body import (
    attributes_of,
    elementwise,
    expected,
    operands,
    result_type,
    types_of,
)


@dataclass
class Draft:
    """A plan of kernels that do not depend on each other."""

    calls: list[Call] = field(default_factory=list)
    inputs: list[np.ndarray] = field(default_factory=list)
    outputs: list[View] = field(default_factory=list)

    def add(self, body: Body, arrays: Sequence[np.ndarray], order: Sequence[int] | None) -> None:
        """One more kernel; its operands in row-major order, its output in the order given."""
        shape = arrays[0].shape
        views = [dense(of_numpy(a.dtype) or "", shape) for a in arrays]
        out = dense(body.dtype(body.results[0]), shape, order)
        spec, items, _ = pointwise(shape, views, [out], body)
        words = [Place("input", len(self.inputs) + k) for k in range(len(arrays))]
        self.inputs.extend(arrays)
        self.calls.append(Call(spec, (*words, Place("output", len(self.outputs))), items))
        self.outputs.append(dense(out.dtype, [shape[a] for a in order or range(len(shape))]))

    def one(self, name: str, arrays: Sequence[np.ndarray], dtype: str, domain: str = "",
            attributes: Mapping[str, Any] | None = None) -> None:  # fmt: skip
        """One operator."""
        dtypes = tuple(of_numpy(a.dtype) or "" for a in arrays)
        made = step(name, range(len(arrays)), dtype, domain, **(attributes or {}))
        self.add(Body(dtypes, (made,), (len(arrays),)), arrays, None)

    def run(self, device: emulator.EmulatedDevice) -> list[np.ndarray]:
        views = [dense(of_numpy(a.dtype) or "", a.shape) for a in self.inputs]
        plan = Plan(tuple(self.calls), 64, (), tuple(views), tuple(self.outputs))
        made = [np.zeros(v.shape, to_numpy(v.dtype)) for v in self.outputs]
        device.load(plan).run([np.ascontiguousarray(a) for a in self.inputs], made)
        return made


@pytest.fixture
def device() -> Iterator[emulator.EmulatedDevice]:
    reason = emulator.missing()
    if reason is not None:
        pytest.skip(reason)
    made = emulator.EmulatedDevice()
    yield made
    made.close()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "s32", "u8", "s64", "bool"])
def test_every_operator(dtype: str, device: emulator.EmulatedDevice) -> None:
    draft, wanted = Draft(), []
    for key, definition in elementwise():
        if dtype not in types_of(key) or (key[1] == "Mod" and dtype[0] in "fb"):
            continue  # the remainder of floats is the C library's
        arrays = operands(key, definition.body, dtype)
        attributes = attributes_of(key, definition.body, dtype)
        if key[1] == "Shrink" and dtype == "s64":
            continue  # numpy computes it in float64
        draft.one(key[1], arrays, result_type(definition, dtype), key[0], attributes)
        wanted.append((key, expected(key, arrays, attributes)))
    for (key, value), found in zip(wanted, draft.run(device), strict=True):
        allowed = tolerance(*key, dtype)
        assert value is not None
        assert allowed is not None
        assert differs(value, found, allowed) is None, key


KINDS = ("f32", "f16", "bf16", "f8e5m2", "f8e4m3fnuz", "f4e2m1", "u8", "s64", "s4", "bool", "f64")


def test_casts(device: emulator.EmulatedDevice) -> None:
    draft, wanted = Draft(), []
    for source in KINDS:
        x = everything(source)
        x = x[:: max(1, x.size // 1000)]
        for target in KINDS:
            attributes = {"to": DTYPES[target], "saturate": 1, "round_mode": "up"}
            draft.one("Cast", [x], target, "", attributes)
            wanted.append((source, target, x, attributes))
    compared = 0
    for (source, target, x, attributes), found in zip(wanted, draft.run(device), strict=True):
        for i in range(0, x.size, 7):
            value = evaluate("", "Cast", 28, [x[i : i + 1]], attributes)
            if value:
                assert same(value[0], found[i : i + 1]).all(), (source, target, x[i])
                compared += 1
    assert compared > 5000


def test_moves(device: emulator.EmulatedDevice) -> None:
    draft, wanted = Draft(), []
    for dtype in ("u8", "f16", "f32", "f64", "c128"):
        for shape, order in (((33, 50), (1, 0)), ((3, 4, 17), (2, 0, 1)), ((5, 3), (1, 0))):
            x = sample("u8", int(np.prod(shape)) * to_numpy(dtype).itemsize)
            x = x.view(to_numpy(dtype)).reshape(shape)
            draft.add(Body((dtype,), (), (0,)), [x], order)
            wanted.append(np.ascontiguousarray(x.transpose(order)))
    for value, found in zip(wanted, draft.run(device), strict=True):
        assert value.tobytes() == found.tobytes()


def test_quantization(device: emulator.EmulatedDevice) -> None:
    x = np.linspace(-40, 40, 999).astype(np.float32)
    scale, zero = np.full(999, 0.21, np.float32), np.full(999, 7, np.uint8)
    draft = Draft()
    draft.one("QuantizeLinear", [x, scale, zero], "u8", "", {"saturate": 1})
    codes = np.clip(np.rint(x / scale) + 7, 0, 255).astype(np.uint8)
    draft.one("DequantizeLinear", [codes, scale, zero], "f32")
    found = draft.run(device)
    assert np.array_equal(found[0], codes)
    assert np.array_equal(found[1], (codes.astype(np.float32) - 7) * scale)
