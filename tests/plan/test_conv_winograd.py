"""3 by 3 convolutions by Winograd's algorithm: bytes exactly, floats within what it rounds.

Tests that force an algorithm do so for shapes that planning would give to another one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper

from rewrite.codegen.isa import AARCH64, Isa, isa_of
from rewrite.graph import io
from rewrite.plan import conv_integers
from rewrite.plan.conv_window import Frame
from rewrite.plan.conv_winograd import filtering
from rewrite.plan.conv_winograd_choice import Layer, chosen
from rewrite.plan.conv_winograd_weights import is_exact
from rewrite.plan.lower import conv as float_convolutions
from rewrite.plan.specs.conv_winograd import Winograd
from rewrite.quant.reference import evaluate
from rewrite.runtime.session import Options, Session
from tests.codegen.harness import isas
from tests.plan.conv_models import attributes, convolved, model_of, run_model

ISAS = isas()
Force = Callable[[int], None]

# images, channels, sizes, filters, pads
SHAPES = {
    "one tile": (1, 16, (4, 4), 16, (1, 1, 1, 1)),
    "odd": (2, 17, (9, 13), 33, (1, 1, 1, 1)),
    "even": (1, 32, (8, 12), 64, (1, 1, 1, 1)),
    "no border": (1, 35, (7, 11), 21, (0, 0, 0, 0)),
    "uneven border": (2, 24, (6, 5), 40, (2, 0, 1, 3)),
    "wide border": (1, 19, (3, 2), 18, (6, 5, 7, 4)),
    "a row": (1, 20, (1, 19), 16, (1, 1, 1, 1)),
    "one output": (1, 48, (3, 3), 23, (0, 0, 0, 0)),
    "few channels": (1, 5, (10, 7), 6, (1, 1, 1, 1)),
}  # fmt: skip
SOME = ("odd", "uneven border")
edges = pytest.mark.parametrize("edge", [2, 4])


def each(here, elsewhere=SOME):
    """Shapes on this machine, and on narrower ones."""
    pairs = [(n, ISAS[0]) for n in here] + [(n, isa) for isa in ISAS[1:] for n in elsewhere]
    names = [f"{n}-{isa.vector_bytes}" for n, isa in pairs]
    return pytest.mark.parametrize(("name", "isa"), pairs, ids=names)


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Force:
    """Tiles of `edge` for every convolution that may have them, whatever that costs."""

    def forced(edge: int) -> None:
        def always(machine, layer, edges):
            if edge not in edges:
                return None
            return filtering(machine, edge, layer.channels, layer.element == "f32")

        monkeypatch.setattr(conv_integers, "chosen", always)
        monkeypatch.setattr(float_convolutions, "chosen", always)

    return forced


def codes(rng, shape, dtype):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def bytes_of(name: str, x_type, w_type):
    n, c, sizes, m, pads = SHAPES[name]
    rng = np.random.default_rng(5)
    return rng, codes(rng, (n, c, *sizes), x_type), codes(rng, (m, c, 3, 3), w_type), pads


def planned(model, feeds, **options) -> tuple[list, list]:
    """Outputs, and the specs of the kernels `Winograd`."""
    with Session(io.load(model), Options(strict=True, **options)) as session:
        outputs = [np.array(v) for v in session.run(feeds).values()]
        specs = [call.spec for plan in session.plan for call in plan.calls]
    return outputs, [spec for spec in specs if isinstance(spec, Winograd)]


def integer_sums(x, w, zx, zw, pads):
    """(x - zx) (w - zw) summed up in int64, the border 0."""
    wide = w.astype(np.int64) - np.asarray(zw, np.int64).reshape(-1, 1, 1, 1)
    return convolved(x.astype(np.int64) - int(zx), wide, (1, 1), pads, (1, 1))


def check_integers(x, w, zx, zw, pads, isa=None, edge=None, **options) -> None:
    node = helper.make_node("ConvInteger", ["x", "w", "zx", "zw"], ["y"], pads=pads)
    known = {"w": w, "zx": np.asarray(zx), "zw": np.asarray(zw)}
    (y,), specs = planned(model_of([node], {"x": x}, known), {"x": x}, isa=isa, **options)
    assert np.array_equal(y, integer_sums(x, w, zx, zw, pads))
    if edge is not None:
        assert [spec.edge for spec in specs] == ([edge] if edge else [])


# --- bytes ------------------------------------------------------------------------------------


@each(SHAPES)
@edges
def test_bytes_are_exact(name: str, isa: Isa, edge: int, force: Force) -> None:
    """Zero points of both operands, of the weights one per filter: differences of 9 bits."""
    force(edge)
    for x_type, w_type in ((np.uint8, np.int8), (np.int8, np.uint8)):
        rng, x, w, pads = bytes_of(name, x_type, w_type)
        zw = codes(rng, w.shape[0], w_type)
        check_integers(x, w, x_type(rng.integers(1, 100)), zw, pads, isa, edge)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@edges
def test_extreme_codes(edge: int, isa: Isa, force: Force) -> None:
    """Weights of -255 and 255, and elements that make the largest transforms: 255 where a product
    of entries of B^T is positive. Their signs go + + - - from any start."""
    force(edge)
    signs = np.array([1, 1, -1, -1] * 3)
    x = np.where(np.outer(signs, signs) > 0, 255, 0).astype(np.uint8)
    x = np.stack([np.roll(x, (i, j), (0, 1)) for i in range(4) for j in range(4)])[None]
    for inverted in (x, 255 - x, np.full_like(x, 255), np.zeros_like(x)):
        w = np.tile(np.array([0, 255], np.uint8), 16 * 16 * 9 // 2).reshape(16, 16, 3, 3)
        w[0], w[1] = 255, 0
        for zx, zw in ((0, 0), (255, 255), (0, 128)):
            zeros = np.full(16, zw, np.uint8)
            check_integers(inverted, w, np.uint8(zx), zeros, (1, 1, 1, 1), isa, edge)


def test_what_is_exact() -> None:
    """Up to the last sum that 26 bits hold: 57 channels of 255 by 255, one more does not fit."""
    full = np.full((3, 57, 3, 3), 255, np.int16)
    full[:2] = 0
    assert 255 * 255 * 9 * 57 < 1 << 25 <= 255 * 255 * 9 * 58
    assert is_exact(4, full, "u8")
    assert not is_exact(4, np.concatenate([full, full[:, :1]], 1), "u8")
    # Signs: positive and negative weights do not meet in the largest sum of u8.
    mixed = np.concatenate([full, -full], 1)
    assert is_exact(4, mixed, "u8")
    assert is_exact(4, mixed, "s8")
    assert not is_exact(4, np.concatenate([mixed, mixed[:, :2]], 1), "s8")
    # -2^25 itself fits, 2^25 does not: 128 2^18.
    edge_case = np.full((1, 2048, 3, 3), 0, np.int16)
    edge_case[0, :, 0, 0] = 128
    assert is_exact(4, edge_case, "s8")
    assert is_exact(4, -edge_case[:, :2047], "s8")
    assert not is_exact(4, -edge_case, "s8")
    assert is_exact(2, -edge_case, "s8")


@pytest.mark.parametrize("depth", [57, 58])
def test_sums_at_the_bound(depth: int, force: Force) -> None:
    """Where tiles of 4 cannot be proved for one filter, the layer has tiles of 2."""
    rng = np.random.default_rng(6)
    w = rng.integers(0, 100, (16, depth, 3, 3)).astype(np.uint8)
    w[3] = 255
    x = np.full((1, depth, 9, 9), 255, np.uint8)
    x[..., 5:] = codes(rng, (1, depth, 9, 4), np.uint8)
    force(4)
    check_integers(x, w, np.uint8(0), np.uint8(0), (1, 1, 1, 1), None, 4 if depth == 57 else 0)
    force(2)
    check_integers(x, w, np.uint8(0), np.uint8(0), (1, 1, 1, 1), None, 2)


def test_zero_points_that_come_with_the_run(force: Force) -> None:
    force(4)
    _, x, w, pads = bytes_of("odd", np.uint8, np.int8)
    node = helper.make_node("ConvInteger", ["x", "w", "zx"], ["y"], pads=pads)
    feeds = {"x": x, "zx": np.array(77, np.uint8)}
    (y,), specs = planned(model_of([node], feeds, {"w": w}), feeds)
    assert specs == []
    assert np.array_equal(y, integer_sums(x, w, 77, 0, pads))


def quantized(name: str, x_type, dyadic: bool):
    rng, x, w, pads = bytes_of(name, x_type, np.int8)
    m = w.shape[0]
    scale = 2.0 ** rng.integers(-9, -6, m) if dyadic else rng.uniform(0.001, 0.01, m)
    spread = np.sqrt(w[0].size) * 5000 * float(np.mean(scale)) * 2.0**-5 / 60
    values = {
        "xs": np.float32(2.0**-5), "xz": codes(rng, (), x_type), "w": w,
        "ws": scale.astype(np.float32), "wz": np.zeros(m, np.int8),
        "ys": np.float32(2.0 ** np.round(np.log2(spread)) if dyadic else spread),
        "yz": codes(rng, (), x_type), "b": rng.integers(-5000, 5000, m).astype(np.int32),
    }  # fmt: skip
    return x, {k: np.asarray(v) for k, v in values.items()}, pads


@each(("odd", "even", "wide border"), ("odd",))
@edges
def test_codes_are_rounded_once(name: str, isa: Isa, edge: int, force: Force) -> None:
    """Scales that are powers of two make many exact halves."""
    force(edge)
    for x_type, dyadic in ((np.uint8, True), (np.uint8, False), (np.int8, False)):
        x, values, pads = quantized(name, x_type, dyadic)
        node = helper.make_node("QLinearConv", ["x", *values], ["y"], pads=pads)
        (y,), specs = planned(model_of([node], {"x": x}, values), {"x": x}, isa=isa)
        exact = evaluate("", "QLinearConv", [x, *values.values()], {"pads": pads})
        assert exact is not None
        assert [spec.edge for spec in specs] == [edge]
        assert np.array_equal(y, exact[0])


@edges
@pytest.mark.parametrize("threads", [1, 3])
def test_operators_behind_the_codes(edge: int, threads: int, force: Force) -> None:
    force(edge)
    x, values, pads = quantized("odd", np.uint8, False)
    nodes = [
        helper.make_node("QLinearConv", ["x", *values], ["c"], pads=pads),
        helper.make_node("DequantizeLinear", ["c", "ys", "yz"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    (y,), specs = planned(model_of(nodes, {"x": x}, values), {"x": x}, threads=threads)
    assert [spec.edge for spec in specs] == [edge]
    exact = evaluate("", "QLinearConv", [x, *values.values()], {"pads": pads})
    assert exact is not None
    steps = exact[0].astype(np.float32) - values["yz"].astype(np.float32)
    assert np.array_equal(y, np.maximum(steps * values["ys"], 0))


# --- floats -----------------------------------------------------------------------------------

# Of F(4x4, 3x3) as published: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks.
B = np.array([
    [4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0],
    [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1],
], np.float64)  # fmt: skip
G = np.array([
    [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6],
    [1 / 24, -1 / 12, 1 / 6], [0, 0, 1],
])  # fmt: skip
A = np.array([
    [1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1],
], np.float64)  # fmt: skip
ROUNDINGS = 20  # of each term besides the sum over channels: twice 4, 1 and twice 5, the bias


def amplified(x, w, pads):
    """What errors are relative to: |A^T| ((|G| |w| |G^T|) (|B^T| |x| |B|)) |A|, tile by tile."""
    n, _, h, width = x.shape
    out_h, out_w = h + pads[0] + pads[2] - 2, width + pads[1] + pads[3] - 2
    rows, across = -(-out_h // 4), -(-out_w // 4)
    size = np.zeros((n, x.shape[1], 4 * rows + 2, 4 * across + 2))
    size[:, :, pads[0] : pads[0] + h, pads[1] : pads[1] + width] = np.abs(x.astype(np.float64))
    b, g, a = np.abs(B), np.abs(G), np.abs(A)
    filters = np.einsum("ik,mckl,jl->mcij", g, np.abs(w.astype(np.float64)), g, optimize=True)
    found = np.zeros((n, w.shape[0], 4 * rows, 4 * across))
    for r in range(rows):
        for s in range(across):
            tile = size[:, :, 4 * r : 4 * r + 6, 4 * s : 4 * s + 6]
            v = np.einsum("ik,nckl,jl->ncij", b, tile, b, optimize=True)
            m = np.einsum("mcij,ncij->nmij", filters, v, optimize=True)
            y = np.einsum("ik,nmkl,jl->nmij", a, m, a, optimize=True)
            found[:, :, 4 * r : 4 * r + 4, 4 * s : 4 * s + 4] = y
    return found[:, :, :out_h, :out_w]


def floats_of(name: str):
    n, c, sizes, m, pads = SHAPES[name]
    rng = np.random.default_rng(7)
    x = rng.standard_normal((n, c, *sizes)).astype(np.float32)
    w = rng.standard_normal((m, c, 3, 3)).astype(np.float32)
    return x, w, rng.standard_normal(m).astype(np.float32), pads


def float_model(x, w, b, pads):
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=pads)
    return model_of([node], {"x": x}, {"w": w, "b": b})


@each(SHAPES)
@edges
def test_floats(name: str, isa: Isa, edge: int, force: Force) -> None:
    """Within the roundings of every term, times what the transforms make of magnitudes."""
    force(edge)
    x, w, b, pads = floats_of(name)
    model = float_model(x, w, b, pads)
    (y,), specs = planned(model, {"x": x}, isa=isa, fast_math=True)
    assert [spec.edge for spec in specs] == [edge]
    exact = convolved(x, w, (1, 1), pads, (1, 1)) + b.astype(np.float64).reshape(-1, 1, 1)
    bound = amplified(x, w, pads) * (w.shape[1] + ROUNDINGS) * 2.0**-24
    assert np.all(np.abs(y - exact) <= bound + np.abs(exact) * 2.0**-24)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@edges
def test_numbers_that_are_not_finite(edge: int, isa: Isa, force: Force) -> None:
    """They reach the outputs whose windows they are in, and no others; neither do differences that
    overflow."""
    force(edge)
    rng = np.random.default_rng(10)
    x = rng.standard_normal((2, 18, 23, 26)).astype(np.float32)
    w = rng.standard_normal((37, 18, 3, 3)).astype(np.float32)
    x[0, 3, 0, 0], x[0, 0, 9, 9], x[0, 17, 22, 25] = np.inf, np.nan, -np.inf
    x[0, 5, 12, 2], x[0, 6, 13, 3] = np.inf, -np.inf
    x[1, 0, 4, 4], x[1, 0, 4, 6] = 3e38, -3e38
    w[:, 0] *= np.float32(1e-3)
    b, pads = np.zeros(37, np.float32), (1, 1, 1, 1)
    (y,), specs = planned(float_model(x, w, b, pads), {"x": x}, isa=isa, fast_math=True)
    assert [spec.edge for spec in specs] == [edge]
    with np.errstate(invalid="ignore"):
        exact = convolved(x, w, (1, 1), pads, (1, 1))
    assert 4 * 37 < np.count_nonzero(~np.isfinite(exact)) < 40 * 37
    assert np.allclose(y, exact, rtol=1e-4, atol=1e-3, equal_nan=True)


def test_weights_that_are_not_finite() -> None:
    x, w, b, pads = floats_of("even")
    x, w = np.tile(x, (1, 1, 3, 3)), np.tile(w, (1, 1, 1, 1))
    w[3, 4, 1, 1] = np.inf
    (y,), specs = planned(float_model(x, w, b, pads), {"x": x})
    assert specs == []
    with np.errstate(invalid="ignore"):
        exact = convolved(x, w, (1, 1), pads, (1, 1)) + b.reshape(-1, 1, 1)
    assert np.allclose(y, exact, rtol=1e-4, atol=1e-3, equal_nan=True)


def test_larger_tiles_are_asked_for() -> None:
    """Errors as a share of the largest output: what the documentation says of each."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((1, 64, 28, 28)).astype(np.float32)
    w = (rng.standard_normal((64, 64, 3, 3)) / 24).astype(np.float32)
    b, pads = np.zeros(64, np.float32), (1, 1, 1, 1)
    exact = convolved(x, w, (1, 1), pads, (1, 1))
    model = float_model(x, w, b, pads)
    for fast, edge, most in ((False, 2, 1e-6), (True, 4, 1e-5)):
        (y,), specs = planned(model, {"x": x}, fast_math=fast)
        assert [spec.edge for spec in specs] == [edge]
        assert np.abs(y - exact).max() <= most * np.abs(exact).max()


