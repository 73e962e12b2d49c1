"""What objects do in the child of a fork.

In: objects with `begin_anew`. Out: nothing; it is called in the child. Locks that another thread
of the parent held would stay locked there, and threads are not copied.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewed(Protocol):
    def begin_anew(self) -> None:
        """Make new locks, forget threads."""


_KNOWN: weakref.WeakSet[Renewed] = weakref.WeakSet()
_REGISTERED: list[bool] = []


def renew_after_fork(made: Renewed) -> None:
    """From now on, while the object lives."""
    _KNOWN.add(made)
    if not _REGISTERED and hasattr(os, "register_at_fork"):
        _REGISTERED.append(True)
        os.register_at_fork(after_in_child=_renew)


def _renew() -> None:
    for made in list(_KNOWN):
        made.begin_anew()
