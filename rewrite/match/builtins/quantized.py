"""What the fields of quantized codes stand for; rewrite/lang/quantized.py writes the calls.

In: the codes, a scale, the attribute `axis` as the model has it. Out: the axis from the front.
"""

from __future__ import annotations

from rewrite.match.builtins.queries import shape_of
from rewrite.match.builtins.registry import Value, register
from rewrite.match.values import Env, Unknown, describe


def _axis(env: Env, x: Value, scale: Value, axis: int) -> object:
    """The axis that the scales go along, counted from the front; none if there is one scale."""
    shape = shape_of(env, scale)
    if len(shape) <= 1 and all(size == 1 for size in shape):
        return None
    return _from_front(env, x, axis)


def _same_axis(env: Env, x: Value, axis: int, wanted: int) -> bool:
    """Whether two numbers are the same axis of the codes."""
    if axis >= 0 and wanted >= 0:
        return axis == wanted
    return _from_front(env, x, axis) == _from_front(env, x, wanted)


def _from_front(env: Env, x: object, axis: int) -> int:
    if axis >= 0:
        return axis
    rank = len(shape_of(env, x))
    if axis < -rank:
        raise Unknown(f"{describe(x)} has no axis {axis}")
    return axis + rank


register("dq__axis", _axis)
register("dq__same_axis", _same_axis)
