"""Straight-line instructions of LLVM, written one by one.

In: values, Python numbers. Out: values, and lines of text in the current block. See
rewrite/codegen/ir.py, whose `Function` adds blocks and loops to what is here.

Reference: https://llvm.org/docs/LangRef.html (LLVM 22).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from rewrite.codegen.types import bits, element, is_float, lanes, like, literal, suffix, vector
from rewrite.codegen.value import Value

if TYPE_CHECKING:
    from rewrite.codegen.ir import Function, Module

# A value, or a Python integer where it is known while code is written.
Int = Any


class Instructions:
    """A function's lines under construction."""

    def __init__(self, module: Module, parameters: Sequence[tuple[str, str]]) -> None:
        self.module = module
        self._lines: list[str] = []
        self._slots: list[str] = []
        self._count = 0
        self._arguments = {n: Value(self._function, t, f"%{n}") for t, n in parameters}

    @property
    def _function(self) -> Function:
        """Values belong to functions; nothing else is made of this class."""
        return cast("Function", self)

    # --- values ------------------------------------------------------------------------------

    def arg(self, name: str) -> Value:
        return self._arguments[name]

    def const(self, number: float | int | bool, type_: str) -> Value:
        return Value(self._function, type_, literal(number, type_))

    def zero(self, type_: str) -> Value:
        return Value(
            self._function,
            type_,
            "null" if type_ == "ptr" else "zeroinitializer" if lanes(type_) else literal(0, type_),
        )

    def undef(self, type_: str) -> Value:
        return Value(self._function, type_, "poison")

    def global_(self, name: str) -> Value:
        """The address that `Module.table` gave."""
        return Value(self._function, "ptr", name)

    def value(self, x: Any, type_: str) -> Value:
        """A Python number as a constant of the type; a value as it is."""
        return x if isinstance(x, Value) else self.const(x, type_)

    def i64(self, x: Any) -> Value:
        return self.value(x, "i64")

    def op(self, text: str, type_: str) -> Value:
        """One instruction; `text` is what stands right of the equals sign."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return Value(self._function, type_, name)

    def do(self, text: str) -> None:
        """One instruction without a result."""
        self._lines.append("  " + text)

    def _pair(self, x: Any, y: Any) -> tuple[Value, Value]:
        if isinstance(x, Value):
            return x, self.value(y, x.type)
        assert isinstance(y, Value), "two Python numbers are added by Python"
        return self.const(x, y.type), y

    # --- arithmetic --------------------------------------------------------------------------

    def add(self, x: Any, y: Any) -> Any:
        if is_number(x) and is_number(y):
            return x + y
        if is_exactly(y, 0) and not is_float(x.type):
            return x
        if is_exactly(x, 0) and not is_float(y.type):
            return y
        return self._arithmetic("add", "fadd", x, y)

    def sub(self, x: Any, y: Any) -> Any:
        if is_number(x) and is_number(y):
            return x - y
        if is_exactly(y, 0) and not is_float(x.type):
            return x
        return self._arithmetic("sub", "fsub", x, y)

    def mul(self, x: Any, y: Any) -> Any:
        if is_number(x) and is_number(y):
            return x * y
        for a, b in ((x, y), (y, x)):
            if is_exactly(a, 1):
                return b
            if is_exactly(a, 0) and not is_float(b.type):
                return 0 if b.type == "i64" else self.zero(b.type)
        return self._arithmetic("mul", "fmul", x, y)

    def _arithmetic(self, integer: str, floating: str, x: Any, y: Any) -> Value:
        a, b = self._pair(x, y)
        name = floating if is_float(a.type) else integer
        return self.op(f"{name} {a.type} {a.text}, {b.text}", a.type)

    def binary(self, name: str, x: Any, y: Any) -> Value:
        """Any two-operand instruction by its name: `fdiv`, `udiv`, `ashr`, `and`, …"""
        a, b = self._pair(x, y)
        return self.op(f"{name} {a.type} {a.text}, {b.text}", a.type)

    def divide(self, x: Any, y: int) -> Any:
        """An index by a known positive size, rounded down; for values not below 0."""
        if is_number(x):
            return x // y
        return x if y == 1 else self.binary("udiv", x, y)

    def remainder(self, x: Any, y: int) -> Any:
        if is_number(x):
            return x % y
        return 0 if y == 1 else self.binary("urem", x, y)

    def neg(self, x: Value) -> Value:
        if is_float(x.type):
            return self.op(f"fneg {x.type} {x.text}", x.type)
        return self.binary("sub", self.zero(x.type), x)

    def fma(self, x: Any, y: Any, z: Any) -> Value:
        """x y + z, rounded once."""
        type_ = next(v.type for v in (x, y, z) if isinstance(v, Value))
        return self.intrinsic("llvm.fma", type_, x, y, z)

    def compare(
        self, sign: str, x: Any, y: Any, signed: bool = True, ordered: bool = True
    ) -> Value:
        """`<  <= > >= == !=`; of floats, false where one is NaN (`!=` true) if `ordered`."""
        a, b = self._pair(x, y)
        if is_float(a.type):
            kind = "fcmp " + _FLOAT_COMPARE[sign][0 if ordered else 1]
        elif sign in ("==", "!="):
            kind = "icmp " + ("eq" if sign == "==" else "ne")
        else:
            prefix = "s" if signed and a.type != "ptr" else "u"
            kind = "icmp " + prefix + _INT_COMPARE[sign]
        return self.op(f"{kind} {a.type} {a.text}, {b.text}", like(a.type, "i1"))

    def select(self, condition: Value, x: Any, y: Any) -> Value:
        a, b = self._pair(x, y)
        # An i1 chooses between whole vectors, a vector of i1 lane by lane.
        return self.op(
            f"select {condition.type} {condition.text}, {a.type} {a.text}, {b.type} {b.text}",
            a.type,
        )

    def cast(self, name: str, x: Value, type_: str) -> Value:
        """`sext zext trunc fpext fptrunc sitofp uitofp fptosi bitcast inttoptr …`"""
        if x.type == type_:
            return x
        return self.op(f"{name} {x.type} {x.text} to {type_}", type_)

    def bitcast(self, x: Value, type_: str) -> Value:
        return self.cast("bitcast", x, type_)

    def call(self, name: str, returns: str, *arguments: Value, attributes: str = "") -> Value:
        """A call of a function by its name, declared where it is not of this module."""
        self.module.declare(name, returns, [a.type for a in arguments], attributes)
        passed = ", ".join(f"{a.type} {a.text}" for a in arguments)
        if returns == "void":
            self.do(f"call void @{name}({passed})")
            return Value(self._function, "void", "")
        return self.op(f"call {returns} @{name}({passed})", returns)

    def intrinsic(self, name: str, type_: str, *arguments: Any) -> Value:
        """An overloaded intrinsic all of whose operands have the type of its result."""
        values = [self.value(a, type_) for a in arguments]
        return self.call(f"{name}.{suffix(type_)}", type_, *values)

    # --- vectors -----------------------------------------------------------------------------

    def splat(self, x: Any, type_: str) -> Value:
        """A scalar in every lane of the vector type (the scalar itself where that is a scalar)."""
        if not isinstance(x, Value):
            return self.const(x, type_)
        if not lanes(type_) or lanes(x.type):
            return x
        first = self.op(f"insertelement {type_} poison, {x.type} {x.text}, i64 0", type_)
        mask = f"<{lanes(type_)} x i32> zeroinitializer"
        return self.op(f"shufflevector {type_} {first.text}, {type_} poison, {mask}", type_)

    def extract(self, x: Value, lane: Int) -> Value:
        index = self.i64(lane)
        return self.op(f"extractelement {x.type} {x.text}, i64 {index.text}", element(x.type))

    def insert(self, x: Value, scalar: Value, lane: Int) -> Value:
        index = self.i64(lane)
        text = f"insertelement {x.type} {x.text}, {scalar.type} {scalar.text}, i64 {index.text}"
        return self.op(text, x.type)

    def shuffle(self, x: Value, y: Value | None, order: Sequence[int]) -> Value:
        """Lanes of x and y chosen by number; -1: any."""
        mask = ", ".join(f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in order)
        other = "poison" if y is None else y.text
        text = f"shufflevector {x.type} {x.text}, {x.type} {other}, <{len(order)} x i32> <{mask}>"
        return self.op(text, vector(element(x.type), len(order)))

    def iota(self, type_: str) -> Value:
        """0, 1, 2, … in the lanes."""
        name = element(type_)
        return Value(
            self._function,
            type_,
            "<" + ", ".join(f"{name} {literal(i, name)}" for i in range(lanes(type_))) + ">",
        )

    def reduce(self, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """The lanes combined pairwise, halves first, into a scalar."""
        count = lanes(x.type)
        if not count:
            return x
        while count > 1:
            half = count // 2
            low = self.shuffle(x, None, range(half))
            high = self.shuffle(x, None, range(half, 2 * half))
            joined = combine(low, high)
            if count % 2:
                last = self.shuffle(x, None, [count - 1] * half)
                joined = combine(joined, last) if half == 1 else joined
                assert half == 1, "vectors have a power of two of lanes, or three"
            x, count = joined, half
        return self.extract(x, 0)

    # --- memory ------------------------------------------------------------------------------

    def at(self, pointer: Value, index: Int, type_: str = "i8") -> Value:
        """The address of element `index` of an array of `type_` (elements are whole bytes)."""
        if is_exactly(index, 0):
            return pointer
        i = self.i64(index)
        return self.op(f"getelementptr {type_}, ptr {pointer.text}, i64 {i.text}", "ptr")

    def load(self, type_: str, pointer: Value, align: int | None = None) -> Value:
        """By default aligned as one element is."""
        return self.op(f"load {type_}, ptr {pointer.text}, align {align or natural(type_)}", type_)

    def store(self, x: Value, pointer: Value, align: int | None = None) -> None:
        self.do(f"store {x.type} {x.text}, ptr {pointer.text}, align {align or natural(x.type)}")

    def slot(self, type_: str, initial: Any = None, count: int = 1) -> Value:
        """Memory of the function's frame: for what is seldom used; the address of its start."""
        name = f"%slot{len(self._slots)}"
        self._slots.append(f"  {name} = alloca {type_}, i64 {count}, align 64")
        pointer = Value(self._function, "ptr", name)
        if initial is not None:
            self.store(self.value(initial, type_), pointer)
        return pointer

    def initialize(self, slot: Value, type_: str, number: float | int) -> None:
        """Gives a slot its first value at the function's entry, wherever it was asked for."""
        first = self.const(number, type_)
        self._slots.append(f"  store {type_} {first.text}, ptr {slot.text}, align {natural(type_)}")

    def _phi(self, type_: str) -> Value:
        self._count += 1
        return Value(self._function, type_, f"%v{self._count}")


_INT_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_FLOAT_COMPARE = {
    "<": ("olt", "ult"), "<=": ("ole", "ule"), ">": ("ogt", "ugt"), ">=": ("oge", "uge"),
    "==": ("oeq", "ueq"), "!=": ("une", "une"),
}  # fmt: skip


def is_number(x: Any) -> bool:
    return not isinstance(x, Value)


def is_exactly(x: Any, number: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x == number


def natural(type_: str) -> int:
    return max(1, bits(type_) // 8)
