"""Row programs: softmax, normalizations, reductions and pointwise steps around them in one kernel.

In: nothing. Out: `Rows`, a frozen spec. The elements of a tensor are seen as rows; a program of
steps is run for each row, some on its elements and some on single values that belong to the row.
A `Fold` makes such a value of all elements. Built by rewrite/plan/rows.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rewrite.plan.spec import Spec, Step
from rewrite.plan.view import BYTES

# Stride classes of an access: the code is written for no stride at all, for neighbours, and for a
# stride that is known when the kernel is called.
SAME, NEXT, ANY = 0, 1, -1

# A step of this kernel alone: Exp of what is at most 0.
EXP_BELOW = "ExpBelow"

ADD, MUL, MIN, MAX, PEAK = "add", "mul", "min", "max", "peak"
FOLDS = (ADD, MUL, MIN, MAX, PEAK)


@dataclass(frozen=True, slots=True)
class Fold:
    """All elements of a row combined; of no elements, the value that changes no other.

    `combine`: add, mul, min, max (NaN if one element is), or peak: max that may lose a NaN, for
    where the NaN comes back from what is computed next. `mean`: divided by the number of elements.
    The result has the registers of `dtype`, which `arg` has too: half floats are summed in f32 and
    rounded by a Cast behind, should the program want that.
    """

    combine: str
    arg: int
    dtype: str
    mean: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """An operand or an output: stride classes along the row's dimensions and between rows.

    All classes of `row` SAME: one value per row.
    """

    dtype: str
    row: tuple[int, ...]
    outer: tuple[int, ...]

    @property
    def element(self) -> bool:
        return any(self.row)


@dataclass(frozen=True, slots=True)
class Rows(Spec):
    """outputs[k] = value results[k] of the program, for every row.

    Values 0 … n-1 are the operands, n + k is the result of step k, as in `Body`; a step whose
    operands are all values of the row is one, too. `kept` are element values that are remembered
    from the first pass over the row that computes them instead of being computed again. `homes`
    says where each of them is: in the scratch memory (-1), or in the place of an output: its own,
    or that of one that is stored when nobody needs the value any longer, so that the output's
    memory is fetched while there is work.

    Vectors lie along the innermost dimension of the row, or, if `across`, along the innermost of
    the outer dimensions, so that every lane is a row of its own.

    Words: operands, outputs; then integers: the number of elements of a row, the sizes of the row's
    dimensions, those of the outer dimensions, rows per item (`across`; else 1), and for each
    operand and output its strides in elements along the row's dimensions and the outer dimensions.
    Items: rows; if `across`, groups of so many neighbouring rows of the innermost outer dimension,
    the last of them smaller.
    Scratch: `rewrite.plan.rows.scratch_bytes`.
    """

    operands: tuple[Access, ...]
    steps: tuple[Step | Fold, ...]
    results: tuple[int, ...]
    outputs: tuple[Access, ...]
    kept: tuple[int, ...]
    homes: tuple[int, ...]
    across: bool

    @property
    def row_rank(self) -> int:
        return len(self.outputs[0].row)

    @property
    def outer_rank(self) -> int:
        return len(self.outputs[0].outer)


@dataclass(frozen=True, slots=True)
class Levels:
    """What is known of each value: is it one per element, and behind how many folds."""

    element: tuple[bool, ...]
    level: tuple[int, ...]

    @property
    def passes(self) -> int:
        """Passes over the row: one more than the deepest fold, or fewer if none is needed."""
        return max(self.level, default=0) + 1


def args_of(step: Step | Fold) -> tuple[int, ...]:
    """The values that a step reads."""
    if isinstance(step, Fold):
        return (step.arg,)
    return tuple(a for a in step.args if isinstance(a, int))


def levels_of(elements: tuple[bool, ...], steps: tuple[Step | Fold, ...]) -> Levels:
    """`elements`: which operands have a value per element."""
    element, level = list(elements), [0] * len(elements)
    for step in steps:
        args = args_of(step)
        deepest = max((level[a] for a in args), default=0)
        fold = isinstance(step, Fold)
        element.append(not fold and any(element[a] for a in args))
        level.append(deepest + fold)
    return Levels(tuple(element), tuple(level))


def dtype_of(operands: tuple[Access, ...], steps: tuple[Step | Fold, ...], value: int) -> str:
    n = len(operands)
    return operands[value].dtype if value < n else steps[value - n].dtype


def closure(
    n: int, steps: tuple[Step | Fold, ...], roots: Iterable[int], given: Collection[int]
) -> tuple[int, ...]:
    """The values that `roots` follow from, in order, down to those `given` (which are left out)."""
    wanted: set[int] = set()
    pending = [v for v in roots if v not in given]
    while pending:
        value = pending.pop()
        if value in wanted:
            continue
        wanted.add(value)
        if value >= n:
            pending += [a for a in args_of(steps[value - n]) if a not in given]
    return tuple(sorted(wanted))


def needed_of(n: int, steps: tuple[Step | Fold, ...], results: Iterable[int]) -> frozenset[int]:
    """All values that the results follow from."""
    return frozenset(closure(n, steps, results, ()))


# --- what a program costs ----------------------------------------------------------------------

_DEAR = frozenset(
    {
        "Exp", EXP_BELOW, "Log", "Erf", "Tanh", "Sigmoid", "Gelu", "Sin", "Cos", "Tan", "Asin",
        "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Softplus", "Mish", "Pow",
        "Swish", "BiasGelu", "FastGelu", "QuickGelu", "Elu", "Selu", "Celu",
    }
)  # fmt: skip
_DIVISIONS = frozenset({"Div", "Sqrt", "Reciprocal", "Mod", "QuantizeLinear"})
DEAR, DIVISION = 16, 4


def cost_of(step: Step | Fold) -> int:
    """About the instructions of a step; an elementary function keeps a pass busy by itself."""
    if isinstance(step, Fold):
        return 1
    if step.name in _DEAR:
        return DEAR
    return DIVISION if step.name in _DIVISIONS else 1


def storage_dtype(dtype: str) -> str:
    """How a kept value lies in memory: unrounded, as the register has it."""
    narrow = (dtype[0] == "f" and dtype not in ("f32", "f64")) or dtype == "bf16"
    return "f32" if narrow else dtype


def scratch_bytes(spec: Rows, count: int) -> int:
    """Scratch memory for rows of `count` elements."""
    lanes = 64 if spec.across else 1
    total = 0
    for value, home in zip(spec.kept, spec.homes, strict=True):
        if home >= 0:
            continue
        dtype = storage_dtype(dtype_of(spec.operands, spec.steps, value))
        total += (count * lanes * BYTES[dtype] + 128) // 64 * 64
    return total + 64 if total else 0