def test_a_session_is_asked_for_larger_tiles() -> None:
    import rewrite

    x, w, b, pads = floats_of("even")
    x, w = np.tile(x, (1, 2, 3, 3)), np.tile(w, (1, 2, 1, 1))
    for fast, edge in ((False, 2), (True, 4)):
        with rewrite.compile(float_model(x, w, b, pads), fast_math=fast) as session:
            session.run({"x": x})
            specs = [call.spec for plan in session.plan for call in plan.calls]
        assert [spec.edge for spec in specs if isinstance(spec, Winograd)] == [edge]


# --- which one --------------------------------------------------------------------------------


def layer(sizes, channels, element="f32", form="plain", step=1, images=1) -> Layer:
    frame = Frame((1, *sizes), (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1), (0, 1, 1), (1, *sizes))
    return Layer(frame, 1, images, *channels, element, form, step)


_WIDE = ("+avx512f", "+avx512bw", "+avx512vl", "+avx512dq")
VNNI = isa_of("x86_64-unknown-linux-gnu", "znver5", (*_WIDE, "+avx512vnni"))
NARROW = isa_of("x86_64-unknown-linux-gnu", "haswell", ("+avx2", "+fma"))


def edge_for(machine: Isa, given: Layer, edges=(2, 4)) -> int:
    found = chosen(machine, given, edges)
    return 0 if found is None else found.edge


