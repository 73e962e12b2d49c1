"""An SSA value: what instructions take and give. Signs of arithmetic write instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewrite.codegen.ir import Function


class Value:
    """An SSA value or a constant: its type and how it is written."""

    __slots__ = ("f", "text", "type")

    def __init__(self, f: Function, type_: str, text: str) -> None:
        self.f = f
        self.type = type_
        self.text = text

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"

    def __add__(self, other: Any) -> Any:
        return self.f.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return self.f.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return self.f.sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.f.sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return self.f.mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.f.mul(other, self)

    def __lt__(self, other: Any) -> Any:
        return self.f.compare("<", self, other)

    def __le__(self, other: Any) -> Any:
        return self.f.compare("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return self.f.compare(">", self, other)

    def __ge__(self, other: Any) -> Any:
        return self.f.compare(">=", self, other)
