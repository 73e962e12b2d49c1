"""What a lowering works with: the operands and results of a cluster, and calls of kernels.

In: the instances of one segment, in order. Out: drafts of kernel calls over buffers. A lowering
asks for operands in the form that its kernel wants; conversions are made once and shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.plan.body import place
from rewrite.plan.cluster import Cluster, epilogue_of
from rewrite.plan.instance import Array, Instance
from rewrite.plan.machine import Machine
from rewrite.plan.pointwise import pointwise
from rewrite.plan.registry import Bound, bounded, lowers, refuses
from rewrite.plan.spec import Body, Epilogue, Spec
from rewrite.plan.tensor import Buffer, Draft, Tensor
from rewrite.plan.view import BYTES, channels_last, dense
from rewrite.plan.weights import Weights

__all__ = [
    "Bound", "Instance", "Lowering", "Tensor", "bounded", "channels_last", "lowers", "refuses",
]  # fmt: skip


class Lowering:
    """A segment being lowered. `at` a cluster, the methods speak of its head's operands."""

    def __init__(self, weights: Weights, fast_math: bool) -> None:
        self.weights = weights
        self.fast_math = fast_math  # floats: whether speed counts for more than the last digits
        self.drafts: list[Draft] = []
        self.constants: list[Array] = []
        self._constant_buffers: dict[int, Buffer] = {}  # by identity of the array
        self._held: list[Array] = []  # those arrays
        self._tensors: dict[int, Tensor] = {}  # value -> where it lies
        self._ordered: dict[tuple[Buffer, object, int, tuple[int, ...]], Tensor] = {}
        self._destinations: dict[int, Buffer] = {}  # values that the segment gives
        self._counts: dict[int, Tensor] = {}
        self._cluster: Cluster | None = None
        self._taken: dict[int, Tensor] = {}  # outputs of the cluster at hand, asked for

    # --- the segment ------------------------------------------------------------------------

    def define(self, value: int, tensor: Tensor) -> None:
        """Where a value lies before anything runs: an input of the segment."""
        self._tensors[value] = tensor

    def deliver(self, value: int, buffer: Buffer, count: Tensor | None = None) -> None:
        """A value that the segment gives, in row-major order in `buffer`."""
        self._destinations[value] = buffer
        if count is not None:
            self._counts[value] = count

    def lower(self, cluster: Cluster, lower: Callable[[Lowering, Instance], None]) -> None:
        """The kernels of one cluster."""
        self._cluster, self._taken = cluster, {}
        lower(self, cluster.head)
        for value, tensor in self._taken.items():
            self._tensors[value] = tensor
        self._cluster = None

    def finish(self) -> None:
        """Values that the segment gives and that lie elsewhere are copied to where they belong."""
        for value, buffer in self._destinations.items():
            tensor = self._tensors[value]
            if tensor.buffer is buffer and tensor.view.contiguous and tensor.offset == 0:
                continue
            target = Tensor(buffer, dense(tensor.dtype, tensor.shape))
            self.copy(tensor, target)

    # --- operands ---------------------------------------------------------------------------

    @property
    def machine(self) -> Machine:
        """What code is made for."""
        return self.weights.machine

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def op(self) -> Instance:
        return self.cluster.head

    def known(self, index: int) -> Array | None:
        """The head's operand where its value is known when the plan is made."""
        return self.op.known(index)

    def is_known(self, index: int) -> bool:
        """Whether it is known."""
        return self.op.is_known(index)

    def view(self, index: int) -> Tensor:
        """An operand of the head wherever it lies, with any strides."""
        return self.tensor_of(self.op, index)

    def tensor_of(self, op: Instance, index: int) -> Tensor:
        """An operand of any instance of the cluster."""
        number = op.operands[index]
        if number is not None and number in self._tensors:
            return self._tensors[number]
        content = op.content(index)
        assert content is not None, f"operand {index} of {op.name} lies nowhere"
        tensor = self.constant(self.weights.elements(content))
        if number is not None:
            self._tensors[number] = tensor
        return tensor

    def rows(self, index: int) -> Tensor:
        """An operand in row-major order without gaps."""
        tensor = self.view(index)
        return self.ordered(tensor, tuple(range(tensor.view.rank)))

    def ordered(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        """The tensor with its dimensions in this order in memory, without gaps."""
        wanted = tuple(order)
        if tensor.view.is_ordered(wanted):
            return tensor
        key = (tensor.buffer, tensor.view, tensor.offset, wanted)
        found = self._ordered.get(key)
        if found is None:
            found = self.new(tensor.dtype, tensor.shape, wanted)
            self.copy(tensor, found)
            self._ordered[key] = found
        return found

    def constant(self, array: Array) -> Tensor:
        """Data that are known when the plan is made."""
        buffer = self._constant_buffers.get(id(array))
        if buffer is None:
            kept = np.ascontiguousarray(array)
            buffer = Buffer("constant", kept.nbytes, len(self.constants))
            self._constant_buffers[id(array)] = buffer
            self.constants.append(kept)
            self._held.append(array)  # so that no other array gets its identity
        dtype = of_numpy(array.dtype)
        assert dtype is not None
        return Tensor(buffer, dense(dtype, array.shape))

    def packed(self, index: int, key: object, make: Callable[[Array], Array]) -> Tensor:
        """A known operand in another form, `make(array)`, made once per session and `key`."""
        content = self.op.content(index)
        assert content is not None, f"operand {index} of {self.op.name} is not known"
        return self.constant(self.weights.packed(content, key, make))

    # --- results ----------------------------------------------------------------------------

    def new(self, dtype: str, shape: Sequence[int], order: Sequence[int] | None = None) -> Tensor:
        """Fresh memory of the arena."""
        view = dense(dtype, shape, order)
        return Tensor(Buffer("arena", view.size * BYTES[dtype]), view)

    def output(self, index: int = 0, order: Sequence[int] | None = None) -> Tensor:
        """Where the cluster's output `index` is to be written: dense, in this order."""
        value, dtype, shape = self.cluster.output(index)
        if value is None:
            return self.new(dtype, shape, order)
        if value not in self._taken:
            self._taken[value] = self._place(value, dtype, shape, order)
        return self._taken[value]

    def delivers(self, index: int = 0) -> bool:
        """Whether the segment gives the cluster's output `index`, which lies row by row then."""
        value, _, _ = self.cluster.output(index)
        return value is not None and value in self._destinations

    def _place(
        self, value: int, dtype: str, shape: Sequence[int], order: Sequence[int] | None
    ) -> Tensor:
        view = dense(dtype, shape, order)
        buffer = self._destinations.get(value)
        if buffer is not None and view.contiguous:
            return Tensor(buffer, view)
        return Tensor(Buffer("arena", view.size * BYTES[dtype]), view)

    def alias(self, index: int, tensor: Tensor) -> None:
        """Output `index` is a view of what exists."""
        value, _, _ = self.cluster.output(index)
        if value is not None:
            self._taken[value] = tensor

    def count(self, index: int) -> Tensor:
        """Where the true size of a bounded output goes: one s64."""
        value, _, _ = self.cluster.output(index)
        if value is not None and value in self._counts:
            return self._counts[value]
        return self.new("s64", (1,))

    def epilogue(self, skip: int = 0) -> tuple[Epilogue, list[Tensor]] | None:
        """What is done with each element of the head's output before it is stored, without the
        first `skip` operators, which the kernel does itself."""
        found = epilogue_of(self.cluster, skip)
        if found is None:
            return None
        body, operands = found
        shape = self.cluster.shape
        tensors = [place(op, i, self.tensor_of(op, i), shape) for op, i in operands]
        return Epilogue(body, tuple(t.view for t in tensors)), tensors

    # --- kernels ----------------------------------------------------------------------------

    def call(
        self,
        spec: Spec,
        words: Sequence[Tensor | int],
        items: int,
        grain: int = 1,
        scratch: int = 0,
        flops: int = 0,
        overwrites: frozenset[int] = frozenset(),
    ) -> None:
        """One kernel. `overwrites`: words of results that may lie where an operand lies that is
        not needed again, because each element is read before it is written."""
        if items <= 0:
            return
        cluster = self._cluster
        self.drafts.append(
            Draft(
                spec=spec,
                words=tuple(words),
                items=items,
                grain=max(1, grain),
                scratch=scratch,
                flops=flops,
                nodes=() if cluster is None else cluster.nodes,
                label=type(spec).__name__ if cluster is None else cluster.label,
                writes=overwrites,
            )
        )

    def copy(self, source: Tensor, target: Tensor) -> None:
        """target[...] = source[...]; the source is broadcast."""
        if target.view.size == 0:
            return
        given = source.broadcast(target.shape)
        self.pointwise(Body((source.dtype,), (), (0,)), [given], [target])

    def pointwise(self, body: Body, operands: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """outputs[...] = body(operands[...]), all of one shape."""
        shape = outputs[0].shape
        if prod(shape) == 0:
            return
        spec, items, grain = pointwise(
            shape, tuple(t.view for t in operands), tuple(t.view for t in outputs), body
        )
        words = [*operands, *outputs]
        results = frozenset(range(len(operands), len(words)))
        self.call(spec, words, items, grain, 0, len(body.steps) * prod(shape), results)

    def fill(self, target: Tensor, number: Any) -> None:
        """target[...] = number."""
        self.copy(self.constant(np.array(number, to_numpy(target.dtype))), target)
