"""Trees of frozen dataclasses as bytes, and back.

In: a tree. Out: a pickle of it in which every dataclass is its class and the values of its fields:
what dataclasses with slots do by themselves asks for the list of fields at every node.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from io import BytesIO
from operator import attrgetter
from typing import Any

_Reduced = tuple[type, tuple[object, ...]]


class _Reducers(dict[type, Callable[[Any], _Reduced]]):
    """Class -> what a node of it is made of; KeyError for classes that pickle knows better."""

    def __missing__(self, kind: type) -> Callable[[Any], _Reduced]:
        names = [f.name for f in fields(kind) if f.init] if is_dataclass(kind) else []
        if len(names) < 2 or len(names) < len(fields(kind)):
            raise KeyError(kind)
        values = attrgetter(*names)  # of several names: a tuple

        def reduced(node: Any) -> _Reduced:
            return kind, values(node)

        self[kind] = reduced
        return reduced


_REDUCERS = _Reducers()


def dumps(tree: object) -> bytes:
    """The tree as bytes."""
    buffer = BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(tree)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """The tree of bytes that this process wrote, or see cache.py."""
    return pickle.loads(data)
