"""Functions of lists: permutations, axes, membership.

In: lists (shapes, attributes, matched operands) and integers. Out: lists, numbers, truth values.
"""

from __future__ import annotations

import numpy as np

from rewrite.match.builtins.registry import Ints, Items, Tensors, builtin, to_bool
from rewrite.match.operators import arithmetic, same
from rewrite.match.values import Env, Tensor, Unknown, check_size, describe


@builtin
def len_(list_: object) -> int:
    """How many items a list has; of a vector, how many elements."""
    if isinstance(list_, tuple):
        return len(list_)
    if isinstance(list_, Tensor) and list_.ndim:
        return list_.shape[0]
    raise Unknown(f"{describe(list_)} is not a list")


@builtin
def range_(a: int, b: int | None = None, step: int = 1) -> Items:
    """[0, ..., a - 1], or [a, ..., b - 1]."""
    numbers = range(a) if b is None else range(a, b, step)
    check_size((len(numbers),))
    return tuple(numbers)


@builtin
def ints(x: Ints) -> Items:
    """A list of integers, or an integer constant, as a list."""
    return x


@builtin
def numbers(x: Tensor) -> Items:
    """A constant of rank 0 or 1 as a list of numbers."""
    if x.ndim > 1:
        raise Unknown("the constant is not a vector")
    return tuple(x.array.reshape(-1).tolist())


@builtin
def sort(list_: Items) -> Items:
    """The items in ascending order."""
    return tuple(sorted(list_))


@builtin
def reverse(list_: Items) -> Items:
    """The items from last to first."""
    return list_[::-1]


@builtin
def recode(keys: Items, values: Items, default: object, list_: Items) -> Items:
    """For each item of the list the value at its key (the first of equal keys), or the default."""
    if len(keys) != len(values):
        raise Unknown("there are not as many values as keys")
    if any(isinstance(item, tuple) for item in (*keys, *list_)):
        raise Unknown("a list cannot be a key")
    table: dict[object, object] = {}
    for key, value in zip(keys, values, strict=True):
        table.setdefault((type(key), key), value)
    return tuple(table.get((type(item), item), default) for item in list_)


@builtin
def is_permutation(perm: Ints) -> bool:
    """Whether the list holds 0 to n - 1, each once."""
    return sorted(perm) == list(range(len(perm)))


@builtin
def is_identity_permutation(perm: Ints) -> bool:
    """Whether the list is [0, 1, ..., n - 1]."""
    return list(perm) == list(range(len(perm)))


@builtin
def inverse(perm: Ints) -> Items:
    """The permutation that undoes this one."""
    _check_permutation(perm)
    return tuple(int(i) for i in np.argsort(perm))


@builtin
def compose(first: Ints, second: Ints) -> Items:
    """The permutation of two transposes in a row: `first`, then `second`."""
    _check_permutation(first)
    _check_permutation(second)
    if len(first) != len(second):
        raise Unknown("the permutations have different lengths")
    return tuple(first[i] for i in second)


def _check_permutation(perm: Ints) -> None:
    if not is_permutation(perm):
        raise Unknown("the list is not a permutation")


@builtin
def pick(list_: Items, indices: Ints) -> Items:
    """The items at these places, in this order."""
    return tuple(list_[i] for i in indices)


@builtin
def without(list_: Items, indices: Ints) -> Items:
    """The items except those at these places."""
    dropped = {_place(i, len(list_)) for i in indices}
    return tuple(item for i, item in enumerate(list_) if i not in dropped)


@builtin
def replaced(list_: Items, index: int, item: object) -> Items:
    """The list with another item at one place."""
    place = _place(index, len(list_))
    return (*list_[:place], item, *list_[place + 1 :])


@builtin
def inserted(list_: Items, index: int, item: object) -> Items:
    """The list with one more item before that place."""
    if not 0 <= index <= len(list_):
        raise Unknown(f"place {index} is not within a list of {len(list_)}")
    return (*list_[:index], item, *list_[index:])


def _place(index: int, length: int) -> int:
    if not -length <= index < length:
        raise Unknown(f"place {index} is not within a list of {length}")
    return index % length


