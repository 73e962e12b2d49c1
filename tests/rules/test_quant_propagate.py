"""The pack `quant-propagate`: codes move instead of numbers, and no bit changes.

Each operator is run before and after in onnxruntime with all codes; the order of operators and the
parameters are looked at in the model. The reports of others that are named are of rewriters that
were wrong on such models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

PACK = "quant-propagate"
Array = np.ndarray[Any, Any]

# operator and its constants; the shape of the result of [4, 4, 4, 4]
MOVES = {
    "transpose": ("Transpose <perm = [2,0,3,1]> (v)", "", "4,4,4,4"),
    "reshape": ("Reshape(v, t)", "int64[2] t = {16,16}", "16,16"),
    "flatten": ("Flatten(v)", "", "4,64"),
    "unsqueeze": ("Unsqueeze(v, t)", "int64[1] t = {2}", "4,4,1,4,4"),
    "slice": ("Slice(v, b, e, a, t)",
              "int64[1] b = {3}, int64[1] e = {-9}, int64[1] a = {1}, int64[1] t = {-2}",
              "4,2,4,4"),
    "gather": ("Gather <axis = 2> (v, t)", "int64[3] t = {0,-1,2}", "4,4,3,4"),
    "depth_to_space": ("DepthToSpace <blocksize = 2> (v)", "", "4,1,8,8"),
    "space_to_depth": ("SpaceToDepth <blocksize = 2> (v)", "", "4,16,2,2"),
    "pad": ("Pad(v, t)", "int64[8] t = {0,0,1,1,0,0,2,0}", "4,4,7,5"),
    "pad_edge": ('Pad <mode = "edge"> (v, t)', "int64[8] t = {0,0,1,1,0,0,2,0}", "4,4,7,5"),
    "max_pool": ("MaxPool <kernel_shape = [3,3], pads = [1,1,1,1]> (v)", "", "4,4,4,4"),
    "reduce_max": ("ReduceMax(v, t)", "int64[1] t = {1}", "4,1,4,4"),
    "reduce_min": ("ReduceMin <keepdims = 0> (v, t)", "int64[2] t = {1,2}", "4,4"),
}  # fmt: skip


def every_code(dtype: str) -> Array:
    info = np.iinfo(dtype)
    return np.arange(info.min, info.max + 1).astype(dtype).reshape(4, 4, 4, 4)


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zero", [0, 77, -3])
@pytest.mark.parametrize("name", MOVES)
def test_movement_of_codes(
    name: str, zero: int, dtype: str, rewrite: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """DQ, move: move, DQ, with the least and largest codes among those in pads and windows."""
    text, held, shape = MOVES[name]
    zero %= 256 if dtype == "uint8" else 128
    constants = ", ".join([f"float s = {{0.1}}, {dtype} z = {{{zero}}}", *([held] if held else [])])
    found = rewrite(
        f"""g ({dtype}[4,4,4,4] x) => (float[{shape}] y) <{constants}>
            {{ v = DequantizeLinear(x, s, z)  y = {text} }}""",
        PACK,
    )
    assert ops(found.model) == [text.split("(")[0].split("<")[0].strip(), "DequantizeLinear"]
    x = every_code(dtype)
    np.testing.assert_array_equal(found.run(x=x)[0], run(found.before, {"x": x})[0])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", [name for name in MOVES if name not in ("slice", "gather")])
def test_quantization_before_movement(
    name: str, dtype: str, rewrite: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """move, Q: Q, move. Ties, infinities and numbers out of range; pads of 0 become zero points."""
    text, held, shape = MOVES[name]
    constants = ", ".join(["float s = {0.5}", f"{dtype} z = {{77}}", *([held] if held else [])])
    found = rewrite(
        f"""g (float[4,4,4,4] x) => ({dtype}[{shape}] y) <{constants}>
            {{ v = Neg(x)  m = {text}  y = QuantizeLinear(m, s, z) }}""",
        PACK,
    )
    operator = text.split("(")[0].split("<")[0].strip()
    assert ops(found.model) == ["Neg", "QuantizeLinear", operator]
    x = (np.arange(256).reshape(4, 4, 4, 4) - 128).astype(np.float32) / 4
    x[0, 0, 0, :3] = np.inf, -np.inf, 1e20
    np.testing.assert_array_equal(found.run(x=x)[0], run(found.before, {"x": x})[0])


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
@pytest.mark.parametrize(
    "text",
    [
        "DepthToSpace <blocksize = 2> (v)",
        "SpaceToDepth <blocksize = 2> (v)",
        'Resize <mode = "nearest"> (v, , k)',
        "Pad(v, p)",
        'Pad <mode = "edge"> (v, p)',
        "Where(c, v, v2)",
        "Where(c, v, n)",
        "TopK(v, one)",
        "Transpose <perm = [2,0,3,1]> (v)",
    ],
)
def test_wide_codes_move_where_a_runtime_can_move_them(
    text: str, dtype: str, rewrite: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """ONNX Runtime has few kernels of 16 bits; it ran the model before, so it runs the result."""
    outputs = "m, i" if text.startswith("TopK") else "m"
    found = rewrite(
        f"""<ir_version: 10, opset_import: ["" : 21]>
            g ({dtype}[4,4,4,4] x, {dtype}[4,4,4,4] x2, bool[4] c) => ({dtype}[A,B,C,D] y)
            <float s = {{0.1}}, {dtype} z = {{77}}, float[4] k = {{1,1,2,2}}, float n = {{0}},
             int64[8] p = {{0,0,1,1,0,0,2,0}}, int64[1] one = {{1}}>
            {{ v = DequantizeLinear(x, s, z)  v2 = DequantizeLinear(x2, s, z)
               {outputs} = {text}  y = QuantizeLinear(m, s, z) }}""",
        PACK,
    )
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    x, x2 = (rng.integers(info.min, info.max + 1, (4, 4, 4, 4)).astype(dtype) for _ in "ab")
    feeds = {"x": x, "x2": x2, "c": np.array([True, False, True, False])}
    np.testing.assert_array_equal(found.run(**feeds)[0], run(found.before, feeds)[0])


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "name", ["transpose", "reshape", "flatten", "unsqueeze", "slice", "gather"]
)
def test_scales_move_with_their_axis(
    name: str, axis: int, rewrite: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """Where the axis is whole afterwards; else the operator stays where it is."""
    text, held, shape = MOVES[name]
    constants = ", ".join(
        ["float[4] s = {0.1,0.2,0.3,0.4}, int8[4] z = {1,-2,3,-4}", *([held] if held else [])]
    )
    found = rewrite(
        f"""g (int8[4,4,4,4] x) => (float[{shape}] y) <{constants}>
            {{ v = DequantizeLinear <axis = {axis}> (x, s, z)  y = {text} }}""",
        PACK,
    )
    stays = {"reshape": {0, 1, 2, 3}, "flatten": {1, 2, 3}, "slice": {1}}.get(name, set())
    moved = ops(found.model)[-1] == "DequantizeLinear"
    assert moved == (axis not in stays)
    x = every_code("int8")
    np.testing.assert_array_equal(found.run(x=x)[0], run(found.before, {"x": x})[0])


def test_codes_without_zero_point_stay_signed(rewrite: Callable[..., Any]) -> None:
    """ORT#27845: s8 codes, 0.01, no zero point, Reshape, opset 21: -30 is -0.3, not 0."""
    found = rewrite(
        """g (int8[2] x) => (float[1,2] y) <float s = {0.01}, int64[2] t = {1,2}>
           { d = DequantizeLinear(x, s)  y = Reshape(d, t) }""",
        PACK,
        opset=21,
    )
    assert ops(found.model) == ["Reshape", "DequantizeLinear"]
    right = np.array([[-30, 5]], np.float32) * np.float32(0.01)
    np.testing.assert_array_equal(found.run(x=np.array([-30, 5], np.int8))[0], right)


