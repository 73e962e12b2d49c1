"""The kernel of `Rotate`. In: the spec. Out: code, vectors of pairs at a time."""

from __future__ import annotations

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import load, memory_type, store
from rewrite.codegen.moving import guarded
from rewrite.codegen.value import Value
from rewrite.plan.specs.rotate import BEHIND, EACH, FIRST, GIVEN, INTEGERS, Rotate
from rewrite.plan.view import BYTES


@emits(Rotate)
def rotate(k: Kernel, spec: Rotate) -> None:
    _Rotate(k, spec).write()


class _Rotate:
    def __init__(self, k: Kernel, spec: Rotate) -> None:
        self.k, self.f, self.isa, self.spec = k, k.f, k.isa, spec
        names = ["x", *(["cos", "sin"] if spec.pairs else []),
                 *(["ids"] if spec.positions != GIVEN else []), "out"]  # fmt: skip
        self.at = {name: k.pointer(i) for i, name in enumerate(names)}
        self.w = {name: k.integer(len(names) + i) for i, name in enumerate(INTEGERS)}
        self.lanes = k.isa.lanes("f64" if spec.dtype == "f64" else "f32")
        self.item = BYTES[spec.dtype]

    def write(self) -> None:
        f, w = self.f, self.w

        def row(index: Value) -> None:
            b = f.binary("udiv", index, w["rows"])
            i = f.sub(index, f.mul(b, w["rows"]))
            position = self.position(b, i, index)
            guarded(self.k, self.allowed(position), lambda: self.all_heads(b, i, position))

        f.loop(self.k.begin, self.k.end, row)

    def position(self, b: Value, i: Value, index: Value) -> Value:
        f, w, spec = self.f, self.w, self.spec
        if spec.positions == GIVEN:
            return index
        place = {EACH: index, FIRST: f.i64(0), BEHIND: b}[spec.positions]
        kind = memory_type(spec.ids)
        given = f.cast("sext", f.load(kind, f.at(self.at["ids"], place, kind)), "i64")
        if spec.positions == EACH:
            return given
        found: Value = f.add(given, i)
        if spec.positions == BEHIND:
            found = f.add(found, f.sub(w["extra"], w["rows"]))
        return found

    def allowed(self, position: Value) -> Value:
        """Whether there is such a row of the tables and of the output."""
        f, w = self.f, self.w
        limits = [w["angles"]] * bool(self.spec.pairs) + [w["places"]] * self.spec.append
        found = f.const(True, "i1")
        for limit in limits:
            inside = f.compare("<", position, limit, signed=False)
            found = f.binary("and", found, inside)
        return found

    def all_heads(self, b: Value, i: Value, position: Value) -> None:
        f, w = self.f, self.w
        target_row = position if self.spec.append else i
        source = f.add(f.mul(b, w["x_b"]), f.mul(i, w["x_i"]))
        target = f.add(f.mul(b, w["o_b"]), f.mul(target_row, w["o_i"]))
        angles = f.mul(position, self.spec.pairs * self.item)

        def head(h: Value) -> None:
            x = f.at(self.at["x"], f.mul(f.add(source, f.mul(h, w["x_h"])), self.item))
            y = f.at(self.at["out"], f.mul(f.add(target, f.mul(h, w["o_h"])), self.item))
            self.one_row(x, y, angles)

        f.loop(0, w["heads"], head)

    def one_row(self, x: Value, y: Value, angles: Value) -> None:
        spec, lanes = self.spec, self.lanes
        whole = spec.pairs - spec.pairs % lanes
        turn = self.neighbours if spec.interleaved else self.halves
        self.f.loop(0, whole, lambda j: turn(x, y, angles, j, lanes), step=lanes)
        for j in range(whole, spec.pairs):
            turn(x, y, angles, j, 0)
        start, rest = 2 * spec.pairs, spec.head - 2 * spec.pairs
        vectors = rest - rest % lanes
        self.f.loop(0, vectors, lambda j: self.copy(x, y, self.f.add(j, start), lanes), step=lanes)
        for j in range(start + vectors, spec.head):
            self.copy(x, y, j, 0)

    def load(self, base: Value, j: Value | int, lanes: int) -> Value:
        f = self.f
        return load(f, self.isa, self.spec.dtype, f.at(base, f.mul(j, self.item)), lanes)

    def store(self, x: Value, base: Value, j: Value | int, lanes: int) -> None:
        f = self.f
        store(f, self.isa, self.spec.dtype, x, f.at(base, f.mul(j, self.item)), lanes)

    def copy(self, x: Value, y: Value, j: Value | int, lanes: int) -> None:
        self.store(self.load(x, j, lanes), y, j, lanes)

    def turned(
        self, u: Value, v: Value, angles: Value, j: Value | int, lanes: int
    ) -> tuple[Value, Value]:
        f = self.f
        c, s = (self.load(f.at(self.at[name], angles), j, lanes) for name in ("cos", "sin"))
        return f.sub(f.mul(c, u), f.mul(s, v)), f.add(f.mul(s, u), f.mul(c, v))

    def halves(self, x: Value, y: Value, angles: Value, j: Value | int, lanes: int) -> None:
        """Pairs whose elements lie `pairs` apart."""
        behind = self.f.add(j, self.spec.pairs)
        u, v = self.turned(self.load(x, j, lanes), self.load(x, behind, lanes), angles, j, lanes)
        self.store(u, y, j, lanes)
        self.store(v, y, behind, lanes)

    def neighbours(self, x: Value, y: Value, angles: Value, j: Value | int, lanes: int) -> None:
        """Pairs of neighbours."""
        f = self.f
        first = f.mul(j, 2)
        second = f.add(first, max(lanes, 1))
        u, v = self.load(x, first, lanes), self.load(x, second, lanes)
        if lanes:
            u, v = (f.shuffle(u, v, range(odd, 2 * lanes, 2)) for odd in (0, 1))
        u, v = self.turned(u, v, angles, j, lanes)
        if lanes:
            order = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
            u, v = f.shuffle(u, v, order[:lanes]), f.shuffle(u, v, order[lanes:])
        self.store(u, y, first, lanes)
        self.store(v, y, second, lanes)
