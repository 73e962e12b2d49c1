"""What is known about the values and nodes of one model.

In: a model (and types inferred when it was loaded). Out: `Facts`: type, constness, constant value,
operator version, operands and attributes in the newest form. Answers are computed when first
asked for and kept; whoever edits the model calls `forget` or goes through `rewrite.graph.edit`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from rewrite.graph import types
from rewrite.graph.constants import constant_of_node
from rewrite.graph.declared import Declared
from rewrite.graph.infer import NOTHING, Inferred
from rewrite.graph.names import Names, subgraphs
from rewrite.graph.order import Order
from rewrite.graph.tensors import elements
from rewrite.ops import legacy, schemas
from rewrite.schema import Type

SMALL_BYTES = 1 << 16  # arrays up to this size are kept
SCALAR_ELEMENTS = 1 << 16  # larger constants are never taken for a scalar

_ABSENT: Any = object()  # "not computed yet", where None is an answer


class ReferenceAttribute(Exception):  # noqa: N818 - a state of the node, not an error of the user
    """The attribute's value is a parameter of the enclosing function: known only to its callers."""


class Facts:
    """Facts of one model, cached by the value or node they are about."""

    def __init__(
        self,
        model: ir.Model,
        declared: Declared | None = None,
        pinned: frozenset[str] = frozenset(),
        kept: frozenset[str] = frozenset(),
        nested: bool = True,
    ) -> None:
        self.model = model
        self.names = Names(model, kept | pinned)
        self.order = Order()
        self.freed: dict[ir.Value, None] = {}  # computed values that lost uses to removed nodes
        self.notes: list[str] = []  # what changed in the model besides what rules did
        self.declared = declared if declared is not None else Declared()
        self.pinned = pinned  # initializers that training changes: kept, and not constant
        self.kept = kept | pinned  # initializers that something outside the graph names
        self.outlined: dict[Hashable, ir.Function] = {}  # functions made, by their content
        # Called for a computed value of which shape inference knows too little; may `set_type`.
        self.complete: Callable[[ir.Value], None] | None = None
        self._nested = nested  # whether there may be graphs inside nodes
        self._inferred = NOTHING
        self._unknown = 0
        self._of_proto = types.FromProto(self.fresh_dim)
        self._types: dict[ir.Value, Type] = {}
        self._constants: dict[ir.Value, ir.TensorProtocol | None] = {}
        self._arrays: dict[ir.Value, np.ndarray] = {}
        self._scalars: dict[ir.Value, float | int | bool | None] = {}
        self._legacy: dict[ir.Node, dict[int, ir.Value]] = {}
        self._legacy_source: dict[ir.Value, ir.Attr] = {}
        self._defaults: dict[tuple[str, str, int, str], object] = {}
        self._owners: dict[ir.Graph, tuple[ir.Graph, ir.Node | None]] = {}
        self._imports: dict[ir.Graph, dict[str, int]] = {}  # of the root, as they are now

    def release(self) -> None:
        """Nothing is asked any more: what holds data is dropped."""
        self._constants.clear()
        self._arrays.clear()
        self._legacy.clear()
        self._inferred = NOTHING
        self.declared = Declared()

    # --- types ---------------------------------------------------------------------------------

    def learn(self, inferred: Inferred) -> None:
        """Types found by shape inference count from now on."""
        self._inferred = inferred
        self._types.clear()

    def fresh_dim(self) -> str:
        """A name for a size that the model does not name."""
        self._unknown += 1
        return f"?{self._unknown - 1}"

    def type(self, value: ir.Value) -> Type:
        """Element type and shape as far as known. Not a dense tensor: nothing known."""
        found = self._types.get(value)
        if found is None:
            found = self._types[value] = self._find_type(value)
            vague = self.complete is not None and types.is_vague(found)
            if vague and self.complete is not None and value.producer() is not None:
                self.complete(value)
                found = self._types[value]
        return found

    def _find_type(self, value: ir.Value) -> Type:
        tensor, node = value._const_value, value._producer
        if tensor is None and node is not None and node._op_type == "Constant":
            tensor = self.constant(value)
        if tensor is not None and not (value.is_graph_input() and self.is_overridable(value)):
            return types.of_tensor(tensor)
        proto = self._inferred.type(value)
        if proto is None:
            return self._declared_type(value)
        inferred = self._of_proto(proto)
        if inferred.dtype is not None and inferred.shape is not None:
            return inferred
        declared = self._declared_type(value)
        return Type(
            inferred.dtype if inferred.dtype is not None else declared.dtype,
            inferred.shape if inferred.shape is not None else declared.shape,
        )

    def _declared_type(self, value: ir.Value) -> Type:
        info = self.declared.infos.get(value)
        if info is not None:
            return self._of_proto(info.type)
        return types.from_ir(value, self.fresh_dim)

    def set_type(self, value: ir.Value, type_: Type) -> None:
        """Record what an edit knows about a new value."""
        self._types[value] = type_

    def forget(self, value: ir.Value) -> None:
        """Drop everything kept about a value, which is gone."""
        self._types.pop(value, None)
        if self._constants.pop(value, None) is not None:
            self._arrays.pop(value, None)
        self._scalars.pop(value, None)
        self.declared.forget(value)

    # --- constants -----------------------------------------------------------------------------

    def is_overridable(self, value: ir.Value) -> bool:
        """An initializer whose value somebody outside may replace at each run.

        From IR version 4 on an initializer that is also an input is only a default; before, every
        initializer had to be listed among the inputs. In subgraphs inputs are always given.
        """
        if not value.is_initializer():
            return False
        if value.name in self.pinned:
            return True
        if not value.is_graph_input():
            return False
        return value.graph is not self.model.graph or self.model.ir_version >= 4

    def constant(self, value: ir.Value) -> ir.TensorProtocol | None:
        """The constant that the value always is, else None."""
        found = self._constants.get(value, _ABSENT)
        if found is _ABSENT:
            found = self._constants[value] = self._find_constant(value)
        return found  # type: ignore[no-any-return]

    def _find_constant(self, value: ir.Value) -> ir.TensorProtocol | None:
        node = value._producer
        if node is not None:
            if node._op_type != "Constant" or node._domain != "":
                return None
            return constant_of_node(node)
        if value.is_initializer():
            return None if self.is_overridable(value) else value.const_value
        return None if value.is_graph_input() else value.const_value

    def array(self, value: ir.Value) -> np.ndarray | None:
        """The constant as an array (read only: others see the same memory), else None."""
        found = self._arrays.get(value)
        if found is not None:
            return found
        tensor = self.constant(value)
        if tensor is None:
            return None
        found = elements(tensor)
        if found.nbytes <= SMALL_BYTES:
            self._arrays[value] = found
        return found

    def scalar(self, value: ir.Value) -> float | int | bool | None:
        """The one number that all elements of a constant are, bit for bit, else None."""
        found = self._scalars.get(value, _ABSENT)
        if found is _ABSENT:
            found = self._scalars[value] = self._find_scalar(value)
        return found  # type: ignore[no-any-return]

    def _find_scalar(self, value: ir.Value) -> float | int | bool | None:
        tensor = self.constant(value)
        if tensor is None or not 1 <= tensor.size <= SCALAR_ELEMENTS:
            return None
        array = self.array(value)
        if array is None or array.dtype.kind in "OUSTc":
            return None
        first = array.reshape(-1)[:1]
        if array.size > 1 and first.tobytes() * array.size != array.tobytes():
            return None
        item = first[0].item()
        return item if isinstance(item, (bool, int, float)) else float(item)

    # --- nodes ---------------------------------------------------------------------------------

    def opset(self, node: ir.Node) -> int:
        """The version of the node's domain that its graph imports; 0 where it imports none."""
        version: int | None = node._version
        if version is not None:
            return version
        graph = node._graph
        return self.import_of(self.model.graph if graph is None else graph, node._domain)

    def import_of(self, graph: ir.Graph, domain: str) -> int:
        """The version of `domain` that `graph` (or the graph or function around it) imports."""
        imports = self._imports.get(graph)
        if imports is None:
            imports = self._imports[graph] = self.root(graph).opset_imports
        return imports.get(domain, 0)

    def operands(self, node: ir.Node) -> tuple[ir.Value | None, ...]:
        """The node's inputs in the newest form, without absent ones at the end.

        An operand that the version at hand carries as an attribute appears as a constant value;
        where the attribute is a parameter of a function, as a value about which nothing is known.
        """
        inputs: tuple[ir.Value | None, ...] = node._inputs
        if node._op_type in legacy.TABLE and node._domain == "":
            inputs = self._with_legacy(node, inputs)
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        return inputs

    def _with_legacy(
        self, node: ir.Node, inputs: tuple[ir.Value | None, ...]
    ) -> tuple[ir.Value | None, ...]:
        carried = self._legacy.get(node)
        if carried is None:
            carried = self._legacy[node] = dict(self._legacy_operands(node))
        if not carried:
            return inputs
        found = list(inputs) + [None] * (max(carried) + 1 - len(inputs))
        for index, value in carried.items():
            found[index] = value
        return tuple(found)

    def _legacy_operands(self, node: ir.Node) -> Iterator[tuple[int, ir.Value]]:
        opset = self.opset(node)
        for index, entry in legacy.operands_of(node.domain, node.op_type, opset).items():
            attribute = node.attributes.data.get(entry.attribute)
            hint = f"{node.outputs[0].name or node.op_type}_{entry.name}"
            if attribute is not None and attribute.is_ref():
                value = ir.Value(name=hint)
                self._legacy_source[value] = attribute
                yield index, value
                continue
            first = node.inputs[0] if node.inputs else None
            dtype = self.type(first).dtype if first is not None else None
            given = None if attribute is None else attribute.value
            array = legacy.legacy_operand("", node.op_type, opset, index, given, dtype)
            if array is None and given is None:
                continue
            if array is None:  # Clip or Pad of an input whose element type is not known
                value = ir.Value(name=hint)
            else:
                tensor = ir.tensor(array, name=hint)
                value = ir.Value(name=hint, const_value=tensor)
                self._types[value] = types.of_tensor(tensor)
            if attribute is not None:
                self._legacy_source[value] = attribute
            yield index, value

    def legacy_source(self, value: ir.Value) -> ir.Attr | None:
        """The attribute that an operand made by `operands` stands for."""
        return self._legacy_source.get(value)

    def attribute(self, node: ir.Node, name: str) -> Any:
        """The attribute's value, or the default of the version at hand; None where there is none.

        Raises `ReferenceAttribute` in function bodies where the value is the function's parameter.
        """
        attribute = node._attributes.data.get(name)
        if attribute is not None:
            if attribute.is_ref():
                raise ReferenceAttribute(name)
            return attribute.value
        return self._default(node._domain, node._op_type, self.opset(node), name)

    def _default(self, domain: str, op_type: str, opset: int, name: str) -> object:
        key = (domain, op_type, opset, name)
        found = self._defaults.get(key, _ABSENT)
        if found is _ABSENT:
            found = self._defaults[key] = schema_default(domain, op_type, opset, name)
        return found

    # --- uses and graphs -----------------------------------------------------------------------

    def uses_outside(self, value: ir.Value, nodes: Collection[ir.Node]) -> bool:
        """Whether anything but `nodes` needs the value: a node (also in a subgraph), an output."""
        if value._is_graph_output:
            return True
        for user, _ in value._uses:  # noqa: SIM110 - a generator costs more than the uses
            if user not in nodes:
                return True
        return False

    def root(self, graph: ir.Graph) -> ir.Graph:
        """The main graph or function body that a graph is part of."""
        if graph is self.model.graph:
            return graph
        return self._owner(graph)[0]

    def parent_node(self, graph: ir.Graph) -> ir.Node | None:
        """The node that holds a subgraph; None for the main graph and function bodies."""
        return None if graph is self.model.graph else self._owner(graph)[1]

    def in_function(self, graph: ir.Graph) -> bool:
        """Whether the graph is a function's body itself: no initializers there."""
        return graph is not self.model.graph and self._owner(graph)[0] is graph

    def graphs(self) -> tuple[ir.Graph, ...]:
        """The main graph, its subgraphs, then each function's body with its subgraphs."""
        return tuple(graph for graph, _, _ in walk(self.model, self._nested))

    def forget_graphs(self) -> None:
        """Graphs were added to the model, or moved."""
        self._owners.clear()
        self._imports.clear()

    def _owner(self, graph: ir.Graph) -> tuple[ir.Graph, ir.Node | None]:
        if graph not in self._owners:
            self._owners = {g: (root, node) for g, root, node in walk(self.model, self._nested)}
        return self._owners[graph]


def schema_default(domain: str, op_type: str, opset: int, name: str) -> object | None:
    implied = legacy.implied_attribute(domain, op_type, opset, name)
    if implied is not None:
        return implied
    schema = schemas.lookup(domain, op_type, opset)
    if schema is not None and name in schema.attributes:
        return schema.attributes[name].default
    having = [v for v in schemas.versions(domain, op_type) if name in v.attributes]
    for later in having:
        if later.since > opset:
            return later.attributes[name].default
    # Dropped since: what the last version that had it did without being told (BatchNormalization's
    # spatial became the only way).
    return having[-1].attributes[name].default if having else None


def walk(
    model: ir.Model, nested: bool = True
) -> Iterator[tuple[ir.Graph, ir.Graph, ir.Node | None]]:
    """Every graph of a model with its root and the node that holds it, outer before inner."""
    roots = [model.graph, *(function.graph for function in model.functions.values())]
    for root in roots:
        pending: list[tuple[ir.Graph, ir.Node | None]] = [(root, None)]
        for graph, holder in pending:
            yield graph, root, holder
            if nested:
                pending.extend((inner, node) for node in graph for inner in subgraphs(node))
