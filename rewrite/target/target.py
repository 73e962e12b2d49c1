"""What a target is, as the rest of the package sees it.

In: nothing. Out: the frozen `Target` and the records it holds. `load.py` builds it from YAML.
Operators are (domain, name) pairs, "" being ai.onnx, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Operator = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Parameters that the codes of an output must have."""

    dtype: str
    scale: float
    zp: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What one operator is limited to; None and () mean not limited.

    `same_qparams` None: every operand must have the parameters of the output.
    """

    dtypes: tuple[str, ...] = ()
    rank: tuple[int, int] | None = None
    constant: tuple[int, ...] = ()
    static: bool = False
    sizes: tuple[int, int] | None = None
    batch: tuple[int, int] | None = None
    kernel: tuple[int, int] | None = None
    kernel_height: tuple[int, int] | None = None
    kernel_area: tuple[int, int] | None = None
    strides: tuple[int, int] | None = None
    weight_sum: int | None = None
    weight_zero_point: str = "any"
    granularity: tuple[str, ...] = ()
    same_qparams: tuple[int, ...] | None = ()
    fixed_qparams: tuple[Fixed, ...] = ()
    forbidden: tuple[Operator, ...] = ()
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
class Intermediate:
    """Sums of few products that are narrower than the accumulator they go into."""

    bits: int
    terms: int
    saturates: bool
    avoidable: bool = True
    instruction: str | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Element types that a contraction of the target works with."""

    activation: str
    weight: str
    accumulator: str
    bias: str | None = None
    bias_bits: int | None = None
    accumulator_bits: int | None = None
    intermediate: Intermediate | None = None
    activation_zero_point: str = "any"
    weight_zero_point: str = "any"
    weight_range: tuple[int, int] | None = None
    granularity: tuple[str, ...] = ("tensor",)


@dataclass(frozen=True, slots=True)
class Requantize:
    """How the target turns an accumulator into a code; `mode` is one of requantize.MODES."""

    mode: str
    rounding: str
    zero_point: str = "after_rounding"
    multiplier_bits: int | None = None
    shift: tuple[int, int] | None = None
    scale: tuple[float, float] | None = None
    saturate: bool = True


@dataclass(frozen=True, slots=True)
class Lut:
    """A table that the target computes functions of codes with."""

    entries: int
    bits: int
    interpolated: bool = False


@dataclass(frozen=True, slots=True)
class ActivationFusion:
    """Functions that become part of the operator they follow."""

    kinds: tuple[Operator, ...]
    arbitrary_clamp: bool = False
    clamps: tuple[tuple[float, float], ...] = ()
    same_scale_required: bool = False


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
    activation_fusion: ActivationFusion | None = None
    lut: tuple[Lut, ...] = ()
    partition: str = "any"
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
        if not self.groups or self._forbids(operators):
            return False
        return any(kind.takes(operators) for kind in self.kinds.values())

    def _forbids(self, operators: Sequence[Operator]) -> bool:
        for operator in operators:
            limits = self.limits.get(operator)
            if limits is not None and any(o in operators for o in limits.forbidden):
                return True
        return False

    def dtypes_of(self, activation: str, weight: str) -> Arithmetic | None:
        """The arithmetic for these element types, None where the target has none."""
        for row in self.dtypes:
            if (row.activation, row.weight) == (activation, weight):
                return row
        return None

    def takes_scales(self, operator: Operator, granularity: str) -> bool:
        """Whether the weights of an operator may have scales per `tensor`, `channel`, `block`."""
        limits = self.limits.get(operator)
        if limits is not None and limits.granularity:
            return granularity in limits.granularity
        return any(granularity in row.granularity for row in self.dtypes)

    def same_qparams(self, operator: Operator, position: int | None = None) -> bool:
        """Whether the operand (any, if none is given) needs the parameters of the output."""
        limits = self.limits.get(operator)
        if limits is None or limits.same_qparams == ():
            return False
        return limits.same_qparams is None or position is None or position in limits.same_qparams

    def fixed_qparams(self, operator: Operator, dtype: str) -> Fixed | None:
        """The parameters that the output of an operator must have as codes of this type."""
        limits = self.limits.get(operator)
        rows = limits.fixed_qparams if limits is not None else ()
        return next((row for row in rows if row.dtype == dtype), None)

    def table(self, bits: int) -> Lut | None:
        """The table for codes of so many bits."""
        return next((row for row in self.lut if row.bits == bits), None)

    def fuses_activation(self, operator: Operator, bounds: tuple[float, float] | None) -> bool:
        """Whether the function becomes part of what it follows; `bounds` are those of a Clip."""
        fusion = self.activation_fusion
        if fusion is None or operator not in fusion.kinds:
            return False
        return bounds is None or fusion.arbitrary_clamp or bounds in fusion.clamps
