"""LLVM assembly, written instruction by instruction in SSA form.

In: calls of `Function`'s methods. Out: the text of a module. No optimization pass is run behind it,
so what is written is what is selected: constants are folded here, loops carry values in phis, and
vectors are explicit.

    m = Module("k_add")
    f = m.function("add", [("ptr", "x"), ("ptr", "y"), ("i64", "n")])
    f.loop(0, f.arg("n"), lambda i: f.store(f.load("float", f.at(f.arg("x"), i, "float")) * 2.0,
                                             f.at(f.arg("y"), i, "float")))

A `Value` is typed; Python numbers take the type of their partner, and integers among themselves
stay Python integers, so index arithmetic on known sizes costs nothing. `+ - * <` work on integer,
float and vector values alike.

Reference: https://llvm.org/docs/LangRef.html (LLVM 22).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rewrite.codegen.types import bits, element, is_float, lanes, like, literal, suffix, vector
from rewrite.codegen.value import Value

# A value, or a Python integer where it is known while code is written.
Int = Any


class Module:
    """A module under construction: functions, declarations, constant tables."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._declared: dict[str, str] = {}
        self._globals: list[str] = []
        self._functions: list[Function] = []

    def function(
        self,
        name: str,
        parameters: Sequence[tuple[str, str]],
        returns: str = "void",
        internal: bool = False,
        inline: bool = False,
    ) -> Function:
        made = Function(self, name, parameters, returns, internal, inline)
        self._functions.append(made)
        return made

    def names(self) -> set[str]:
        """Of the functions written so far."""
        return {function.name for function in self._functions}

    def declare(
        self, name: str, returns: str, arguments: Sequence[str], attributes: str = ""
    ) -> None:
        if name not in self._declared and all(f.name != name for f in self._functions):
            text = f"declare {returns} @{name}({', '.join(arguments)}) {attributes}".rstrip()
            self._declared[name] = text

    def table(self, array: np.ndarray[Any, Any], align: int = 64) -> str:
        """A constant array; gives the name of its address, to be used as a `ptr`."""
        data = np.ascontiguousarray(array).tobytes()
        name = f"@.t{len(self._globals)}"
        text = "".join(f"\\{byte:02X}" for byte in data)
        self._globals.append(
            f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{text}", align {align}'
        )
        return name

    def text(self) -> str:
        parts = [f"; {self.name}", *self._globals, *self._declared.values()]
        parts.extend(function.text() for function in self._functions)
        return "\n".join(parts) + "\n"


