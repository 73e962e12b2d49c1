"""Clusters: operators that one lowering computes together.

In: instances. Out: `Cluster`: a head, and the pointwise operators behind it (its tail) that its
kernel applies to each element before storing it; or operators that a recognizer takes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rewrite.plan.body import Operand, join
from rewrite.plan.instance import Instance
from rewrite.plan.spec import Body

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering


@dataclass(frozen=True, slots=True)
class Output:
    """A value that a cluster gives; `value` None: nobody uses it."""

    value: int | None
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Cluster:
    """`members` in order; `lower` where something else than the head's own lowering is used."""

    head: Instance
    members: tuple[Instance, ...]
    outputs: tuple[Output, ...]
    tail: tuple[Instance, ...] = ()
    lower: Callable[[Lowering, Instance], None] | None = None
    kind: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(op.node for op in self.members)

    @property
    def label(self) -> str:
        """How a profile names it: `Conv+Add+Relu`."""
        names = [op.name for op in self.members]
        return "+".join(names[:6]) + ("+…" if len(names) > 6 else "")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.outputs[0].shape

    def output(self, index: int) -> tuple[int | None, str, tuple[int, ...]]:
        found = self.outputs[index]
        return found.value, found.dtype, found.shape


def outputs_of(op: Instance) -> tuple[Output, ...]:
    return tuple(
        Output(value, op.out_dtype(k), op.out_shape(k)) for k, value in enumerate(op.results)
    )


def single(op: Instance) -> Cluster:
    """An operator on its own."""
    return Cluster(op, (op,), outputs_of(op))


def with_tail(head: Instance, tail: tuple[Instance, ...]) -> Cluster:
    """A head whose first output goes through the tail before it is stored."""
    last = tail[-1]
    first = Output(last.results[0], last.out_dtype(), last.out_shape())
    return Cluster(head, (head, *tail), (first, *outputs_of(head)[1:]), tail)


def epilogue_of(cluster: Cluster, skip: int = 0) -> tuple[Body, list[Operand]] | None:
    """The tail as a scalar program whose value 0 is what the head computes, or, where operators of
    it are skipped, the last of these; None where nothing is left."""
    tail = cluster.tail[skip:]
    if not tail:
        return None
    before = cluster.tail[skip - 1] if skip else cluster.head
    return join(tail, first=before.results[0])
