"""What the sizes of a node's outputs follow from.

In: a node and the types of its operands. Out: a key; two nodes with equal keys have outputs of
equal shapes, even where inference has no name for a size (a convolution over a size that is not
known).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.graph.types import is_made_up
from rewrite.ops import registry
from rewrite.schema import Dim, Shape, Type

# Kinds of operators whose output sizes depend on the sizes of operands, on integer constants and
# on attributes, and on no other data.
_BY_SIZES = frozenset(
    {
        "elementwise", "contraction", "convolution", "pooling", "normalization", "reduction",
        "movement", "quantize", "attention", "recurrent",
    }
)  # fmt: skip
# Operators that compute sizes alike, in all versions: a name, how many operands they look at.
_FAMILIES = {("", "Conv"): ("conv", 2), ("com.microsoft", "FusedConv"): ("conv", 2)}
_NO_SIZES = frozenset({"activation", "activation_params"})
_ATTRIBUTES = frozenset(
    {ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.STRING, ir.AttributeType.FLOAT}
)
_SMALL = 64


def sizes_key(
    facts: Facts,
    node: ir.Node,
    operands: Sequence[ir.Value | None],
    type_of: Callable[[ir.Value], Type],
) -> Hashable | None:
    """None where the sizes may depend on data that is not known."""
    definition = registry.find(node.domain, node.op_type)
    if definition is None or definition.kind not in _BY_SIZES:
        return None
    own = ((node.domain, node.op_type, facts.opset(node)), len(operands))
    name, count = _FAMILIES.get((node.domain, node.op_type), own)
    parts: list[Hashable] = []
    for value in operands[:count]:
        part = None if value is None else _operand_key(facts, value, type_of(value))
        if value is not None and part is None:
            return None
        parts.append(part)
    attributes = []
    for attribute in node.attributes.data.values():
        if attribute.is_ref() or attribute.type not in _ATTRIBUTES:
            return None
        if attribute.name not in _NO_SIZES:
            attributes.append((attribute.name, repr(attribute.value)))
    return name, tuple(parts), tuple(sorted(attributes)), len(node.outputs)


def _operand_key(facts: Facts, value: ir.Value, type_: Type) -> Hashable | None:
    if type_.dtype is None or type_.shape is None:
        return None
    if type_.dtype not in ("s64", "s32", "bool"):
        return type_.shape
    tensor = facts.constant(value)  # integers may be sizes, axes, pads
    if tensor is None or tensor.size > _SMALL:
        return None
    array = facts.array(value)
    return None if array is None else (type_.shape, array.tobytes())


_KEEPS_COUNT = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose"})
_DEEPEST = 16


def counted_from(value: ir.Value) -> ir.Value:
    """The value that `value` has all elements of, followed up through what keeps their number."""
    for _ in range(_DEEPEST):
        node = value.producer()
        if node is None or node.domain != "" or node.op_type not in _KEEPS_COUNT:
            break
        operand = node.inputs[0]
        if operand is None:
            break
        value = operand
    return value


def one_size_follows(a: Shape | None, b: Shape | None) -> bool:
    """Whether shapes of equally many elements are equal because all sizes but one are."""
    if a is None or b is None or len(a) != len(b):
        return False
    differ = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if len(differ) != 1:
        return not differ
    return all(isinstance(x, int) and x > 0 for i, x in enumerate(a) if i != differ[0])


def merged(a: Type, b: Type) -> Type:
    """What two types of one value say together: a size before a name, a name of the model first."""
    dtype = b.dtype if a.dtype is None else a.dtype
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return Type(dtype, b.shape if a.shape is None else a.shape)
    return Type(dtype, tuple(_better(x, y) for x, y in zip(a.shape, b.shape, strict=True)))


def _better(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) or isinstance(b, int):
        return a if isinstance(a, int) else b
    return a if _rank(a) >= _rank(b) else b


def _rank(name: str) -> int:
    """How much a name says: given by the model or computed; made up by ONNX, by the model's lack
    of one, by this tool for something it cannot follow."""
    if name.startswith("?~"):
        return 0
    if name.startswith("unk__"):
        return 1
    if is_made_up(name):
        return 2
    return 3 if name.startswith("?=") else 4
