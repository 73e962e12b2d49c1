"""The inputs and outputs that a case gives, against a runtime that is not ours.

In: a `Case`, the model before and after, the bound of the claim. Out: the name of the runtime, or
`NumbersError` with code and key. Outputs may be off by what the claim allows, and by rounding;
integers are equal, but for the steps of a claim of steps; NaN and infinities are where they are
expected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import onnx

from rewrite.audit.cases.case import Case, Numbers
from rewrite.audit.compare import differ
from rewrite.audit.feeds import Array, Feeds, coarsest, is_float, open_inputs
from rewrite.audit.runtimes import CannotRunError, TookTooLongError, runners, source_of
from rewrite.engine.ledger import Bound
from rewrite.ops.dtypes import integer_range, to_numpy
from rewrite.schema import DTYPE_CLASSES, DTYPE_OF

_ROUNDING = 4  # units in the last place: a person writes rounded numbers, a runtime rounds, too


class NumbersError(Exception):
    """`key`: the key of the case that it is about."""

    def __init__(self, code: str, key: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.key = key
        self.message = message


def check_numbers(case: Case, before: onnx.ModelProto, after: onnx.ModelProto, bound: Bound) -> str:
    """The runtime that gave the outputs. Raises `NumbersError`."""
    feeds = _feeds(case.inputs or {}, before)
    expected = _expected(case.outputs or {}, before)
    got, runtime = _run(after, feeds)
    eps = coarsest(before)
    for name, array in expected.items():
        found = _differ(name, array, got[name], bound, eps)
        if found is None:
            continue
        message = f"the rewritten model gives something else: {found}"
        if _differ(name, array, _run(before, feeds)[0][name], bound, eps) is not None:
            message += "; so does the model before"
        raise NumbersError("RW715", "outputs", message)
    return runtime


def _feeds(given: Mapping[str, Numbers], model: onnx.ModelProto) -> Feeds:
    wanted = {value.name: value for value in model.graph.input}
    needed = {value.name for value in open_inputs(model)}
    for name in given:
        if name not in wanted:
            message = f"the model has no input `{name}`, it has {_listed(wanted)}"
            raise NumbersError("RW711", "inputs", message)
    for name in wanted:
        if name in needed and name not in given:
            raise NumbersError("RW711", "inputs", f"the input `{name}` is not given")
    return {name: _array("inputs", wanted[name], numbers) for name, numbers in given.items()}


def _expected(given: Mapping[str, Numbers], model: onnx.ModelProto) -> dict[str, Array]:
    known = {value.name: value for value in model.graph.output}
    for name in given:
        if name not in known:
            message = f"the model has no output `{name}`, it has {_listed(known)}"
            raise NumbersError("RW711", "outputs", message)
    return {name: _array("outputs", known[name], numbers) for name, numbers in given.items()}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _array(key: str, value: onnx.ValueInfoProto, numbers: Numbers) -> Array:
    """The numbers in the type of the value; a flat list takes the shape that is declared."""
    tensor = value.type.tensor_type
    short = DTYPE_OF.get(tensor.elem_type, "")
    if not value.type.HasField("tensor_type") or short == "string":
        raise NumbersError("RW711", key, f"`{value.name}` is not a tensor of numbers")
    nested = np.array(numbers, dtype=object)
    _check_range(key, value.name, short, nested)
    array = nested.astype(np.float64) if short not in DTYPE_CLASSES["int"] else nested
    array = array.astype(to_numpy(short))
    if not tensor.HasField("shape"):
        return np.asarray(array)
    dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    sizes = [size for size in dims if size is not None]
    if array.ndim == 1 and len(sizes) == len(dims) and array.size == math.prod(sizes):
        return array.reshape(sizes)
    fits = len(dims) == array.ndim and all(
        size in (None, given) for size, given in zip(dims, array.shape, strict=True)
    )
    if not fits:
        declared = ", ".join("?" if size is None else str(size) for size in dims)
        message = f"`{value.name}` has shape [{declared}], its numbers have {list(array.shape)}"
        raise NumbersError("RW711", key, message)
    return np.asarray(array)


def _check_range(key: str, name: str, short: str, nested: Array) -> None:
    """Integers are whole and within their type, truth values are 0 or 1."""
    if short in DTYPE_CLASSES["int"]:
        low, high = integer_range(short)
    elif short == "bool":
        low, high = 0, 1
    else:
        return
    for number in nested.reshape(-1):
        if number != number or number in (math.inf, -math.inf) or number != int(number):
            raise NumbersError("RW711", key, f"`{name}` is of type {short}, which has no {number}")
        if not low <= number <= high:
            message = f"`{name}` is of type {short}, {low} to {high}; {number} is outside"
            raise NumbersError("RW711", key, message)


def _run(model: onnx.ModelProto, feeds: Feeds) -> tuple[dict[str, Array | None], str]:
    names = [value.name for value in model.graph.output]
    reasons = []
    for runtime in runners():
        try:
            found = runtime(source_of(model)).run(feeds)
        except TookTooLongError as problem:
            raise NumbersError("RW705", "inputs", f"the test cannot be run: {problem}") from problem
        except CannotRunError as problem:
            reasons.append(f"{runtime.name}: {problem}")
            continue
        return dict(zip(names, found, strict=True)), runtime.name
    raise NumbersError("RW705", "inputs", "the test cannot be run: " + "; ".join(reasons))


def _differ(name: str, expected: Array, got: Array | None, bound: Bound, eps: float) -> str | None:
    """The worst element, where it is outside of what is allowed."""
    if got is None:
        return f"there is no output `{name}`"
    if got.shape != expected.shape:
        return f"`{name}` has the shape {list(got.shape)}, not {list(expected.shape)}"
    floating = is_float(expected) or expected.dtype.kind == "c"
    if not floating:
        bound = replace(bound, kind="exact" if not bound.lsb else bound.kind, rtol=0.0, atol=0.0)
    elif bound.kind == "exact":
        bound = Bound("equal")
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = expected.astype(wide), got.astype(wide)
    with np.errstate(all="ignore"):
        error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    error = np.where(np.isfinite(error), error, np.inf)
    allowed = 0.0
    if np.isfinite(error).all():
        rounding = replace(bound, rtol=bound.rtol + _ROUNDING * eps) if floating else bound
        found = differ(name, expected, got, rounding, eps=eps)
        if found is None:
            return None
        allowed = found.allowed
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
    place = f" at {list(at)}" if at else ""
    return f"`{name}`{place}: {expected[at]!s} expected, {got[at]!s} found, {allowed:.3g} allowed"
