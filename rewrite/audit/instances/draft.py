"""A model that is being varied.

In: a ModelProto. Out: `Draft`, a private copy with what variations ask of it, and the model again,
its outputs typed anew; None where nothing types them, or the model is not valid.

Only small models come here (rules' examples and what is made of them), so that everything is copied
and typed again each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rewrite.audit.feeds import Array
from rewrite.engine.completion import Completer
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.ops import schemas
from rewrite.ops.dtypes import integer_range, to_numpy
from rewrite.schema import DTYPE_OF, DTYPES, Type

# What onnx's checker and inference raise where a model is not valid.
INVALID = (
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    RewriteError,
    ValueError,
    LookupError,
    RuntimeError,
    TypeError,
)
MOST_ELEMENTS = 1 << 17  # of one constant or input
LARGEST_BYTES = 1 << 20  # of a model that is still varied


class Draft:
    """A copy of a model that may be changed. `nodes`, `constants` are those of the main graph."""

    __slots__ = ("model",)

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)

    @property
    def graph(self) -> onnx.GraphProto:
        return self.model.graph

    @property
    def nodes(self) -> list[onnx.NodeProto]:
        return list(self.model.graph.node)

    # --- names ---------------------------------------------------------------------------------

    def names(self) -> set[str]:
        """Every name of a value, of subgraphs too."""
        found: set[str] = set()
        for graph in graphs(self.graph):
            found |= {v.name for v in (*graph.input, *graph.output)}
            found |= {t.name for t in graph.initializer}
            found |= {name for n in graph.node for name in (*n.input, *n.output) if name}
        return found

    def fresh(self, hint: str) -> str:
        """A name that nothing has."""
        taken = self.names()
        number = 0
        while f"{hint}{number or ''}" in taken:
            number += 1
        return f"{hint}{number or ''}"

    def producer(self, name: str) -> onnx.NodeProto | None:
        return next((n for n in self.graph.node if name in n.output), None)

    def users(self, name: str) -> list[onnx.NodeProto]:
        """Nodes of the main graph that read the value themselves."""
        return [n for n in self.graph.node if name in n.input]

    def input(self, name: str) -> onnx.ValueInfoProto | None:
        return next((v for v in self.graph.input if v.name == name), None)

    def open_inputs(self) -> list[onnx.ValueInfoProto]:
        constants = {t.name for t in self.graph.initializer}
        return [v for v in self.graph.input if v.name not in constants]

    # --- constants -----------------------------------------------------------------------------

    def constant(self, name: str) -> TensorProto | None:
        return next((t for t in self.graph.initializer if t.name == name), None)

    def constants(self) -> list[TensorProto]:
        return list(self.graph.initializer)

    def set_constant(self, name: str, array: Array) -> None:
        """An initializer of that name, in place of the one that is there."""
        made = tensor(name, array)
        old = self.constant(name)
        if old is None:
            self.graph.initializer.append(made)
        else:
            old.CopyFrom(made)
        given = self.input(name)
        if given is not None:
            given.CopyFrom(value_info(name, made.data_type, array.shape))

    def drop_constant(self, name: str) -> None:
        kept = [t for t in self.graph.initializer if t.name != name]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)

    # --- what nothing needs --------------------------------------------------------------------

    def drop_dead(self) -> None:
        """Nodes that nothing reads, and then constants and inputs."""
        while True:
            used = self._used()
            dead = [n for n in self.nodes if not any(o in used for o in n.output)]
            if not dead:
                break
            for node in dead:
                self.graph.node.remove(node)
        self.drop_unused()

    def drop_unused(self) -> None:
        """Constants and inputs that nothing reads."""
        used = self._used()
        for constant in self.constants():
            if constant.name not in used:
                self.drop_constant(constant.name)
        for given in list(self.graph.input):
            if given.name not in used:
                self.graph.input.remove(given)

    def _used(self) -> set[str]:
        """Names that nodes read, those inside of nodes too, or that are outputs."""
        inner = list(graphs(self.graph))
        read = {name for graph in inner for node in graph.node for name in node.input}
        return read | {value.name for graph in inner for value in graph.output}

    # --- the end -------------------------------------------------------------------------------

    def finish(self) -> onnx.ModelProto | None:
        """The model, outputs typed anew; None where it is not valid."""
        model = self.model
        opset = next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 0)
        nodes = (node for graph in graphs(model.graph) for node in graph.node)
        if any(_ends_inference(node) or _is_undefined(node, opset) for node in nodes):
            return None
        for graph in graphs(model.graph):
            del graph.value_info[:]
            for output in graph.output:
                output.ClearField("type")
        try:
            loaded = io.load(model)
            facts = loaded.facts
            facts.complete = Completer(facts)
            types = [facts.type(value) for value in loaded.model.graph.outputs]
            if any(t.dtype is None or _is_huge(t) for t in types):
                return None
            for output, found in zip(model.graph.output, types, strict=True):
                output.CopyFrom(_declared(output.name, found))
            onnx.checker.check_model(model, full_check=True)
        except INVALID:
            return None
        return model if model.ByteSize() <= LARGEST_BYTES else None


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all inside of it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.output:
                    yield from graphs(inner)


def _ends_inference(node: onnx.NodeProto) -> bool:
    """Whether inference ends the process at the node instead of refusing it."""
    if node.op_type == "Split":
        counts = [a.i for a in node.attribute if a.name == "num_outputs"]
        return any(count != len(node.output) for count in counts)
    if node.domain == "com.microsoft" and node.op_type.startswith("QLinear"):
        # ONNX Runtime reads zero points that are not there
        schema = schemas.lookup(node.domain, node.op_type, 1)
        return schema is not None and len(node.input) < len(schema.inputs)
    if node.op_type != "LabelEncoder":
        return False
    given = {a.name.partition("_")[0] for a in node.attribute}
    return not {"keys", "values"} <= given


def _is_undefined(node: onnx.NodeProto, opset: int) -> bool:
    """Axes below 0 before opset 11 allowed them (docs/Changelog.md of onnx; TopK had them)."""
    if opset >= 11 or node.op_type in ("OneHot", "TopK"):
        return False
    found = [a for a in node.attribute if a.name in ("axis", "axes")]
    return any(n < 0 for a in found for n in (a.i, *a.ints))


def tensor(name: str, array: Array) -> TensorProto:
    """An initializer; numpy's types and those of ml_dtypes."""
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def array_of(proto: TensorProto) -> Array:
    return np.asarray(numpy_helper.to_array(proto))


