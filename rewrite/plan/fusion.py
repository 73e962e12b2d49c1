"""Fusion: which operators become one kernel.

In: the instances of a segment, the values needed outside. Out: clusters, in an order in which they
can run. Groups, which rules proposed, are tried as a whole first (attention, row programs,
quantized contractions). What is left grows along the data: pointwise operators join the kernel that
makes their operand, a row program takes in the pointwise kernel that makes its own.

A cluster runs where its last member stands. That is sound as long as nobody outside needs a value
of an earlier member before that place, which is asked for whenever something joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rewrite.plan import registry
from rewrite.plan.cluster import Cluster, Output, outputs_of, single, with_tail
from rewrite.plan.instance import Instance
from rewrite.plan.pointwise import is_blocked, is_pointwise
from rewrite.plan.recognize import recognizers
from rewrite.plan.rows import lower_rows, row_op, rows_of

MOST_MEMBERS = 48  # of one kernel: code grows with them
MOST_OPERANDS = 24  # from outside: registers hold an address each


def is_native(op: Instance) -> bool:
    """Whether a kernel of ours computes it."""
    if registry.find(op.key) is not None:
        return registry.refusal(op) is None
    return pointwise_instance(op) or blocked_instance(op)


def pointwise_instance(op: Instance) -> bool:
    """Elementwise, with operands that are broadcast to the output (or lie along an axis)."""
    if len([v for v in op.results if v is not None]) != 1 or op.results[0] is None:
        return False
    dtypes = [t.dtype for t in op.inputs if t is not None]
    return is_pointwise(op.domain, op.name, op.attributes, dtypes)


def blocked_instance(op: Instance) -> bool:
    """Quantization per block: alone in its kernel, behind one that repeats the scales."""
    dtypes = [t.dtype for t in op.inputs if t is not None]
    return is_blocked(op.domain, op.name, op.attributes, dtypes)


def _joins(op: Instance) -> bool:
    """A pointwise operator without a lowering of its own."""
    return registry.find(op.key) is None and pointwise_instance(op)


def clusters(ops: Sequence[Instance], needed: set[int], fuse: bool) -> list[Cluster]:
    """Every operator in one cluster."""
    if not fuse:
        return [single(op) for op in ops]
    return _Fusion(ops, needed).run()


class _Growing:
    """A cluster while operators are added to it."""

    __slots__ = ("done", "members")

    def __init__(self, members: list[Instance], done: Cluster | None = None) -> None:
        self.members = members
        self.done = done  # a cluster that takes nothing more

    @property
    def last(self) -> Instance:
        return self.members[-1]


class _Fusion:
    """One segment's operators on their way into clusters."""

    def __init__(self, ops: Sequence[Instance], needed: set[int]) -> None:
        self.ops = ops
        self.needed = needed
        self.position = {id(op): k for k, op in enumerate(ops)}
        self.users: dict[int, list[Instance]] = {}
        for op in ops:
            for value in dict.fromkeys(op.operands):
                if value is not None:
                    self.users.setdefault(value, []).append(op)
        self.made: dict[int, _Growing] = {}  # clusters, by identity
        self.owner: dict[int, _Growing] = {}  # value -> the cluster that gives it

    def run(self) -> list[Cluster]:
        self._groups()
        for op in self.ops:
            if op.results and self._placed(op) is None:
                self._grow(op)
        for growing in list(self.made.values()):
            self._follow(growing)
        for growing in list(self.made.values()):
            self._take_in(growing)
        found = sorted(self.made.values(), key=lambda g: self.position[id(g.last)])
        return [self._finished(growing) for growing in found]

    # --- groups as a whole ------------------------------------------------------------------

    def _groups(self) -> None:
        groups: dict[str, list[Instance]] = {}
        for op in self.ops:
            if op.group:
                groups.setdefault(op.group, []).append(op)
        for members in groups.values():
            if len(members) > 1:
                self._group(members)

    def _group(self, members: list[Instance]) -> None:
        wanted = self._wanted(members)
        if not self._runs_late(members):
            return
        for recognize in recognizers():
            found = recognize(members, wanted)
            if found is not None:
                self._add(_Growing(members, found))
                return
        if any(row_op(op) is not None for op in members):
            rows = self._rows(members, wanted)
            if rows is not None:
                self._add(_Growing(members, rows))

    def _rows(self, members: list[Instance], wanted: Sequence[Output]) -> Cluster | None:
        """The members as one row program."""
        found = rows_of(members, [o.value for o in wanted if o.value is not None])
        if isinstance(found, str):
            return None
        group = found
        return Cluster(
            members[-1], tuple(members), tuple(wanted), lower=lambda low, _: lower_rows(low, group)
        )

    # --- growing ----------------------------------------------------------------------------

    def _grow(self, op: Instance) -> None:
        """The operator joins the cluster behind whose last member it stands, or begins one."""
        if _joins(op):
            for value in op.operands:
                growing = None if value is None else self.owner.get(value)
                if growing is not None and self._takes(growing, op):
                    growing.members.append(op)
                    self._own(growing, op)
                    return
        self._add(_Growing([op]))

    def _takes(self, growing: _Growing, op: Instance) -> bool:
        """Whether a pointwise operator can join as the new last member."""
        if growing.done is not None or len(growing.members) >= MOST_MEMBERS:
            return False
        last = growing.last
        if last.results[0] not in op.operands or last.out_shape() != op.out_shape():
            return False
        inside = {id(m) for m in growing.members} | {id(op)}
        if not self._kept_inside(growing.members, inside):
            return False
        if _operands([*growing.members, op]) > MOST_OPERANDS:
            return False
        return _goes_on(growing.members[0])

    def _follow(self, growing: _Growing) -> None:
        """A pointwise cluster becomes the tail of the one that makes its operand for it alone.

        Operators join one by one where each has one user; here all users are in one cluster.
        """
        changed = True
        while changed:
            changed = False
            if growing.done is not None or not all(_joins(op) for op in growing.members):
                return
            for value in _external(growing.members):
                before = self.owner.get(value)
                if before is not None and self._can_follow(before, growing):
                    del self.made[id(growing)]
                    before.members.extend(growing.members)
                    for op in growing.members:
                        self._own(before, op)
                    growing, changed = before, True
                    break

    def _can_follow(self, before: _Growing, after: _Growing) -> bool:
        members = [*before.members, *after.members]
        if before is after or before.done is not None or len(members) > MOST_MEMBERS:
            return False
        if before.last.out_shape() != after.last.out_shape() or not _goes_on(before.members[0]):
            return False
        if _operands(members) > MOST_OPERANDS:
            return False
        return self._kept_inside(before.members, {id(m) for m in members})

    def _kept_inside(self, members: Iterable[Instance], inside: set[int]) -> bool:
        """Whether nobody else needs what the members give."""
        for member in members:
            for value in member.results:
                if value is None:
                    continue
                if value in self.needed:
                    return False
                if any(id(user) not in inside for user in self.users.get(value, ())):
                    return False
        return True

    def _take_in(self, growing: _Growing) -> None:
        """A row program takes in the pointwise kernels that make its operands."""
        if id(growing) not in self.made:
            return
        if not any(row_op(op) is not None for op in growing.members):
            return
        if growing.done is not None and growing.done.lower is None:
            return
        for value in _external(growing.members):
            before = self.owner.get(value)
            if before is None or before is growing or before.done is not None:
                continue
            if not all(_joins(op) for op in before.members):
                continue
            members = sorted(
                [*before.members, *growing.members], key=lambda op: self.position[id(op)]
            )
            if members[-1] is not growing.last or not self._runs_late(members):
                continue
            wanted = self._wanted(members)
            rows = self._rows(members, wanted) if len(members) <= MOST_MEMBERS else None
            if rows is not None:
                del self.made[id(before)]
                growing.members, growing.done = members, rows
                for op in before.members:
                    self._own(growing, op)

    # --- bookkeeping ------------------------------------------------------------------------

    def _add(self, growing: _Growing) -> None:
        self.made[id(growing)] = growing
        for op in growing.members:
            self._own(growing, op)

    def _own(self, growing: _Growing, op: Instance) -> None:
        for value in op.results:
            if value is not None:
                self.owner[value] = growing

    def _placed(self, op: Instance) -> _Growing | None:
        return next((self.owner[v] for v in op.results if v is not None and v in self.owner), None)

    def _wanted(self, members: Sequence[Instance]) -> list[Output]:
        """What is needed of the members by others."""
        inside = {id(m) for m in members}
        found: list[Output] = []
        for member in members:
            for output in outputs_of(member):
                value = output.value
                if value is None:
                    continue
                users = self.users.get(value, ())
                if value in self.needed or any(id(u) not in inside for u in users):
                    found.append(output)
        return found

    def _runs_late(self, members: Sequence[Instance]) -> bool:
        """Whether everybody outside can wait for the members until the last of them runs."""
        inside = {id(m) for m in members}
        place = max(self.position[id(m)] for m in members)
        for member in members:
            for value in member.results:
                for user in self.users.get(value, ()) if value is not None else ():
                    if id(user) not in inside and self.position[id(user)] < place:
                        return False
        return True

    def _finished(self, growing: _Growing) -> Cluster:
        if growing.done is not None:
            return growing.done
        head = growing.members[0]
        if len(growing.members) == 1:
            return single(head)
        if not _joins(head):
            return with_tail(head, tuple(growing.members[1:]))
        last = growing.last
        output = Output(last.results[0], last.out_dtype(), last.out_shape())
        return Cluster(last, tuple(growing.members), (output,))


def _goes_on(head: Instance) -> bool:
    """Whether a kernel with this head takes pointwise operators behind it."""
    if _joins(head):
        return True
    lowered = registry.find(head.key)
    extra = any(head.wants(k) for k in range(1, len(head.results)))
    return lowered is not None and lowered.epilogue and not extra


def _external(members: Sequence[Instance]) -> list[int]:
    """Values that the members take from outside."""
    inside = {v for op in members for v in op.results}
    found = {
        v: None for op in members for v in op.operands if v is not None and v not in inside
    }  # fmt: skip
    return list(found)


def _operands(members: Sequence[Instance]) -> int:
    return len(_external(members))
