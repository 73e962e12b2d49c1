"""What can be asked about a value of the graph: type, constness, uses, producer.

In: graph values (also constants and numbers, where only the type matters). Out: numbers, lists,
element types, truth values; `Unknown` where the model does not say.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from rewrite.graph.uses import use_count
from rewrite.match.builtins.registry import Dtype, Ints, Items, Value, builtin
from rewrite.match.operators import same
from rewrite.match.structure import operator_words, read_attribute
from rewrite.match.values import (
    ElementType,
    Env,
    Symbol,
    Tensor,
    Unknown,
    describe,
    integer_range,
    is_graph_value,
    weak,
)
from rewrite.ops.dtypes import BITS
from rewrite.schema import DTYPE_CLASSES, Type


def type_of(env: Env, x: object) -> Type:
    """The type of anything that has one; parts not known are None."""
    if is_graph_value(x):
        return env.facts.type(x)
    tensor = x if isinstance(x, Tensor) else weak(x)
    return Type(tensor.dtype, tensor.shape)


def shape_of(env: Env, x: object) -> tuple[int | Symbol, ...]:
    """The shape, sizes not known as `Symbol`."""
    found = type_of(env, x).shape
    if found is None:
        raise Unknown(f"the shape of {describe(x)} is not known")
    return tuple([d if isinstance(d, int) else Symbol(d) for d in found])


def sizes_of(env: Env, x: object) -> tuple[int, ...]:
    """The shape, all sizes known."""
    found = shape_of(env, x)
    for dim in found:
        if isinstance(dim, Symbol):
            raise Unknown(f"the size {dim} of {describe(x)} is not known")
    return found  # type: ignore[return-value]


def dtype_of(env: Env, x: object) -> str:
    """The element type of a value; an element type itself is its own."""
    if isinstance(x, str) and not isinstance(x, Symbol):
        return x
    found = type_of(env, x).dtype
    if found is None:
        raise Unknown(f"the element type of {describe(x)} is not known")
    return found


@builtin
def rank(env: Env, x: Value) -> int:
    """The number of dimensions."""
    return len(shape_of(env, x))


@builtin
def shape(env: Env, x: Value) -> Items:
    """The sizes, as a list; those not known have names."""
    return shape_of(env, x)


@builtin
def dim(env: Env, x: Value, axis: int) -> object:
    """The size of one axis, which may be negative."""
    return shape_of(env, x)[axis]


@builtin
def dims(env: Env, list_: Items, axis: int) -> Items:
    """The size of one axis of each value of a list."""
    return tuple(shape_of(env, x)[axis] for x in list_)


@builtin
def size(env: Env, x: Value) -> int:
    """The number of elements."""
    return math.prod(sizes_of(env, x))


@builtin
def dtype(env: Env, x: Value) -> Dtype:
    """The element type."""
    return ElementType(dtype_of(env, x))


@builtin
def static(env: Env, x: Value) -> bool:
    """Whether all sizes of a value, or of a shape, are known."""
    if isinstance(x, tuple):
        return not any(isinstance(d, Symbol) for d in x)
    found = type_of(env, x).shape
    return found is not None and all(isinstance(d, int) for d in found)


@builtin
def known_rank(env: Env, x: Value) -> bool:
    """Whether the number of dimensions is known."""
    return type_of(env, x).shape is not None


@builtin
def is_const(env: Env, x: Value) -> bool:
    """Whether the value is known and no caller can override it."""
    return not is_graph_value(x) or env.facts.constant(x) is not None


@builtin
def scalar(env: Env, x: Value) -> float:
    """The one number that all elements of a constant are."""
    if isinstance(x, (int, float)):
        return x
    if isinstance(x, Tensor):
        first = x.array.reshape(-1)[:1]
        if x.array.size and (x.array == first).all():
            return first[0].item()  # type: ignore[no-any-return]
        raise Unknown("the constant is not one number")
    found = env.facts.scalar(_graph_value(x))
    if found is None:
        raise Unknown(f"{describe(x)} is not a constant of one number")
    return found


@builtin
def uses(x: Value) -> int:
    """How many operands the value is; being an output of the graph counts as one more."""
    value = _graph_value(x)
    return use_count(value) + int(value.is_graph_output())


@builtin
def is_output(x: Value) -> bool:
    """Whether the value is an output of its graph."""
    return is_graph_value(x) and _graph_value(x).is_graph_output()


@builtin
def is_input(x: Value) -> bool:
    """Whether the value is an input of its graph."""
    return is_graph_value(x) and _graph_value(x).is_graph_input()


@builtin
def same_shape(env: Env, x: Value, y: Value) -> bool:
    """Whether two values have equal shapes."""
    return same(shape_of(env, x), shape_of(env, y))


@builtin
def same_dtype(env: Env, x: Value, y: Value) -> bool:
    """Whether two values have equal element types."""
    return dtype_of(env, x) == dtype_of(env, y)


@builtin
def same_type(env: Env, x: Value, y: Value) -> bool:
    """Whether two values have equal element types and shapes."""
    return same_dtype(env, x, y) and same_shape(env, x, y)


@builtin
def broadcastable(env: Env, x: Value, y: Value) -> bool:
    """Whether `x` meets `y` under broadcasting without changing the shape of `y`."""
    small, large = shape_of(env, x), shape_of(env, y)
    if len(small) > len(large):
        return False
    pairs = zip(small[::-1], large[::-1], strict=False)
    kept = [(a, b) for a, b in pairs if not (isinstance(a, int) and a == 1)]
    return same(tuple([a for a, _ in kept]), tuple([b for _, b in kept]))


@builtin
def broadcast_shape(env: Env, x: object, y: object) -> Items:
    """The shape of two values, or of two shapes, under broadcasting."""
    a, b = (s if isinstance(s, tuple) else shape_of(env, s) for s in (x, y))
    length = max(len(a), len(b))
    a, b = (1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b
    return tuple(_meet(m, n) for m, n in zip(a, b, strict=True))


def _meet(m: object, n: object) -> object:
    if isinstance(m, int) and m == 1:
        return n
    if isinstance(n, int) and n == 1:
        return m
    # A size above 1 decides: the other, if not known, must be 1 or equal to it.
    if isinstance(m, int) and isinstance(n, Symbol):
        return m
    if isinstance(n, int) and isinstance(m, Symbol):
        return n
    if not same(m, n):
        raise Unknown("the shapes do not broadcast")
    return m


@builtin
def is_scalar(env: Env, x: Value) -> bool:
    """Whether the value has exactly one element."""
    return all(isinstance(d, int) and d == 1 for d in _sure(shape_of(env, x)))


def _sure(dims: tuple[int | Symbol, ...]) -> tuple[int | Symbol, ...]:
    """The dims; `Unknown` where only a size not known keeps them from all being 1."""
    unknown = [d for d in dims if isinstance(d, Symbol)]
    if unknown and all(d == 1 for d in dims if not isinstance(d, Symbol)):
        raise Unknown(f"the size {unknown[0]} is not known")
    return dims


@builtin
def is_float(env: Env, x: object) -> bool:
    """Whether the value, or the element type, is a float."""
    return dtype_of(env, x) in DTYPE_CLASSES["f"]


@builtin
def is_int(env: Env, x: object) -> bool:
    """Whether the value, or the element type, is an integer."""
    return dtype_of(env, x) in DTYPE_CLASSES["int"]


@builtin
def is_signed(env: Env, x: object) -> bool:
    """Whether the value, or the element type, is a float or a signed integer."""
    return dtype_of(env, x) in DTYPE_CLASSES["f"] | DTYPE_CLASSES["s"]


@builtin
def is_unsigned(env: Env, x: object) -> bool:
    """Whether the value, or the element type, is an unsigned integer."""
    return dtype_of(env, x) in DTYPE_CLASSES["u"]


@builtin
def bits(env: Env, x: object) -> int:
    """The width of an element in bits."""
    name = dtype_of(env, x)
    if name == "string":
        raise Unknown("a string has no width")
    return BITS[name]


@builtin
def itemsize(env: Env, x: object) -> int:
    """The size of an element in bytes, rounded up."""
    return (bits(env, x) + 7) // 8


@builtin
def qmin(env: Env, x: object) -> int:
    """The least code of an integer type, or of a value of that type."""
    return integer_range(dtype_of(env, x))[0]


@builtin
def qmax(env: Env, x: object) -> int:
    """The largest code of an integer type, or of a value of that type."""
    return integer_range(dtype_of(env, x))[1]


@builtin
def op(x: Value) -> str:
    """The name of the operator that produces the value, with its domain unless ai.onnx; or ""."""
    node = _producer(x)
    if node is None:
        return ""
    return operator_words((node.domain, node.op_type))


@builtin
def attribute(env: Env, x: Value, name: str) -> object:
    """An attribute of the node that produces the value, its default resolved; or none."""
    node = _producer(x)
    if node is None:
        raise Unknown(f"no node produces {describe(x)}")
    return read_attribute(env.facts, node, name)


@builtin
def operand(env: Env, x: Value, index: int) -> object:
    """An operand of the node that produces the value; none where it has no such operand."""
    node = _producer(x)
    if node is None:
        raise Unknown(f"no node produces {describe(x)}")
    operands = env.facts.operands(node)
    return operands[index] if 0 <= index < len(operands) else None


@builtin
def used_by(x: Value) -> Items:
    """The names of the operators that use the value."""
    return tuple(use.node.op_type for use in _graph_value(x).uses())


@builtin
def opset_version(env: Env) -> int:
    """The ai.onnx opset of the graph that is matched."""
    if not env.nodes:
        raise Unknown("there is no match yet")
    graph = env.nodes[0].graph
    if graph is None:
        raise Unknown("the node is in no graph")
    return env.facts.import_of(graph, "")


@builtin
def reshape_target(to: Items, from_: Items) -> Ints:
    """A list that makes Reshape (allowzero=0) turn a value of shape `from` into shape `to`."""
    target: list[int] = []
    for i, dim in enumerate(to):
        kept = i < len(from_) and _certainly(dim, from_[i])
        if isinstance(dim, Symbol):
            target.append(0 if kept else -1)
        elif dim == 0 and not kept:
            raise Unknown("a size of 0 cannot be written here")
        else:
            target.append(int(dim))
    if target.count(-1) > 1 or (-1 in target and any(d == 0 for d in (*to, *from_))):
        raise Unknown("more than one size is not known")
    return tuple(target)


def _certainly(a: object, b: object) -> bool:
    if isinstance(a, Symbol) or isinstance(b, Symbol):
        return isinstance(a, Symbol) and isinstance(b, Symbol) and str(a) == str(b)
    return bool(a == b)


def _graph_value(x: object) -> ir.Value:
    if not is_graph_value(x):
        raise Unknown(f"{describe(x)} is not a value of the graph")
    return x


def _producer(x: object) -> ir.Node | None:
    return _graph_value(x).producer()
