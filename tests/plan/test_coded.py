"""Numbers that become codes in one step, and sums that start from what is added behind them.

Expected values: numpy, integers in int64 modulo 2^32, quotients in float32 as the operators say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from rewrite.plan.coded import DOMAIN, NAME, coded
from rewrite.plan.spec import Body, Constant, Step
from tests.codegen.bodies import run_body
from tests.codegen.harness import isas
from tests.plan.conv_models import attributes, convolved, model_of, run_model

ISAS = pytest.mark.parametrize("isa", isas(), ids=lambda isa: str(isa.vector_bytes))
Array = np.ndarray[Any, np.dtype[Any]]


def chain(low: float, high: float, zero: float | None, to: str = "u8", kind: str = "f32") -> Body:
    """Clip, Round, Add and Cast of an operand."""
    steps = [
        Step("", "Clip", (0, Constant(kind, low), Constant(kind, high)), kind),
        Step("", "Round", (1,), kind),
    ]
    if zero is not None:
        steps.append(Step("", "Add", (2, Constant(kind, zero)), kind))
    steps.append(Step("", "Cast", (len(steps),), to, (("saturate", 1),), 13))
    return Body((kind,), tuple(steps), (len(steps),))


@pytest.mark.parametrize(
    ("low", "high", "zero", "to"),
    [
        (0.0, 255.0, None, "u8"), (-3.0, 252.0, 3.0, "u8"), (-128.0, 127.0, None, "s8"),
        (-7.25, 6.5, 100.0, "s8"), (5.0, 5.0, None, "u8"), (-0.0, 1.0, 0.0, "u8"),
    ],
)  # fmt: skip
def test_a_chain_whose_bounds_fit_is_one_step(low, high, zero, to):
    (step,) = coded(chain(low, high, zero, to)).steps
    assert (step.domain, step.name, step.dtype) == (DOMAIN, NAME, to)
    assert step.args == (
        0, Constant("f32", low), Constant("f32", high), Constant("s32", int(zero or 0)),
    )  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        chain(-1.0, 255.0, None), chain(0.0, 256.0, None), chain(0.0, 255.0, 1.0),
        chain(-128.0, 127.5, None, "s8"), chain(3.0, 2.0, None), chain(0.0, np.nan, None),
        chain(np.nan, 1.0, None), chain(-np.inf, 1.0, None), chain(0.0, 9.0, 0.5),
        chain(0.0, 9.0, np.inf), chain(0.0, 255.0, None, "s32"), chain(0.0, 9.0, None, "u8", "f64"),
        Body(("f32",), (Step("", "Round", (0,), "f32"), Step("", "Cast", (1,), "u8")), (2,)),
        Body(("f32",), (Step("", "Cast", (0,), "u8"),), (1,)),
        Body(
            ("f32", "f32"),
            (
                Step("", "Clip", (0, Constant("f32", 0.0), 1), "f32"),
                Step("", "Round", (2,), "f32"), Step("", "Cast", (3,), "u8"),
            ),
            (4,),
        ),
    ],
)  # fmt: skip
def test_other_programs_stay_what_they_are(body):
    assert coded(body) == body


def test_a_step_that_is_wanted_elsewhere_stays():
    body = chain(0.0, 255.0, None)
    both = Body(body.dtypes, body.steps, (2, 3))
    assert [s.name for s in coded(both).steps] == ["Clip", "Round", NAME]
    assert coded(both).results == (2, 3)


@pytest.mark.parametrize("minus", ["Add", "Sub"])
@pytest.mark.parametrize(("zero", "taken"), [(3.0, 3), (0.0, 0), (3.0, 2), (3.0, -3)])
def test_a_float_of_the_code_is_the_rounded_number(minus, zero, taken):
    """Where as much is taken off as was added, and only then."""
    body = chain(-zero, 252.0, zero)
    number = Constant("s32", -taken if minus == "Add" else taken)
    more = (
        Step("", "Cast", (4,), "s32"), Step("", minus, (5, number), "s32"),
        Step("", "Cast", (6,), "f32"), Step("", "Mul", (7, 7), "f32"),
    )  # fmt: skip
    found = coded(Body(body.dtypes, body.steps + more, (8,)))
    names = [s.name for s in found.steps]
    if zero == taken:
        assert names == ["Clip", "Round", "Mul"]
    else:
        assert names == [NAME, "Cast", minus, "Cast", "Mul"]
    x = np.linspace(-300, 300, 997, dtype=np.float32)
    wanted = np.rint(np.clip(x, np.float32(-zero), np.float32(252))) + np.float32(zero - taken)
    assert np.array_equal(run_body(found, [x])[0], wanted * wanted)


@ISAS
@pytest.mark.parametrize(
    ("low", "high", "zero", "to"),
    [(0.0, 255.0, None, "u8"), (-3.0, 252.0, 3.0, "u8"), (-127.5, 100.25, -0.0, "s8"),
     (-28.0, 27.0, 100.0, "s8")],
)  # fmt: skip
def test_the_step_is_the_chain(isa, low, high, zero, to):
    """Ties, what lies around them, and what lies far outside."""
    halves = np.arange(-300, 300, dtype=np.float32) + np.float32(0.5)
    around = [np.nextafter(halves, np.float32(end)) for end in (-np.inf, np.inf)]
    more = np.float32([-0.0, 1e9, -1e9, 3e38, -3e38, np.inf, -np.inf, 1e-42, 2.0**31, -(2.0**31)])
    x = np.concatenate([halves, *around, np.arange(-300, 300, dtype=np.float32), more])
    x = x.astype(np.float32)
    wanted = np.rint(np.clip(x, np.float32(low), np.float32(high))) + (zero or 0)
    body = coded(chain(low, high, zero, to))
    assert [s.name for s in body.steps] == [NAME]
    for size in (len(x), 37, 1):
        (found,) = run_body(body, [x[:size]], isa)
        assert np.array_equal(found, wanted[:size].astype(found.dtype))


# --- what is added behind a convolution -----------------------------------------------------------

KINDS = {
    "dense": ((2, 12, 7, 9), (20, 12, 3, 3), 1), "depthwise": ((1, 40, 8, 17), (40, 1, 3, 3), 40),
    "three rows": ((1, 8, 16, 16), (16, 8, 3, 3), 1), "grouped": ((1, 16, 6, 5), (8, 4, 1, 1), 4),
}  # fmt: skip
HOW = ((1, 1), (1, 1, 1, 1), (1, 1))


def wrapped(x: Array) -> Array:
    return (x & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def given(name: str) -> tuple[Array, Array, int]:
    x_shape, w_shape, group = KINDS[name]
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, x_shape, np.uint8)
    return x, rng.integers(-128, 128, w_shape, np.int8), group


@ISAS
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("form", ["[M,1,1]", "[1,M,1,1]", "scalar", "one", "[W]", "[N,M,1,1]"])
@pytest.mark.parametrize("size", [100, 1 << 23, (1 << 31) - 1])
def test_what_is_added_behind_a_convolution(isa, name, form, size):
    """Per channel it may be where sums start; along pixels or images it may not."""
    x, w, group = given(name)
    shape = {
        "[M,1,1]": (len(w), 1, 1), "[1,M,1,1]": (1, len(w), 1, 1), "scalar": (),
        "one": (1, 1, 1, 1), "[W]": (x.shape[3],), "[N,M,1,1]": (len(x), len(w), 1, 1),
    }[form]  # fmt: skip
    added = np.random.default_rng(5).integers(-size, size, shape).astype(np.int32)
    pads = HOW[1] if w.shape[2] == 3 else (0, 0, 0, 0)
    nodes = [
        helper.make_node(
            "ConvInteger", ["x", "w", "zx"], ["s"], **attributes(HOW[0], pads, HOW[2], group)
        ),
        helper.make_node("Add", ["s", "b"], ["a"]),
        helper.make_node("Cast", ["a"], ["f"], to=1),
        helper.make_node("Mul", ["f", "m"], ["p"]),
        helper.make_node("Clip", ["p", "low", "high"], ["c"]),
        helper.make_node("Round", ["c"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=2),
    ]
    factor = np.random.default_rng(6).uniform(1e-3, 2e-3, (len(w), 1, 1)).astype(np.float32)
    factor /= np.float32(max(1, size >> 16))
    known = {
        "w": w, "zx": np.uint8(7).reshape(()), "b": added, "m": factor,
        "low": np.float32(0).reshape(()), "high": np.float32(255).reshape(()),
    }  # fmt: skip
    total = convolved(x.astype(np.int64) - 7, w.astype(np.int64), HOW[0], pads, HOW[2], group)
    total = wrapped(total + added.astype(np.int64))
    wanted = np.rint(np.clip(total.astype(np.float32) * factor, 0, 255)).astype(np.uint8)
    (found,) = run_model(model_of(nodes, {"x": x}, known), {"x": x}, isa)
    assert np.array_equal(found, wanted)
    # The sums themselves, and as floats.
    known = {name: known[name] for name in ("w", "zx", "b")}
    for last, value in (("a", total), ("f", total.astype(np.float32))):
        proto = model_of(nodes[: 2 if last == "a" else 3], {"x": x}, known, [last])
        (found,) = run_model(proto, {"x": x}, isa)
        assert np.array_equal(found, value)


def test_sums_that_are_wanted_before_the_addition_too():
    x, w, group = given("dense")
    nodes = [
        helper.make_node("ConvInteger", ["x", "w"], ["s"], **attributes(*HOW, group)),
        helper.make_node("Add", ["s", "b"], ["a"]),
        helper.make_node("Mul", ["a", "s"], ["y"]),
    ]
    b = np.arange(len(w), dtype=np.int32).reshape(-1, 1, 1)
    total = convolved(x.astype(np.int64), w.astype(np.int64), *HOW, group)
    (found,) = run_model(model_of(nodes, {"x": x}, {"w": w, "b": b}), {"x": x})
    assert np.array_equal(found, wrapped((total + b) * total))
    twice = [nodes[0], helper.make_node("Add", ["s", "s"], ["y"])]
    (found,) = run_model(model_of(twice, {"x": x}, {"w": w}), {"x": x})
    assert np.array_equal(found, wrapped(2 * total))


def test_what_is_added_comes_with_the_run():
    x, w, group = given("dense")
    nodes = [
        helper.make_node("ConvInteger", ["x", "w"], ["s"], **attributes(*HOW, group)),
        helper.make_node("Add", ["b", "s"], ["y"]),
    ]
    b = np.arange(len(w), dtype=np.int32).reshape(-1, 1, 1)
    total = convolved(x.astype(np.int64), w.astype(np.int64), *HOW, group)
    feeds = {"x": x, "b": b}
    (found,) = run_model(model_of(nodes, feeds, {"w": w}), feeds)
    assert np.array_equal(found, wrapped(total + b))
