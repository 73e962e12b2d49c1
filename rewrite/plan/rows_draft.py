"""Row programs under construction.

In: operands under keys of the caller's choice, steps, folds. Out: `Built`: the program without
what nobody needs, operands numbered first, equal steps joined.

    d = Draft()
    x = d.operand("x", "f32", element=True)
    shifted = d.step("Sub", x, d.fold("peak", x))
    raised = d.step("Exp", shifted)
    built = d.finish([d.step("Div", raised, d.fold("add", raised))])
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rewrite.plan.spec import Constant, Step
from rewrite.plan.specs.rows import Fold, args_of

Ref = int
Arg = int | float | Constant | None  # a value of the draft, a number, nothing
_HALF = frozenset({"f16", "bf16"})


@dataclass(frozen=True, slots=True)
class _Operand:
    key: Hashable
    dtype: str
    element: bool


@dataclass(frozen=True, slots=True)
class Built:
    """A row program; `keys` say which operand is which."""

    keys: tuple[Hashable, ...]
    dtypes: tuple[str, ...]
    elements: tuple[bool, ...]
    steps: tuple[Step | Fold, ...]
    results: tuple[int, ...]


class Draft:
    """Values are numbers that `operand`, `step` and `fold` give."""

    def __init__(self) -> None:
        self._entries: list[_Operand | Step | Fold] = []
        self._found: dict[Any, Ref] = {}

    def _add(self, entry: _Operand | Step | Fold) -> Ref:
        key = (type(entry).__name__, repr(entry)) if isinstance(entry, Step) else entry
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = len(self._entries)
            self._entries.append(entry)
        return found

    def operand(self, key: Hashable, dtype: str, element: bool) -> Ref:
        """An operand with a value for every element of the row, or one for the row."""
        return self._add(_Operand(key, dtype, element))

    def dtype(self, value: Ref) -> str:
        return self._entries[value].dtype

    def step(
        self,
        name: str,
        *args: Ref | Constant | None,
        dtype: str | None = None,
        attributes: tuple[tuple[str, Any], ...] = (),
        domain: str = "",
        opset: int = 0,
    ) -> Ref:
        """A pointwise step; by default of the element type of its first operand."""
        if dtype is None:
            first = args[0]
            assert first is not None
            dtype = first.dtype if isinstance(first, Constant) else self.dtype(first)
        return self._add(Step(domain, name, args, dtype, attributes, opset))

    def number(self, number: float, like: Ref) -> Constant:
        """A constant of the element type of a value."""
        return Constant(self.dtype(like), number)

    def cast(self, value: Ref, dtype: str) -> Ref:
        """The value in another element type."""
        if self.dtype(value) == dtype:
            return value
        return self.step("Cast", value, dtype=dtype, attributes=(("saturate", 1),), opset=21)

    def fold(self, combine: str, value: Ref, mean: bool = False) -> Ref:
        """The row combined; sums and products of half floats are f32 here."""
        if combine in ("add", "mul") and self.dtype(value) in _HALF:
            value = self.cast(value, "f32")
        return self._add(Fold(combine, value, self.dtype(value), mean))

    def mean(self, value: Ref) -> Ref:
        return self.fold("add", value, mean=True)

    def square(self, value: Ref) -> Ref:
        return self.step("Mul", value, value)

    def finish(self, results: Sequence[Ref]) -> Built:
        """The program that gives these values."""
        wanted = self._wanted(results)
        operands = [r for r in wanted if isinstance(self._entries[r], _Operand)]
        others = [r for r in wanted if not isinstance(self._entries[r], _Operand)]
        numbers = {r: k for k, r in enumerate([*operands, *others])}
        steps = tuple(_renumbered(self._entries[r], numbers) for r in others)
        given = [e for r in operands if isinstance(e := self._entries[r], _Operand)]
        return Built(
            tuple(e.key for e in given),
            tuple(e.dtype for e in given),
            tuple(e.element for e in given),
            steps,
            tuple(numbers[r] for r in results),
        )

    def _wanted(self, results: Sequence[Ref]) -> list[Ref]:
        found: set[Ref] = set()
        pending = list(results)
        while pending:
            ref = pending.pop()
            if ref in found:
                continue
            found.add(ref)
            entry = self._entries[ref]
            if not isinstance(entry, _Operand):
                pending += args_of(entry)
        return sorted(found)


def _renumbered(entry: _Operand | Step | Fold, numbers: dict[Ref, int]) -> Step | Fold:
    assert not isinstance(entry, _Operand)
    if isinstance(entry, Fold):
        return replace(entry, arg=numbers[entry.arg])
    args = tuple(numbers[a] if isinstance(a, int) else a for a in entry.args)
    return replace(entry, args=args)
