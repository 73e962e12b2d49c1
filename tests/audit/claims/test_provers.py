"""Right rules are proved, wrong ones are not, and what z3 finds against those is refuted as well.

What is right follows from the definitions of ONNX and IEEE 754, in the comments of the pack.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

z3 = pytest.importorskip("z3", reason="the extra `verify` is not installed")

from rewrite.audit.claims.check import check  # noqa: E402
from rewrite.audit.claims.proof import proofs  # noqa: E402
from rewrite.audit.claims.provers.order import keeps_order  # noqa: E402
from rewrite.audit.claims.smt import numbers, shapes  # noqa: E402
from rewrite.audit.claims.smt.operators import COMPARISONS, Machine  # noqa: E402
from rewrite.audit.claims.smt.suggest import suggested  # noqa: E402
from rewrite.audit.claims.smt.values import settle  # noqa: E402
from rewrite.audit.instances.alone import Alone  # noqa: E402
from rewrite.lang.pack import load_pack  # noqa: E402
from rewrite.match.vocabulary import vocabulary  # noqa: E402
from rewrite.ops.dtypes import to_numpy  # noqa: E402
from rewrite.target.load import load_target  # noqa: E402

FOLDER = Path(__file__).parent / "planted_proofs"
RULES = Path(__file__).parents[3] / "rules"


@cache
def pack(folder=FOLDER):
    return load_pack(folder, vocabulary(), [RULES])


@cache
def alone(name, folder=FOLDER):
    rule = next(rule for rule in pack(folder).rules if rule.name == name)
    return Alone.of(pack(folder), rule, load_target("generic", vocabulary()))


def names(start):
    return [rule.name for rule in pack().rules if rule.name.startswith(start)]


@pytest.mark.parametrize("name", names("right"))
def test_right_rules_are_proved(name):
    found = proofs(alone(name).compiled, 10.0)
    assert any(proof.values for proof in found)


@pytest.mark.parametrize("name", names("wrong"))
def test_wrong_rules_are_not_proved(name):
    assert not any(proof.values for proof in proofs(alone(name).compiled, 10.0))


def test_what_z3_does_not_settle_in_its_steps():
    assert settle(alone("wrong_associativity").compiled, 10.0).status == "open"


# Sums of three floats are too hard, and a Transpose is not translated.
FOUND = [n for n in names("wrong") if n not in ("wrong_associativity", "wrong_transpose")]


@pytest.mark.parametrize("name", FOUND)
def test_what_z3_finds_is_refuted_by_a_runtime(name):
    (tried,) = suggested(alone(name), 10.0)
    applied = alone(name).apply(tried.instance.model)
    assert check(tried.instance.model, applied.after, applied.bound).status == "broken"
    assert len(tried.instance.model.graph.node) <= 6


def test_what_is_said_of_a_proof():
    proof, *_ = proofs(alone("right_bounds").compiled, 10.0)
    assert proof.prover == "bit-vectors"
    assert set(proof.how.split()) == {"s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"}
    proof, *_ = proofs(alone("right_select").compiled, 10.0)
    assert (proof.prover, set(proof.how.split())) == ("floats", {"f16", "bf16", "f32", "f64"})


def test_order_of_elements():
    assert keeps_order(alone("right_reshapes").compiled, 1.0).values
    assert keeps_order(alone("wrong_transpose").compiled, 1.0) is None


def test_no_time_is_no_proof():
    assert proofs(alone("right_order").compiled, 0.0) == ()


def test_the_same_steps_every_time():
    first = settle.__wrapped__(alone("wrong_bounds").compiled, 10.0)
    second = settle.__wrapped__(alone("wrong_bounds").compiled, 10.0)
    assert first.status == second.status == "apart"
    assert list(map(str, first.apart.numbers.values())) == list(
        map(str, second.apart.numbers.values())
    )


@pytest.mark.parametrize("name", ["not_less", "where_not", "max_of_max", "negate_negate"])
def test_shipped_rules(name):
    found = proofs(alone(name, RULES / "algebra").compiled, 10.0)
    assert any(proof.values for proof in found)


@pytest.mark.parametrize("name", ["power_half", "multiply_reciprocal", "transpose_of_transpose"])
def test_rules_of_other_kinds_are_left_alone(name):
    assert not any(p.values for p in proofs(alone(name, RULES / "algebra").compiled, 5.0))


# --- the operators, against numpy ----------------------------------------------------------------

REAL = ("f16", "f32", "f64")
INTS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, np.inf, -np.inf, np.nan)


def of(array):
    """A number of numpy's as one of z3's."""
    dtype = {"i": "s", "u": "u", "f": "f"}.get(array.dtype.kind)
    if dtype is None:
        return z3.BoolVal(bool(array))
    name = f"{dtype}{array.dtype.itemsize * 8}"
    if dtype != "f":
        return z3.BitVecVal(int(array), array.dtype.itemsize * 8)
    bits = z3.BitVecVal(int(array.view(f"u{array.dtype.itemsize}")), array.dtype.itemsize * 8)
    return z3.simplify(z3.fpBVToFP(bits, numbers.sort(name)))


def sample(dtype, rng, count=24):
    kind = to_numpy(dtype)
    if dtype in REAL:
        normal = rng.standard_normal(count - len(EDGES)) * 3
        return np.concatenate([np.array(EDGES), normal]).astype(kind)
    info = np.iinfo(kind)
    ends = [info.min, info.max, 0, 1, 2, info.max // 3]
    inside = rng.integers(info.min, info.max, count - len(ends), kind, endpoint=True)
    return np.concatenate([np.array(ends, kind), inside])


def computed(name, operands, dtypes, attributes=None):
    machine = Machine((18, 25))
    made = machine.run(name, [of(o) for o in operands], attributes or {}, dtypes, True)
    solver = z3.Solver()
    assert solver.check() == z3.sat
    return numbers.array_of(solver.model().eval(made, model_completion=True), dtypes[-1])


def agree(a, b):
    """Equal, NaN and all; zeros of either sign are equal, the sign of which ONNX leaves open."""
    return a.dtype == b.dtype and bool((a == b) | ((a != a) & (b != b)))


BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ["f32", "f16", "s8", "u8", "s32", "u64"])
@np.errstate(all="ignore")
def test_binary_operators(name, dtype):
    rng = np.random.default_rng(0)
    a, b = sample(dtype, rng), rng.permutation(sample(dtype, rng))
    b[:3] = a[:3]
    result = "bool" if name in COMPARISONS else dtype
    for x, y in zip(a, b, strict=True):
        wanted = np.asarray(BINARY[name](x, y))
        if name in ("Max", "Min") and dtype in REAL and x == y == 0:
            continue  # of either sign: open
        assert agree(computed(name, (x, y), [dtype, dtype, result]), wanted), (x, y)


@pytest.mark.parametrize("dtype", ["s8", "u8", "s32", "u16"])
def test_bits(dtype):
    rng = np.random.default_rng(1)
    functions = {
        "BitwiseAnd": np.bitwise_and,
        "BitwiseOr": np.bitwise_or,
        "BitwiseXor": np.bitwise_xor,
    }
    for x, y in zip(sample(dtype, rng), sample(dtype, rng)[::-1], strict=True):
        for name, function in functions.items():
            got = computed(name, (x, y), [dtype] * 3)
            assert got == function(x, y)
        assert computed("BitwiseNot", (x,), [dtype] * 2) == np.invert(x)


@pytest.mark.parametrize("dtype", ["u8", "u32"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(dtype, direction):
    kind = to_numpy(dtype)
    function = np.left_shift if direction == "LEFT" else np.right_shift
    for x in sample(dtype, np.random.default_rng(2)):
        for by in (0, 1, 7):
            y = np.array(by, kind)[()]
            got = computed("BitShift", (x, y), [dtype] * 3, {"direction": (direction,)})
            assert got == function(x, y)


@pytest.mark.parametrize("dtype", ["s8", "u8", "s32"])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders(dtype, fmod):
    rng = np.random.default_rng(3)
    function = np.fmod if fmod else np.mod
    for x, y in zip(sample(dtype, rng), sample(dtype, rng)[::-1], strict=True):
        if y != 0:
            assert computed("Mod", (x, y), [dtype] * 3, {"fmod": (fmod,)}) == function(x, y)


UNARY = {"Neg": np.negative, "Abs": np.abs, "Relu": lambda x: np.maximum(x, x.dtype.type(0))}


@pytest.mark.parametrize("name", [*UNARY, "Floor", "Ceil", "Round"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "s8", "s64"])
@np.errstate(all="ignore")
def test_unary_operators(name, dtype):
    rounding = {"Floor": np.floor, "Ceil": np.ceil, "Round": np.rint}
    if name in rounding and dtype not in REAL:
        return
    function = rounding.get(name) or UNARY[name]
    for x in sample(dtype, np.random.default_rng(4)):
        assert agree(computed(name, (x,), [dtype] * 2), np.asarray(function(x))), x


@pytest.mark.parametrize("old", ["s8", "u8", "s32", "u64", "f32", "f16"])
@pytest.mark.parametrize("new", ["s8", "u16", "s64", "f16", "f32", "f64"])
@np.errstate(all="ignore")
def test_casts(old, new):
    for x in sample(old, np.random.default_rng(5)):
        if old in REAL and new not in REAL:
            info = np.iinfo(to_numpy(new))
            if not np.isfinite(x) or not info.min <= int(x) <= info.max:
                continue  # no integer is near: open
        assert agree(computed("Cast", (x,), [old, new]), np.asarray(x.astype(to_numpy(new)))), x


def test_clip_is_a_minimum_of_a_maximum():
    # ONNX 13: min(max(x, low), high), so high where low > high
    f = np.float32
    for low, high in ((-1, 1), (2, 1), (0, 0.5)):
        for x in (-3, 0.25, 3):
            got = computed("Clip", (f(x), f(low), f(high)), ["f32"] * 4)
            assert got == min(max(x, low), high)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_one_is_the_unit(dtype):
    """What is taken for granted of products with 1 and -1: z3 shows it for the smallest types."""
    sort = z3.FPSort(3, 5)
    x = z3.Const("x", sort)
    one = z3.FPVal(1.0, sort)
    for made, wanted in (
        (z3.fpMul(z3.RNE(), x, one), x),
        (z3.fpMul(z3.RNE(), x, z3.fpNeg(one)), z3.fpNeg(x)),
        (z3.fpDiv(z3.RNE(), x, one), x),
    ):
        solver = z3.Solver()
        solver.add(made != wanted)
        assert solver.check() == z3.unsat
    value = z3.Const("v", numbers.sort(dtype))
    made = Machine((18, 25)).run("Mul", [value, numbers.number(1, dtype)], {}, [dtype] * 3, True)
    assert made.eq(value)


# --- shapes ---------------------------------------------------------------------------------------


def shaped(name, folder=FOLDER):
    return any(p.prover == "shapes" and p.types for p in proofs(alone(name, folder).compiled, 5.0))


def test_shapes_that_stay():
    assert shaped("right_order")
    assert shaped("not_less", RULES / "algebra")
    assert shaped("and_false", RULES / "algebra")  # by its condition on the shape of the constant
    assert shaped("cast_of_wider", RULES / "algebra")


@pytest.mark.parametrize(
    "name",
    [
        "where_same",  # the condition may be broadcast
        "where_nested_then",  # the operand that goes may be broadcast
        "add_zero_integer",  # the zero may be of a higher rank
        "where_one_zero",  # so may the one
        "min_of_relu",  # Clip does not broadcast
    ],
)
def test_shapes_that_only_the_engine_sees_to(name):
    assert not shaped(name, RULES / "algebra")


def test_broadcasting_is_that_of_numpy():
    case = shapes._Case(frozenset())
    rng = np.random.default_rng(6)
    for _ in range(40):
        full = rng.integers(0, 4, rng.integers(0, 6))
        given = []
        for _ in range(2):
            cut = int(rng.integers(0, len(full) + 1))
            given.append([int(d) if rng.random() < 0.6 else 1 for d in full[cut:]])
        found = case._broadcast([fixed(dims) for dims in given], True)
        wanted = np.broadcast_shapes(*map(tuple, given))
        rank = z3.simplify(found.rank).as_long()
        dims = [z3.simplify(dim).as_long() for dim in found.dims]
        assert tuple(reversed(dims[:rank])) == wanted
        assert set(dims[rank:]) <= {1}


def fixed(dims):
    sizes = [*reversed(dims), *[1] * (shapes.RANKS - len(dims))]
    return shapes.Shape(z3.IntVal(len(dims)), tuple(map(z3.IntVal, sizes)))