@pytest.mark.parametrize("opset", [19, 21, 23])
def test_moved_codes_load_with_all_optimizations(opset: int, rewrite: Callable[..., Any]) -> None:
    """DQ(s8), Transpose, Exp does not load in onnxruntime 1.32 from opset 21 on; ours does."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="it is about a session")
    found = rewrite(
        """g (int8[2,3] x) => (float[3,2] y) <float s = {0.01}, int8 z = {3}>
           { d = DequantizeLinear(x, s, z)  t = Transpose(d)  y = Exp(t) }""",
        PACK,
        opset=opset,
    )
    session = onnxruntime.InferenceSession(
        found.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x = np.array([[-30, 5, 0], [1, 2, 127]], np.int8)
    right = np.exp((x.astype(float).T - 3) * 0.01)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], right, rtol=1e-5)


@pytest.mark.parametrize("opset", [10, 11])
def test_no_pool_of_codes_before_opset_12(opset: int, rewrite: Callable[..., Any]) -> None:
    """ORT#7460."""
    found = rewrite(
        """g (uint8[1,1,4,4] x) => (uint8[1,1,2,2] y) <float s = {0.1}, uint8 z = {7}>
           { d = DequantizeLinear(x, s, z)
             m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (d)
             y = QuantizeLinear(m, s, z) }""",
        PACK,
        opset=opset,
    )
    assert ops(found.model) == ["DequantizeLinear", "MaxPool", "QuantizeLinear"]


