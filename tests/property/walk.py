"""Steps of a random walk: each adds an operator, or a few, to a model under construction.

In: a `Walk` of graphs.py. Out: nothing; a step that does not fit adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

if TYPE_CHECKING:
    from tests.property.graphs import Walk
    from tests.property.mutations import Array

Step = Callable[["Walk"], None]
STEPS: list[Step] = []
FLOAT = TensorProto.FLOAT
NUMBERS = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 6.0, 1 / 6, -0.0, 0.25, 1e-3, 100.0, 0.044715, np.sqrt(2))
UNARY = (
    "Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Identity", "LeakyRelu", "Erf", "Softplus",
    "Floor", "Ceil", "Round", "Sign", "HardSigmoid", "Elu", "Sqrt", "Reciprocal", "Cast",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu")


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


def _array(walk: Walk, shape: tuple[int, ...]) -> Array:
    rng = walk.rng
    if rng.random() < 0.6:
        return np.full(shape, rng.choice(NUMBERS), np.float32)
    values = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape)
    return values.astype(np.float32)


def _beside(walk: Walk, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with another, most often to it."""
    rng = walk.rng
    kept = [d if rng.random() < 0.5 else 1 for d in shape]
    drop = rng.randint(0, len(kept)) if rng.random() < 0.6 else 0
    if rng.random() < 0.05:
        return (1, *kept)
    return tuple(kept[drop:])


@step
def unary(walk: Walk) -> None:
    value = walk.pick(FLOAT)
    if value is not None:
        op = walk.rng.choice(UNARY)
        extra = {"to": walk.rng.choice((1, 7, 10, 11))} if op == "Cast" else {}
        walk.node(op, [value], **extra)


@step
def clamp(walk: Walk) -> None:
    value = walk.pick(FLOAT)
    if value is None:
        return
    op = walk.rng.choice(("Relu", "Clip", "Clip", "Max", "Min"))
    if op == "Relu":
        walk.node("Relu", [value])
    elif op == "Clip":
        bounds = [walk.constant(np.float32(walk.rng.choice(NUMBERS))) for _ in range(2)]
        place = walk.rng.randint(0, 2)
        walk.node("Clip", [value, *([bounds[0]], ["", bounds[0]], bounds)[place]])
    else:
        walk.node(op, [value, walk.constant(_array(walk, _beside(walk, walk.types[value][1])))])


@step
def affine(walk: Walk) -> None:
    value = walk.pick(FLOAT)
    if value is None:
        return
    constant = walk.constant(_array(walk, _beside(walk, walk.types[value][1])))
    operands = [value, constant]
    if walk.rng.random() < 0.3:
        operands.reverse()
    walk.node(walk.rng.choice(("Add", "Mul", "Sub", "Div", "Add", "Mul", "Pow")), operands)


@step
def binary(walk: Walk) -> None:
    first, second = walk.pick(FLOAT), walk.pick(FLOAT)
    if first and second:
        walk.node(walk.rng.choice(BINARY), [first, second])


@step
def integers(walk: Walk) -> None:
    value = walk.pick(TensorProto.INT64) or walk.pick(TensorProto.INT32)
    if value is None:
        return
    dtype = np.int64 if walk.types[value][0] == TensorProto.INT64 else np.int32
    constant = walk.constant(np.asarray(walk.rng.choice((0, 1, 2, -1, 3)), dtype))
    op = walk.rng.choice(("Add", "Mul", "Sub", "Div", "Neg", "Abs", "Max", "Less", "Cast"))
    if op in ("Neg", "Abs"):
        walk.node(op, [value])
    elif op == "Cast":
        walk.node(op, [value], to=walk.rng.choice((1, 6, 7, 3)))
    else:
        walk.node(op, [value, constant])


@step
def move(walk: Walk) -> None:
    value = walk.pick(FLOAT)
    if value is None:
        return
    shape = walk.types[value][1]
    rng = walk.rng
    op = rng.choice(
        ("Transpose", "Transpose", "Reshape", "Reshape", "Flatten", "Squeeze", "Unsqueeze")
    )
    if op == "Transpose":
        perm = list(range(len(shape)))
        rng.shuffle(perm)
        walk.node(op, [value], **({"perm": perm} if rng.random() < 0.8 else {}))
    elif op == "Reshape":
        walk.node(op, [value, walk.constant(np.asarray(_factors(walk, shape), np.int64))])
    elif op == "Flatten":
        walk.node(op, [value], axis=rng.randint(-len(shape), len(shape)))
    elif op == "Squeeze":
        ones = [i for i, d in enumerate(shape) if d == 1]
        axes = rng.sample(ones, rng.randint(1, len(ones))) if ones else []
        walk.node(op, [value, walk.constant(np.asarray(axes, np.int64))] if axes else [value])
    else:
        axis = rng.randint(-len(shape) - 1, len(shape))
        walk.node(op, [value, walk.constant(np.asarray([axis], np.int64))])


