"""Convolutions of bytes with zero points, exact in 32 bits.

In: operands of an instance and which of them are which. Out: kernels whose sums are those of
(x - zx) (w - zw), modulo 2^32, in type s32.

Known weights have their zero points taken off when the plan is made. Where they then fit s8, x is
read as bytes: the sums are those of x w - zx (sum of w), whose second term is part of the bias, and
the border is zx. Else, and where zx comes with the run, x - zx is made first, in s16 or s32, with a
border of 0. Winograd's algorithm reads bytes too, and takes weights of 9 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite.plan.conv_after import (
    Finish,
    First,
    added_behind,
    chained,
    finish_of,
    without_detour,
)
from rewrite.plan.conv_dense import Dense, Products, call_conv, columns_for
from rewrite.plan.conv_depthwise import call_depthwise, filled, packed_filters, repeated, width_of
from rewrite.plan.conv_packing import Panels, moved_rows, packed_array, padded_bias
from rewrite.plan.conv_source import Conversion, source_of
from rewrite.plan.conv_steps import Program
from rewrite.plan.conv_window import Frame, windows_of
from rewrite.plan.conv_winograd import Filtering, Operands, call_winograd
from rewrite.plan.conv_winograd_choice import Layer, chosen
from rewrite.plan.conv_winograd_weights import is_exact, transformed
from rewrite.plan.instance import Array
from rewrite.plan.lowering import Lowering, channels_last
from rewrite.plan.machine import Machine, has_dot_product
from rewrite.plan.spec import Body
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import View
from rewrite.quant.accumulator import pair_sums

_SIGN = {"u8": 128, "s8": -128}  # types of bytes, and what turns one into the other
_EXACT = 1 << 24  # integers up to here are exact in float32, and so are their sums


@dataclass(frozen=True, slots=True)
class Places:
    """The numbers of the operands; `bias` -1: none."""

    x: int
    w: int
    x_zero: int
    w_zero: int
    bias: int = -1


@dataclass(frozen=True, slots=True)
class Scheme:
    """How products are made: `x` and `w` are the types that the kernel reads."""

    form: str
    x: str
    w: str
    step: int

    @property
    def takes_bytes(self) -> bool:
        """Whether x is multiplied with its zero point in it."""
        return self.x in _SIGN


@dataclass(frozen=True, slots=True)
class _Given:
    """One operator: what `call_integers` is given, weights without zero points if known, the zero
    point of x if known, and what is added behind the operator and made part of its bias."""

    places: Places
    frame: Frame
    x: Tensor
    out: Tensor
    first: First | None
    known: Array | None
    zero: int | None
    behind: Array | None

    def finish(self, low: Lowering, total: str, first: First | None) -> Finish:
        return finish_of(low, total, first, 0 if self.behind is None else 1)


def call_integers(
    low: Lowering,
    places: Places,
    frame: Frame,
    x: Tensor,
    out: Tensor,
    first: First | None = None,
) -> None:
    """`x` and `out` are (N, C, …); `first` makes the operator's elements of sums in s32."""
    known, zero = _weights(low, places), _number(low, places.x_zero)
    behind = added_behind(low) if first is None and places.bias < 0 else None
    given = _Given(places, frame, x, out, first, known, zero, behind)
    width = width_of(low, low.op, frame, places.w, "f32")
    if known is not None and width and _few(low, given, known):
        _depthwise(low, given, known, width)
        return
    groups, depth = low.op.integer("group", 1), low.op.shape(places.w)[1]
    scheme = scheme_of(low.machine, known, zero, groups, depth)
    how = _filtering(low, given, scheme)
    if how is None:
        _dense(low, given, scheme)
    else:
        _filtered(low, given, how)