class Function:
    """A function under construction; instructions go to the current block."""

    def __init__(
        self,
        module: Module,
        name: str,
        parameters: Sequence[tuple[str, str]],
        returns: str,
        internal: bool,
        inline: bool,
    ) -> None:
        self.module = module
        self.name = name
        self.returns = returns
        self._parameters = list(parameters)
        self._lines: list[str] = []
        self._slots: list[str] = []
        self._count = 0
        self._labels = 0
        self._block = "entry"
        self._linkage = "internal " if internal else ""
        self._attributes = "nounwind alwaysinline" if inline else "nounwind"
        self._arguments = {n: Value(self, t, f"%{n}") for t, n in parameters}

    # --- values ------------------------------------------------------------------------------

    def arg(self, name: str) -> Value:
        return self._arguments[name]

    def const(self, number: float | int | bool, type_: str) -> Value:
        return Value(self, type_, literal(number, type_))

    def zero(self, type_: str) -> Value:
        return Value(
            self,
            type_,
            "null" if type_ == "ptr" else "zeroinitializer" if lanes(type_) else literal(0, type_),
        )

    def undef(self, type_: str) -> Value:
        return Value(self, type_, "poison")

    def global_(self, name: str) -> Value:
        """The address that `Module.table` gave."""
        return Value(self, "ptr", name)

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
        return Value(self, type_, name)

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
        if _number(x) and _number(y):
            return x + y
        if _is(y, 0) and not is_float(x.type):
            return x
        if _is(x, 0) and not is_float(y.type):
            return y
        return self._arithmetic("add", "fadd", x, y)

    def sub(self, x: Any, y: Any) -> Any:
        if _number(x) and _number(y):
            return x - y
        if _is(y, 0) and not is_float(x.type):
            return x
        return self._arithmetic("sub", "fsub", x, y)

    def mul(self, x: Any, y: Any) -> Any:
        if _number(x) and _number(y):
            return x * y
        for a, b in ((x, y), (y, x)):
            if _is(a, 1):
                return b
            if _is(a, 0) and not is_float(b.type):
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
        if _number(x):
            return x // y
        return x if y == 1 else self.binary("udiv", x, y)

    def remainder(self, x: Any, y: int) -> Any:
        if _number(x):
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
            return Value(self, "void", "")
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
            self,
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
        if _is(index, 0):
            return pointer
        i = self.i64(index)
        return self.op(f"getelementptr {type_}, ptr {pointer.text}, i64 {i.text}", "ptr")

    def load(self, type_: str, pointer: Value, align: int | None = None) -> Value:
        """By default aligned as one element is."""
        return self.op(f"load {type_}, ptr {pointer.text}, align {align or _natural(type_)}", type_)

    def store(self, x: Value, pointer: Value, align: int | None = None) -> None:
        self.do(f"store {x.type} {x.text}, ptr {pointer.text}, align {align or _natural(x.type)}")

    def slot(self, type_: str, initial: Any = None, count: int = 1) -> Value:
        """Memory of the function's frame: for what is seldom used; the address of its start."""
        name = f"%slot{len(self._slots)}"
        self._slots.append(f"  {name} = alloca {type_}, i64 {count}, align 64")
        pointer = Value(self, "ptr", name)
        if initial is not None:
            self.store(self.value(initial, type_), pointer)
        return pointer

    def initialize(self, slot: Value, type_: str, number: float | int) -> None:
        """Gives a slot its first value at the function's entry, wherever it was asked for."""
        first = self.const(number, type_)
        self._slots.append(
            f"  store {type_} {first.text}, ptr {slot.text}, align {_natural(type_)}"
        )

    # --- control -----------------------------------------------------------------------------

    def label(self, hint: str) -> str:
        self._labels += 1
        return f"{hint}{self._labels}"

    def start(self, label: str) -> None:
        """The block that instructions go to from now on."""
        self._lines.append(f"{label}:")
        self._block = label

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: Value, then: str, otherwise: str) -> None:
        self.do(f"br i1 {condition.text}, label %{then}, label %{otherwise}")

    def ret(self, x: Any = None) -> None:
        """Leaves the function; instructions behind it need a new block."""
        if x is None:
            self.do("ret void")
        else:
            v = self.value(x, self.returns)
            self.do(f"ret {v.type} {v.text}")

    def loop(
        self,
        start: Int,
        stop: Int,
        body: Callable[..., Any],
        carry: Sequence[Value] = (),
        step: int = 1,
    ) -> list[Value]:
        """`for i in range(start, stop, step)`; step > 0.

        `body(i, *carried)` gives the carried values of the next turn (a value, a sequence, or None
        where nothing is carried). Out: the carried values behind the loop.
        """
        if _number(start) and _number(stop) and start >= stop:
            return list(carry)
        if _number(start) and _number(stop) and start + step >= stop:
            return _several(body(start, *carry), len(carry))
        head, done = self.label("loop"), self.label("done")
        first, last = self.i64(start), self.i64(stop)
        before = self._block
        certain = _number(start) and _number(stop)
        if certain:
            self.jump(head)
        else:
            self.branch(self.compare("<", first, last), head, done)
        self.start(head)
        at = len(self._lines)
        index = self._phi("i64")
        carried = [self._phi(v.type) for v in carry]
        after = _several(body(index, *carried), len(carry))
        following = self.op(f"add nsw i64 {index.text}, {step}", "i64")
        again = self.compare("<", following, last)
        end = self._block
        self.branch(again, head, done)
        phis = [f"  {index.text} = phi i64 [{first.text}, %{before}], [{following.text}, %{end}]"]
        for phi, initial, value in zip(carried, carry, after, strict=True):
            phis.append(
                f"  {phi.text} = phi {phi.type} [{initial.text}, %{before}], [{value.text}, %{end}]"
            )
        self._lines[at:at] = phis
        self.start(done)
        if certain:
            return after
        finals = []
        for initial, value in zip(carry, after, strict=True):
            incoming = f"[{initial.text}, %{before}], [{value.text}, %{end}]"
            finals.append(self.op(f"phi {value.type} {incoming}", value.type))
        return finals

    def if_(
        self,
        condition: Value,
        then: Callable[[], Any],
        otherwise: Callable[[], Any] | None = None,
        count: int = 0,
    ) -> list[Value]:
        """Runs one of two; both give `count` values, which are merged."""
        yes, no, done = self.label("then"), self.label("else"), self.label("end")
        self.branch(condition, yes, no)
        self.start(yes)
        a = _several(then(), count)
        yes_end = self._block
        self.jump(done)
        self.start(no)
        b = _several(otherwise() if otherwise is not None else None, count)
        no_end = self._block
        self.jump(done)
        self.start(done)
        return [
            self.op(f"phi {x.type} [{x.text}, %{yes_end}], [{y.text}, %{no_end}]", x.type)
            for x, y in zip(a, b, strict=True)
        ]

    def while_(self, body: Callable[..., Any], carry: Sequence[Value]) -> list[Value]:
        """`body(*carried)` gives (whether to go on, *next carried); runs at least once."""
        head, done = self.label("while"), self.label("done")
        before = self._block
        self.jump(head)
        self.start(head)
        at = len(self._lines)
        carried = [self._phi(v.type) for v in carry]
        again, *after = body(*carried)
        end = self._block
        self.branch(again, head, done)
        self._lines[at:at] = [
            f"  {phi.text} = phi {phi.type} [{initial.text}, %{before}], [{value.text}, %{end}]"
            for phi, initial, value in zip(carried, carry, after, strict=True)
        ]
        self.start(done)
        return after

    def _phi(self, type_: str) -> Value:
        self._count += 1
        return Value(self, type_, f"%v{self._count}")

    def text(self) -> str:
        parameters = ", ".join(f"{t} %{n}" for t, n in self._parameters)
        head = (
            f"define {self._linkage}{self.returns} @{self.name}({parameters}) {self._attributes} {{"
        )
        return "\n".join([head, "entry:", *self._slots, *self._lines, "}"])


_INT_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_FLOAT_COMPARE = {
    "<": ("olt", "ult"), "<=": ("ole", "ule"), ">": ("ogt", "ugt"), ">=": ("oge", "uge"),
    "==": ("oeq", "ueq"), "!=": ("une", "une"),
}  # fmt: skip


def _number(x: Any) -> bool:
    return not isinstance(x, Value)


def _is(x: Any, number: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x == number


def _natural(type_: str) -> int:
    return max(1, bits(type_) // 8)


def _several(given: Any, count: int) -> list[Value]:
    if given is None:
        given = ()
    elif isinstance(given, Value):
        given = (given,)
    values = list(given)
    assert len(values) == count, f"{len(values)} values carried, {count} expected"
    return values