def _factors(walk: Walk, shape: tuple[int, ...]) -> list[int]:
    """A shape of as many elements, with 0 and -1 now and then."""
    rng = walk.rng
    left = int(np.prod(shape, dtype=np.int64))
    found: list[int] = []
    while left > 1 and len(found) < 3:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        found.append(rng.choice(divisors))
        left //= found[-1]
    found.append(left)
    if rng.random() < 0.4:
        found[rng.randrange(len(found))] = -1
    for place, size in enumerate(found):
        if place < len(shape) and shape[place] == size and rng.random() < 0.3:
            found[place] = 0
    return found


@step
def part(walk: Walk) -> None:
    value = walk.pick(FLOAT)
    if value is None or not walk.types[value][1]:
        return
    shape, rng = walk.types[value][1], walk.rng
    axis = rng.randrange(len(shape))
    op = rng.choice(("Slice", "Slice", "Gather", "Split", "Pad", "Concat", "Expand", "Tile"))
    ints = lambda *n: walk.constant(np.asarray(n, np.int64))  # noqa: E731
    if op == "Slice":
        start, end = rng.randint(-shape[axis], shape[axis]), rng.choice((1, 2, -1, 2**63 - 1))
        walk.node(op, [value, ints(start), ints(end), ints(axis), ints(rng.choice((1, 1, 2, -1)))])
    elif op == "Gather":
        indices = (
            [rng.randrange(shape[axis]) for _ in range(rng.randint(1, 3))] if shape[axis] else []
        )
        if indices:
            array = np.asarray(indices if rng.random() < 0.7 else indices[0], np.int64)
            walk.node(op, [value, walk.constant(array)], axis=axis)
    elif op == "Split" and shape[axis] >= 2:
        first = rng.randint(1, shape[axis] - 1)
        walk.node(op, [value, ints(first, shape[axis] - first)], 2, axis=axis)
    elif op == "Pad":
        pads = [rng.choice((0, 0, 1, -1 if d > 2 else 0)) for d in shape * 2]
        walk.node(op, [value, ints(*pads)], mode=rng.choice(("constant", "constant", "edge")))
    elif op == "Concat":
        other = walk.pick(FLOAT)
        walk.node(
            op,
            [value, other or value, *([value] if rng.random() < 0.3 else [])],
            axis=axis - len(shape),
        )
    elif op == "Expand":
        walk.node(op, [value, ints(*[d if d != 1 else rng.choice((1, 2)) for d in shape])])
    elif op == "Tile":
        walk.node(op, [value, ints(*[rng.choice((1, 1, 2)) for _ in shape])])


@step
def reduction(walk: Walk) -> None:
    value = walk.pick(FLOAT)
    if value is None or not walk.types[value][1]:
        return
    shape, rng = walk.types[value][1], walk.rng
    op = rng.choice(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceLogSumExp")
    )
    axes = rng.sample(range(-len(shape), 0), rng.randint(1, len(shape)))
    if rng.random() < 0.15:
        walk.node(rng.choice(("Softmax", "LogSoftmax")), [value], axis=axes[0])
    else:
        axes_ = walk.constant(np.asarray(axes, np.int64))
        walk.node(op, [value, axes_], keepdims=rng.choice((0, 1)))


