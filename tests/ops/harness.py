"""Node instances for the tests of operators: what the declarations say against other sources.

A case is one node with operands. Its types and values are asked of onnx's shape inference, of
onnx's reference evaluator and of ONNX Runtime.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.defs
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rewrite.ops import legacy, schemas
from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.schema import DTYPES, Type

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """`inputs`: arrays; None for an absent operand. `data`: operands that are not constants."""

    name: str
    inputs: tuple[Array | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    n_outputs: int = 1
    opsets: tuple[int, int] = (7, 99)
    domain: str = ""
    data: int = 1  # the first operands that are data: types without values
    note: str = ""

    @property
    def types(self) -> list[Type | None]:
        return [None if x is None else Type(of_numpy(x.dtype), x.shape) for x in self.inputs]


def random_array(dtype: str, shape: Sequence[int], seed: int = 0, low: float = -3.0) -> Array:
    """Small numbers, the same for the same arguments; integers from -5 (0) to 9."""
    rng = np.random.default_rng(seed + 31 * len(shape) + sum(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype[0] in "su" and dtype != "string":
        least = 0 if dtype[0] == "u" else -5
        bits = int(dtype[1:])
        most = min(9, 2 ** (bits - (dtype[0] == "s")) - 1)
        least = max(least, -(2 ** (bits - 1)))
        return rng.integers(least, most + 1, shape).astype(np.int8).astype(to_numpy(dtype))
    return rng.uniform(low, 3.0, shape).astype(np.float32).astype(to_numpy(dtype))


def operand(spec: Any, seed: int) -> Array | None:
    """`"f32 2,3"` random; `"f32>0 2,3"` positive; a list or number: int64; arrays as they are."""
    if spec is None:
        return None
    if isinstance(spec, (np.ndarray, np.generic)):
        return np.asarray(spec)
    if isinstance(spec, str):
        dtype, _, sizes = spec.partition(" ")
        shape = [int(s) for s in sizes.split(",") if s]
        if dtype.endswith(">0"):
            return random_array(dtype[:-2], shape, seed, 0.5)
        return random_array(dtype, shape, seed)
    return np.array(spec, np.int64)


def case(
    name: str,
    *inputs: Any,
    out: int = 1,
    opsets: tuple[int, int] = (7, 99),
    domain: str = "",
    data: int | None = None,
    **attributes: Any,
) -> Case:
    arrays = tuple(operand(spec, i) for i, spec in enumerate(inputs))
    known = [i for i, s in enumerate(inputs) if s is not None and not isinstance(s, str)]
    first = min(known, default=len(inputs)) if data is None else data
    return Case(name, arrays, attributes, out, opsets, domain, first)


def opsets_of(found: Case) -> list[int]:
    """One opset per version of the schema within the range of the case."""
    low, high = found.opsets
    versions = [s for s in schemas.versions(found.domain, found.name) if not s.deprecated]
    starts = [max(s.since, 7) if found.domain == "" else s.since for s in versions]
    starts = [s for s in starts if low <= s <= high]
    if found.domain == "" and low not in starts and any(s.since < low for s in versions):
        starts.insert(0, low)
    return starts


def label(found: Case) -> str:
    shapes = ",".join(
        "-" if t is None else f"{t.dtype}{list(t.shape or ())}".replace(" ", "")
        for t in found.types
    )
    attributes = ",".join(f"{k}={v}" for k, v in found.attributes.items() if not _big(v))
    return f"{found.domain[-9:]}{found.name}({shapes}){attributes}"[:110]


def _big(v: Any) -> bool:
    return isinstance(v, np.ndarray)


# --- the same node for onnx -------------------------------------------------------------------


def to_node(found: Case, opset: int) -> tuple[onnx.NodeProto, dict[str, Array]] | None:
    """The node in the form of the opset, and its feeds; None where that form cannot say it."""
    carried = legacy.operands_of(found.domain, found.name, opset)
    attributes = dict(found.attributes)
    names: list[str] = []
    feeds: dict[str, Array] = {}
    for i, array in enumerate(found.inputs):
        if i in carried:
            attribute = legacy.legacy_attribute(found.domain, found.name, opset, i, array)
            if attribute is None and array is not None:
                return None
            if attribute is not None:
                attributes[carried[i].attribute] = attribute
            continue
        names.append("" if array is None else f"i{i}")
        if array is not None:
            feeds[f"i{i}"] = array
    schema = schemas.lookup(found.domain, found.name, opset)
    assert schema is not None
    if any(a not in schema.attributes and a not in schema.legacy.values() for a in attributes):
        return None
    if len(names) > len(schema.inputs) and schema.inputs[-1].option != "variadic":
        return None
    while names and not names[-1]:
        names.pop()
    outputs = [f"o{i}" for i in range(found.n_outputs)]
    node = helper.make_node(found.name, names, outputs, domain=found.domain)
    for key in sorted(attributes):
        value = attributes[key]
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        node.attribute.append(helper.make_attribute(key, value))
    return node, feeds


def admitted(found: Case, opset: int) -> bool:
    """Whether the schema of the opset takes operands of these element types."""
    schema = schemas.lookup(found.domain, found.name, opset)
    if schema is None or schema.deprecated:
        return False
    for i, array in enumerate(found.inputs):
        if array is None or not schema.inputs:
            continue
        allowed = schema.types.get(schema.inputs[min(i, len(schema.inputs) - 1)].type)
        if allowed and of_numpy(array.dtype) not in allowed:
            return False
    return True


def onnx_types(found: Case, opset: int, known: bool = True) -> list[Type] | None:
    """What onnx's shape inference says; None where it refuses."""
    made = to_node(found, opset)
    if made is None:
        return None
    node, feeds = made
    schema = onnx.defs.get_schema(found.name, opset, found.domain)
    types = {}
    for name, array in feeds.items():
        types[name] = helper.make_tensor_type_proto(
            DTYPES[of_numpy(array.dtype) or ""], array.shape
        )
    data = {
        name: numpy_helper.from_array(array)
        for name, array in feeds.items()
        if known and int(name[1:]) >= found.data
    }
    try:
        answer = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=[helper.make_opsetid(found.domain, opset)]
        )
    except (onnx.shape_inference.InferenceError, RuntimeError):
        return None
    return [_from_proto(answer.get(name)) for name in node.output]


