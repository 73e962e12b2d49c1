"""A node as a target sees it.

In: a node of the graph and its `Facts`. Out: `support.Call`, plain data that `support.unsupported`
judges. Only what the target's limits ask for is looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rewrite.graph.fixed import is_fixed
from rewrite.schema import UNKNOWN, Type
from rewrite.target import support
from rewrite.target.target import Limits, Target

if TYPE_CHECKING:
    import onnx_ir as ir

    from rewrite.graph.facts import Facts


def refusal(target: Target, node: ir.Node, facts: Facts, dtype: str | None = None) -> str | None:
    """Why the target does not take the node, None where it does.

    `dtype` stands in for the element type of the first operand: that of the codes, for a node
    between DequantizeLinear and QuantizeLinear.
    """
    operator = (node.domain, node.op_type)
    if operator not in target.limits:
        return support.unsupported(target, support.Call(operator))
    return support.unsupported(target, _call(node, facts, dtype, target.limits[operator]))


def _call(node: ir.Node, facts: Facts, dtype: str | None, limits: Limits) -> support.Call:
    operands = facts.operands(node)
    given = [facts.type(value) for value in operands if value is not None]
    first = given[0] if given else UNKNOWN
    fixed = limits.constant
    sized = limits.sizes or limits.batch
    window = limits.kernel or limits.kernel_height or limits.kernel_area or limits.strides
    return support.Call(
        (node.domain, node.op_type),
        dtype=dtype or first.dtype,
        rank=None if first.shape is None else len(first.shape),
        static=not limits.static or all(_is_static(t) for t in given),
        constant=tuple(v is None or is_fixed(facts, v) for v in operands) if fixed else (),
        shifted=limits.weight_zero_point == "zero" and _is_shifted(node, operands, facts),
        shapes=tuple(t.shape for t in given) if sized else (),
        kernel=_kernel(node, given) if window else None,
        dilations=_integers(node, "dilations") if window else (),
        strides=_integers(node, "strides") if window else (),
    )


def _is_shifted(node: ir.Node, operands: tuple[ir.Value | None, ...], facts: Facts) -> bool:
    """Whether QuantizeLinear or DequantizeLinear has a zero point that is known and not 0."""
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or len(operands) < 3:
        return False
    zero = None if operands[2] is None else facts.array(operands[2])
    return zero is not None and bool((zero.astype(float) != 0).any())


def _is_static(type_: Type) -> bool:
    return type_.shape is not None and all(isinstance(dim, int) for dim in type_.shape)


def _kernel(node: ir.Node, given: list[Type]) -> tuple[int, ...] | None:
    """The window: as it is written, else what the weights of a convolution say."""
    written = _integers(node, "kernel_shape")
    if written:
        return written
    if node.op_type not in ("Conv", "ConvTranspose") or len(given) < 2:
        return None
    shape = given[1].shape
    if shape is None:
        return None
    sizes = tuple(dim for dim in shape[2:] if isinstance(dim, int))
    return sizes if sizes and len(sizes) == len(shape) - 2 else None


def _integers(node: ir.Node, name: str) -> tuple[int, ...]:
    """A list of integers that the node gives; a parameter of a function is not known."""
    attribute: Any = node.attributes.data.get(name)
    if attribute is None or attribute.is_ref():
        return ()
    value = attribute.value
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(item for item in value if isinstance(item, int))
