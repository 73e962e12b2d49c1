"""Operators that move elements: views, copies, indexing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.runtime.graphs.maker import MOST_ELEMENTS, Maker, Value


def _moved(m: Maker, name: str, x: Value, shape: Any) -> Value | None:
    return m.add(name, x.dtype, shape, x.exact, x.limit)


def transpose(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1)
    if x is None:
        return None
    order = list(range(x.rank))
    perm: list[int] = []
    while order:
        perm.append(order.pop(m.number(0, len(order) - 1)))
    perm.reverse()
    return _moved(m, m.node("Transpose", [x], perm=perm), x, [x.shape[p] for p in perm])


def reshape(m: Maker) -> Value | None:
    """Sizes regrouped; sometimes one of them left open."""
    x = m.pick(lambda v: v.size > 0)
    if x is None:
        return None
    shape, left = [], x.size
    while left > 1 and len(shape) < 4:
        divisors = [d for d in (2, 3, 4, 5, 7, left) if left % d == 0]
        size = m.choose(divisors)
        shape.append(size)
        left //= size
    if left > 1:
        shape[-1] *= left
    if m.flag():
        shape.insert(m.number(0, len(shape)), 1)
    asked = list(shape)
    if asked and m.flag():
        asked[m.number(0, len(asked) - 1)] = -1
    target = m.constant(np.array(asked, np.int64))
    return _moved(m, m.node("Reshape", [x, target]), x, shape)


def squeeze(m: Maker) -> Value | None:
    x = m.pick(lambda v: 1 in v.shape)
    if x is None:
        return None
    axes = [a for a, n in enumerate(x.shape) if n == 1]
    axis = m.choose(axes)
    given = m.constant(np.array([axis - x.rank if m.flag() else axis], np.int64))
    shape = [n for a, n in enumerate(x.shape) if a != axis]
    return _moved(m, m.node("Squeeze", [x, given]), x, shape)


def unsqueeze(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank <= 3)
    if x is None:
        return None
    axis = m.number(0, x.rank)
    shape = [*x.shape[:axis], 1, *x.shape[axis:]]
    return _moved(m, m.node("Unsqueeze", [x, m.constant(np.array([axis], np.int64))]), x, shape)


def slices(m: Maker) -> Value | None:
    """Any start, end and step, negative ones too, out of range as well."""
    x = m.pick(lambda v: v.rank >= 1)
    if x is None:
        return None
    axes = [a for a in range(x.rank) if m.flag()] or [0]
    shape, parts = list(x.shape), []
    for axis in axes:
        n = x.shape[axis]
        step = m.choose((1, 2, -1, 3, -2))
        start = m.number(-n - 1, n + 1)
        end = m.choose((n, n + 3, m.number(-n - 1, n + 1), -(2**31)))
        shape[axis] = _length(n, start, end, step)
        parts.append((start, end, axis, step))
    given = [m.constant(np.array(column, np.int64)) for column in zip(*parts, strict=True)]
    return _moved(m, m.node("Slice", [x, *given]), x, shape)


def _length(n: int, start: int, end: int, step: int) -> int:
    """ONNX clamps as numpy does, negative ends counting from the back first."""
    start, end = (v + n if v < 0 else v for v in (start, end))
    if step > 0:
        start, end = min(max(start, 0), n), min(max(end, 0), n)
        return max(0, -(-(end - start) // step))
    start, end = min(max(start, 0), n - 1), min(max(end, -1), n - 1)
    return max(0, -((start - end) // step)) if n else 0


def concat(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1)
    if x is None:
        return None
    axis = m.number(0, x.rank - 1)

    def fits(v: Value) -> bool:
        same = v.dtype == x.dtype and v.rank == x.rank
        return same and all(
            a == b for k, (a, b) in enumerate(zip(v.shape, x.shape, strict=True)) if k != axis
        )

    parts = [x, *(m.pick(fits) or x for _ in range(m.number(1, 2)))]
    shape = list(x.shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
        return None
    name = m.node("Concat", parts, axis=axis)
    exact = all(p.exact for p in parts)
    return m.add(name, x.dtype, shape, exact, max(p.limit for p in parts))


def split(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1 and max(v.shape) >= 2)
    if x is None:
        return None
    axis = m.choose([a for a, n in enumerate(x.shape) if n >= 2])
    cut = m.number(0, x.shape[axis])
    lengths = [cut, x.shape[axis] - cut]
    names = m.many("Split", [x, m.constant(np.array(lengths, np.int64))], 2, axis=axis)
    found = None
    for name, length in zip(names, lengths, strict=True):
        found = _moved(m, name, x, [*x.shape[:axis], length, *x.shape[axis + 1 :]])
    return found


def expand(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.size <= 256)
    if x is None:
        return None
    shape = [m.choose((2, 3, 1)) if n == 1 and m.flag() else n for n in x.shape]
    shape = [m.choose((2, 1, 3)), *shape] if m.flag() and x.rank < 4 else shape
    target = m.constant(np.array([1 if n == o else n for n, o in _aligned(shape, x)], np.int64))
    return _moved(m, m.node("Expand", [x, target]), x, shape)


def _aligned(shape: list[int], x: Value) -> list[tuple[int, int]]:
    old = [1] * (len(shape) - x.rank) + list(x.shape)
    return list(zip(shape, old, strict=True))


def tile(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.size <= 256 and v.rank >= 1)
    if x is None:
        return None
    repeats = [m.choose((1, 2, 3, 0)) for _ in x.shape]
    shape = [n * r for n, r in zip(x.shape, repeats, strict=True)]
    if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
        return None
    return _moved(m, m.node("Tile", [x, m.constant(np.array(repeats, np.int64))]), x, shape)


def pad(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1 and v.dtype in ("f32", "f64", "s64", "s32", "u8", "s8"))
    if x is None:
        return None
    mode = m.choose(("constant", "edge", "reflect"))
    most = 2 if mode == "constant" else min(2, min(x.shape) - 1)
    if most < 0:
        mode, most = "constant", 2
    pads = [m.number(0, most) for _ in range(2 * x.rank)]
    shape = [n + a + b for n, a, b in zip(x.shape, pads[: x.rank], pads[x.rank :], strict=True)]
    given: list[Any] = [x, m.constant(np.array(pads, np.int64))]
    if mode == "constant" and m.flag():
        given.append(m.filled(x.dtype, ()))
    limit = max(x.limit, 4.0)
    return m.add(m.node("Pad", given, mode=mode), x.dtype, shape, x.exact, limit)


def gather(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1 and v.size > 0)
    if x is None:
        return None
    axis = m.number(0, x.rank - 1)
    n = x.shape[axis]
    shape = m.choose(((2,), (), (3, 2), (0,)))
    rng = np.random.default_rng(m.number(0, 9))
    indices = m.constant(rng.integers(-n, n, shape).astype(m.choose((np.int64, np.int32))))
    made = [*x.shape[:axis], *shape, *x.shape[axis + 1 :]]
    if np.prod(made, dtype=np.int64) > MOST_ELEMENTS:
        return None
    return _moved(m, m.node("Gather", [x, indices], axis=axis), x, made)


def gather_elements(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1 and v.size > 0)
    if x is None:
        return None
    axis = m.number(0, x.rank - 1)
    shape = list(x.shape)
    shape[axis] = m.choose((1, 2, 4))
    rng = np.random.default_rng(m.number(0, 9))
    indices = m.constant(rng.integers(-x.shape[axis], x.shape[axis], shape))
    return _moved(m, m.node("GatherElements", [x, indices], axis=axis), x, shape)


def scatter(m: Maker) -> Value | None:
    """Rows replaced, each at most once."""
    x = m.pick(lambda v: v.rank >= 1 and v.size > 0 and v.dtype in ("f32", "s64", "f64", "s32"))
    if x is None:
        return None
    rows = m.number(1, x.shape[0])
    places = np.random.default_rng(m.number(0, 9)).permutation(x.shape[0])[:rows]
    updates = m.filled(x.dtype, (rows, *x.shape[1:]))
    if m.flag():
        name = m.node("ScatterND", [x, m.constant(places[:, None].astype(np.int64)), updates])
    else:
        spread = np.broadcast_to(places.reshape(-1, *[1] * (x.rank - 1)), updates.shape)
        name = m.node("ScatterElements", [x, m.constant(spread.astype(np.int64)), updates], axis=0)
    return m.add(name, x.dtype, x.shape, x.exact, max(x.limit, 4.0))


def depth(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank == 4 and v.shape[1] % 4 == 0 and v.size > 0)
    if x is None:
        return None
    n, c, h, w = x.shape
    mode = m.choose(("DCR", "CRD"))
    name = m.node("DepthToSpace", [x], blocksize=2, mode=mode)
    return _moved(m, name, x, (n, c // 4, h * 2, w * 2))


def trilu(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 2 and v.dtype in ("f32", "s64", "f64", "bool", "s32"))
    if x is None:
        return None
    k = m.constant(np.array(m.number(-2, 2), np.int64))
    return _moved(m, m.node("Trilu", [x, k], upper=m.number(0, 1)), x, x.shape)


def sizes(m: Maker) -> Value | None:
    """Shape arithmetic: the sizes of a value, multiplied, as the shape of another."""
    x = m.pick(lambda v: v.rank >= 1)
    if x is None:
        return None
    shape = Value(m.node("Shape", [x]), "s64", (x.rank,))
    if m.flag():
        return m.add(shape.name, "s64", shape.shape, True, 2.0**31)
    front = m.node("Slice", [shape, *_ends(m, 0, 1)])
    rest = m.node("ReduceProd", [Value(m.node("Slice", [shape, *_ends(m, 1, x.rank)]), "s64", ())])
    joined = m.node("Concat", [Value(front, "s64", ()), Value(rest, "s64", ())], axis=0)
    flat = (x.shape[0], int(np.prod(x.shape[1:], dtype=np.int64)))
    if 0 in flat:  # a size of 0 would be copied from the operand
        return None
    return _moved(m, m.node("Reshape", [x, Value(joined, "s64", (2,))]), x, flat)


def _ends(m: Maker, start: int, end: int) -> list[Value]:
    return [m.constant(np.array([v], np.int64)) for v in (start, end)]


FAMILY = (transpose, reshape, slices, concat, squeeze, unsqueeze, split, expand, tile, pad, gather,
          gather_elements, scatter, depth, trilu, sizes)  # fmt: skip
