"""Elementary functions in float64, by the C library: one call per lane.

In, out: `double` values, scalars or vectors. Code for a machine without the library cannot use
them; nothing but models in float64 does.
"""

from __future__ import annotations

from rewrite.codegen.ir import Function
from rewrite.codegen.types import lanes
from rewrite.codegen.value import Value


def by_library(f: Function, name: str, *arguments: Value) -> Value:
    """A function of the C library (`exp`, `powf`, …), lane by lane."""
    type_ = arguments[0].type
    if not lanes(type_):
        return f.call(name, type_, *arguments)
    found = f.undef(type_)
    for lane in range(lanes(type_)):
        given = [f.extract(a, lane) for a in arguments]
        found = f.insert(found, f.call(name, given[0].type, *given), lane)
    return found
