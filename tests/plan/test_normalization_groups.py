"""Which operators form one row program, and why others do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rewrite.plan.instance import Instance
from rewrite.plan.program import Op
from rewrite.plan.rows import RowGroup, rows_of
from rewrite.plan.specs.rows import Fold
from rewrite.schema import Type

Array = np.ndarray[Any, np.dtype[Any]]


class Line:
    """Instances of a chain of operators on f32, without a model."""

    def __init__(self) -> None:
        self.ops: list[Instance] = []
        self.shapes: dict[int, tuple[int, ...]] = {}

    def value(self, *shape: int) -> int:
        number = len(self.shapes)
        self.shapes[number] = shape
        return number

    def op(self, name: str, operands: Sequence[int | Array], *shape: int, **attributes: Any) -> int:
        result = self.value(*shape)
        numbers: list[int | None] = []
        types, contents = [], []
        for k, operand in enumerate(operands):
            if isinstance(operand, int):
                numbers.append(operand)
                types.append(Type("f32", self.shapes[operand]))
                contents.append(None)
            else:
                numbers.append(-1 - len(self.ops) * 8 - k)
                dtype = "s64" if operand.dtype == np.int64 else "f32"
                types.append(Type(dtype, operand.shape))
                contents.append(operand)
        op = Op("", name, 18, tuple(numbers), (result,), attributes, f"{name}_{result}")
        self.ops.append(
            Instance(op, tuple(numbers), tuple(types), tuple(contents), (Type("f32", shape),))
        )
        return result


LAST = np.array([-1], np.int64)


def decomposed(line: Line, x: int, shape: tuple[int, ...]) -> int:
    """LayerNormalization without scale and bias, as exporters write it."""
    one_ = (*shape[:-1], 1)
    mean = line.op("ReduceMean", [x, LAST], *one_)
    centred = line.op("Sub", [x, mean], *shape)
    squared = line.op("Pow", [centred, np.array(2, np.float32)], *shape)
    variance = line.op("ReduceMean", [squared, LAST], *one_)
    shifted = line.op("Add", [variance, np.array(1e-5, np.float32)], *one_)
    root = line.op("Sqrt", [shifted], *one_)
    return line.op("Div", [centred, root], *shape)


def group_of(line: Line, *wanted: int) -> RowGroup:
    found = rows_of(line.ops, wanted)
    assert isinstance(found, RowGroup), found
    return found


def test_decomposed_normalization_is_one_program() -> None:
    line = Line()
    a, b, scale = line.value(2, 3, 8), line.value(2, 3, 8), line.value(8)
    total = line.op("Add", [a, b], 2, 3, 8)
    y = decomposed(line, total, (2, 3, 8))
    z = line.op("Mul", [y, scale], 2, 3, 8)
    group = group_of(line, z, total)
    assert [taken.op.operands[taken.index] for taken in group.operands] == [a, b, scale]
    assert sum(isinstance(step, Fold) for step in group.built.steps) == 2
    assert all(given.element for given in group.outputs)
    assert "Pow" not in [step.name for step in group.built.steps if not isinstance(step, Fold)]


def test_equal_steps_are_one() -> None:
    """Two subtractions of the same mean."""
    line = Line()
    x = line.value(4, 8)
    mean = line.op("ReduceMean", [x, LAST], 4, 1)
    first = line.op("Sub", [x, mean], 4, 8)
    second = line.op("Sub", [x, mean], 4, 8)
    group = group_of(line, line.op("Mul", [first, second], 4, 8))
    assert len(group.built.steps) == 3


def test_reasons_why_not() -> None:
    def reason(line: Line, *wanted: int) -> str:
        found = rows_of(line.ops, wanted)
        assert isinstance(found, str)
        return found

    line = Line()
    x = line.value(4, 8)
    assert reason(line, line.op("Exp", [x], 4, 8)) == "nothing is reduced"

    line = Line()
    x = line.value(4, 8)
    mean = line.op("ReduceMean", [x, LAST], 4, 1)
    first = np.array([0], np.int64)
    assert "rows of another kind" in reason(line, line.op("ReduceMean", [mean, first], 1, 1))

    line = Line()
    x = line.value(4, 8)
    softmax = line.op("Softmax", [x], 4, 8, axis=-1)
    turned = line.op("Transpose", [softmax], 8, 4)
    assert "Transpose is not pointwise" in reason(line, turned)

    line = Line()
    x, other = line.value(4, 8), line.value(3, 4, 8)
    softmax = line.op("Softmax", [x], 4, 8, axis=-1)
    assert "more dimensions" in reason(line, line.op("Add", [softmax, other], 3, 4, 8))

    line = Line()
    x, bias = line.value(4, 8), line.value(8)
    softmax = line.op("Softmax", [x], 4, 8, axis=-1)
    doubled = line.op("Add", [bias, bias], 8)
    line.op("Add", [softmax, doubled], 4, 8)
    assert "neither all elements nor one per row" in reason(line, doubled)


def test_a_reduction_of_what_is_one_per_row_is_no_sum_of_the_row() -> None:
    """The sum over a dimension of size 1 is not n times its element."""
    line = Line()
    x = line.value(4, 8)
    mean = line.op("ReduceMean", [x, LAST], 4, 1)
    again = line.op("ReduceSum", [mean, LAST], 4, 1)
    assert isinstance(rows_of(line.ops, [again]), str)


def test_a_scale_along_other_dimensions() -> None:
    """Sums of which the last dimension was dropped are no scale along it."""
    line = Line()
    x = line.value(4, 8, 8)
    total = line.op("ReduceSum", [x, LAST], 4, 8, keepdims=0)
    y = line.op("LayerNormalization", [x, total], 4, 8, 8, axis=-1)
    found = rows_of(line.ops, [y])
    assert isinstance(found, str)
    assert "other dimensions" in found


def test_dropped_dimensions() -> None:
    """What is left is aligned with the dimensions that it came from."""
    line = Line()
    x, scale = line.value(4, 5, 8), line.value(5)
    total = line.op("ReduceSum", [x, LAST], 4, 5, keepdims=0)
    y = line.op("Mul", [total, scale], 4, 5)
    group = group_of(line, y)
    assert [taken.axes for taken in group.operands] == [(0, 1, 2), (1,)]
    assert group.outputs[0].axes == (0, 1)
    assert not group.outputs[0].element
