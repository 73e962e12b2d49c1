"""Names, types, sizes and attributes of a model as short text that is safe to show.

In: what a model says, which anybody may have written. Out: text of one line without control
characters or marks that turn it around, cut where it is long. Weights are never shown: only
constants of a few elements are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from rewrite.engine.evaluation import nbytes
from rewrite.errors import visible
from rewrite.graph import types
from rewrite.graph.facts import Facts
from rewrite.schema import Dim, Type

MOST_NAME = 200  # characters of a name
MOST_TEXT = 400  # of an attribute or a sentence
_FEW_ELEMENTS = 4  # of a constant whose value is shown
_MOST_ITEMS = 24  # of an attribute that is a list
_BRIEF, _MOST_BRIEF = 8, 32  # characters of a size's name, of a type, where there is no room
_BINARY = (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB")


def shown(text: str, most: int = MOST_TEXT) -> str:
    """The text as one printable line; of a long one the beginning and the end."""
    if len(text) > most:
        head, tail = most * 2 // 3, most // 4
        text = f"{text[:head]} … {text[-tail:]} ({len(text)} characters)"
    return visible(text)


def type_text(type_: Type) -> str:
    """`f32[1,3,224,224]`; sizes that the model does not name are `?`; "" where nothing is known."""
    if type_.shape is None:
        return f"{type_.dtype}[…]" if type_.dtype else ""
    dims = ["?" if is_unnamed(dim) else str(dim) for dim in type_.shape]
    if type_.dtype is None and set(dims) <= {"?"}:
        return ""
    return shown(f"{type_.dtype or '?'}[{','.join(dims)}]", MOST_NAME)


def is_unnamed(dim: Dim) -> bool:
    """A size whose name is not one of the model's."""
    return isinstance(dim, str) and (dim.startswith("?") or types.is_made_up(dim))


def brief_type(type_: Type) -> str:
    """The same for a place that has no room: names of sizes are cut."""
    shape = type_.shape if type_.shape is None else tuple(_brief(dim) for dim in type_.shape)
    text = type_text(Type(type_.dtype, shape))
    return text if len(text) <= _MOST_BRIEF else f"{text[: _MOST_BRIEF - 1]}…"


def _brief(dim: Dim) -> Dim:
    if isinstance(dim, int) or is_unnamed(dim) or len(dim) <= _BRIEF:
        return dim
    return f"{dim[: _BRIEF - 1]}…"


def size_text(count: int) -> str:
    """Bytes in the largest unit that gives at least 1."""
    text = f"{count} B"
    for unit, name in _BINARY:
        if count >= unit:
            text = f"{count / unit:.1f} {name}"
    return text


def constant_text(facts: Facts, value: ir.Value) -> str | None:
    """What is told of a constant: its few elements, or its size; None where it is none."""
    few = few_elements(facts, value)
    if few is not None:
        return few
    tensor = facts.constant(value)
    if tensor is None:
        tensor = value.const_value
    return None if tensor is None else size_text(nbytes(tensor))


def few_elements(facts: Facts, value: ir.Value) -> str | None:
    """The elements of a constant that has few of them, else None."""
    tensor = facts.constant(value)
    if tensor is None or tensor.size > _FEW_ELEMENTS:
        return None
    array = facts.array(value)
    return None if array is None else elements_text(array)


def elements_text(array: np.ndarray) -> str:
    """The elements of a small array."""
    items = [_element(item) for item in array.reshape(-1).tolist()]
    return items[0] if array.ndim == 0 and items else f"[{', '.join(items)}]"


def _element(item: object) -> str:
    if isinstance(item, float):
        return f"{item:.9g}"
    if isinstance(item, bytes):
        item = item.decode("utf-8", "replace")
    return shown(f"'{item}'" if isinstance(item, str) else str(item), MOST_NAME)


def attribute_text(attribute: ir.Attr) -> str:
    """`name=value`."""
    name = shown(attribute.name, MOST_NAME)
    if attribute.is_ref():
        return f"{name}=@{shown(str(attribute.ref_attr_name), MOST_NAME)}"
    kind, value = attribute.type, attribute.value
    write = _WRITE.get(kind, _element)
    if kind in _LISTS:
        items = [write(item) for item in value[:_MOST_ITEMS]]
        more = f", … ({len(value)} in all)" if len(value) > _MOST_ITEMS else ""
        listed = ", ".join(items)
        return f"{name}={shown(f'[{listed}{more}]')}"
    return f"{name}={write(value)}"


def _graph(graph: ir.Graph) -> str:
    return f"graph of {len(graph)} nodes"


def _tensor(tensor: ir.TensorProtocol) -> str:
    kind = type_text(types.of_tensor(tensor))
    if tensor.size <= _FEW_ELEMENTS and tensor.dtype != ir.DataType.STRING:
        return f"{kind} {elements_text(tensor.numpy())}"
    return f"{kind}, {size_text(nbytes(tensor))}"


_LISTS = frozenset(
    {
        ir.AttributeType.FLOATS,
        ir.AttributeType.INTS,
        ir.AttributeType.STRINGS,
        ir.AttributeType.TENSORS,
        ir.AttributeType.GRAPHS,
        ir.AttributeType.SPARSE_TENSORS,
        ir.AttributeType.TYPE_PROTOS,
    }
)
_WRITE: Mapping[ir.AttributeType, Callable[[Any], str]] = {
    ir.AttributeType.GRAPH: _graph,
    ir.AttributeType.GRAPHS: _graph,
    ir.AttributeType.TENSOR: _tensor,
    ir.AttributeType.TENSORS: _tensor,
}
