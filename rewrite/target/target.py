"""What a target is, as the rest of the package sees it.

In: nothing. Out: the frozen `Target` and the records it holds. `load.py` builds it from YAML.
Operators are (domain, name) pairs, "" being ai.onnx, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Operator = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one operator is limited to; None and () mean not limited."""

    dtypes: tuple[str, ...] = ()
    rank: tuple[int, int] | None = None
    constant: tuple[int, ...] = ()
    static: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Fused:
    """A sequence of operators that the target has one kernel for."""

    operators: tuple[Operator, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A kind of group that the target takes as one kernel."""

    heads: frozenset[Operator]
    prologue: frozenset[Operator] = frozenset()
    epilogue: frozenset[Operator] = frozenset()
    most_heads: int = 1
    most: int = 8

    def takes(self, operators: Sequence[Operator]) -> bool:
        """Whether these operators, in graph order, are a group of this kind.

        An operator counts as a head only where it is not merely part of what follows one, so that
        a kind whose heads are also allowed as epilogue does not use up `most_heads`.
        """
        if len(operators) > self.most:
            return False
        heads = 0
        for operator in operators:
            if heads and operator in self.epilogue:
                continue
            if operator in self.heads:
                heads += 1
            elif heads or operator not in self.prologue:
                return False
        return 1 <= heads <= self.most_heads


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Element types that a contraction of the target works with."""

    activation: str
    weight: str
    accumulator: str
    bias: str | None = None
    weight_zero_point: str = "any"
    weight_range: tuple[int, int] | None = None
    granularity: tuple[str, ...] = ("tensor",)


@dataclass(frozen=True, slots=True)
class Requantize:
    """How the target turns an accumulator into a code."""

    mode: str
    rounding: str
    zero_point: str
    multiplier_bits: int | None = None
    shift: tuple[int, int] | None = None
    scale: tuple[float, float] | None = None
    saturate: bool = True


@dataclass(frozen=True, slots=True)
class Isa:
    """What code is compiled for."""

    triple: str
    cpu: str = ""
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory of the target."""

    bytes: int
    bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in memory."""

    name: str
    order: str
    tile: Mapping[str, int] = field(default_factory=dict)
    pad: str = "zero"


@dataclass(frozen=True, slots=True)
class Cost:
    """What the cost model reckons with; None: not known."""

    launch_seconds: float | None = None
    bytes_per_second: float | None = None
    flops_per_second: float | None = None
    int8_ops_per_second: float | None = None
    registers: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """All that is known of a target. `operators` None: any standard operator."""

    name: str
    doc: str
    file: str
    packs: tuple[str, ...]
    opset: tuple[int, int]
    groups: bool
    operators: frozenset[Operator] | None
    extends: str | None = None
    decomposed: frozenset[Operator] = frozenset()
    limits: Mapping[Operator, Limits] = field(default_factory=dict)
    promotes: Mapping[str, str] = field(default_factory=dict)  # element type -> the one used
    fused: tuple[Fused, ...] = ()
    kinds: Mapping[str, GroupKind] = field(default_factory=dict)
    dtypes: tuple[Arithmetic, ...] = ()
    requantize: Requantize | None = None
    isa: Isa | None = None
    vector_bytes: int | None = None
    align_bytes: int | None = None
    memories: Mapping[str, Memory] = field(default_factory=dict)
    layouts: tuple[Layout, ...] = ()
    cost: Cost = Cost()
    sources: Mapping[str, str] = field(default_factory=dict)  # dotted key -> where it comes from

    def __hash__(self) -> int:
        return hash((self.name, self.file))

    @property
    def domain(self) -> str:
        """The domain of the local functions that groups become."""
        return f"rewrite.{self.name}"

    def has(self, domain: str, name: str, dtype: str | None = None) -> bool:
        """Whether the target has a kernel for the operator, on this element type if given."""
        operator = (domain, name)
        if self.operators is None:
            if domain != "":
                return False
        elif operator not in self.operators:
            return False
        limits = self.limits.get(operator)
        if dtype is None or limits is None or not limits.dtypes:
            return True
        return dtype in limits.dtypes or self.promotes.get(dtype) in limits.dtypes

    def fuses(self, operators: Sequence[Operator]) -> bool:
        """Whether these operators, in graph order, would be one kernel of the target."""
        return self.groups and any(kind.takes(operators) for kind in self.kinds.values())

    def dtypes_of(self, activation: str, weight: str) -> Arithmetic | None:
        """The arithmetic for these element types, None where the target has none."""
        for row in self.dtypes:
            if (row.activation, row.weight) == (activation, weight):
                return row
        return None