def _from_proto(proto: Any) -> Type:
    if proto is None or not proto.HasField("tensor_type"):
        return Type(None, None)
    tensor = proto.tensor_type
    dtype = {v: k for k, v in DTYPES.items()}.get(tensor.elem_type)
    if not tensor.HasField("shape"):
        return Type(dtype, None)
    sizes = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
    ]
    return Type(dtype, tuple(sizes))


def to_model(found: Case, opset: int) -> tuple[onnx.ModelProto, dict[str, Array]] | None:
    made = to_node(found, opset)
    if made is None:
        return None
    node, feeds = made
    given = [
        helper.make_tensor_value_info(name, DTYPES[of_numpy(a.dtype) or ""], a.shape)
        for name, a in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    imports = [helper.make_opsetid(found.domain, opset)]
    if found.domain:
        imports.append(helper.make_opsetid("", 18))
    graph = helper.make_graph([node], "one", given, outputs)
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def reference_values(found: Case, opset: int) -> list[Array] | None:
    """onnx's reference evaluator; None where it has no answer."""
    made = to_model(found, opset)
    if made is None or found.domain not in ("", "ai.onnx.ml"):
        return None
    model, feeds = made
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # noqa: BLE001 - the evaluator raises whatever its Python code raises
        return None
    return [np.asarray(r) for r in results]


def runtime_values(found: Case, opset: int) -> list[Array] | None:
    """ONNX Runtime without graph optimizations; None where it has no kernel."""
    import onnxruntime

    made = to_model(found, opset)
    if made is None or any(_extended(x) for x in found.inputs):
        return None
    model, feeds = made
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        results = session.run(None, feeds)
    except Exception:  # noqa: BLE001 - no kernel, or operands that it refuses
        return None
    return [np.asarray(r) for r in results]


def _extended(x: Array | None) -> bool:
    """A type that numpy does not have itself: the runtime's Python interface takes none."""
    return x is not None and x.dtype.kind == "V"


# --- sizes with names -------------------------------------------------------------------------


def value_of(dim: int | str, sizes: Mapping[str, int]) -> int | None:
    """The number that a name of a size stands for; None for a fresh name."""
    if isinstance(dim, int):
        return dim
    if dim in sizes:
        return sizes[dim]
    if not dim.startswith("?=") or "{" in dim:
        return None
    text = re.sub(r"(?<!/)/(?!/)", "//", dim[2:])
    words = {
        "floor": lambda x: x,
        "min": min,
        "max": max,
        "bc": lambda *xs: 0 if 0 in xs else max(xs),
    }
    return int(eval(text, {"__builtins__": {}}, {**words, **sizes}))


def contradiction(found: Type, actual: Type, sizes: Mapping[str, int]) -> str | None:
    """Why `found` cannot be the type of something that has the type `actual`."""
    if found.dtype is not None and actual.dtype is not None and found.dtype != actual.dtype:
        return f"{found.dtype} is not {actual.dtype}"
    if found.shape is None or actual.shape is None:
        return None
    if len(found.shape) != len(actual.shape):
        return f"{found.shape} is not {actual.shape}"
    for a, b in zip(found.shape, actual.shape, strict=True):
        size = value_of(a, sizes)
        if size is not None and isinstance(b, int) and size != b:
            return f"{found.shape} is not {actual.shape}"
    return None
