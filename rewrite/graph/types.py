"""Element types and shapes: from the model's own objects to `rewrite.schema.Type`.

In: onnx-ir types and shapes. Out: `Type`. A dimension that says nothing (absent,
negative, or named as unknown) becomes a name that no other value has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx
import onnx_ir as ir

from rewrite.schema import DTYPE_OF, UNKNOWN, Dim, Shape, Type

# Exporters write these names for every dimension they know nothing about, so that two of them are
# not the same size. "?..." are names made by this tool.
_NOTHING = frozenset({"", "None", "unknown"})


def says_nothing(name: str) -> bool:
    """Whether a dimension's name is only a way to write "not known"."""
    return name in _NOTHING or name[0] == "?"


def dtype_name(dtype: ir.DataType | None) -> str | None:
    """`ir.DataType.FLOAT16` -> `f16`."""
    return None if dtype is None else DTYPE_OF.get(int(dtype))


def to_dim(dim: object, fresh: Callable[[], str]) -> Dim:
    """One dimension: a size, a name, or a fresh name where it says nothing."""
    if isinstance(dim, int):
        return dim if dim >= 0 else fresh()
    name = dim if isinstance(dim, str) else getattr(dim, "value", None)
    return fresh() if name is None or says_nothing(name) else str(name)


def to_shape(dims: Iterable[object], fresh: Callable[[], str]) -> Shape:
    """Dimensions -> `Shape`."""
    return tuple(to_dim(dim, fresh) for dim in dims)


def from_ir(value: ir.Value, fresh: Callable[[], str]) -> Type:
    """What the model declares about a value; a value that is not a dense tensor has no type."""
    declared = value.type
    if declared is not None and not isinstance(declared, ir.TensorType):
        return Type(None, None)
    dtype = dtype_name(declared.dtype) if declared is not None else None
    shape = value.shape
    return Type(dtype, None if shape is None else to_shape(shape, fresh))


def of_tensor(tensor: ir.TensorProtocol) -> Type:
    """The type of a constant."""
    return Type(dtype_name(tensor.dtype), tuple(int(n) for n in tensor.shape.numpy()))


class FromProto:
    """TypeProtos to `Type`s; equal ones are converted once, unless they need fresh names."""

    def __init__(self, fresh: Callable[[], str]) -> None:
        self._fresh = fresh
        self._known: dict[bytes, Type] = {}

    def __call__(self, proto: onnx.TypeProto) -> Type:
        """Anything that is not a dense tensor has no `Type`."""
        key = proto.SerializeToString()
        found = self._known.get(key)
        if found is not None:
            return found
        made, is_fixed = self._convert(proto)
        if is_fixed:
            self._known[key] = made
        return made

    def _convert(self, proto: onnx.TypeProto) -> tuple[Type, bool]:
        if proto.WhichOneof("value") != "tensor_type":
            return UNKNOWN, True
        tensor = proto.tensor_type
        dtype = DTYPE_OF.get(tensor.elem_type)
        if not tensor.HasField("shape"):
            return Type(dtype, None), True
        dims = [_dim_of_proto(dim) for dim in tensor.shape.dim]
        known = [self._fresh() if dim is None else dim for dim in dims]
        return Type(dtype, tuple(known)), None not in dims


def _dim_of_proto(dim: onnx.TensorShapeProto.Dimension) -> Dim | None:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    name = dim.dim_param
    return name if isinstance(name, str) and not says_nothing(name) else None


def is_vague(type_: Type) -> bool:
    """Whether something is missing, or a size has a name only because it must have one."""
    if type_.dtype is None or type_.shape is None:
        return True
    for dim in type_.shape:  # noqa: SIM110 - asked of every value: a generator doubles the cost
        if isinstance(dim, str) and is_made_up(dim):
            return True
    return False


def is_made_up(name: str) -> bool:
    """A name that neither the model nor arithmetic on its names gave."""
    return name.startswith(("?", "unk__")) and not name.startswith("?=")
