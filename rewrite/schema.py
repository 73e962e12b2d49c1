"""The words that every layer shares: element types, tensor types, operator declarations.

In: nothing. Out: `DTYPES`, `DOMAINS`, `Type`, `OpSchema`. No ONNX here: `rewrite/ops` fills these
from the ONNX schema registry, `rewrite/graph` converts them to and from the model's own objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# Short name -> value of onnx.TensorProto.DataType (onnx/onnx.in.proto).
DTYPES: Mapping[str, int] = {
    "f32": 1, "u8": 2, "s8": 3, "u16": 4, "s16": 5, "s32": 6, "s64": 7, "string": 8,
    "bool": 9, "f16": 10, "f64": 11, "u32": 12, "u64": 13, "c64": 14, "c128": 15, "bf16": 16,
    "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20, "u4": 21, "s4": 22,
    "f4e2m1": 23, "f8e8m0": 24, "u2": 25, "s2": 26, "f6e2m3": 27, "f6e3m2": 28,
}  # fmt: skip
DTYPE_OF: Mapping[int, str] = {number: name for name, number in DTYPES.items()}

# Names in rule text that stand for several element types.
DTYPE_CLASSES: Mapping[str, frozenset[str]] = {
    "f": frozenset(n for n in DTYPES if n[0] == "f" or n == "bf16"),
    "s": frozenset(n for n in DTYPES if n[0] == "s" and n != "string"),
    "u": frozenset(n for n in DTYPES if n[0] == "u"),
    "int": frozenset(n for n in DTYPES if n[0] in "su" and n != "string"),
    "num": frozenset(n for n in DTYPES if n not in ("string", "bool")),
}

# Attributes whose integer is an element type.
DTYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "output_datatype", "stash_type"})

# Prefix of an operator name in rule text and target files -> domain.
DOMAINS: Mapping[str, str] = {
    "": "",
    "ms": "com.microsoft",
    "rw": "rewrite",
    "ml": "ai.onnx.ml",
}
# Domains whose operators ONNX or ONNX Runtime describe: none of them has side effects.
DESCRIBED_DOMAINS = frozenset({"", "ai.onnx.ml", "com.microsoft"})

OLDEST_OPSET = 7  # of ai.onnx

# A dimension: a size, or the name of a size. Two equal names are the same size.
# A name that starts with "?" was made by the tool for a size that the model does not name.
Dim = int | str
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Type:
    """Element type and shape of a tensor value; None where not known (no `shape`: no rank)."""

    dtype: str | None
    shape: Shape | None


UNKNOWN = Type(None, None)

AttributeKind = Literal[
    "int", "float", "string", "tensor", "graph", "sparse_tensor", "type_proto",
    "ints", "floats", "strings", "tensors", "graphs", "sparse_tensors", "type_protos",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttributeSchema:
    """One attribute: kind, and the value it has when a node does not give it (None: no value)."""

    name: str
    kind: AttributeKind
    required: bool
    default: object | None


@dataclass(frozen=True, slots=True)
class OperandSchema:
    """One input or output. `type` is a type variable of the schema ("T") or a type string."""

    name: str
    option: Literal["single", "optional", "variadic"]
    type: str
    homogeneous: bool = True  # a variadic operand whose tensors all have one element type


@dataclass(frozen=True, slots=True)
class OpSchema:
    """One version of one operator. `domain` "" is ai.onnx. `since` is the opset that introduced it.

    `legacy` maps an input index to the attribute that carried the same operand in this version:
    the schema is always presented in the newest form (ReduceMean's `axes` is an input), and a
    version that had it as an attribute says so here. See rewrite/ops/legacy.py.
    """

    domain: str
    name: str
    since: int
    inputs: tuple[OperandSchema, ...]
    outputs: tuple[OperandSchema, ...]
    attributes: Mapping[str, AttributeSchema]
    types: Mapping[str, frozenset[str]]  # type variable -> short dtype names it admits
    legacy: Mapping[int, str]
    deprecated: bool = False