def test_choices_that_were_measured() -> None:
    """The fastest of direct (0), 2 and 4, by a wide margin, on a processor with either."""
    resnet = [((56, 56), (64, 64)), ((28, 28), (128, 128)), ((14, 14), (256, 256)),
              ((7, 7), (512, 512))]  # fmt: skip
    dot = {"element": "s8", "form": "dot", "step": 4}
    assert [edge_for(VNNI, layer(*shape), (2,)) for shape in resnet] == [2, 2, 2, 2]
    assert [edge_for(VNNI, layer(*shape)) for shape in resnet[:2]] == [4, 4]
    assert edge_for(VNNI, layer(*resnet[3])) == 2
    assert [edge_for(VNNI, layer(*shape, **dot)) for shape in resnet] == [4, 4, 0, 0]
    assert edge_for(VNNI, layer((40, 40), (96, 24), **dot)) == 4
    pairs = {"element": "s8", "form": "pairs16", "step": 4}
    words = {"element": "s16", "form": "words", "step": 2}
    assert [edge_for(NARROW, layer(*shape, **pairs)) for shape in resnet[:3]] == [4, 4, 4]
    assert [edge_for(NARROW, layer(*shape, **words)) for shape in resnet[:3]] == [4, 4, 4]
    # Where four products of bytes are one instruction and one of s16 is one, nothing is gained.
    arm = {"element": "s8", "form": "arm_dot", "step": 4}
    assert [edge_for(AARCH64, layer(*shape, **arm)) for shape in resnet] == [0, 0, 0, 0]


