"""Lookup tables: any pointwise function between DequantizeLinear and QuantizeLinear.

In: a function of values, the parameters around it. Out: the code of the result for every code of
the operand, so the table is the function, exactly, by construction.

Tables are per tensor or one per channel. 16-bit tables can be thinned out to every 2^n-th entry
with linear interpolation in integers; the error is measured over all codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rewrite.quant.affine import dequantize, dequantize_exact, quantize, quantize_exact
from rewrite.quant.codes import Array, CodeType, Ints, every_code
from rewrite.quant.faults import QuantError
from rewrite.quant.params import QuantParams
from rewrite.quant.requantize import half_up


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """`entries[..., code - source.low]` is the result, in the storage type of `target`.

    With an `axis`, entries has shape [channels, codes].
    """

    source: CodeType
    target: CodeType
    entries: Array
    axis: int | None = None

    def apply(self, codes: Array) -> Array:
        """The results for codes of the source type."""
        at = codes.astype(np.int64) - self.source.low
        if self.axis is None:
            return np.asarray(self.entries[at])
        sizes = [1] * codes.ndim
        sizes[self.axis] = len(self.entries)
        return np.asarray(self.entries[np.arange(len(self.entries)).reshape(sizes), at])

    def by_bits(self) -> Array:
        """Entries in the order of the bits read as unsigned, which hardware indexes by."""
        half = self.source.low  # 0, or minus half of the codes
        return np.roll(self.entries, half, -1)

    @property
    def monotone(self) -> bool:
        steps = np.diff(self.entries.astype(np.int64), axis=-1)
        return bool((steps >= 0).all() or (steps <= 0).all())

    @property
    def identity(self) -> bool:
        return self.source == self.target and bool(
            (self.entries.astype(np.int64) == np.arange(self.source.low, self.source.high + 1))
            .all()
        )  # fmt: skip


def build(
    function: Callable[[Array], Array],
    source: QuantParams,
    target: QuantParams,
    exact: bool = False,
) -> Table:
    """Q(function(DQ(code))) for every code; per-axis parameters make one table per channel.

    `function` gets the dequantized values (float32, or the scale's type) and returns values; by
    default DQ and Q are those of ONNX in floats. `exact`: float64 values without error go in,
    and the quotient of what comes out is rounded exactly.
    """
    code = source.code
    if code.kind != "int" or code.bits > 16:
        raise QuantError(f"table over codes of type {code.name}")
    axis = _common_axis(source, target)
    count = 1 if axis is None else max(source.scale.size, target.scale.size)
    grid = np.broadcast_to(every_code(code), (count, code.count))
    x, y = _rows(source), _rows(target)
    if exact:
        codes = quantize_exact(function(dequantize_exact(grid, x)), y)
    else:
        codes = quantize(function(dequantize(grid, x)), y)
    return Table(code, target.code, codes[0] if axis is None else codes, axis)


def _common_axis(source: QuantParams, target: QuantParams) -> int | None:
    if source.block is not None or target.block is not None:
        raise QuantError("blocked parameters")
    axes = {p.axis for p in (source, target)} - {None}
    if len(axes) > 1:
        raise QuantError("source and target are quantized on different axes")
    return axes.pop() if axes else None


def _rows(params: QuantParams) -> QuantParams:
    """The parameters for a tensor [channels, codes]."""
    if params.axis is None:
        return params
    return QuantParams(params.code, params.scale.reshape(-1), params.zero_point.reshape(-1), 0)


def compose(first: Table, second: Table) -> Table:
    """The table of second(first(code))."""
    if first.target != second.source:
        raise QuantError(f"{second.source.name} table behind {first.target.name} codes")
    if first.axis is not None and second.axis is not None and first.axis != second.axis:
        raise QuantError("tables over different axes")
    axis = first.axis if first.axis is not None else second.axis
    inner = first.entries.astype(np.int64) - second.source.low
    if second.axis is None:
        entries = second.entries[inner]
    elif first.axis is None:
        entries = second.entries[:, inner]
    else:
        entries = np.take_along_axis(second.entries, inner, 1)
    return Table(first.source, second.target, entries, axis)


@dataclass(frozen=True, slots=True, eq=False)
class Interpolated:
    """Every 2^step_bits-th entry of a 16-bit table, one more at the end, lines between.

    result = p[i] + floor(((p[i+1] - p[i]) r + 2^(step_bits-1)) / 2^step_bits), where i and r are
    the high and the low bits of code - source.low.
    """

    source: CodeType
    target: CodeType
    step_bits: int
    points: Ints
    max_lsb: int  # against the full table, over all codes
    witness: int | None  # a code with that difference

    def apply(self, codes: Array) -> Array:
        at = codes.astype(np.int64) - self.source.low
        i, r = at >> self.step_bits, at & ((1 << self.step_bits) - 1)
        line = half_up((self.points[i + 1] - self.points[i]) * r, self.step_bits)
        return np.asarray((self.points[i] + line).astype(self.target.dtype))


def interpolate(table: Table, step_bits: int = 7) -> Interpolated:
    """Thin out a table without an axis; 7 bits leave 513 points of a 16-bit table."""
    if table.axis is not None:
        raise QuantError("interpolation of tables per channel")
    if not 0 < step_bits < table.source.bits:
        raise QuantError(f"interpolation over {step_bits} bits")
    full = table.entries.astype(np.int64)
    step = 1 << step_bits
    # The last point lies behind the last code: on the line through the last interval's ends.
    rise = full[-1] - full[-step]
    last = np.clip(full[-1] + round(rise / (step - 1)), table.target.low, table.target.high)
    points = np.append(full[::step], last)
    thin = Interpolated(table.source, table.target, step_bits, points, 0, None)
    codes = every_code(table.source)
    difference = np.abs(thin.apply(codes).astype(np.int64) - full)
    worst = int(difference.argmax())
    most = int(difference[worst])
    where = int(codes[worst]) if most else None
    return Interpolated(table.source, table.target, step_bits, points, most, where)
