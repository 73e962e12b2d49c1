"""The one exception that ends an application before it is committed.

In: a reason. Out: a `Refused` record in the journal; the driver catches it.
"""

from __future__ import annotations


class RefusedError(Exception):
    """The application cannot be made; `reason` is for the journal."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
