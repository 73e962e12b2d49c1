"""Shapes of unknown rank that still can be told apart.

In: a name for the unknown shape of a value. Out: a shape token, a tuple of one string that starts
with "?*" (names that start with "?" are the tool's own). Operators whose output has the shape of
an operand, or of the operands broadcast, carry tokens along, so that `Relu(Neg(x))` and
`Neg(Relu(x))` are seen to have the same shape though nothing is known about x:

    opaque("x")                         ("?*x",)
    join([("?*x",), ("?*y",), (3,)])    ("?*x&y&[3]",)    x, y and [3] broadcast

Tokens live only where an obligation is proved: give them to `infer` as operand shapes and compare
what comes back. A type that is stored has `shape` None instead; `forget` does that.
"""

from __future__ import annotations

from collections.abc import Iterable

from rewrite.ops import dims
from rewrite.schema import Dim, Shape, Type


def opaque(name: str) -> Shape:
    return ("?*" + dims.quote(name),)


def is_opaque(shape: Shape | None) -> bool:
    return (
        shape is not None
        and len(shape) == 1
        and isinstance(shape[0], str)
        and shape[0].startswith("?*")
    )


def forget(type_: Type) -> Type:
    """The type with a token replaced by None."""
    return Type(type_.dtype, None) if is_opaque(type_.shape) else type_


def join(shapes: Iterable[Shape]) -> Shape:
    """All shapes, tokens or not, broadcast: associative, commutative and idempotent."""
    names: set[str] = set()
    concrete: Shape = ()
    for shape in shapes:
        if not is_opaque(shape):
            concrete = dims.broadcast(concrete, shape)
            continue
        for part in dims.split(str(shape[0])[2:], "&"):
            if part.startswith("["):
                concrete = dims.broadcast(concrete, _parse(part))
            else:
                names.add(part)
    if not names:
        return concrete
    text = "&".join(sorted(names))
    if concrete:
        text += "&[" + ",".join(dims.text_of(size) for size in concrete) + "]"
    return ("?*" + text,)


def _parse(part: str) -> Shape:
    return tuple(_size(text) for text in dims.split(part[1:-1], ","))


def _size(text: str) -> Dim:
    return int(text) if text.lstrip("-").isdecimal() else dims.unquote(text)
