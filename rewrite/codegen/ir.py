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

from rewrite.codegen.instructions import Instructions, Int, is_number
from rewrite.codegen.value import Value

__all__ = ["Function", "Int", "Module", "Value"]


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


class Function(Instructions):
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
        super().__init__(module, parameters)
        self.name = name
        self.returns = returns
        self._parameters = list(parameters)
        self._labels = 0
        self._block = "entry"
        self._linkage = "internal " if internal else ""
        self._attributes = "nounwind alwaysinline" if inline else "nounwind"

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
        if is_number(start) and is_number(stop) and start >= stop:
            return list(carry)
        if is_number(start) and is_number(stop) and start + step >= stop:
            return _several(body(start, *carry), len(carry))
        head, done = self.label("loop"), self.label("done")
        first, last = self.i64(start), self.i64(stop)
        before = self._block
        certain = is_number(start) and is_number(stop)
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
        return list(after)

    def text(self) -> str:
        parameters = ", ".join(f"{t} %{n}" for t, n in self._parameters)
        head = (
            f"define {self._linkage}{self.returns} @{self.name}({parameters}) {self._attributes} {{"
        )
        return "\n".join([head, "entry:", *self._slots, *self._lines, "}"])


def _several(given: Any, count: int) -> list[Value]:
    if given is None:
        given = ()
    elif isinstance(given, Value):
        given = (given,)
    values = list(given)
    assert len(values) == count, f"{len(values)} values carried, {count} expected"
    return values
