"""Tidying: dead code, equal constants, common subexpressions. Linear in the size of the model.

In: a model's `Facts`. Out: the model with the same results, and the values whose uses changed.

Not merged: nodes that draw random numbers or hold subgraphs, nodes of domains nobody describes,
QuantizeLinear and DequantizeLinear (runtimes fuse a pair per consumer, and undo a merge);
statistics that a BatchNormalization in training updates (runtimes do it in place).
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

import onnx_ir as ir

from rewrite.engine.determinism import is_deterministic
from rewrite.engine.evaluation import nbytes
from rewrite.engine.journal import Log
from rewrite.engine.quantized_drift import Drift
from rewrite.graph import edit
from rewrite.graph.dead import drop_initializer, remove_dead
from rewrite.graph.facts import Facts
from rewrite.graph.keys import MESSAGES, attribute_key, content, tensors_of
from rewrite.graph.tensors import ComputedTensor, elements
from rewrite.graph.uses import nodes_of, rewire, uses_of
from rewrite.graph.versions import FREE_INITIALIZERS

_SMALL = 1 << 12  # bytes: always compared
_LARGE = 16 << 20  # bytes: never compared
_HASHED = 256 << 20  # bytes hashed in one run at most
_SAMPLED = 64  # elements of a large constant that are compared first
_KEPT_APART = frozenset({"QuantizeLinear", "DequantizeLinear"})
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


class Tidier:
    """Keeps what it knows about constants from one run to the next."""

    def __init__(self, facts: Facts, log: Log, drift: Drift | None = None) -> None:
        self.facts = facts
        self.log = log
        self.drift = drift
        self._digests: dict[ir.Value, Hashable] = {}
        self._forms: dict[ir.Value, Hashable] = {}
        self._hashed = 0

    def run(self) -> list[ir.Value]:
        """Tidy once; the values that have gained or lost users."""
        self.log.clean("dead", len(remove_dead(self.facts)))
        self._lift()
        touched: list[ir.Value] = []
        for graph in self.facts.graphs():
            touched += self._merge_constants(graph)
            touched += self._merge_nodes(graph)
        return touched

    def _lift(self) -> None:
        """Constant nodes become initializers, where graphs have those and nothing else changes."""
        if self.facts.model.ir_version < FREE_INITIALIZERS:
            return
        lifted = 0
        for graph in self.facts.graphs():
            if self.facts.in_function(graph):
                continue
            nodes = nodes_of(graph)
            for node in [n for n in nodes if n._op_type == "Constant" and n._domain == ""]:
                output = node.outputs[0]
                tensor = self.facts.constant(output)
                if tensor is None or "sparse_value" in node.attributes:
                    continue
                value = edit.new_constant(self.facts, tensor, str(output.name))
                done = edit.replace(self.facts, graph, [(output, value)], (), (node,))
                if not isinstance(done, edit.Refused):
                    done.finish()
                    lifted += 1
        self.log.clean("lifted", lifted)

    # --- constants -----------------------------------------------------------------------------

    def _merge_constants(self, graph: ir.Graph) -> list[ir.Value]:
        """Let users of equal initializers use the first of them."""
        alike: dict[Hashable, list[ir.Value]] = {}
        for value in graph.initializers.values():
            form = self._form(value)
            if form is not None and not self._is_fixed(value):
                alike.setdefault(form, []).append(value)
        kept: list[ir.Value] = []
        for values in alike.values():
            if len(values) < 2:
                continue
            first: dict[Hashable, ir.Value] = {}
            for value in values:
                digest = None if _is_updated(value) else self._digest(value)
                if digest is None:
                    continue
                keeper = first.setdefault(digest, value)
                if keeper is not value:
                    self._redirect(value, keeper)
                    kept.append(keeper)
        self.log.clean("duplicate", len(kept))
        return list(dict.fromkeys(kept))

    def _form(self, value: ir.Value) -> Hashable:
        """Type, shape and some elements of a constant: those that differ there are not read in
        full. None for what is not compared."""
        if value in self._forms:
            return self._forms[value]
        tensor, form = value.const_value, None
        if tensor is not None:
            size = nbytes(tensor)
            sample: Hashable = b""
            if isinstance(tensor, ComputedTensor):
                sample = tensor.recipe.key
            elif _SMALL < size <= _LARGE and tensor.dtype != ir.DataType.STRING:
                flat = elements(tensor).reshape(-1)
                sample = flat[:: max(1, flat.size // _SAMPLED)].tobytes()
            if size <= _LARGE:
                form = (tensor.dtype, tuple(tensor.shape), sample)
        self._forms[value] = form
        return form

    def _is_fixed(self, value: ir.Value) -> bool:
        """Whether the signature or something outside the graph names the value."""
        facts = self.facts
        return (
            value.is_graph_input()
            or value.is_graph_output()
            or value.name in facts.pinned
            or bool(value.metadata_props)
        )

    def _digest(self, value: ir.Value) -> Hashable:
        """The content, or a digest of it; None where reading it costs too much."""
        found = self._digests.get(value)
        if found is not None:
            return found
        tensor = value.const_value
        assert tensor is not None
        if isinstance(tensor, ComputedTensor):
            return tensor.recipe.key  # computed alike: not computed to be compared
        if nbytes(tensor) > _SMALL:
            self._hashed += nbytes(tensor)
            if self._hashed > _HASHED:
                return None
        found = content(tensor)
        if isinstance(found, bytes) and nbytes(tensor) > _SMALL:
            found = hashlib.blake2b(found, digest_size=32).digest()
        self._digests[value] = found
        return found

    def _redirect(self, value: ir.Value, keeper: ir.Value) -> None:
        for usage in value.uses():
            rewire(usage.node, usage.idx, keeper)
        drop_initializer(self.facts, value)
        self._digests.pop(value, None)
        self._forms.pop(value, None)

    # --- nodes ---------------------------------------------------------------------------------

    def _merge_nodes(self, graph: ir.Graph) -> list[ir.Value]:
        """Let users of a node that computes what an earlier one computes use the earlier one."""
        first: dict[Hashable, ir.Node] = {}
        touched: list[ir.Value] = []
        merged = 0
        for node in graph:
            key = self._key(node)
            if key is None:
                continue
            keeper = first.setdefault(key, node)
            if keeper is not node and self._merge(graph, node, keeper):
                merged += 1
                touched += keeper.outputs
        self.log.clean("common", merged)
        return touched

    def _key(self, node: ir.Node) -> Hashable:
        """Equal for nodes that compute the same; None for those that are left alone."""
        for value in node._inputs:
            if value is not None and len(value._uses) < 2:
                return None
        if node._op_type in _KEPT_APART or not is_deterministic(node):
            return None
        if not node.attributes.data:
            return node.domain, node.op_type, node.overload, node.inputs, len(node.outputs)
        parts = []
        for attribute in node.attributes.data.values():
            key = _attribute_key(attribute)
            if key is None:
                return None
            parts.append(key)
        parts.sort(key=lambda part: part[0])
        return (
            node.domain,
            node.op_type,
            node.overload,
            node.inputs,
            len(node.outputs),
            tuple(parts),
        )

    def _merge(self, graph: ir.Graph, node: ir.Node, keeper: ir.Node) -> bool:
        pairs = list(zip(node.outputs, keeper.outputs, strict=True))
        if self.drift is not None:
            self.drift.merged(pairs)
        if any(old.is_graph_output() and new.is_graph_output() for old, new in pairs):
            return _move_users(pairs)
        done = edit.replace(self.facts, graph, pairs, (), (node,))
        if isinstance(done, edit.Refused):
            return False
        done.finish()
        return True


def _is_updated(value: ir.Value) -> bool:
    """Whether the value is the running mean or variance of a BatchNormalization in training.

    Before opset 14 that is one with more than one output, from then on one with `training_mode`.
    """
    for usage in uses_of(value):
        node = usage.node
        if node._op_type != "BatchNormalization" or usage.idx not in (3, 4):
            continue
        training = node.attributes.data.get("training_mode")
        if len(node.outputs) > 1 or (training is not None and training.value != 0):
            return True
    return False


def _move_users(pairs: Sequence[tuple[ir.Value, ir.Value]]) -> bool:
    """Both nodes stay, as both have an output of the graph; what else they give is given once."""
    moved = False
    for old, new in pairs:
        if not old.is_graph_output():
            for usage in old.uses():
                rewire(usage.node, usage.idx, new)
                moved = True
    return moved


def _attribute_key(attribute: ir.Attr) -> tuple[str, str, Hashable] | None:
    """None for what is not compared: graphs, messages, large tensors."""
    if attribute.is_ref():
        return attribute_key(attribute)
    if attribute.type in _GRAPHS or attribute.type in MESSAGES:
        return None
    if any(nbytes(tensor) > _SMALL for tensor in tensors_of(attribute)):
        return None
    return attribute_key(attribute)