def test_more_images_pay_for_larger_weights() -> None:
    dot = {"element": "s8", "form": "dot", "step": 4}
    assert edge_for(VNNI, layer((14, 14), (256, 256), **dot)) == 0
    assert edge_for(VNNI, layer((14, 14), (256, 256), **dot, images=16)) == 4


@pytest.mark.parametrize("how", [
    {"strides": (2, 2)}, {"dilations": (2, 2)}, {"group": 2}, {"strides": (1, 2)},
])  # fmt: skip
def test_other_windows_are_direct(how) -> None:
    rng = np.random.default_rng(9)
    x, w = codes(rng, (1, 32, 20, 20), np.uint8), codes(rng, (32, 32, 3, 3), np.int8)
    more = {"strides": (1, 1), "dilations": (1, 1), "group": 1} | how
    w = w[:, : 32 // more["group"]]
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], **more)
    (y,), specs = planned(model_of([node], {"x": x}, {"w": w}), {"x": x})
    assert specs == []
    args = attributes(more["strides"], (0, 0, 0, 0), more["dilations"], more["group"])
    exact = convolved(x, w, args["strides"], args["pads"], args["dilations"], args["group"])
    assert np.array_equal(y, exact)
    assert run_model(model_of([node], {"x": x}, {"w": w}), {"x": x})[0].dtype == np.int32
