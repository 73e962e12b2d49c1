"""Pointwise kernels: which operators are steps of scalar programs, and the kernel of a program.

In: operators; a `Body` with views of its operands and outputs. Out: whether code generation has the
step; a `Pointwise` spec in canonical form, so that as many programs as possible share one object.

Canonical form: dimensions of size 1 are dropped, the rest are in the order in which the first
output lies in memory, and neighbours that every view walks through as one are one. The size of the
first dimension is left out (0): its indices are the work items, so the code serves all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from rewrite.ops import registry
from rewrite.plan.spec import Body, Pointwise
from rewrite.plan.view import BYTES, View
from rewrite.schema import DTYPE_OF

MICROSOFT = "com.microsoft"

# Steps without a scalar body in rewrite/ops; rewrite/codegen/body.py writes each of them.
STEPS: frozenset[tuple[str, str]] = frozenset(
    {
        ("", "BitCast"),
        ("", "Cast"),
        ("", "CastLike"),
        ("", "DequantizeLinear"),
        ("", "Identity"),
        ("", "QuantizeLinear"),
        ("", "Where"),
        (MICROSOFT, "DequantizeLinear"),
        (MICROSOFT, "QuantizeLinear"),
    }
)

# Element types that are not computed with. Complex numbers can be moved.
_REFUSED = frozenset({"string", "c64", "c128"})
_MOVES = frozenset({"Identity", "Where"})

# Work that is worth handing to a thread, in elements times steps.
_GRAIN = 16_384


def is_pointwise(
    domain: str, name: str, attributes: Mapping[str, Any], dtypes: Sequence[str | None] = ()
) -> bool:
    """Whether the operator can be a step of a scalar program. `dtypes`: of its operands.

    Operands of QuantizeLinear and DequantizeLinear are per tensor or along an axis, not in blocks.
    """
    if not _has_code(domain, name):
        return False
    if attributes.get("block_size") or not _known_type(attributes, "to", "output_dtype"):
        return False
    refused = frozenset({"string"}) if name in _MOVES else _REFUSED
    return not refused.intersection(d for d in dtypes if d is not None)


def is_blocked(
    domain: str, name: str, attributes: Mapping[str, Any], dtypes: Sequence[str | None] = ()
) -> bool:
    """Whether it is one but for a scale per block, which has to be repeated for each element."""
    whole = {k: v for k, v in attributes.items() if k != "block_size"}
    return bool(attributes.get("block_size")) and is_pointwise(domain, name, whole, dtypes)


def _has_code(domain: str, name: str) -> bool:
    if (domain, name) in STEPS:
        return True
    definition = registry.find(domain, name)
    return definition is not None and definition.kind == "elementwise" and callable(definition.body)


def _known_type(attributes: Mapping[str, Any], *names: str) -> bool:
    """Whether the element types that attributes name are ones to convert to."""
    given = [attributes.get(name) for name in names]
    return not any(
        isinstance(g, int) and g and DTYPE_OF.get(g, "string") in _REFUSED for g in given
    )


def pointwise(
    shape: Sequence[int], operands: Sequence[View], outputs: Sequence[View], body: Body
) -> tuple[Pointwise, int, int]:
    """The kernel, its work items, and how many of them are worth handing to a thread.

    Words of the kernel: operands, then outputs, in the order given. No size is 0.
    """
    body = _without_identities(body)
    if not body.steps and len({BYTES[dtype] for dtype in body.dtypes}) == 1:
        return _moved(tuple(shape), operands, outputs, body)
    return _canonical(shape, operands, outputs, body)


def _canonical(
    shape: Sequence[int], operands: Sequence[View], outputs: Sequence[View], body: Body
) -> tuple[Pointwise, int, int]:
    views = [*operands, *outputs]
    sizes, strides = _merged(tuple(shape), [v.strides for v in views], len(operands))
    sizes, strides = _divided(sizes, strides, len(body.steps))
    items = sizes[0]
    sizes = (0, *sizes[1:])
    made = [View(v.dtype, sizes, s) for v, s in zip(views, strides, strict=True)]
    spec = Pointwise(sizes, tuple(made[: len(operands)]), tuple(made[len(operands) :]), body)
    return spec, items, _grain(spec, strides)


def _grain(spec: Pointwise, strides: Sequence[Strides]) -> int:
    """Ranges of items begin where vectors do, and tiles of operands that lie across."""
    inner = prod(spec.shape[1:])
    enough = max(1, _GRAIN // (inner * (1 + len(spec.body.steps))))
    across = any(v[0] == 1 and v[-1] not in (0, 1) for v in strides)
    step = 64 if len(spec.shape) == 1 else 16 if across or inner < 64 else 1
    return -(-enough // step) * step


# --- moves -------------------------------------------------------------------------------------

_MOVED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def _without_identities(body: Body) -> Body:
    """A program that only hands on its operands has no steps."""
    if any((s.domain, s.name) != ("", "Identity") for s in body.steps):
        return body
    count = len(body.dtypes)
    values: list[int] = list(range(count))
    for step in body.steps:
        (source,) = step.args
        if not isinstance(source, int):
            return body
        values.append(values[source])
    return Body(body.dtypes, (), tuple(values[r] for r in body.results))


def _moved(
    shape: tuple[int, ...], operands: Sequence[View], outputs: Sequence[View], body: Body
) -> tuple[Pointwise, int, int]:
    """Elements that are only moved are bits: one kernel for all types of a width."""
    width = BYTES[body.dtypes[0]]
    given, taken = list(operands), list(outputs)
    if width == 16:  # two words each
        shape = (*shape, 2)
        given, taken = [_halved(v) for v in given], [_halved(v) for v in taken]
    name = _MOVED[min(width, 8)]
    return _canonical(
        shape,
        [replace(v, dtype=name) for v in given],
        [replace(v, dtype=name) for v in taken],
        replace(body, dtypes=(name,) * len(body.dtypes)),
    )


def _halved(view: View) -> View:
    return View(view.dtype, (*view.shape, 2), (*(2 * s for s in view.strides), 1))


# --- dimensions --------------------------------------------------------------------------------

Strides = tuple[int, ...]


def _merged(
    shape: tuple[int, ...], views: Sequence[Strides], first_output: int
) -> tuple[tuple[int, ...], list[Strides]]:
    """Sizes and the strides of every view in canonical form."""
    order = _order(shape, views, first_output)
    if not order:  # one element: like one of any number of neighbours
        return (1,), [(1,) for _ in views]
    dims = [(shape[a], [v[a] for v in views]) for a in order]
    joined = [dims[0]]
    for size, steps in dims[1:]:
        outer_size, outer = joined[-1]
        if all(o == s * size for o, s in zip(outer, steps, strict=True)):
            joined[-1] = (outer_size * size, steps)
        else:
            joined.append((size, steps))
    sizes = tuple(size for size, _ in joined)
    return sizes, [tuple(steps[k] for _, steps in joined) for k in range(len(views))]


_FEW = 16  # work items that threads cannot be given evenly
_SHORTEST = 128  # elements of a part of a dimension


def _divided(
    sizes: tuple[int, ...], strides: list[Strides], steps: int
) -> tuple[tuple[int, ...], list[Strides]]:
    """A part of the longest dimension as work items, where the first dimension gives too few."""
    if len(sizes) == 1 or sizes[0] >= _FEW or prod(sizes) * (1 + steps) < 4 * _GRAIN:
        return sizes, strides
    axis = max(range(1, len(sizes)), key=lambda a: (sizes[a], a))
    most = min(8 * _FEW, sizes[axis] // _SHORTEST)
    parts = [k for k in range(_FEW, most + 1) if sizes[axis] % k == 0]
    if not parts:
        return sizes, strides
    # Whole vectors, if there is such a part; the fewest items.
    count = min(parts, key=lambda k: (sizes[axis] // k % _FEW != 0, k))
    length = sizes[axis] // count
    divided = (count, *sizes[:axis], length, *sizes[axis + 1 :])
    return divided, [(v[axis] * length, *v) for v in strides]


def _order(shape: tuple[int, ...], views: Sequence[Strides], first_output: int) -> list[int]:
    """Dimensions larger than 1 from the widest stride of the outputs to the narrowest; where an
    output does not tell (it never does not, unless it is broadcast), the operands do."""
    told = [*views[first_output:], *views[:first_output]]
    axes = [a for a in range(len(shape)) if shape[a] != 1]
    return sorted(axes, key=lambda a: ([-abs(v[a]) for v in told], a))
