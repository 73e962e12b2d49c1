"""Non-maximum suppression: the best boxes that do not overlap.

In: specs of rewrite/plan/specs/select.py. Out: code. Scores and areas are float32, as in ONNX. A
candidate is held against a vector of the boxes taken before at once; what stands behind the last of
them overlaps nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.select import Counter
from rewrite.codegen.kernels.select_sort import sort_indices
from rewrite.codegen.moving import nest
from rewrite.codegen.types import like
from rewrite.codegen.value import Value
from rewrite.plan.specs.select import NonMaxSuppression

_NOWHERE = (float("inf"), float("-inf"), float("inf"), float("-inf"), 0.0)


@dataclass(frozen=True, slots=True)
class Box:
    """Edges along both directions, and the area; scalars or vectors."""

    low1: Value
    high1: Value
    low2: Value
    high2: Value
    area: Value

    @property
    def parts(self) -> tuple[Value, ...]:
        return self.low1, self.high1, self.low2, self.high2, self.area


@emits(NonMaxSuppression)
def non_max_suppression(k: Kernel, spec: NonMaxSuppression) -> None:
    f = k.f
    made = _Suppression(k, spec)

    def one(batch: Int, class_: Int, scores: Int, boxes: Int) -> None:
        made.one_class(batch, class_, scores, boxes)

    n = made.n
    steps = [[1, 0], [0, 1], [f.mul(made.classes, n), n], [f.mul(n, 4), 0]]
    nest(f, [made.batches, made.classes], steps, one)
    f.store(made.written.value(), made.count)


class _Suppression:
    """The operands. The work area holds two orders of candidates, then the parts of taken boxes,
    one array each."""

    def __init__(self, k: Kernel, spec: NonMaxSuppression) -> None:
        f = k.f
        self.k, self.f, self.spec = k, f, spec
        self.boxes, self.scores, most, overlap, least, self.work, self.result, self.count = (
            k.pointer(i) for i in range(8)
        )
        self.batches, self.classes, self.n = (k.integer(i) for i in range(8, 11))
        self.most, self.overlap = f.load("i64", most), f.load("float", overlap)
        self.least = f.load("float", least) if spec.filtered else None
        self.spare = f.at(self.work, self.n, "i64")
        self.lanes = k.isa.lanes("f32")
        self.vector = f"<{self.lanes} x float>"
        taken = f.at(self.work, f.mul(self.n, 2), "i64")
        room = f.add(self.n, self.lanes)
        self.taken = [f.at(taken, f.mul(room, part), "float") for part in range(5)]
        self.written = Counter(f)

    def one_class(self, batch: Int, class_: Int, scores: Int, boxes: Int) -> None:
        f = self.f

        number = self.candidates(scores)
        order = sort_indices(
            f, self.work, self.spare, number, lambda a, b: f.compare("<", a, b, signed=False)
        )
        base = f.at(self.boxes, boxes, "float")

        def consider(t: Value, taken: Value) -> list[Value]:
            here = f.binary("and", f.load("i64", f.at(order, t, "i64")), (1 << 32) - 1)

            def judge() -> list[Value]:
                box = self.box(base, here)

                def take() -> list[Value]:
                    self.keep(box, taken)
                    row = f.at(self.result, f.mul(self.written.next(), 3), "i64")
                    for place, value in enumerate((batch, class_, here)):
                        f.store(f.i64(value), f.at(row, place, "i64"))
                    return [f.add(taken, 1)]

                return f.if_(self.clear(box, taken), take, lambda: [taken], 1)

            return f.if_(f.compare("<", taken, self.most), judge, lambda: [taken], 1)

        f.loop(0, number, consider, [f.i64(0)])

    def candidates(self, scores: Int) -> Value:
        """Boxes whose score is above the threshold, as numbers in whose order they are tried; each
        is written, and the next one over it if it does not count."""
        f = self.f

        def one(i: Value, found: Value) -> Value:
            score = f.load("float", f.at(self.scores, f.add(scores, i), "float"))
            f.store(self.key(score, i), f.at(self.work, found, "i64"))
            if self.least is None:
                return f.binary("add", found, 1)
            above = f.compare(">", score, self.least)
            return f.binary("add", found, f.cast("zext", above, "i64"))

        return f.loop(0, self.n, one, [f.i64(0)])[0]

    def key(self, score: Value, box: Value) -> Value:
        """Falling scores rise, and of equal ones (0 and -0 are) the first box comes first."""
        f = self.f
        bits = f.bitcast(f.add(score, 0.0), "i32")
        sign = f.binary("ashr", bits, 31)
        falling = f.binary("xor", bits, f.binary("and", f.binary("xor", sign, -1), (1 << 31) - 1))
        high = f.binary("shl", f.cast("zext", falling, "i64"), 32)
        return f.binary("or", high, box)

    # --- boxes -------------------------------------------------------------------------------

    def box(self, boxes: Value, number: Value) -> Box:
        f = self.f
        base = f.at(boxes, f.mul(number, 4), "float")
        p, q, r, s = (f.load("float", f.at(base, i, "float")) for i in range(4))
        if self.spec.centered:
            wide, high = f.mul(r, 0.5), f.mul(s, 0.5)
            edges = (f.sub(p, wide), f.add(p, wide), f.sub(q, high), f.add(q, high))
        else:
            edges = (*self.ordered(q, s), *self.ordered(p, r))
        low1, high1, low2, high2 = edges
        return Box(*edges, f.mul(f.sub(high1, low1), f.sub(high2, low2)))

    def ordered(self, a: Value, b: Value) -> tuple[Value, Value]:
        swap = self.f.compare(">=", a, b)
        return self.f.select(swap, b, a), self.f.select(swap, a, b)

    def keep(self, box: Box, number: Value) -> None:
        """A box is taken; with the first of a vector the others are cleared."""
        f = self.f
        within = f.binary("and", number, self.lanes - 1)

        def clear() -> None:
            for area, nothing in zip(self.taken, _NOWHERE, strict=True):
                f.store(f.const(nothing, self.vector), f.at(area, number, "float"))

        f.if_(f.compare("==", within, 0), clear)
        for area, part in zip(self.taken, box.parts, strict=True):
            f.store(part, f.at(area, number, "float"))

    def clear(self, box: Box, taken: Value) -> Value:
        """Whether a box overlaps none of those taken."""
        f, lanes = self.f, self.lanes
        mine = Box(*(f.splat(part, self.vector) for part in box.parts))
        limit = f.splat(self.overlap, self.vector)

        def compare() -> list[Value]:
            def turn(t: Value, _: Value) -> list[Value]:
                others = Box(*(f.load(self.vector, f.at(a, t, "float")) for a in self.taken))
                hits = f.bitcast(self.overlaps(mine, others, limit), f"i{lanes}")
                fine = f.compare("==", hits, 0)
                following = f.add(t, lanes)
                goes_on = f.binary("and", fine, f.compare("<", following, taken))
                return [goes_on, following, fine]

            return f.while_(turn, [f.i64(0), f.const(True, "i1")])[1:]

        return f.if_(f.compare(">", taken, 0), compare, lambda: [f.const(True, "i1")], 1)[0]

    def overlaps(self, one: Box, two: Box, limit: Value) -> Value:
        """Intersection over union above the limit; boxes without area overlap nothing."""
        f = self.f

        def side(low1: Value, high1: Value, low2: Value, high2: Value) -> tuple[Value, Value]:
            low = f.select(f.compare(">", low2, low1), low2, low1)
            high = f.select(f.compare("<", high2, high1), high2, high1)
            return f.compare(">", high, low), f.sub(high, low)

        meets1, length1 = side(one.low1, one.high1, two.low1, two.high1)
        meets2, length2 = side(one.low2, one.high2, two.low2, two.high2)
        common = f.mul(length1, length2)
        union = f.sub(f.add(one.area, two.area), common)
        found = f.compare(">", f.binary("fdiv", common, union), limit)
        zero = f.zero(like(common.type, "float"))
        for positive in (common, one.area, two.area, union):
            found = f.binary("and", found, f.compare(">", positive, zero))
        return f.binary("and", f.binary("and", found, meets1), meets2)