@builtin
def copies(item: object, n: int) -> Items:
    """A list of n times the item."""
    check_size((n,))
    return (item,) * n


@builtin
def index(list_: Items, item: object) -> int:
    """The first place of the item."""
    for i, other in enumerate(list_):
        if same(other, item):
            return i
    raise Unknown(f"{describe(item)} is not in the list")


@builtin
def contains(list_: Items, item: object) -> bool:
    """Whether the item is in the list."""
    return any(same(other, item) for other in list_)


@builtin
def count(list_: Items, item: object) -> int:
    """How often the item is in the list."""
    return sum(same(other, item) for other in list_)


@builtin
def distinct(list_: Items) -> bool:
    """Whether no item occurs twice."""
    return not any(same(a, b) for i, a in enumerate(list_) for b in list_[:i])


@builtin
def same_(list_: Items) -> bool:
    """Whether all items of a list are equal."""
    return all(same(item, list_[0]) for item in list_)


@builtin
def all_(env: Env, x: object) -> bool:
    """Whether every item of a list of truth values, or every element of a constant, is true."""
    items = x if isinstance(x, tuple) else _truths(env, x)
    return all(to_bool(env, item) for item in items)


@builtin
def any_(env: Env, x: object) -> bool:
    """Whether some item of a list of truth values, or some element of a constant, is true."""
    items = x if isinstance(x, tuple) else _truths(env, x)
    return any(to_bool(env, item) for item in items)


def _truths(env: Env, x: object) -> tuple[bool, ...]:
    if isinstance(x, bool):
        return (x,)
    return tuple(bool(item) for item in env.tensor(x).array.reshape(-1).tolist())


@builtin
def axis(a: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= a < rank:
        raise Unknown(f"axis {a} is not within rank {rank}")
    return a % rank


@builtin
def axes(list_: Ints, rank: int) -> Items:
    """The axes counted from the front, in ascending order, each once; at least one."""
    found = tuple(sorted(axis(a, rank) for a in list_))
    if not found or len(set(found)) != len(found):
        raise Unknown("the axes are empty, or one occurs twice")
    return found


@builtin
def squeeze_axes(a: Ints, b: Ints, rank: int) -> Items:
    """The axes, of a value of that rank, that squeezing `a` and then `b` of the rest removes."""
    first = axes(a, rank)
    left = [i for i in range(rank) if i not in first]
    return tuple(sorted((*first, *(left[i] for i in axes(b, len(left))))))


@builtin
def unsqueeze_axes(a: Ints, b: Ints, rank: int) -> Items:
    """The axes, of the final result, that unsqueezing `a` and then `b` adds to that rank."""
    middle = rank + len(a)
    first = axes(a, middle)
    second = axes(b, middle + len(b))
    kept = [i for i in range(middle + len(b)) if i not in second]
    return tuple(sorted((*second, *(kept[i] for i in first))))


@builtin
def keeps_order(perm: Ints, shape: Items) -> bool:
    """Whether a transpose of this shape moves axes of size 1 only."""
    _check_permutation(perm)
    moved = [i for i in perm if not (isinstance(shape[i], int) and shape[i] == 1)]
    return moved == sorted(moved)


@builtin
def piece(sizes: Ints, start: int, end: int) -> int:
    """Which part of an axis cut into these sizes holds all of start to end, as Slice means them."""
    length = sum(sizes)
    low = min(max(start + length if start < 0 else start, 0), length)
    high = min(max(end + length if end < 0 else end, 0), length)
    edge = 0
    for i, size in enumerate(sizes):
        if edge <= low < high <= edge + size:
            return i
        edge += size
    raise Unknown("no part holds the whole slice")


@builtin
def shape_reduced(shape: Items, axes: Ints, keep: bool) -> Items:
    """The shape after a reduction along the axes."""
    reduced = {axis(a, len(shape)) for a in axes}
    if keep:
        return tuple(1 if i in reduced else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in reduced)


@builtin
def total(list_: Tensors) -> Tensor:
    """The sum of a list of constants, element by element."""
    result = list_[0]
    for item in list_[1:]:
        result = arithmetic("+", result, item)
    return result
