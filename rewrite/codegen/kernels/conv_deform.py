"""Samples of an image at displaced positions.

In: `DeformSample`. Out: a kernel; vectors of channels, four corners each.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Function
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv_deform import DeformSample
from rewrite.plan.view import BYTES


@emits(DeformSample)
def deform_sample(k: Kernel, spec: DeformSample) -> None:
    _Samples(k, spec).emit()


@dataclass(frozen=True, slots=True)
class _Neighbour:
    index: Value
    there: Value
    weight: Value


@dataclass(frozen=True, slots=True)
class _Coordinate:
    """A position on an axis: whether any neighbour is there, and the two that there may be."""

    inside: Value
    neighbours: tuple[_Neighbour, _Neighbour]


class _Samples:
    def __init__(self, k: Kernel, spec: DeformSample) -> None:
        self.k = k
        self.f: Function = k.f
        self.spec = spec
        self.x, self.offsets, self.mask, self.out = (k.pointer(i) for i in range(4))
        self.n = {i: k.integer(i) for i in range(4, 18)}
        self.float = register_type(spec.total, 0)

    def emit(self) -> None:
        f, n = self.f, self.n
        pixels = n[7] * n[8]
        taps = n[11] * n[12]

        def item(index: Value) -> None:
            image = f.binary("udiv", index, pixels)
            pixel = index - image * pixels
            row = f.binary("udiv", pixel, n[8])
            column = pixel - row * n[8]
            x = f.at(self.x, image * n[4] * n[5] * n[6] * BYTES[self.spec.x])
            out = f.at(self.out, index * taps * n[6] * BYTES[self.spec.total])

            def tap(t: Value) -> None:
                i = f.binary("udiv", t, n[12])
                y = row * n[9] + i * n[13] - n[15]
                left = column * n[10] + (t - i * n[12]) * n[14] - n[16]
                to = f.at(out, t * n[6] * BYTES[self.spec.total])

                def group(g: Value) -> None:
                    place = ((image * n[17] + g) * taps + t) * pixels
                    self.group(x, to, g, y, left, place * 2 + pixel, place + pixel, pixels)

                f.loop(0, n[17], group)

            f.loop(0, taps, tap)

        f.loop(self.k.begin, self.k.end, item)

    def group(
        self, x: Value, out: Value, group: Value, y: Value, left: Value, at: Value, mask: Value,
        pixels: Value,
    ) -> None:  # fmt: skip
        """The channels of one group of offsets, at one tap."""
        f, n, spec = self.f, self.n, self.spec
        size = BYTES[spec.x]
        down = self.coordinate(y, self.read(self.offsets, at), n[4])
        right = self.coordinate(left, self.read(self.offsets, at + pixels), n[5])
        inside = f.binary("and", down.inside, right.inside)
        scale = self.read(self.mask, mask) if spec.masked else f.const(1.0, self.float)
        corners = []
        for above in down.neighbours:
            for beside in right.neighbours:
                valid = f.binary("and", inside, f.binary("and", above.there, beside.there))
                pixel = f.select(valid, above.index * n[5] + beside.index, f.i64(0))
                weight = above.weight * beside.weight
                corners.append((valid, f.at(x, pixel * n[6] * size), weight))
        width = f.binary("udiv", n[6], n[17])
        first = group * width
        lanes = self.k.isa.lanes(spec.total)
        whole = f.binary("and", width, -lanes)

        def some(c: Value, count: int) -> None:
            wide = register_type(spec.total, count)
            zero, total = f.zero(wide), f.zero(wide)
            for valid, pointer, weight in corners:
                value = load(f, self.k.isa, spec.x, f.at(pointer, (first + c) * size), count)
                found = f.select(valid, value, zero)
                total = f.add(total, f.mul(found, f.splat(weight, wide)))
            total = f.mul(total, f.splat(scale, wide))
            to = f.at(out, (first + c) * BYTES[spec.total])
            store(f, self.k.isa, spec.total, total, to, count)

        f.loop(0, whole, lambda c: some(c, lanes), step=lanes)
        f.loop(whole, width, lambda c: some(c, 0))

    def read(self, pointer: Value, index: Value) -> Value:
        return load(self.f, self.k.isa, self.spec.x,
                    self.f.at(pointer, index * BYTES[self.spec.x]), 0)  # fmt: skip

    def coordinate(self, base: Value, offset: Value, size: Value) -> _Coordinate:
        """Of one axis; nothing is there for NaN."""
        f = self.f
        at = f.add(f.cast("sitofp", base, self.float), offset)
        inside = f.binary(
            "and", f.compare(">", at, -1.0),
            f.compare("<", at, f.cast("sitofp", size, self.float)),
        )  # fmt: skip
        safe = f.select(inside, at, f.const(0.0, self.float))
        floor = f.intrinsic("llvm.floor", self.float, safe)
        low = f.cast("fptosi", floor, "i64")
        part = f.sub(safe, floor)
        high = low + 1
        one = f.const(1.0, self.float)
        return _Coordinate(
            inside,
            (_Neighbour(low, f.compare("<", low, size, signed=False), f.sub(one, part)),
             _Neighbour(high, f.compare("<", high, size, signed=False), part)),
        )  # fmt: skip
