"""From sums to elements of the output.

In: `Gemm`. Out: a function of one tile: it takes sums from scratch through the epilogue to where
they belong. The epilogue stands in it once, for whole vectors: what is left of a row at its end is
copied from and to a place where a whole vector may be read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewrite.codegen.body import emit_body
from rewrite.codegen.ir import Function
from rewrite.codegen.kernel import Kernel
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.types import lanes as lanes_of
from rewrite.codegen.value import Value
from rewrite.plan.specs.gemm import Gemm
from rewrite.plan.view import BYTES

# Up to so many steps, the vectors of a whole row stand side by side.
_FEW_STEPS = 4


class Finish:
    """`name(cells, rows, count, out, out_row, scalars, x0, x0_row, ...)`: `count` columns; strides
    in bytes. The result is the number of a fault, or 0."""

    def __init__(self, k: Kernel, spec: Gemm) -> None:
        self.k, self.spec, self.isa = k, spec, k.isa
        self.trivial = spec.body is None and spec.out == spec.total
        self.faults: list[int] = []
        self.lanes = k.isa.lanes(spec.total)
        self.name = f"{k.f.name}_finish"
        self.dtypes = [spec.total, spec.out, *(o.dtype for o in spec.operands)]
        self.strides = [1, 1, *(o.stride for o in spec.operands)]
        names = [f"x{i}" for i in range(len(spec.operands))]
        parameters = [("ptr", "cells"), ("i64", "rows"), ("i64", "count"), ("ptr", "out"),
                      ("i64", "out_row"), ("ptr", "scalars")]  # fmt: skip
        for name in names:
            parameters += [("ptr", name), ("i64", f"{name}_row")]
        self.f: Function = k.module.function(self.name, parameters, "i64", internal=True)
        self._status: Value | None = None
        # Behind the registers that they are kept in, the rows are a loop.
        self.scalars = [
            load(self.f, k.isa, dtype, self.f.at(self.f.arg("scalars"), 8 * i), self.lanes, 0)
            for i, dtype in enumerate(spec.scalars)
        ]
        self._write([self.f.arg(n) for n in ("cells", "out", *names)],
                    [self.f.arg(n) for n in ("out_row", *(f"{n}_row" for n in names))])  # fmt: skip

    def call(self, f: Function, *arguments: Value) -> None:
        status = f.call(self.name, "i64", *arguments)
        for code in self.faults:
            self.k.fault(code, f.compare("==", status, code))

    def _write(self, pointers: list[Value], strides: list[Value]) -> None:
        f, spec = self.f, self.spec
        steps = [spec.columns * BYTES[spec.total], *strides]
        count = f.arg("count")
        side_by_side = len(spec.body.steps if spec.body is not None else ()) <= _FEW_STEPS
        staged = [f.slot(f"i{8 * BYTES[d]}", count=self.lanes) for d in self.dtypes]

        def row(_: Value, *at: Value) -> list[Value]:
            if side_by_side:
                whole = f.mul(f.divide(count, spec.columns), spec.columns)
                f.loop(0, whole, lambda c: self._vectors(at, c), step=spec.columns)
                f.loop(whole, count, lambda c: self._vector(at, c, staged), step=self.lanes)
            else:
                f.loop(0, count, lambda c: self._vector(at, c, staged), step=self.lanes)
            return [f.at(p, s) for p, s in zip(at, steps, strict=True)]

        f.loop(0, f.arg("rows"), row, pointers)
        if self._status is None:
            f.ret(0)
        else:
            f.initialize(self._status, "i64", 0)
            f.ret(f.load("i64", self._status, 8))

    def _vectors(self, at: Sequence[Value], column: Value) -> None:
        """A whole panel's row."""
        results = []
        for v in range(self.spec.columns // self.lanes):
            places = self._places(at, column + v * self.lanes)
            results.append((self._result(places, None), places[1]))
        for result, place in results:
            store(self.f, self.isa, self.spec.out, result, place, self.lanes)

    def _vector(self, at: Sequence[Value], column: Value, staged: Sequence[Value]) -> None:
        """One vector, or what is left of one."""
        f = self.f
        places = self._places(at, column)
        left = f.arg("count") - column
        short = f.compare("<", left, self.lanes)

        def stage(copied: Callable[[int], tuple[Value, Value]], which: Sequence[int]) -> None:
            def one(c: Value) -> None:
                for i in which:
                    source, target = copied(i)
                    type_ = f"i{8 * BYTES[self.dtypes[i]]}"
                    f.store(f.load(type_, f.at(source, c, type_)), f.at(target, c, type_))

            f.loop(0, left, one)

        # The sums' row is padded; an operand without a stride is one element.
        moving = [i for i in range(2, len(places)) if self.strides[i]]
        if moving:
            f.if_(short, lambda: stage(lambda i: (places[i], staged[i]), moving))
        used = [
            f.select(short, staged[i], p) if i == 1 or i in moving else p
            for i, p in enumerate(places)
        ]
        store(f, self.isa, self.spec.out, self._result(used, left), used[1], self.lanes)
        f.if_(short, lambda: stage(lambda i: (staged[i], places[i]), [1]))

    def _places(self, at: Sequence[Value], column: Value) -> list[Value]:
        found = []
        for pointer, dtype, stride in zip(at, self.dtypes, self.strides, strict=True):
            found.append(self.f.at(pointer, column * BYTES[dtype]) if stride else pointer)
        return found

    def _result(self, places: Sequence[Value], left: Value | None) -> Value:
        f, spec, isa = self.f, self.spec, self.isa
        values = [load(f, isa, spec.total, places[0], self.lanes)]
        for dtype, place, stride in zip(self.dtypes[2:], places[2:], self.strides[2:], strict=True):
            values.append(load(f, isa, dtype, place, self.lanes, stride))
        values += self.scalars
        if spec.body is None:
            return values[0]

        def fault(code: int, when: Value) -> None:
            self._fault(code, when, left)

        found = emit_body(f, isa, spec.body, values, fault)[0]
        return f.splat(found, register_type(spec.out, self.lanes))

    def _fault(self, code: int, when: Value, left: Value | None) -> None:
        """Noted if it happened in a lane that is an element."""
        f = self.f
        if self._status is None:
            self._status = f.slot("i64")
        if code not in self.faults:
            self.faults.append(code)
        if lanes_of(when.type):
            if left is not None:
                numbers = f.iota(f"<{self.lanes} x i64>")
                when = f.binary("and", when, f.compare("<", numbers, f.splat(left, numbers.type)))
            when = f.call(f"llvm.vector.reduce.or.v{self.lanes}i1", "i1", when)
        before = f.load("i64", self._status, 8)
        f.store(f.select(when, f.const(code, "i64"), before), self._status)
