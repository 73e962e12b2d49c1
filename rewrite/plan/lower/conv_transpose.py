"""Transposed convolutions as convolutions, one for each phase of the output.

In: ConvTranspose. Out: calls of the kernel `Conv`.

With stride s, dilation d and border p, element i of the operand meets element t of the kernel at

    o = i s + t d - p

Outputs o = s q + r of one phase r are met by those t for which s divides r + p - t d, with
i = q + e(t), e(t) = (r + p - t d) / s: a convolution of stride 1 with a part of the kernel, whose
outputs lie s apart. Every output belongs to one phase, so nothing is added up in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from rewrite.ops.window import read_window
from rewrite.plan.conv_after import Finish, finish_of
from rewrite.plan.conv_dense import Dense, Products, call_conv, columns_for
from rewrite.plan.conv_packing import Panels, bias, moved_rows, packed_array, widened
from rewrite.plan.conv_source import Conversion, Source, source_of
from rewrite.plan.conv_window import Frame, Three, Windows, narrow, three
from rewrite.plan.instance import Array, Instance
from rewrite.plan.lower.conv import FLOATS, empty_refusal
from rewrite.plan.lowering import Lowering, channels_last, lowers, refuses
from rewrite.plan.spec import Body
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import View

_NUMPY = {"f32": "float32", "f64": "float64"}


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of one axis: outputs first, first + stride, … (`count` of them), and elements of
    the kernel by the element of the operand, counted from that of output 0, that they meet."""

    first: int
    count: int
    meets: tuple[tuple[int, int], ...]  # (e, t), e ascending


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    before: int

    def phases(self) -> list[Phase]:
        found = []
        for first in range(min(self.stride, self.out)):
            meets = []
            for t in range(self.kernel):
                e, rest = divmod(first + self.before - t * self.dilation, self.stride)
                if rest == 0:
                    meets.append((e, t))
            count = -(-(self.out - first) // self.stride)
            found.append(Phase(first, count, tuple(sorted(meets))))
        return found

    def reach(self) -> tuple[int, int]:
        """The first and the last element of the operand that any output would meet."""
        low, high = 0, self.size - 1
        for phase in self.phases():
            if phase.meets:
                low = min(low, phase.meets[0][0])
                high = max(high, phase.count - 1 + phase.meets[-1][0])
        return low, high


@refuses("ConvTranspose")
def conv_transpose_refusal(op: Instance) -> str | None:
    if op.dtype(0) not in FLOATS:
        return f"a convolution of {op.dtype(0)}"
    if not 3 <= len(op.shape(0)) <= 5:
        return f"a window over {len(op.shape(0)) - 2} dimensions"
    return empty_refusal(op, 1)


@lowers("ConvTranspose", epilogue=True)
def conv_transpose(low: Lowering, op: Instance) -> None:
    dtype = op.dtype(0)
    total = FLOATS[dtype]
    groups = op.integer("group", 1)
    channels, depth = op.shape(1)[1], op.shape(0)[1] // groups
    axes = axes_of(op)
    finish = finish_of(low, total)
    joined = _joined(op, axes, finish, channels)
    if joined > 1:
        finish = _repeated(low, finish, channels, joined)
        channels *= joined
    panels = Panels(groups, channels, columns_for(low.machine, total, groups, channels, depth))
    out = low.output(0, channels_last(len(op.shape(0))))
    low_ends = [a.reach()[0] for a in axes]
    sizes = three([a.reach()[1] - b + 1 for a, b in zip(axes, low_ends, strict=True)], 1)
    source = _bordered(low, axes, sizes, three([-b for b in low_ends], 0), dtype, total)
    filters = _filters(low, panels, total)
    base = bias(low, 2, panels, total, joined)
    *outer, last = [a.phases() for a in axes]
    # Phases of the last axis that are computed at once.
    sets = [tuple(last)] if joined > 1 else [(p,) for p in last]
    if joined > 1:
        axes = [*axes[:-1], replace(axes[-1], out=axes[-1].out // joined, stride=1)]
    for others in product(*outer):
        for together in sets:
            phases = (*others, together[0])
            windows = _windows(axes, phases, source, low_ends, source.channels // groups)
            taps = [
                [tuple(t for _, t in at) for at in product(*(p.meets for p in (*others, one)))]
                for one in together
            ]
            call_conv(low, Dense(
                Products("plain", total, total, total), source, windows, panels,
                filters.of(taps), base, finish, out,
            ))  # fmt: skip


def _joined(op: Instance, axes: list[Axis], finish: Finish, channels: int) -> int:
    """How many phases of the last axis are computed as channels of one pixel, which lie side by
    side in the output: all of them, if they meet the same elements of the operand; or 1."""
    last = axes[-1]
    known = op.is_known(1) and (not op.has(2) or op.is_known(2))
    if op.integer("group", 1) != 1 or not known or last.stride == 1 or last.out % last.stride:
        return 1
    met = {tuple(e for e, _ in phase.meets) for phase in last.phases()}
    fits = all(
        o.pixel == channels and (o.along.channels or channels == 1) if o.along.pixels else
        o.image == 0
        for o in finish.operands
    )  # fmt: skip
    return last.stride if len(met) == 1 and fits else 1


def _repeated(low: Lowering, finish: Finish, channels: int, times: int) -> Finish:
    """The epilogue of `times` as many channels."""
    found = []
    for o in finish.operands:
        if o.along.pixels:
            along = replace(o.along, channels=True)
            found.append(replace(o, along=along, pixel=o.pixel * times))
        elif o.along.channels:
            view = View(o.tensor.dtype, (times, channels), (0, 1))
            made = low.new(o.tensor.dtype, view.shape)
            low.copy(o.tensor.like(view), made)
            found.append(replace(o, tensor=made))
        else:
            found.append(o)
    after = replace(finish.after, operands=tuple(o.along for o in found))
    return Finish(after, tuple(found))


def axes_of(op: Instance) -> list[Axis]:
    """Kernel, strides and borders of each spatial axis; borders follow from the output's shape
    where that is given."""
    kernel, spatial, out = op.shape(1)[2:], op.shape(0)[2:], op.out_shape(0)[2:]
    window = read_window(op, kernel)
    extra = op.integers("output_padding") or (0,) * len(kernel)
    follows = op.integers("output_shape") is not None or window.auto_pad.startswith("SAME")
    found = []
    for i, size in enumerate(spatial):
        before = window.pads[i]
        if follows:
            spread = (size - 1) * window.strides[i] + window.reach(i) + extra[i]
            both = max(0, spread - out[i])
            before = both // 2 if window.auto_pad == "SAME_UPPER" else both - both // 2
        found.append(Axis(size, out[i], kernel[i], window.strides[i], window.dilations[i], before))
    return found


def _bordered(
    low: Lowering, axes: list[Axis], sizes: Three, before: Three, dtype: str, total: str
) -> Source:
    ones = three((), 1)
    frame = Frame(three([a.size for a in axes], 1), ones, ones, ones, before, three((), 0), sizes)
    return source_of(low, low.view(0), frame, Conversion(total, widened(dtype, total)))


def _windows(
    axes: list[Axis], phases: tuple[Phase, ...], source: Source, low_ends: list[int], depth: int
) -> Windows:
    """One phase: where its windows start, its taps, and where its outputs lie."""
    steps = source.steps[3 - len(axes) :]
    starts, places = np.zeros((), np.int64), np.zeros((), np.int64)
    for axis, phase, step, end in zip(axes, phases, steps, low_ends, strict=True):
        q = np.arange(phase.count, dtype=np.int64)
        starts = starts[..., None] + (q - end) * step
        places = places[..., None] * axis.out + phase.first + q * axis.stride
    offsets = [
        sum(e * step for (e, _), step in zip(at, steps, strict=True))
        for at in product(*(p.meets for p in phases))
    ]
    whole = all(a.stride == 1 for a in axes)
    return Windows(
        narrow(starts), narrow(np.array(offsets, np.int64)), depth,
        None if whole else narrow(places),
    )  # fmt: skip


def _filters(low: Lowering, panels: Panels, total: str) -> _Filters:
    op = low.op
    if low.is_known(1):
        return _Filters(low, panels, total, None)
    source = low.view(1)
    c, m, *kernel = op.shape(1)
    groups = panels.groups
    strides = source.view.strides
    plain = low.new(total, (groups * m, c // groups, *kernel))
    shape = (groups, m, c // groups, *kernel)
    given = View(
        source.dtype, shape,
        (c // groups * strides[0], strides[1], strides[0], *strides[2:]),
    )  # fmt: skip
    target = plain.reshaped(shape)
    assert target is not None
    body = widened(source.dtype, total) or Body((source.dtype,), (), (0,))
    low.pointwise(body, [source.like(given)], [target])
    return _Filters(low, panels, total, plain)


@dataclass(frozen=True, slots=True)
class _Filters:
    """Weights (C, M / groups, kernel…), of which each phase takes some elements of the kernel.
    `plain`: as (M, C / groups, kernel…), where they come with the run."""

    low: Lowering
    panels: Panels
    total: str
    plain: Tensor | None

    def of(self, sets: list[list[tuple[int, ...]]]) -> Tensor:
        """The taps of one phase; of several, whose channels follow each other."""
        if self.plain is None:
            key = ("transposed", self.panels, self.total, tuple(tuple(taps) for taps in sets))
            return self.low.packed(1, key, lambda w: self._packed(w, sets))
        (taps,) = sets
        depth = self.plain.shape[1]
        g, count, columns = self.panels.groups, self.panels.count, self.panels.columns
        target = self.low.new(self.total, (g, count, max(1, len(taps)), depth, columns))
        strides = self.plain.view.strides
        for number, at in enumerate(taps):
            skipped = sum(t * s for t, s in zip(at, strides[2:], strict=True))
            part = Tensor(self.plain.buffer, self.plain.view, self.plain.offset + skipped)
            here = target.sliced((0, 0, number, 0, 0), (g, count, 1, depth, columns))
            moved_rows(self.low, self.panels, part, [(1, 0), (depth, strides[1])], here)
        return target

    def _packed(self, w: Array, sets: list[list[tuple[int, ...]]]) -> Array:
        groups = self.panels.groups
        c, m = w.shape[:2]
        order = w.reshape(groups, c // groups, m, prod(w.shape[2:])).transpose(0, 2, 1, 3)
        flat = order.reshape(groups * m, c // groups, -1)
        parts = []
        for taps in sets:
            numbers = [int(np.ravel_multi_index(t, w.shape[2:])) for t in taps]
            nothing = np.zeros((*flat.shape[:2], 1), w.dtype)
            parts.append(flat[:, :, numbers] if numbers else nothing)
        return packed_array(self.panels, np.concatenate(parts).astype(_NUMPY[self.total]))
