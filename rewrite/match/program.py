"""Generated code as it is kept, on disk and in memory, until it is first run.

In: what codegen.py makes. Out: `Program`. Of the hundreds of programs of a pack few are ever run:
only these are checked and compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

from rewrite.match import trees
from rewrite.match.codecheck import check


@dataclass(frozen=True, slots=True)
class Program:
    """`text` defines `match`; its free names are `c0`, `c1`, ... and those of runtime.py."""

    text: str
    constant_data: bytes

    @classmethod
    def of(cls, text: str, constants: tuple[object, ...]) -> Program:
        """The program of a text and of the table of constants that it refers to."""
        return cls(text, trees.dumps(constants))

    @property
    def code(self) -> CodeType:
        """The code object, made anew; ValueError for a text that codegen.py would not write."""
        check(self.text)
        code: CodeType = compile(self.text, "<pattern>", "exec")
        return code

    @property
    def constants(self) -> tuple[object, ...]:
        """The table of constants, made anew."""
        constants: tuple[object, ...] = trees.loads(self.constant_data)
        return constants
