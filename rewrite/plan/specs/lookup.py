"""Tables of all codes of a byte as a kernel.

In: nothing. Out: `Lookup`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec

CHUNK = 1 << 12  # elements of one work item


@dataclass(frozen=True, slots=True)
class Lookup(Spec):
    """y[i] = table[x[i]], x read as an unsigned byte; entries are `width` bytes.

    Words: x, table of 256 entries, y; how many elements. Items: chunks of CHUNK elements.
    With `channels`, the table has 256 entries for each channel, and element i is of channel
    (i / inner) mod channels: words 4 and 5 are channels and inner. Items: rows of `inner`
    elements; where that is 1 (`neighbours`), rows of `channels` elements.
    """

    width: int
    channels: bool = False
    neighbours: bool = False
