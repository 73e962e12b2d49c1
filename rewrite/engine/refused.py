"""The one exception that ends an application before it is committed.

In: a reason. Out: a `Refused` record in the journal; the driver catches it.
"""

from __future__ import annotations

LONGEST = 300  # characters of a reason


class RefusedError(Exception):
    """The application cannot be made; `reason` is for the journal."""

    def __init__(self, reason: str) -> None:
        self.reason = reason if len(reason) <= LONGEST else f"{reason[:LONGEST]}..."
        super().__init__(self.reason)
