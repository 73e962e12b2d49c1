"""The inputs on which a claim is tried.

In: a model that runs. Out: feeds: random ones in every style, other sizes where sizes are open,
extreme integers where no operator takes them for places or sizes, and every input there is where
the domain is finite.

A domain is finite in two cases: all inputs together have few bits; or every operator works element
by element, and one vector holds every combination of the inputs' codes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx

from rewrite.audit.feeds import Feeds, NoFeedsError, Plan, make_feeds, open_inputs, styles
from rewrite.audit.instances.draft import array_of, dims_of, dtype_of
from rewrite.audit.instances.variations.codes import MOST_BITS, bits_of
from rewrite.ops import registry
from rewrite.ops.dtypes import integer_range, to_numpy

SEEDS = 2
_FEW_BITS = 8  # of all inputs together: so many runs are made at most
_OTHER_SIZES = (Plan(1, 1, 2), Plan(3, 5, 2), Plan(0, 4, 1), Plan(2, 0, 1), Plan(1, 2, 2))
_BY_ELEMENT = frozenset({"QuantizeLinear", "DequantizeLinear"})
_VALUES = (
    float("nan"), -0.0, float("inf"), 1e-45, float("-inf"), 0.0, 0.5, -1.5, 2.5, 3e38, -3e38,
)  # fmt: skip
_WIDE = frozenset({"s32", "s64", "u32", "u64", "s16", "u16"})


@dataclass(frozen=True, slots=True)
class Domain:
    """Feeds with what they are called; `points`: how many inputs there are, if these are all."""

    feeds: tuple[tuple[str, Feeds], ...]
    points: int = 0


def domain(model: onnx.ModelProto, plan: Plan, exact: bool) -> Domain:
    """What the model is run on."""
    whole = _everything(model)
    if whole is not None:
        return whole
    with np.errstate(all="ignore"):  # large numbers become infinite in small types
        found = [*_random(model, plan, exact), *_other_sizes(model, plan)]
        found += [*_extremes(model, plan), *_classes(model, plan, exact)]
    return Domain(tuple(found))


def _random(model: onnx.ModelProto, plan: Plan, exact: bool) -> Iterator[tuple[str, Feeds]]:
    for style in styles(model, exact):
        for seed in range(SEEDS):
            feeds = make_feeds(model, plan, seed, style)
            yield f"{style} inputs (seed {seed})", feeds
            if not feeds:
                return


def _classes(model: onnx.ModelProto, plan: Plan, exact: bool) -> Iterator[tuple[str, Feeds]]:
    """Every class of float value in each input, however few elements it has.

    Runs are as many as the smallest input needs; inputs begin at different values.
    """
    special = {"special", "infinite"} & set(styles(model, exact))
    floats = [v.name for v in open_inputs(model) if _is_float(v)]
    feeds = make_feeds(model, plan, 0)
    sizes = [feeds[name].size for name in floats if feeds[name].size]
    if not special or not sizes:
        return
    values = [v for v in _VALUES if "special" in special or v == v]
    for k in range(-(-len(values) // min(sizes))):
        for shift in (0, 5) if len(floats) > 1 else (0,):
            chosen: Feeds = {}
            for place, name in enumerate(floats):
                array = feeds[name]
                first = k * min(sizes) + shift * place
                row = np.array(values)[(np.arange(array.size) + first) % len(values)]
                chosen[name] = row.reshape(array.shape).astype(array.dtype)
            yield f"special values ({k}, {shift})", {**feeds, **chosen}


def _is_float(value: onnx.ValueInfoProto) -> bool:
    return dtype_of(value) in ("f32", "f64", "f16", "bf16")


def _other_sizes(model: onnx.ModelProto, plan: Plan) -> Iterator[tuple[str, Feeds]]:
    """Sizes that the model leaves open."""
    opened = [v for v in open_inputs(model) if _is_open(v)]
    for other in _OTHER_SIZES if opened else ():
        if other == plan:
            continue
        try:
            yield f"sizes {other.first} and {other.other}", make_feeds(model, other, 0)
        except NoFeedsError:
            return


def _is_open(value: onnx.ValueInfoProto) -> bool:
    dims = dims_of(value)
    return dims is None or any(not isinstance(d, int) for d in dims)


# --- integers ----------------------------------------------------------------------------------


def _extremes(model: onnx.ModelProto, plan: Plan) -> Iterator[tuple[str, Feeds]]:
    """The largest integers there are, where they are numbers and nothing else."""
    wide = [v.name for v in open_inputs(model) if dtype_of(v) in _WIDE]
    if not wide or not all(_is_number(model.graph, name) for name in wide):
        return
    for seed in range(SEEDS):
        feeds = make_feeds(model, plan, seed)
        rng = np.random.default_rng([seed, 11])
        for value in open_inputs(model):
            dtype = dtype_of(value)
            if value.name not in wide or dtype is None:
                continue
            low, high = integer_range(dtype)
            pool = np.array([low, high, low + 1, high - 1, 0, 1, max(low, -1), 2, high // 2 + 1])
            array = feeds[value.name]
            chosen = pool.astype(array.dtype)[rng.integers(0, len(pool), array.shape)]
            feeds[value.name] = np.asarray(chosen, array.dtype)
        yield f"extreme integers (seed {seed})", feeds


def _is_number(graph: onnx.GraphProto, name: str) -> bool:
    """Whether the value goes only where numbers go, not to places, axes or sizes."""
    waiting, seen = [name], {name}
    while waiting:
        value = waiting.pop()
        for node in graph.node:
            if value not in node.input:
                continue
            found = registry.find(node.domain, node.op_type)
            if found is None or node.op_type in ("If", "Loop", "Scan"):
                return False
            places = not found.pointwise and found.kind not in ("contraction", "convolution")
            if places and value in list(node.input)[1:]:
                return False
            new = [o for o in node.output if o and o not in seen]
            waiting += new
            seen.update(new)
    return True


# --- finite domains ----------------------------------------------------------------------------


def _everything(model: onnx.ModelProto) -> Domain | None:
    """Every input there is, where these are few."""
    given = open_inputs(model)
    bits = [bits_of(dtype_of(v)) for v in given]
    if not given or any(b is None for b in bits):
        return None
    shapes = [_fixed(v) for v in given]
    if any(shape is None for shape in shapes):
        return None
    sizes = [math.prod(shape or ()) for shape in shapes]
    widths = [b or 0 for b in bits]
    total = sum(b * n for b, n in zip(widths, sizes, strict=True))
    if 0 < total <= _FEW_BITS:
        runs = [_numbered(given, number) for number in range(1 << total)]
        return Domain(tuple((f"input {i}", feeds) for i, feeds in enumerate(runs)), len(runs))
    codes = sum(widths)
    if codes > MOST_BITS or any(n != 1 << codes for n in sizes) or not _is_pointwise(model.graph):
        return None
    return Domain((("every code", _grid(given, widths)),), 1 << codes)


def _fixed(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    dims = dims_of(value)
    if dims is None or any(not isinstance(d, int) for d in dims):
        return None
    return tuple(int(d) for d in dims if isinstance(d, int))


def _numbered(given: list[onnx.ValueInfoProto], number: int) -> Feeds:
    """The inputs whose bits, one after the other, are the number."""
    feeds: Feeds = {}
    for value in given:
        dtype, shape = dtype_of(value), _fixed(value) or ()
        bits = bits_of(dtype) or 0
        assert dtype is not None
        codes = []
        for _ in range(math.prod(shape)):
            codes.append(number & ((1 << bits) - 1))
            number >>= bits
        feeds[value.name] = _codes(np.array(codes, np.int64), dtype).reshape(shape)
    return feeds


def _grid(given: list[onnx.ValueInfoProto], widths: list[int]) -> Feeds:
    """Vectors that hold every combination."""
    columns = list(zip(*itertools.product(*(range(1 << b) for b in widths)), strict=True))
    feeds: Feeds = {}
    for value, column in zip(given, columns, strict=True):
        dtype = dtype_of(value)
        assert dtype is not None
        feeds[value.name] = _codes(np.array(column, np.int64), dtype).reshape(_fixed(value) or ())
    return feeds


def _codes(numbers: np.ndarray, dtype: str) -> np.ndarray:
    low = 0 if dtype == "bool" else integer_range(dtype)[0]
    return (numbers + low).astype(to_numpy(dtype))


def _is_pointwise(graph: onnx.GraphProto) -> bool:
    """Whether element i of every value depends on elements i of the inputs alone."""
    uniform = {t.name for t in graph.initializer if array_of(t).size == 1}
    constants = {t.name for t in graph.initializer}
    for node in graph.node:
        found = registry.find(node.domain, node.op_type)
        by_element = node.op_type in _BY_ELEMENT or (found is not None and found.pointwise)
        if not by_element or any(n in constants - uniform for n in node.input):
            return False
    return True
