"""Other numbers in constants, and other ways to be constant or not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx
from onnx import helper

from rewrite.audit.feeds import Array, is_float
from rewrite.audit.instances.draft import Draft, array_of, cast, dtype_of, tensor, value_info
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, variation
from rewrite.ops.dtypes import finfo, integer_range

_MOST = 4096  # elements of a constant that is varied
_NEAR = (1e-6, 1e-3, 0.25)  # relative distances from a number that a rule speaks of
_OVERRIDABLE = 4  # IR version from which an initializer that is an input may be overridden


@variation("number")
def numbers(draft: Draft, hints: Hints) -> Iterator[Change]:
    """Every element of a constant is one number: extreme ones, those that the rule names."""
    for constant in _varied(draft):
        array = array_of(constant)
        for value in dict.fromkeys([*_extremes(array), *_named(array, hints)]):
            made = _full(array, value)
            if made is not None:
                label = f"{constant.name} is {value!r}"
                yield Change(label, partial(Draft.set_constant, name=constant.name, array=made))


@variation("number near")
def near(draft: Draft, hints: Hints) -> Iterator[Change]:
    """A constant beside what it is, and beside numbers that the rule names."""
    for constant in _varied(draft):
        array = array_of(constant)
        if is_float(array):
            for name, made in _beside(array, hints):
                yield Change(
                    f"{constant.name} {name}",
                    partial(Draft.set_constant, name=constant.name, array=made),
                )
        elif array.dtype.kind in "iu":
            for step in (1, -1):
                made = cast(array.astype(np.int64) + step, str(dtype_of(constant)))
                label = f"{constant.name} {step:+d}"
                yield Change(label, partial(Draft.set_constant, name=constant.name, array=made))


@variation("one element")
def one_element(draft: Draft, hints: Hints) -> Iterator[Change]:
    """One element of a constant is something else; or all are, at random."""
    for constant in _varied(draft):
        array = array_of(constant)
        if array.size < 2:
            continue
        for place in (0, array.size - 1):
            for value in _extremes(array)[:6]:
                made = _full(array, value)
                if made is None:
                    continue
                mixed = array.copy().reshape(-1)
                mixed[place] = made.reshape(-1)[place]
                label = f"{constant.name} has {value!r} at {place}"
                shaped = mixed.reshape(array.shape)
                yield Change(label, partial(Draft.set_constant, name=constant.name, array=shaped))
        for seed in (1, 2):
            label = f"{constant.name} has random elements {seed}"
            made = _random(array, seed)
            yield Change(label, partial(Draft.set_constant, name=constant.name, array=made))
        reversed_ = array.reshape(-1)[::-1].reshape(array.shape)
        yield Change(
            f"{constant.name} reversed",
            partial(Draft.set_constant, name=constant.name, array=reversed_),
        )


@variation("exchanged constants")
def exchanged(draft: Draft, _: Hints) -> Iterator[Change]:
    """Two constants of one type change places: least above largest."""
    found = draft.constants()
    for i, first in enumerate(found):
        for second in found[i + 1 :]:
            if first.data_type == second.data_type and first.dims == second.dims:
                names = (first.name, second.name)
                yield Change(
                    f"{names[0]} and {names[1]} exchanged", partial(_exchange, names=names)
                )


@variation("constness")
def constness(draft: Draft, _: Hints) -> Iterator[Change]:
    """From a Constant node; with a default only; given by the caller; an input that is constant."""
    for constant in draft.constants():
        name = constant.name
        yield Change(f"{name} from a Constant node", partial(_from_node, name=name))
        yield Change(f"{name} can be overridden", partial(_overridable, name=name))
        yield Change(f"{name} is an input", partial(_given, name=name))
    for given in draft.open_inputs():
        yield Change(f"{given.name} is constant", partial(_fix, name=given.name))


@variation("shared constants")
def shared(draft: Draft, _: Hints) -> Iterator[Change]:
    """One constant in place of two; one that is used elsewhere, too."""
    found = draft.constants()
    for i, first in enumerate(found):
        for second in found[i + 1 :]:
            if first.data_type == second.data_type and first.dims == second.dims:
                label = f"{second.name} is {first.name}"
                yield Change(label, partial(_share, kept=first.name, gone=second.name))
        yield Change(f"{first.name} is also an output", partial(_show, name=first.name))


def _varied(draft: Draft) -> list[onnx.TensorProto]:
    return [c for c in draft.constants() if 0 < array_of(c).size <= _MOST]


def _extremes(array: Array) -> list[float | int | bool]:
    if is_float(array):
        limits = finfo(array.dtype)
        largest, least = float(limits.max), float(limits.smallest_subnormal)
        return [
            0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("nan"), float("inf"), float("-inf"),
            least, largest, -largest, 1e-3, -0.75, 100.0,
        ]  # fmt: skip
    if array.dtype == bool:
        return [False, True]
    if array.dtype.kind not in "iu" and not _is_small_integer(array):
        return []
    low, high = _range(array)
    return list(dict.fromkeys([0, 1, high, low, max(low, -1), 2, 3, 7]))


def _is_small_integer(array: Array) -> bool:
    return array.dtype.name in ("int4", "uint4", "int2", "uint2")


def _range(array: Array) -> tuple[int, int]:
    from rewrite.ops.dtypes import of_numpy

    name = of_numpy(array.dtype)
    assert name is not None
    return integer_range(name)


def _named(array: Array, hints: Hints) -> list[float | int]:
    if is_float(array):
        return list(hints.numbers)
    if array.dtype.kind in "iu":
        low, high = _range(array)
        return [int(n) for n in hints.numbers if n == int(n) and low <= n <= high]
    return []


def _full(array: Array, value: float) -> Array | None:
    with np.errstate(all="ignore"):
        return np.full(array.shape, value).astype(array.dtype)


def _beside(array: Array, hints: Hints) -> Iterator[tuple[str, Array]]:
    distances = [
        *_NEAR,
        *((hints.tolerance * 0.9, hints.tolerance * 1.1) if hints.tolerance else ()),
    ]
    factors = {f"times {1 + distance!r}": 1 + distance for distance in distances}
    factors |= {"negated": -1.0, "one place up": 1 + float(finfo(array.dtype).eps)}
    wide = array.astype(np.float64)
    for name, factor in factors.items():
        with np.errstate(all="ignore"):
            yield name, (wide * factor).astype(array.dtype)


def _random(array: Array, seed: int) -> Array:
    rng = np.random.default_rng([seed, array.size])
    if is_float(array):
        return rng.standard_normal(array.shape).astype(array.dtype)
    if array.dtype == bool:
        return rng.integers(0, 2, array.shape).astype(bool)
    if array.dtype.kind not in "iu":
        return array
    low, high = _range(array)
    low, high = (low, high) if array.dtype.itemsize == 1 else (max(low, -3), min(high, 4))
    return rng.integers(low, high, array.shape).astype(array.dtype)


def _exchange(draft: Draft, names: tuple[str, str]) -> bool:
    first, second = (draft.constant(name) for name in names)
    if first is None or second is None:
        return False
    a, b = array_of(first), array_of(second)
    draft.set_constant(names[0], b)
    draft.set_constant(names[1], a)
    return True


def _from_node(draft: Draft, name: str) -> bool:
    constant = draft.constant(name)
    if constant is None or draft.input(name) is not None:
        return False
    node = helper.make_node("Constant", [], [name], value=tensor(name, array_of(constant)))
    draft.drop_constant(name)
    draft.graph.node.insert(0, node)
    return True


def _overridable(draft: Draft, name: str) -> bool:
    constant = draft.constant(name)
    if constant is None or draft.input(name) is not None:
        return False
    draft.model.ir_version = max(draft.model.ir_version, _OVERRIDABLE)
    draft.graph.input.append(value_info(name, constant.data_type, list(constant.dims)))
    return True


def _given(draft: Draft, name: str) -> bool:
    if not _overridable(draft, name):
        return False
    draft.drop_constant(name)
    return True


def _fix(draft: Draft, name: str) -> bool:
    given = draft.input(name)
    if given is None:
        return False
    kind = given.type.tensor_type
    if not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim):
        return False
    dtype = dtype_of(given)
    shape = tuple(d.dim_value for d in kind.shape.dim)
    if dtype is None or dtype == "string" or np.prod(shape) > _MOST:
        return False
    rng = np.random.default_rng([3, *shape])
    draft.graph.initializer.append(tensor(name, cast(rng.standard_normal(shape) * 3, dtype)))
    draft.graph.input.remove(given)
    return True


def _share(draft: Draft, kept: str, gone: str) -> bool:
    if draft.input(gone) is not None:
        return False
    for node in draft.nodes:
        for place, name in enumerate(node.input):
            if name == gone:
                node.input[place] = kept
    draft.drop_constant(gone)
    return True


def _show(draft: Draft, name: str) -> bool:
    shown = draft.fresh(f"{name}_shown")
    draft.graph.node.append(helper.make_node("Identity", [name], [shown]))
    draft.graph.output.append(onnx.ValueInfoProto(name=shown))
    return True
