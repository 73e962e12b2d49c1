"""Non-maximum suppression: the best boxes that do not overlap.

In: specs of rewrite/plan/specs/select.py. Out: code. Scores and areas are float32, as in ONNX.
"""

from __future__ import annotations

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.select import Counter
from rewrite.codegen.kernels.select_sort import sort_indices
from rewrite.codegen.moving import nest
from rewrite.codegen.value import Value
from rewrite.plan.specs.select import NonMaxSuppression

Edges = tuple[tuple[Value, Value], tuple[Value, Value]]


@emits(NonMaxSuppression)
def non_max_suppression(k: Kernel, spec: NonMaxSuppression) -> None:
    f = k.f
    boxes, scores, most_at, overlap_at, least_at, work, result, count = (
        k.pointer(i) for i in range(8)
    )
    batches, classes, n = (k.integer(i) for i in range(8, 11))
    most, overlap = f.load("i64", most_at), f.load("float", overlap_at)
    least = f.load("float", least_at) if spec.filtered else None
    spare = f.at(work, n, "i64")
    written = Counter(f)
    candidates = Counter(f)

    def one(batch: Int, class_: Int, score_base: Int, box_base: Int) -> None:
        def score(i: Int) -> Value:
            return f.load("float", f.at(scores, f.add(score_base, i), "float"))

        def collect(i: Value) -> None:
            def keep() -> None:
                f.store(i, f.at(work, candidates.next(), "i64"))

            if least is None:
                keep()
            else:
                f.if_(f.compare(">", score(i), least), keep)

        candidates.reset()
        f.loop(0, n, collect)
        number = candidates.value()
        order = sort_indices(
            f, work, spare, number, lambda a, b: f.compare(">", score(a), score(b))
        )
        start = written.value()
        box_at = f.at(boxes, box_base, "float")

        def consider(t: Value) -> None:
            here = f.load("i64", f.at(order, t, "i64"))
            taken = written.value()

            def judge() -> None:
                clear = _clear(k, spec, box_at, here, (result, start, taken), overlap)

                def take() -> None:
                    row = f.at(result, f.mul(written.next(), 3), "i64")
                    for place, value in enumerate((batch, class_, here)):
                        f.store(f.i64(value), f.at(row, place, "i64"))

                f.if_(clear, take)

            f.if_(f.compare("<", f.sub(taken, start), most), judge)

        f.loop(0, number, consider)

    steps = [[1, 0], [0, 1], [f.mul(classes, n), n], [f.mul(n, 4), 0]]
    nest(f, [batches, classes], steps, one)
    f.store(written.value(), count)


def _clear(
    k: Kernel,
    spec: NonMaxSuppression,
    boxes: Value,
    here: Value,
    taken: tuple[Value, Value, Value],
    overlap: Value,
) -> Value:
    """Whether a box overlaps none of those that were taken for its class."""
    f = k.f
    result, start, end = taken
    mine = _edges(k, spec, boxes, here)

    def compare() -> list[Value]:
        def turn(t: Value, _: Value) -> list[Value]:
            other = f.load("i64", f.at(result, f.add(f.mul(t, 3), 2), "i64"))
            hit = _overlaps(k, mine, _edges(k, spec, boxes, other), overlap)
            following = f.add(t, 1)
            fine = f.binary("xor", hit, True)
            goes_on = f.binary("and", fine, f.compare("<", following, end))
            return [goes_on, following, fine]

        return f.while_(turn, [start, f.const(True, "i1")])[1:]

    none = f.compare("<", start, end)
    return f.if_(none, compare, lambda: [f.const(True, "i1")], 1)[0]


def _edges(k: Kernel, spec: NonMaxSuppression, boxes: Value, box: Value) -> Edges:
    """(low, high) in both directions."""
    f = k.f
    base = f.at(boxes, f.mul(box, 4), "float")
    p, q, r, s = (f.load("float", f.at(base, i, "float")) for i in range(4))
    if spec.centered:
        wide, high = f.mul(r, 0.5), f.mul(s, 0.5)
        return (f.sub(p, wide), f.add(p, wide)), (f.sub(q, high), f.add(q, high))

    def ordered(a: Value, b: Value) -> tuple[Value, Value]:
        swap = f.compare(">=", a, b)
        return f.select(swap, b, a), f.select(swap, a, b)

    return ordered(q, s), ordered(p, r)


def _overlaps(k: Kernel, one: Edges, two: Edges, limit: Value) -> Value:
    """Intersection over union above the limit; boxes without area overlap nothing."""
    f = k.f
    sides = []
    for (low1, high1), (low2, high2) in zip(one, two, strict=True):
        low = f.select(f.compare(">", low2, low1), low2, low1)
        high = f.select(f.compare("<", high2, high1), high2, high1)
        sides.append((f.compare(">", high, low), f.sub(high, low)))
    common = f.mul(sides[0][1], sides[1][1])
    area1, area2 = (f.mul(f.sub(x[1], x[0]), f.sub(y[1], y[0])) for x, y in (one, two))
    union = f.sub(f.add(area1, area2), common)
    found = f.compare(">", f.binary("fdiv", common, union), limit)
    for positive in (common, area1, area2, union):
        found = f.binary("and", found, f.compare(">", positive, 0.0))
    for meets, _ in sides:
        found = f.binary("and", found, meets)
    return found