def dtype_of(proto: TensorProto | onnx.ValueInfoProto) -> str | None:
    """The short name of the element type; None where it is no tensor."""
    if isinstance(proto, TensorProto):
        return DTYPE_OF.get(proto.data_type)
    return DTYPE_OF.get(proto.type.tensor_type.elem_type)


def dims_of(info: onnx.ValueInfoProto) -> list[int | str | None] | None:
    """Sizes and names; None for a size without a name, and for an unknown rank."""
    kind = info.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return [
        d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in kind.shape.dim
    ]


def value_info(
    name: str, elem: int, dims: Sequence[int | str | None] | None
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem, dims)


def cast(array: Array, dtype: str) -> Array:
    """The nearest values of another element type; out of an integer's range: its ends."""
    wanted = to_numpy(dtype)
    if dtype[0] not in "su" or dtype == "string" or array.dtype.kind in "OSU":
        with np.errstate(all="ignore"):
            return np.asarray(array.astype(wanted))
    low, high = integer_range(dtype)
    if array.dtype.kind in "iub":
        numbers = [min(max(int(n), low), high) for n in array.reshape(-1).tolist()]
    else:
        wide = np.nan_to_num(array.astype(np.float64)).reshape(-1).tolist()
        numbers = [min(max(round(n), low), high) for n in wide]
    whole = np.array(numbers, np.uint64 if low == 0 else np.int64)
    return whole.astype(wanted).reshape(array.shape)


def _is_huge(found: Type) -> bool:
    sizes = [d for d in found.shape or () if isinstance(d, int)]
    return math.prod(sizes) > MOST_ELEMENTS


def _declared(name: str, found: Type) -> onnx.ValueInfoProto:
    assert found.dtype is not None
    dims = None
    if found.shape is not None:
        dims = [None if isinstance(d, str) and d.startswith("?") else d for d in found.shape]
    return value_info(name, DTYPES[found.dtype], dims)
