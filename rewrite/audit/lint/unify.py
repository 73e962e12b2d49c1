"""Two patterns: can both match one value, does one match whatever the other does.

In: compiled patterns. Out: `may_meet`, which says no only where it is sure; `Subsumption`, which
says yes only where it is sure, with the names of one pattern in terms of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations

from rewrite.match import form as f
from rewrite.match.rule import CompiledRule

_CONSTANTS = ("", "Constant")
_MOST_ORDERS = 24  # of the items of a bag that are tried


def may_compete(one: CompiledRule, other: CompiledRule) -> bool:
    """Whether both rules may match at one anchor, at one opset."""
    low, high = max(one.opset[0], other.opset[0]), min(one.opset[1], other.opset[1])
    if low > high or one.anchors.isdisjoint(other.anchors):
        return False
    first, second = one.pattern, other.pattern
    left, right = first.statements[first.anchor], second.statements[second.anchor]
    return may_meet(left.form, right.form, first, second)


def may_meet(
    one: f.Form, other: f.Form, first: f.Pattern, second: f.Pattern, depth: int = 0
) -> bool:
    """Whether one value may be of both forms."""
    if depth > 40:
        return True
    if isinstance(one, f.Choice):
        return any(may_meet(b.form, other, first, second, depth + 1) for b in one.branches)
    if isinstance(other, f.Choice):
        return any(may_meet(one, b.form, first, second, depth + 1) for b in other.branches)
    if isinstance(one, f.Reference):
        inner = first.statements[one.statement].form
        return may_meet(inner, other, first, second, depth + 1)
    if isinstance(other, f.Reference):
        inner = second.statements[other.statement].form
        return may_meet(one, inner, first, second, depth + 1)
    if isinstance(one, f.Any) and isinstance(other, f.Any):
        return _types_meet(one.type, other.type)
    if isinstance(one, f.Op) and isinstance(other, f.Op):
        return _operators_meet(one, other, first, second, depth)
    return _kinds_meet(one, other) and _kinds_meet(other, one)


def _kinds_meet(one: f.Form, other: f.Form) -> bool:
    """Of two different kinds, looked at from one side."""
    if isinstance(one, f.Absent):
        return isinstance(other, f.Absent) or (isinstance(other, f.Any) and other.optional)
    if isinstance(one, f.Number):
        if isinstance(other, f.Number):
            return abs(one.value - other.value) <= 0.02 * max(abs(one.value), abs(other.value))
        return isinstance(other, f.Any)
    if isinstance(one, f.Any):
        made = isinstance(other, (f.Op, f.Bag, f.Chain))
        constant = one.type is not None and one.type.const
        return not (made and constant) or (isinstance(other, f.Op) and _is_constant(other))
    tops = _tops(one)
    others = _tops(other)
    return tops is None or others is None or not tops.isdisjoint(others)


def _is_constant(form: f.Op) -> bool:
    return form.operator == _CONSTANTS


def _tops(form: f.Form) -> frozenset[f.Operator] | None:
    if isinstance(form, f.Op):
        return form.operators
    if isinstance(form, f.Bag):
        return frozenset((form.operator,))
    return form.operators if isinstance(form, f.Chain) else None


def _operators_meet(
    one: f.Op, other: f.Op, first: f.Pattern, second: f.Pattern, depth: int
) -> bool:
    if one.operators.isdisjoint(other.operators) or not _attributes_meet(one, other):
        return False
    if one.rest is not None or other.rest is not None:
        return True
    operands = one.operands
    orders = [operands]
    if one.commutes and other.commutes and len(operands) > 1:
        orders.append((operands[1], operands[0], *operands[2:]))
    return any(_row_meets(order, other.operands, first, second, depth) for order in orders)


def _row_meets(
    one: Sequence[f.Form], other: Sequence[f.Form], first: f.Pattern, second: f.Pattern, depth: int
) -> bool:
    for i in range(max(len(one), len(other))):
        if i >= len(one) or i >= len(other):
            longer = one[i] if i < len(one) else other[i]
            if not _may_be_absent(longer):
                return False
        elif not may_meet(one[i], other[i], first, second, depth + 1):
            return False
    return True


def _may_be_absent(form: f.Form) -> bool:
    if isinstance(form, f.Choice):
        return any(_may_be_absent(branch.form) for branch in form.branches)
    return isinstance(form, f.Absent) or (isinstance(form, f.Any) and form.optional)


def _attributes_meet(one: f.Op, other: f.Op) -> bool:
    wanted = {t.name: t.values for t in other.attributes if t.values is not None}
    for test in one.attributes:
        values = wanted.get(test.name)
        if test.values is not None and values is not None and not _common(test.values, values):
            return False
    return True


def _common(one: Sequence[object], other: Sequence[object]) -> bool:
    return any(value in other for value in one)


def _types_meet(one: f.TypeTest | None, other: f.TypeTest | None) -> bool:
    if one is None or other is None:
        return True
    if one.dtypes is not None and other.dtypes is not None and one.dtypes.isdisjoint(other.dtypes):
        return False
    return _shapes_meet(one.shape, other.shape)


def _shapes_meet(one: f.ShapeTest | None, other: f.ShapeTest | None) -> bool:
    if one is None or other is None:
        return True
    ranks = [(len(s.front) + len(s.back), s.ellipsis) for s in (one, other)]
    (a, open_a), (b, open_b) = ranks
    if not open_a and not open_b:
        return a == b
    if open_a and open_b:
        return True
    return a <= b if open_a else b <= a


# --- one pattern covers the other --------------------------------------------------------------


@dataclass
class Subsumption:
    """Whether `general` matches wherever `special` does, node for node.

    `names`: those of the general pattern as names or numbers of the special one, where they are.
    """

    general: f.Pattern
    special: f.Pattern
    names: dict[str, str | int | float | None] = field(default_factory=dict)
    _keys: dict[str, object] = field(default_factory=dict)

    def holds(self) -> bool:
        """Only patterns that hang together from their anchor up are compared, without siblings.

        A statement of the special pattern may be named once: what is used twice inside of it could
        be used outside of the general one.
        """
        if not _is_tree(self.general) or not _is_tree(self.special):
            return False
        upper = self.general.statements[self.general.anchor]
        lower = self.special.statements[self.special.anchor]
        if upper.names[0] is not None:
            self.names[upper.names[0]] = lower.names[0]
        return self.covers(upper.form, lower.form)

    def covers(self, general: f.Form, special: f.Form) -> bool:
        if isinstance(general, f.Reference):
            return self._reference(general, special)
        if isinstance(general, f.Any):
            return self._any(general, special)
        if isinstance(special, f.Reference):
            return self.covers(general, self.special.statements[special.statement].form)
        if isinstance(special, f.Choice) and not isinstance(general, f.Choice):
            return all(self._alone(general, branch.form) for branch in special.branches)
        if isinstance(general, f.Choice):
            return any(b.guard is None and self._try(b.form, special) for b in general.branches)
        if isinstance(general, f.Number):
            return _number_covers(general, special)
        if isinstance(general, f.Absent):
            return isinstance(special, f.Absent)
        if isinstance(general, f.Op) and isinstance(special, f.Op):
            return self._operator(general, special)
        if isinstance(general, f.Bag) and isinstance(special, f.Bag):
            return self._bag(general, special)
        return False

    def _reference(self, general: f.Reference, special: f.Form) -> bool:
        """A named statement: the first place decides what it is, others have to be that."""
        named = isinstance(special, (f.Any, f.Reference)) and special.name is not None
        key: object = getattr(special, "name", None) if named else special.index
        if general.name in self._keys:
            return bool(self._keys[general.name] == key)
        self._keys[general.name] = key
        self.names[general.name] = special.name if isinstance(special, f.Reference) else None
        return self.covers(self.general.statements[general.statement].form, special)

    def _alone(self, general: f.Form, special: f.Form) -> bool:
        """Covers one branch; what it binds there holds in no other."""
        saved = dict(self.names), dict(self._keys)
        found = self.covers(general, special)
        self.names, self._keys = saved
        return found

    def _try(self, general: f.Form, special: f.Form) -> bool:
        saved = dict(self.names), dict(self._keys)
        if self.covers(general, special):
            return True
        self.names, self._keys = saved
        return False

    def _any(self, general: f.Any, special: f.Form) -> bool:
        if _may_be_absent(special) and not general.optional:
            return False
        if general.type is not None and not _type_covers(general.type, special):
            return False
        if general.name is None:
            return True
        key: object = special.index
        name: str | int | float | None = None
        if isinstance(special, f.Choice):
            return all(self._alone(general, branch.form) for branch in special.branches)
        if isinstance(special, (f.Any, f.Reference)) and special.name is not None:
            key = name = special.name
        elif isinstance(special, f.Number):
            name = special.value
        if general.name in self._keys:
            return bool(self._keys[general.name] == key)
        self._keys[general.name] = key
        self.names[general.name] = name
        return True

    def _operator(self, general: f.Op, special: f.Op) -> bool:
        if not special.operators <= general.operators or general.rest or special.rest:
            return False
        if special.shared and not general.shared:
            return False
        if general.commutes is False and special.commutes:
            return False
        if not self._attributes(general, special):
            return False
        orders = [special.operands]
        if general.commutes and len(special.operands) > 1:
            orders.append((special.operands[1], special.operands[0], *special.operands[2:]))
        return any(self._row(general.operands, order) for order in orders)

    def _row(self, general: Sequence[f.Form], special: Sequence[f.Form]) -> bool:
        saved = dict(self.names), dict(self._keys)
        fits = len(special) <= len(general) and all(map(_may_be_absent, general[len(special) :]))
        if fits and all(map(self.covers, general, special)):
            return True
        self.names, self._keys = saved
        return False

    def _attributes(self, general: f.Op, special: f.Op) -> bool:
        tests = {test.name: test for test in special.attributes}
        for test in general.attributes:
            other = tests.get(test.name)
            if test.values is not None:
                if other is None or other.values is None:
                    return False
                if not all(value in test.values for value in other.values):
                    return False
            elif test.bind is not None:
                self.names[test.bind] = None if other is None else other.bind
                self._keys[test.bind] = ("attribute", special.index, test.name)
        return True

    def _bag(self, general: f.Bag, special: f.Bag) -> bool:
        if general.operator != special.operator or len(general.items) != len(special.items):
            return False
        for count, order in enumerate(permutations(special.items)):
            if count >= _MOST_ORDERS:
                return False
            if self._row(general.items, order):
                return True
        return False


def _is_tree(pattern: f.Pattern) -> bool:
    if pattern.forward or len(pattern.roots) != 1:
        return False
    if any(isinstance(s, f.Each) or len(s.names) != 1 for s in pattern.statements):
        return False
    named = [form.name for form in pattern.forms if isinstance(form, f.Reference)]
    return len(named) == len(set(named))


def _number_covers(general: f.Number, special: f.Form) -> bool:
    if not isinstance(special, f.Number) or general.value != special.value:
        return False
    if general.exact and general.tolerance is None:
        return special.exact and special.tolerance is None
    return general.tolerance == special.tolerance


def _type_covers(general: f.TypeTest, special: f.Form) -> bool:
    if isinstance(special, f.Number):
        return general.dtypes is None and general.shape is None
    if not isinstance(special, f.Any):
        return not general.const and general.dtypes is None and general.shape is None
    test = special.type or f.TypeTest(False, None, None, "")
    if general.const and not test.const:
        return False
    if general.dtypes is not None and (test.dtypes is None or not test.dtypes <= general.dtypes):
        return False
    return general.shape is None or (general.shape == test.shape and _nameless(general.shape))


def _nameless(shape: f.ShapeTest) -> bool:
    """Sizes with names are conditions among themselves."""
    dims = (*shape.front, *shape.back)
    return shape.name is None and all(dim.name is None for dim in dims)
