"""Generated code as it is kept: on disk, and in memory until it is first run.

In: what codegen.py makes. Out: `Program`. Of the hundreds of programs of a pack few are ever run.
"""

from __future__ import annotations

import marshal
import pickle
from dataclasses import dataclass
from types import CodeType


@dataclass(frozen=True, slots=True)
class Program:
    """`code` defines `match`; its free names are `c0`, `c1`, ... and those of runtime.py."""

    data: bytes

    @classmethod
    def of(cls, code: CodeType, constants: tuple[object, ...]) -> Program:
        """The program of a code object and of the table of constants that it refers to."""
        return cls(pickle.dumps((marshal.dumps(code), constants), protocol=5))

    @property
    def code(self) -> CodeType:
        """The code object, made anew."""
        code: CodeType = marshal.loads(self._parts()[0])
        return code

    @property
    def constants(self) -> tuple[object, ...]:
        """The table of constants, made anew."""
        return self._parts()[1]

    def _parts(self) -> tuple[bytes, tuple[object, ...]]:
        code, constants = pickle.loads(self.data)  # written by this process, or see cache.py
        return code, constants