@pytest.mark.parametrize(
    "body",
    [
        "y = MaxPool <kernel_shape = [2,2]> (d)",  # ORT#21176
        "y = ReduceMax(d)",
        "i = ArgMax <axis = 3> (d)  y = Cast <to = 1> (i)",
    ],
)
def test_negative_scales_turn_the_order_round(body: str, rewrite: Callable[..., Any]) -> None:
    found = rewrite(
        f"""g (uint8[1,1,4,4] x) => (float[?,?,?,?] y) <float s = {{-0.1}}, uint8 z = {{7}}>
            {{ d = DequantizeLinear(x, s, z)  {body} }}""",
        PACK,
    )
    assert ops(found.model)[0] == "DequantizeLinear"


def test_second_pair_with_another_grid_stays(
    rewrite: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """ORT#25259: (0.1, 0) then (0.07, 100), u8: 0.28 stays 0.28, and is not 0.3404."""
    found = rewrite(
        """g (float[1] x) => (float[1] y)
           <float s = {0.1}, uint8 z = {0}, float t = {0.07}, uint8 w = {100}>
           { a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
             c = QuantizeLinear(b, t, w)  y = DequantizeLinear(c, t, w) }""",
        PACK,
    )
    assert len(ops(found.model)) == 4
    assert found.run(x=np.array([0.28], np.float32))[0] == np.float32(0.07) * np.float32(4)


def test_pad_of_signed_codes_has_the_signed_zero_point(rewrite: Callable[..., Any]) -> None:
    """XNNPACK#8647: -7 and not 249."""
    found = rewrite(
        """g (int8[1,3] x) => (float[1,5] y)
           <float s = {0.1}, int8 z = {-7}, int64[4] p = {0,1,0,1}>
           { d = DequantizeLinear(x, s, z)  y = Pad(d, p) }""",
        PACK,
    )
    assert ops(found.model) == ["Pad", "DequantizeLinear"]
    held = {t.name: numpy_helper.to_array(t) for t in found.model.graph.initializer}
    pad = held[found.model.graph.node[0].input[2]]
    assert pad.dtype == np.int8
    assert pad == -7


def test_both_directions_meet(rewrite: Callable[..., Any], run: Callable[..., Any]) -> None:
    """Between two functions everything that moves works on codes; each pair is left once."""
    found = rewrite(
        """g (float[2,3,4] x) => (float[4,6] y)
           <float s = {0.1}, uint8 z = {7}, int64[2] t = {6,4}, float u = {0.2}, uint8 w = {9}>
           { a = Exp(x)  b = QuantizeLinear(a, s, z)  c = DequantizeLinear(b, s, z)
             d = Transpose <perm = [1,0,2]> (c)  e = QuantizeLinear(d, s, z)
             f = DequantizeLinear(e, s, z)  g1 = Reshape(f, t)  h = QuantizeLinear(g1, s, z)
             i = DequantizeLinear(h, s, z)  j = Transpose(i)  y = Neg(j) }""",
        PACK,
    )
    assert ops(found.model) == [
        "Exp", "QuantizeLinear", "Transpose", "Reshape", "Transpose", "DequantizeLinear", "Neg",
    ]  # fmt: skip
    x = np.linspace(-3, 4, 24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(found.run(x=x)[0], run(found.before, {"x": x})[0])


@pytest.mark.parametrize("bits", [8, 16])
def test_first_bit_turned_for_every_code(
    bits: int, rewrite: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """s8 to u8 and back: 256 codes. 16 bits are left alone."""
    text = f"""g (int{bits}[256] x) => (uint{bits}[256] y)
        <float s = {{0.1}}, int{bits} z = {{-7}}, uint{bits} w = {{{2 ** (bits - 1) - 7}}}>
        {{ d = DequantizeLinear(x, s, z)  y = QuantizeLinear(d, s, w) }}"""
    found = rewrite(text, PACK, opset=21)
    if bits == 16:
        assert ops(found.model) == ["DequantizeLinear", "QuantizeLinear"]
        return
    assert ops(found.model) == ["Cast", "BitwiseXor"]
    x = np.arange(-128, 128).astype(np.int8)
    np.testing.assert_array_equal(found.run(x=x)[0], (x.astype(int) + 128).astype(np.uint8))