@step
def convolution(walk: Walk) -> None:
    value = walk.pick(FLOAT, 4)
    if value is None:
        return
    shape, rng = walk.types[value][1], walk.rng
    kind = rng.choice(("conv", "conv", "bn", "bn", "scale", "pool", "transpose", "relu"))
    channels = shape[1]
    if kind == "conv":
        group = rng.choice((1, 1, channels))
        kernel = rng.choice((1, 2, 3))
        out = channels * rng.choice((1, 2)) if group > 1 else rng.choice((2, 3, 4))
        operands = [value, walk.constant(_array(walk, (out, channels // group, kernel, kernel)))]
        if rng.random() < 0.5:
            operands.append(walk.constant(_array(walk, (out,))))
        pads = [rng.choice((0, 0, 1)) for _ in range(4)]
        walk.node("Conv", operands, group=group, pads=pads, strides=[rng.choice((1, 2))] * 2)
    elif kind == "bn":
        vectors = [walk.constant(_array(walk, (channels,))) for _ in range(3)]
        variance = walk.constant(np.abs(_array(walk, (channels,))) + np.float32(0.1))
        walk.node("BatchNormalization", [value, *vectors, variance])
    elif kind == "scale":
        each = walk.constant(_array(walk, rng.choice(((channels, 1, 1), (1, channels, 1, 1), ()))))
        walk.node(rng.choice(("Mul", "Add", "Div")), [value, each])
    elif kind == "pool":
        op = rng.choice(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
        extra = {} if op.startswith("Global") else {"kernel_shape": rng.choice(([1, 1], [2, 2]))}
        walk.node(op, [value], **extra)
    elif kind == "transpose":
        weights = walk.constant(_array(walk, (channels, 2, 2, 2)))
        walk.node("ConvTranspose", [value, weights], strides=[rng.choice((1, 2))] * 2)
    else:
        walk.node("Relu", [value])


@step
def product(walk: Walk) -> None:
    value = walk.pick(FLOAT)
    if value is None or len(walk.types[value][1]) < 1:
        return
    shape, rng = walk.types[value][1], walk.rng
    out = rng.choice((1, 3, 4))
    kind = rng.choice(("matmul", "matmul", "gemm", "left", "pair", "bias", "transposed"))
    if kind == "matmul":
        walk.node("MatMul", [value, walk.constant(_array(walk, (shape[-1], out)))])
    elif kind == "bias":
        bias = walk.constant(_array(walk, rng.choice(((shape[-1],), (1,), ()))))
        walk.node("Add", [value, bias] if rng.random() < 0.5 else [bias, value])
    elif kind == "gemm" and len(shape) == 2:
        flip = rng.choice((0, 1))
        weights = _array(walk, (out, shape[1]) if flip else (shape[1], out))
        operands = [value, walk.constant(weights)]
        if rng.random() < 0.6:
            operands.append(walk.constant(_array(walk, rng.choice(((out,), (1, out), (1,), ())))))
        scale = {"alpha": rng.choice((1.0, 0.5, -2.0)), "beta": rng.choice((1.0, 0.5, 0.0))}
        walk.node("Gemm", operands, transB=flip, **scale)
    elif kind == "left" and len(shape) >= 2:
        walk.node("MatMul", [walk.constant(_array(walk, (out, shape[-2]))), value])
    elif kind == "pair":
        other = walk.pick(FLOAT)
        walk.node("MatMul", [value, other or value])
    elif kind == "transposed" and len(shape) >= 2:
        perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        turned = walk.node("Transpose", [value], perm=perm)
        if turned:
            walk.node("MatMul", rng.choice(([value, turned[0]], [turned[0], value])))


@step
def normalization(walk: Walk) -> None:
    value = walk.pick(FLOAT)
    if value is None or not walk.types[value][1]:
        return
    rng = walk.rng
    axis = walk.constant(np.asarray([-1], np.int64))
    mean = walk.node("ReduceMean", [value, axis])
    if mean is None:
        return
    centred = walk.node("Sub", [value, mean[0]])
    source = centred[0] if centred and rng.random() < 0.7 else value
    two = walk.constant(np.asarray(2, np.float32))
    square = walk.node(
        *(("Pow", [source, two]) if rng.random() < 0.5 else ("Mul", [source, source]))
    )
    power = square and walk.node("ReduceMean", [square[0], axis])
    eps = walk.constant(np.asarray(rng.choice((1e-5, 1e-3)), np.float32))
    summed = power and walk.node("Add", [power[0], eps])
    root = summed and walk.node("Sqrt", [summed[0]])
    if root:
        walk.node("Div", [source, root[0]])


@step
def logic(walk: Walk) -> None:
    rng = walk.rng
    flags = walk.pick(TensorProto.BOOL)
    value = walk.pick(FLOAT)
    if value is None:
        return
    if flags is None or rng.random() < 0.4:
        number = walk.constant(np.asarray(rng.choice(NUMBERS), np.float32))
        walk.node(rng.choice(("Less", "Greater", "GreaterOrEqual", "Equal")), [value, number])
    elif rng.random() < 0.4:
        truth = walk.constant(np.asarray(rng.random() < 0.5))
        walk.node(rng.choice(("And", "Or", "Xor")), [flags, truth])
    elif rng.random() < 0.3:
        walk.node("Not", [flags])
    else:
        number = walk.constant(np.asarray(rng.choice((0.0, 1.0, -0.0)), np.float32))
        other = rng.choice((value, number))
        walk.node("Where", [flags, value, other] if rng.random() < 0.5 else [flags, other, value])


@step
def codes(walk: Walk) -> None:
    rng = walk.rng
    value = walk.pick(FLOAT)
    if value is None:
        return
    dtype = rng.choice((np.uint8, np.int8))
    scale = walk.constant(np.asarray(rng.choice((0.1, 0.02, 1.0)), np.float32))
    zero = walk.constant(np.asarray(rng.choice((0, 3, -128 if dtype is np.int8 else 128)), dtype))
    coded = walk.node("QuantizeLinear", [value, scale, zero])
    if coded:
        walk.node("DequantizeLinear", [coded[0], scale, zero])


@step
def shapes(walk: Walk) -> None:
    rng = walk.rng
    value = walk.pick(FLOAT)
    if value is None or not walk.types[value][1]:
        return
    shape = walk.node("Shape", [value])
    if shape is None:
        return
    ints = lambda *n: walk.constant(np.asarray(n, np.int64))  # noqa: E731
    if rng.random() < 0.5:
        size = walk.node("Gather", [shape[0], ints(rng.randrange(len(walk.types[value][1])))])
        target = size and walk.node("Concat", [size[0], ints(-1)], axis=0)
    else:
        size = walk.node("Slice", [shape[0], ints(0), ints(1)])
        target = size and walk.node("Concat", [size[0], ints(-1)], axis=0)
    if target:
        walk.node("Reshape", [value, target[0]])
