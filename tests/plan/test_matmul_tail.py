"""Programs behind the sums of a product: joined, shared between layers, biases taken out."""

from __future__ import annotations

import numpy as np
from onnx import helper

from rewrite.graph import io
from rewrite.plan.lower.matmul_tail import Tail, lifted
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.specs.gemm import Gemm
from rewrite.runtime.session import Session
from tests.plan.matmul_models import model


def test_steps_of_both() -> None:
    """The product's own steps come first; values are numbered anew."""
    tail = Tail("s32", "f32")
    tail.last = tail.cast(tail.last, "f32")
    tail.then("Mul", Constant("f32", 0.5), dtype="f32")
    epilogue = Body(("f32",), (Step("", "Relu", (0,), "f32"), Step("", "Add", (1, 0), "f32")), (2,))
    body, tensors = tail.joined(epilogue, [])
    assert body is not None
    assert tensors == []
    assert body.dtypes == ("s32",)
    assert [(s.name, s.args[0]) for s in body.steps] == [
        ("Cast", 0), ("Mul", 1), ("Relu", 2), ("Add", 3),
    ]  # fmt: skip
    assert body.steps[3].args == (3, 2)
    assert body.results == (4,)


def test_nothing_to_do() -> None:
    assert Tail("f32", "f32").joined(None, []) == (None, [])
    assert Tail("f32", "f16").joined(None, []) == (None, []), "rounded when it is stored"
    body, _ = Tail("s32", "s8").joined(None, [])
    assert body is not None
    assert [s.name for s in body.steps] == ["Cast"]


def test_numbers_of_quantized_programs_are_operands() -> None:
    """0.0 and -0.0 are two numbers; equal ones are one."""
    steps = (
        Step("", "Mul", (0, Constant("f32", -0.0)), "f32"),
        Step("", "Add", (2, Constant("f32", 0.0)), "f32"),
        Step("", "Sub", (3, Constant("f32", 0.0)), "f32"),
        Step("", "Cast", (4,), "u8"),
        Step("", "Add", (5, 1), "u8"),
    )
    body, dtypes, numbers = lifted(Body(("f32", "u8"), steps, (6,)))
    assert body is not None
    assert dtypes == ("f32", "f32")
    assert [float(numbers[i : i + 1].view(np.float32)[0]) for i in range(2)] == [0, 0]
    assert np.signbit(numbers[:1].view(np.float32)[0])
    assert [s.args for s in body.steps] == [(0, 2), (4, 3), (5, 3), (6,), (7, 1)]
    assert body.results == (8,)
    plain = Body(("f32",), steps[:1], (1,))
    assert lifted(plain)[0] is plain


def test_layers_of_other_scales_share_code() -> None:
    rng = np.random.default_rng(0)
    arrays = {"a": rng.integers(0, 255, (9, 16)).astype(np.uint8)}
    nodes = []
    for i, name in enumerate(("a", "y0")):
        layer = {
            f"s{i}": np.array(0.1 + i, np.float32), f"z{i}": np.array(3 + i, np.uint8),
            f"b{i}": rng.integers(-99, 99, (16, 16)).astype(np.int8),
            f"t{i}": np.array(0.01, np.float32), f"o{i}": np.array(0, np.int8),
            f"u{i}": np.array(2.5 + i, np.float32), f"v{i}": np.array(7 + i, np.uint8),
        }  # fmt: skip
        arrays |= layer
        nodes.append(helper.make_node("QLinearMatMul", [name, *layer], [f"y{i}"]))
    proto = model(nodes, arrays, ["y1"], [n for n in arrays if n != "a"])
    with Session(io.load(proto)) as session:
        session.run({"a": arrays["a"]})
        specs = [c.spec for p in session.plan for c in p.calls if isinstance(c.spec, Gemm)]
    assert len(specs) == 2
    assert specs[0] == specs[1]
