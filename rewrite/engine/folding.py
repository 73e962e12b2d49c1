"""Constant folding: nodes whose operands are all known are computed once, here.

In: nodes of a model. Out: constants in their place, records in the journal, or a refusal where the
result would be too large (nothing is allocated to find that out).

A declared operator is evaluated by its declaration (rewrite/ops), any other deterministic one by
the reference evaluator that comes with onnx. Not folded: random operators; DequantizeLinear, so
that quantized weights stay quantized, and a Cast of weights that is about to be scaled, for the
same reason; integer operators that runtimes compute differently from the
reference evaluator (QLinear*); nodes with subgraphs, except an If whose condition is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from rewrite.engine.determinism import is_random
from rewrite.engine.evaluation import Evaluated, evaluate_node, nbytes
from rewrite.engine.inference import node_types
from rewrite.engine.inlining import inline_if
from rewrite.engine.journal import Folded, Log, Refused
from rewrite.engine.ledger import EXACT
from rewrite.engine.limits import Limits, Options
from rewrite.engine.refused import RefusedError
from rewrite.engine.shapes import ShapeValues, follows_shapes
from rewrite.engine.worklist import Worklist
from rewrite.graph import edit
from rewrite.graph.facts import Facts
from rewrite.graph.names import subgraphs
from rewrite.graph.tensors import ComputedTensor, MappedTensor, SparseTensor
from rewrite.graph.uses import uses_of
from rewrite.ops.dtypes import to_numpy
from rewrite.schema import DESCRIBED_DOMAINS, DTYPE_CLASSES, Type

FOLD = "constant folding"
PHASE = "clean"

_LEFT = frozenset({"Constant", "DequantizeLinear", "Loop", "Scan", "SequenceMap"})
_STORED = frozenset({"u8", "s8", "u4", "s4", "u2", "s2"})
_MANY = 16  # elements; fewer are no weights
_IN_NO_MEMORY = (MappedTensor, ComputedTensor, SparseTensor)
# Results whose size depends on more than the sizes of the operands.
_GENERATORS = frozenset(
    {"ConstantOfShape", "Expand", "Tile", "Range", "OneHot", "Pad", "Resize", "Upsample", "EyeLike"}
)

Change = tuple[tuple[ir.Node, ...], tuple[ir.Value, ...]]  # new nodes, values whose users see more


@dataclass(slots=True)
class Budget:
    """Bytes of constants that a run may add; what a result makes superfluous is given back."""

    always: int  # a result of so many bytes is never too large for what it is computed from
    left: int

    def admits(self, result: int, cost: Cost) -> bool:
        if result > max(self.always, 2 * cost.read):
            return False
        return result - cost.freed <= self.left

    def spend(self, result: int, cost: Cost) -> None:
        self.left -= result - cost.freed


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of operands: all of them, and those whose memory is free afterwards."""

    read: int
    freed: int


