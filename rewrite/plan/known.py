"""What is known of values when a plan is made, and what follows from it.

In: an `Op`, the `Known`s of its operands. Out: an `Instance` with concrete output types, the values
of outputs that can be computed now, or what would have to be known for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx

from rewrite.errors import RewriteError, error
from rewrite.graph.tensors import ComputedTensor
from rewrite.graph.types import of_tensor
from rewrite.ops.call import InferenceError
from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.ops.evaluate import evaluate
from rewrite.ops.infer import infer
from rewrite.plan.instance import Array, Instance, implied, is_concrete, legacy_contents, sizes
from rewrite.plan.program import Content, Op
from rewrite.plan.proto import infer_by_onnx
from rewrite.plan.undecided import decided
from rewrite.schema import UNKNOWN, Type

MOST_FOLDED = 1 << 12  # elements of operands of what is computed when a plan is made
MOST_MADE = 1 << 16  # and of its results
MOST_ELEMENTS = 1 << 56  # of one value: addresses of 16-byte elements still fit into 63 bits
# Weights kept as codes: dequantized once, not at every run, and then packed like other weights.
_WEIGHTS = frozenset({("", "DequantizeLinear")})
MOST_WEIGHTS = 1 << 24  # elements of one of them
_BY_SHAPE = frozenset({"Shape", "Size"})  # need the sizes of the operand, not its elements


@dataclass(frozen=True, slots=True)
class Known:
    """One value. `type` None: not a dense tensor (a sequence, an optional, nothing yet)."""

    type: Type | None
    given: Content | None = None  # its elements, or how they are computed

    @property
    def is_known(self) -> bool:
        return self.given is not None

    @property
    def content(self) -> Array | None:
        """Its elements, where they are known."""
        return self.given.numpy() if isinstance(self.given, ComputedTensor) else self.given

    @property
    def shape(self) -> tuple[int, ...]:
        assert self.type is not None
        return sizes(self.type)

    @property
    def size(self) -> int:
        return prod(self.shape)


def of_array(array: Content) -> Known:
    """A value that is known."""
    if isinstance(array, ComputedTensor):
        return Known(of_tensor(array), array)
    return Known(Type(of_numpy(array.dtype), tuple(array.shape)), array)


def instance(op: Op, known: Mapping[int, Known]) -> Instance:
    """The operator over what is known of its operands; output types as far as they follow."""
    given = [None if v is None else known[v] for v in op.inputs]
    first = given[0].type if given and given[0] is not None else None
    extra = legacy_contents(op, None if first is None else first.dtype)
    operands = list(op.inputs)
    for index, array in sorted(extra.items()):
        missing = index + 1 - len(operands)
        operands.extend([None] * missing)
        given.extend([None] * missing)
        given[index] = of_array(array)
    types = tuple(None if k is None else (k.type or UNKNOWN) for k in given)
    contents = tuple(None if k is None else k.given for k in given)
    made = Instance(op, tuple(operands), types, contents, (), implied(op))
    made.outputs = _output_types(op, made)
    return made


def _output_types(op: Op, made: Instance) -> tuple[Type, ...]:
    if any(t is not None and t.dtype is None for t in made.inputs):
        return (UNKNOWN,) * len(op.outputs)
    try:
        found = infer(
            op.domain, op.name, op.opset, made.inputs, made.attributes, made.known,
            len(op.outputs),
        )  # fmt: skip
        if found is None:
            found = infer_by_onnx(op, made.inputs, made.known)
        elif found:
            found = decided(op, made, found)
    except (InferenceError, onnx.shape_inference.InferenceError) as problem:
        raise _refused(op, str(problem).splitlines()[0]) from problem
    for k, type_ in enumerate(found or ()):
        _check_sizes(op, k, type_)
    return found if found is not None else (UNKNOWN,) * len(op.outputs)


def _check_sizes(op: Op, output: int, type_: Type) -> None:
    """Sizes come from data too: they may be negative, or more than addresses can count."""
    if not is_concrete(type_):
        return
    shape = sizes(type_)
    if any(n < 0 for n in shape):
        raise _refused(op, f"output {output} would have the shape {list(shape)}")
    if prod(n for n in shape if n) > MOST_ELEMENTS:
        raise error(
            "RW811",
            f"{op.name}: output {output} of shape {list(shape)} is larger than any memory",
            hint="look at the inputs that sizes are computed from",
            subject=op.node,
        )


def _refused(op: Op, reason: str) -> RewriteError:
    message = f"{op.name} does not take these operands: "
    return error(
        "RW802",
        message + reason.removeprefix(message),
        hint="the sizes or values of this run do not fit; give others",
        subject=op.node,
    )


def folded(made: Instance) -> tuple[Array, ...] | None:
    """The outputs, where they follow from what is known and are small."""
    concrete = all(is_concrete(t) for t in made.outputs)
    if made.key == ("", "Constant") or (not concrete and made.name in _BY_SHAPE):
        return None
    most = MOST_WEIGHTS if made.key in _WEIGHTS else MOST_MADE
    if concrete and sum(prod(sizes(t)) for t in made.outputs) > most:
        return None
    arrays = _arrays(made)
    if arrays is None:
        return None
    found = evaluate(made.domain, made.name, made.opset, arrays, made.attributes, len(made.outputs))
    if not found or len(found) != len(made.outputs):
        return None
    results = [np.asarray(array) for array in found]
    if not concrete and sum(array.size for array in results) > most:
        return None
    fits = all(_fits(a, t) for a, t in zip(results, made.outputs, strict=True))
    return tuple(results) if fits else None


def _fits(array: Array, type_: Type) -> bool:
    """Whether a value is of the type, as far as the type is known."""
    if type_.dtype is not None and of_numpy(array.dtype) != type_.dtype:
        return False
    return not is_concrete(type_) or tuple(array.shape) == sizes(type_)


def _arrays(made: Instance) -> Sequence[Array | None] | None:
    if made.domain == "" and made.name in _BY_SHAPE:
        return [np.broadcast_to(np.zeros((), np.int8), made.shape(0))]
    if made.key == ("", "CastLike") and made.is_known(0):
        like = np.zeros((), to_numpy(made.dtype(1)))  # of the second operand the type counts
        return [made.known(0), like] if prod(made.shape(0)) <= MOST_FOLDED else None
    most = MOST_WEIGHTS if made.key in _WEIGHTS else MOST_FOLDED
    arrays: list[Array | None] = []
    total = 0
    for index in range(len(made.inputs)):
        if not made.has(index):
            arrays.append(None)
            continue
        if not made.is_known(index):
            return None
        total += prod(made.shape(index))
        if total > most:
            return None
        arrays.append(made.known(index))
    return arrays


MOST_LEARNED = 1 << 10  # elements of a value that plans may depend on
_FROM_FIRST = frozenset(
    {
        "BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "MelWeightMatrix",
        "Range",
    }
)  # fmt: skip


def missing(made: Instance) -> tuple[int, ...]:
    """Operands by which output sizes may be decided, and whose values are not known yet."""
    first = 0 if made.domain == "" and made.name in _FROM_FIRST else 1
    found = []
    for index in range(first, len(made.inputs)):
        type_ = made.inputs[index]
        number = made.operands[index]
        if number is None or made.is_known(index) or not is_concrete(type_):
            continue
        assert type_ is not None
        if (
            type_.dtype != "string"
            and len(sizes(type_)) <= 1
            and prod(sizes(type_)) <= MOST_LEARNED
        ):
            found.append(number)
    return tuple(found)