def _dense(low: Lowering, given: _Given, scheme: Scheme) -> None:
    """Windows times panels."""
    places, frame = given.places, given.frame
    groups, depth = low.op.integer("group", 1), low.op.shape(places.w)[1]
    channels = low.op.shape(places.w)[0] // groups
    padded = -(-depth // scheme.step) * scheme.step
    row = frame.kernel[2] if groups == 1 and frame.dilations[2] == 1 else 1
    run = padded * row // scheme.step
    columns = columns_for(low.machine, "s32", groups, channels, run)
    panels = Panels(groups, channels, columns, scheme.step, padded)
    conversion, x = _conversion(low, given, scheme)
    source = source_of(low, x, frame, conversion, scheme.step if groups == 1 else 1)
    call_conv(low, Dense(
        Products(scheme.form, scheme.x, scheme.w, "s32"), source,
        windows_of(frame, source.sizes, source.channels, groups), panels,
        _packed(low, given, scheme, panels), _bias(low, given, scheme, panels),
        given.finish(low, "s32", given.first), given.out,
    ))  # fmt: skip


# --- fewer multiplications --------------------------------------------------------------------


def _filtering(low: Lowering, given: _Given, scheme: Scheme) -> Filtering | None:
    """By Winograd's algorithm where it pays and is exact."""
    known, frame = given.known, given.frame
    if known is None or given.zero is None:
        return None
    channels, depth = known.shape[:2]
    layer = Layer(
        frame, low.op.integer("group", 1), given.x.shape[0], depth, channels, scheme.w,
        scheme.form, scheme.step,
    )  # fmt: skip
    for edges in ((2, 4), (2,)):
        how = chosen(low.machine, layer, edges)
        if how is None or is_exact(how.edge, known, given.x.dtype):
            return how
    return None


def _filtered(low: Lowering, given: _Given, how: Filtering) -> None:
    known, zero, x = given.known, given.zero, given.x
    assert known is not None
    assert zero is not None
    panels = how.panels
    packed = low.weights.packed(
        known, ("winograd", how), lambda w: transformed(panels, how.edge, w)
    )
    scheme = Scheme(how.form, x.dtype, how.element, panels.step)
    operands = Operands(
        low.ordered(x, channels_last(len(x.shape))), zero, low.constant(packed),
        _bias(low, given, scheme, panels),
    )  # fmt: skip
    finish = given.finish(low, "s32", given.first)
    call_winograd(low, how, given.frame, operands, finish, given.out)


# --- which instruction ------------------------------------------------------------------------


def scheme_of(
    machine: Machine, known: Array | None, zero: int | None, groups: int, depth: int
) -> Scheme:
    """`known`: weights without zero points."""
    plain = Scheme("plain", "s32", "s32", 1)
    if known is None:
        return plain
    narrow = known.size == 0 or (known.min() >= -128 and known.max() <= 127)
    if zero is not None and narrow and (groups == 1 or depth % 4 == 0):
        form = _bytes_form(machine, known)
        if form is not None:
            return Scheme(form, "s8" if form == "arm_dot" else "u8", "s8", 4)
    return Scheme("words", "s16", "s16", 2) if groups == 1 or depth % 2 == 0 else plain


def _bytes_form(machine: Machine, known: Array) -> str | None:
    if machine.arch == "aarch64":
        return "arm_dot" if machine.has("dotprod") else None
    if machine.arch != "x86_64":
        return None
    if has_dot_product(machine):
        return "dot"
    return "pairs16" if _never_saturates(known) else None


def _never_saturates(known: Array) -> bool:
    """Whether no pair of products of u8 by these weights can leave 16 bits."""
    m, c = known.shape[:2]
    rows = known.reshape(m, c, -1).transpose(0, 2, 1)
    padded = np.zeros((*rows.shape[:2], -(-c // 4) * 4), np.int64)
    padded[:, :, :c] = rows
    return bool(pair_sums(padded.reshape(m, -1), 0, 255).safe.all())


# --- operands ---------------------------------------------------------------------------------


def _number(low: Lowering, index: int) -> int | None:
    """A zero point that is known; an absent one is 0."""
    if not low.op.has(index):
        return 0
    known = low.known(index)
    return None if known is None or known.size != 1 else int(known.reshape(-1)[0])


def _weights(low: Lowering, places: Places) -> Array | None:
    """Weights without their zero points, if both are known."""
    if not low.is_known(places.w):
        return None
    zero = low.known(places.w_zero) if low.op.has(places.w_zero) else np.zeros((), np.int64)
    if zero is None:
        return None
    numbers = tuple(zero.reshape(-1).tolist())

    def without(w: Array) -> Array:
        z = np.array(numbers, np.int64)
        shape = () if z.size == 1 else (-1, *[1] * (w.ndim - 1))
        return np.asarray(w.astype(np.int16) - z.reshape(shape).astype(np.int16))

    w = low.known(places.w)
    assert w is not None
    return low.weights.packed(w, ("no zero point", numbers), without)


def _conversion(low: Lowering, given: _Given, scheme: Scheme) -> tuple[Conversion, Tensor]:
    """How x becomes what the kernel reads, and x as that starts from it."""
    x, zero = given.x, given.zero
    if scheme.takes_bytes:
        assert zero is not None
        if x.dtype == scheme.x:
            return Conversion(x.dtype, fill=zero), x
        program = Program(scheme.x)
        program.step("BitwiseXor", scheme.x, 0, program.number(scheme.x, _SIGN[scheme.x]))
        return Conversion(scheme.x, program.body(1), (), zero ^ 0x80), x.retyped(scheme.x)
    return Conversion(scheme.x, *_difference(low, given.places.x_zero, x.dtype, scheme.x)), x


def _difference(low: Lowering, index: int, dtype: str, to: str) -> tuple[Body, tuple[Tensor, ...]]:
    """Element minus zero point in a wider type: the program and its operands."""
    zero = _number(low, index)
    if zero is not None:
        program = Program(dtype)
        wide = program.cast(0, to)
        last = program.step("Sub", to, wide, program.number(to, zero)) if zero else wide
        return program.body(last), ()
    program = Program(dtype, dtype)
    a, b = program.cast(0, to), program.cast(1, to)
    return program.body(program.step("Sub", to, a, b)), (low.view(index),)


def _packed(low: Lowering, given: _Given, scheme: Scheme, panels: Panels) -> Tensor:
    known, places = given.known, given.places
    kinds = {"s8": np.int8, "s16": np.int16, "s32": np.int32}
    if known is not None:

        def pack(w: Array) -> Array:
            flat = w.reshape(*w.shape[:2], -1).astype(kinds[scheme.w])
            return packed_array(panels, flat)

        return low.constant(low.weights.packed(known, ("conv", panels, scheme), pack))
    source = low.view(places.w)
    view = source.view
    inner = [*zip(view.shape[2:], view.strides[2:], strict=True), (view.shape[1], view.strides[1])]
    target = low.new("s32", (panels.groups, panels.count, *(n for n, _ in inner), panels.columns))
    body, zeros = _difference_of_weights(low, places)
    moved_rows(low, panels, source, inner, target, body, zeros)
    return target


def _difference_of_weights(low: Lowering, places: Places) -> tuple[Body, list[Tensor]]:
    dtype = low.op.dtype(places.w)
    body, zeros = _difference(low, places.w_zero, dtype, "s32")
    if not zeros and low.op.has(places.w_zero) and _number(low, places.w_zero) is None:
        zeros = (low.view(places.w_zero),)
    # Along the filters, or one for all.
    found = []
    for zero in zeros:
        stride = zero.view.strides[-1] if zero.view.size > 1 else 0
        found.append(zero.like(View(zero.dtype, (max(1, zero.view.size),), (stride,))))
    return body, found


def _bias(low: Lowering, given: _Given, scheme: Scheme, panels: Panels) -> Tensor:
    """The bias of the operator, less what the zero point of x adds, in s32 modulo 2^32."""
    places, known, zero = given.places, given.known, given.zero
    count = panels.groups * panels.channels
    bias = None if places.bias < 0 or not low.op.has(places.bias) else low.known(places.bias)
    if places.bias >= 0 and low.op.has(places.bias) and bias is None:
        target = low.new("s32", (panels.groups, panels.count, panels.columns))
        assert not scheme.takes_bytes, "a bias that comes with the run is no part of it"
        moved_rows(low, panels, low.view(places.bias), [], target)
        return target
    bias = given.behind if bias is None else bias
    start = np.zeros(count, np.int64) if bias is None else bias.astype(np.int64).reshape(-1)
    if scheme.takes_bytes and known is not None:
        fixed = zero or 0
        if scheme.x != low.op.dtype(places.x):
            fixed += 128 if scheme.x == "u8" else -128
        start = start - fixed * known.reshape(count, -1).sum(1, dtype=np.int64)
    wrapped = (start & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return low.constant(padded_bias(panels, wrapped))


# --- depthwise --------------------------------------------------------------------------------


def _few(low: Lowering, given: _Given, known: Array) -> bool:
    """Whether all sums are exact in float32."""
    most = int(np.abs(known.astype(np.int64)).reshape(known.shape[0], -1).sum(1).max(initial=0))
    bias = given.behind
    if given.places.bias >= 0 and low.op.has(given.places.bias):
        bias = low.known(given.places.bias)
        if bias is None:
            return False
    added = 0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
    return 255 * most + added < _EXACT


def _depthwise(low: Lowering, given: _Given, known: Array, width: int) -> None:
    """In float32, which is exact here."""
    places, x, m = given.places, given.x, known.shape[0]
    zero = _number(low, places.x_zero)
    w = low.constant(low.weights.packed(known, "depthwise", lambda a: packed_filters(a, "f32")))
    bias = np.zeros(m, np.float64) if given.behind is None else given.behind.astype(np.float64)
    if places.bias >= 0 and low.op.has(places.bias):
        found = low.known(places.bias)
        assert found is not None
        bias = found.astype(np.float64).reshape(-1)
    if zero is None:
        body, zeros = _difference(low, places.x_zero, x.dtype, "f32")
        made = low.new("f32", x.shape, channels_last(len(x.shape)))
        low.pointwise(body, [x, *(z.broadcast(x.shape) for z in _scalars(zeros))], [made])
        x, border = made, low.constant(filled("float32", 0))
    else:
        border = low.constant(filled("uint8" if x.dtype == "u8" else "int8", zero))
    x = repeated(low, x, m // x.shape[1])
    finish = without_detour(given.finish(low, "f32", _of_floats(given.first)))
    call_depthwise(
        low, given.frame, x, w, low.constant(bias.astype(np.float32)), finish, given.out, "f32",
        border, width, zero != 0,
    )  # fmt: skip


def _of_floats(first: First | None) -> First:
    """The same from sums that are integers in float32."""
    if first is not None and first.codes:
        return first
    program = Program("f32")
    whole = program.body(program.cast(0, "s32"))
    if first is None or first.body is None:
        return First(whole)
    return First(chained(whole, first.body), first.operands)


def _scalars(zeros: tuple[Tensor, ...]) -> list[Tensor]:
    found = []
    for zero in zeros:
        scalar = zero.reshaped(())
        assert scalar is not None
        found.append(scalar)
    return found