class Folder:
    """Folds what is on its worklist; `run` yields each change as it is made."""

    def __init__(
        self, facts: Facts, log: Log, limits: Limits, options: Options, weights: int
    ) -> None:
        """`weights`: bytes of the model's constants."""
        self.facts = facts
        self.log = log
        self.options = options
        self.work = Worklist()
        self.shapes = ShapeValues(facts)
        self.budget = Budget(limits.fold_bytes, limits.most_bytes(weights))

    def seed(self, nodes: Iterable[ir.Node]) -> None:
        if self.options.fold:
            self.work.seed(nodes)

    def changed(self, new: Sequence[ir.Node], values: Sequence[ir.Value]) -> None:
        """New nodes, and values that took the place of others: constants make users foldable."""
        if not self.options.fold:
            return
        users = [
            usage.node
            for value in values
            if self.facts.constant(value) is not None
            for usage in value.uses()
        ]
        if new or users:
            for node in (*new, *users):
                self.work.note(node)
            self.work.take_noted()

    def run(self) -> Iterator[Change]:
        while (node := self.work.pop()) is not None:
            try:
                change = self._visit(node)
            except RefusedError as refused:
                self._refuse(node, refused.reason)
                continue
            if change is not None:
                yield change

    def _refuse(self, node: ir.Node, reason: str) -> None:
        graph = node.graph
        name = str(graph.name or "") if graph is not None else ""
        self.log.refuse(Refused(FOLD, PHASE, name, str(node.outputs[0].name), reason))

    def _visit(self, node: ir.Node) -> Change | None:
        if node._op_type == "If" and node._domain == "":
            return inline_if(self.facts, self.log, node)
        if self._is_candidate(node):
            return self._fold(node)
        return self._shape(node) if follows_shapes(self.facts, node) else None

    def _is_candidate(self, node: ir.Node) -> bool:
        """Whether all operands are known and the operator may be computed ahead."""
        known = False
        for value in node._inputs:
            if value is None:
                continue
            producer = value._producer
            if producer is not None and producer._op_type != "Constant":
                return False
            if self.facts.constant(value) is None:
                return False
            known = True
        if not known or node.op_type in _LEFT or node.domain not in DESCRIBED_DOMAINS:
            return False
        if node.op_type == "Cast" and self._is_stored_code(node):
            return False
        return not is_random(node) and next(subgraphs(node), None) is None

    def _is_stored_code(self, node: ir.Node) -> bool:
        """Whether it is W of (W - zero) * scale: weights that are stored in 8 bits or less."""
        source, output = node.inputs[0], node.outputs[0]
        if source is None or node.domain != "" or output.is_graph_output():
            return False
        dtypes = self.facts.type(source).dtype, self.facts.type(output).dtype
        tensor = self.facts.constant(source)
        if dtypes[0] not in _STORED or dtypes[1] not in DTYPE_CLASSES["f"] or tensor is None:
            return False
        users = [user.op_type for user, _ in uses_of(output)]
        return tensor.size >= _MANY and bool(users) and all(u in ("Mul", "Sub") for u in users)

    # --- computing -----------------------------------------------------------------------------

    def _fold(self, node: ir.Node) -> Change | None:
        facts = self.facts
        operands = facts.operands(node)
        spent = self._cost(node)
        types = node_types(facts, node, operands)
        self._check_size(node, types, spent)
        done = evaluate_node(facts, node, operands, types)
        if done is None:
            return None
        if not done.bound.within(self.options.max_class):
            return None
        size = sum(array.nbytes for array in done.arrays)
        if not self.budget.admits(size, spent):
            raise RefusedError(f"the result has {size} bytes, more than may be added")
        self.budget.spend(size, spent)
        return self._replace(node, done)

    def _cost(self, node: ir.Node) -> Cost:
        read = freed = 0
        for value in node.inputs:
            tensor = None if value is None else self.facts.constant(value)
            if value is None or tensor is None:
                continue
            size = nbytes(tensor)
            read += size
            if isinstance(tensor, SparseTensor) and size > self.budget.always:
                raise RefusedError(f"an operand is sparse, and has {size:,} bytes when it is not")
            # Data in a mapped file, or computed from it, take no memory of their own, so that none
            # becomes free; those of a sparse tensor are less than its size.
            if len(value.uses()) == 1 and not isinstance(tensor, _IN_NO_MEMORY):
                freed += size
        return Cost(read, freed)

    def _check_size(self, node: ir.Node, types: Sequence[Type], spent: Cost) -> None:
        for type_ in types:
            if type_.shape is None or any(isinstance(dim, str) for dim in type_.shape):
                if node.op_type in _GENERATORS:
                    raise RefusedError(f"the size of what {node.op_type} makes is not known")
                continue
            count = math.prod(int(dim) for dim in type_.shape)
            width = to_numpy(type_.dtype).itemsize if type_.dtype else 8
            if not self.budget.admits(count * width, spent):
                text = f"{node.op_type} would make a constant of {count * width:,} bytes"
                raise RefusedError(f"{text}; the limit is for constants to stay small")

    def _replace(self, node: ir.Node, done: Evaluated) -> Change | None:
        facts, graph = self.facts, node.graph
        assert graph is not None
        pairs = []
        for output, array in zip(node.outputs, done.arrays, strict=True):
            if output.is_graph_output() and facts.declared.contradicts(output, array.shape):
                raise RefusedError("the model declares another shape of this output")
            if output.uses() or output.is_graph_output():
                pairs.append((output, edit.new_constant(facts, array, f"{output.name}_folded")))
        if not pairs:
            return None
        names = tuple(str(old.name) for old, _ in pairs)
        made = edit.replace(facts, graph, pairs, (), (node,))
        if isinstance(made, edit.Refused):
            raise RefusedError(made.reason)
        made.finish()
        size = sum(array.nbytes for array in done.arrays)
        self.log.folded.append(
            Folded(node.op_type, str(graph.name or ""), names, size, done.bound, done.evidence)
        )
        return made.new_nodes, tuple(new for _, new in pairs)

    # --- shapes --------------------------------------------------------------------------------

    def _shape(self, node: ir.Node) -> Change | None:
        """A node whose result follows from shapes that are known, though its operands are not."""
        array = self.shapes.constant(node)
        if array is None:
            return None
        return self._replace(node, Evaluated((array,), EXACT, "follows from known shapes"))
