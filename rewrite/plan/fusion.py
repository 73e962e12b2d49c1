"""Fusion: which operators become one kernel.

In: the instances of a segment, the values needed outside. Out: clusters in an order in which they
can run. Only operators of one group are joined: groups are what the rules proposed, here it is
decided how much of one a kernel can take.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.plan import registry
from rewrite.plan.cluster import Cluster, Output, outputs_of, single, with_tail
from rewrite.plan.instance import Instance
from rewrite.plan.pointwise import is_pointwise


def is_native(op: Instance) -> bool:
    """Whether a kernel of ours computes it."""
    if registry.find(op.key) is not None:
        return registry.refusal(op) is None
    return pointwise_instance(op)


def pointwise_instance(op: Instance) -> bool:
    """Elementwise, with operands that are broadcast to the output (or lie along an axis)."""
    if len([v for v in op.results if v is not None]) != 1 or op.results[0] is None:
        return False
    dtypes = [t.dtype for t in op.inputs if t is not None]
    return is_pointwise(op.domain, op.name, op.attributes, dtypes)


def clusters(ops: Sequence[Instance], needed: set[int], fuse: bool) -> list[Cluster]:
    """Every operator in one cluster."""
    if not fuse or not any(op.group for op in ops):
        return [single(op) for op in ops]
    users = _users(ops)
    made: list[Cluster | None] = []
    at = 0
    while at < len(ops):
        group = ops[at].group
        end = at + 1
        while end < len(ops) and group and ops[end].group == group:
            end += 1
        made.extend(_group(ops[at:end], needed, users) if group else [single(ops[at])])
        at = end
    return [c for c in made if c is not None]


def _users(ops: Sequence[Instance]) -> dict[int, list[Instance]]:
    found: dict[int, list[Instance]] = {}
    for op in ops:
        for value in dict.fromkeys(op.operands):
            if value is not None:
                found.setdefault(value, []).append(op)
    return found


def _group(
    ops: Sequence[Instance], needed: set[int], users: dict[int, list[Instance]]
) -> list[Cluster]:
    """The operators of one group, in as few clusters as kernels can take."""
    for recognize in recognizers():
        found = recognize(ops, needed, users)
        if found is not None:
            return found
    made: list[_Growing] = []
    owner: dict[int, _Growing] = {}
    for op in ops:
        grown = _grow(op, owner, needed, users)
        if grown is None:
            grown = _Growing([op])
            made.append(grown)
        else:
            grown.members.append(op)
        for value in op.results:
            if value is not None:
                owner[value] = grown
    # A cluster runs where its last member stands: everything it takes has been made by then.
    position = {id(op): k for k, op in enumerate(ops)}
    made.sort(key=lambda g: position[id(g.members[-1])])
    return [g.cluster(needed, users) for g in made]


class _Growing:
    """A cluster while operators are added to it."""

    def __init__(self, members: list[Instance]) -> None:
        self.members = members

    @property
    def last(self) -> Instance:
        return self.members[-1]

    def takes(self, op: Instance, needed: set[int], users: dict[int, list[Instance]]) -> bool:
        """Whether a pointwise operator can join behind the last member."""
        head, last = self.members[0], self.last
        result = last.results[0]
        if result is None or result in needed or last.out_shape() != op.out_shape():
            return False
        inside = {id(m) for m in self.members} | {id(op)}
        for member in self.members:
            for value in member.results:
                if value is not None and (
                    value in needed or any(id(u) not in inside for u in users.get(value, ()))
                ):
                    return False
        if pointwise_instance(head) and registry.find(head.key) is None:
            return True
        lowered = registry.find(head.key)
        extra = any(head.wants(k) for k in range(1, len(head.results)))
        return lowered is not None and lowered.epilogue and not extra

    def cluster(self, needed: set[int], users: dict[int, list[Instance]]) -> Cluster:
        del needed, users
        head = self.members[0]
        if len(self.members) == 1:
            return single(head)
        if registry.find(head.key) is not None:
            return with_tail(head, tuple(self.members[1:]))
        last = self.last
        output = Output(last.results[0], last.out_dtype(), last.out_shape())
        return Cluster(last, tuple(self.members), (output,))


def _grow(
    op: Instance,
    owner: dict[int, _Growing],
    needed: set[int],
    users: dict[int, list[Instance]],
) -> _Growing | None:
    """The cluster that the operator joins; None where it begins one."""
    if not pointwise_instance(op) or registry.find(op.key) is not None:
        return None
    grown = [owner[v] for v in op.operands if v is not None and v in owner]
    for candidate in grown:
        if candidate.last.results[0] in op.operands and candidate.takes(op, needed, users):
            return candidate
    return None


def recognizers() -> list[object]:
    """Recognizers of whole groups, most special first."""
    return []


__all__ = ["clusters", "is_native", "outputs_of", "pointwise_instance"]
