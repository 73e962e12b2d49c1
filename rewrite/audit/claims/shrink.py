"""A counterexample made as small as it goes.

In: a rule, alone, and a counterexample. Out: one with fewer nodes, smaller tensors, plainer
numbers, that still refutes the rule, perhaps for another reason.

Simplifications are tried in turn, and kept where the result still refutes; until none helps or the
tries are used up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx

from rewrite.audit.claims.check import check
from rewrite.audit.claims.counterexample import Counterexample
from rewrite.audit.claims.inputs import simplest
from rewrite.audit.feeds import Array, is_float
from rewrite.audit.instances.alone import Alone
from rewrite.audit.instances.draft import Draft, array_of, dims_of, value_info
from rewrite.audit.instances.instance import Instance
from rewrite.audit.instances.registry import Change
from rewrite.audit.instances.variations.attributes import remove_attribute
from rewrite.audit.instances.variations.shapes import reshape, resize, set_dim
from rewrite.engine.completion import Completer
from rewrite.graph import io
from rewrite.schema import DTYPES, Type

TRIES = 200
Size = tuple[int, int, int, int]


def shrink(alone: Alone, found: Counterexample, tries: int = TRIES) -> Counterexample:
    """The smallest counterexample that was found; the one given, where nothing is smaller."""
    best = found
    left = tries
    progress = True
    while progress:
        progress = False
        for change in _simplifications(best.before):
            if left == 0:
                return simplest(best)
            left -= 1
            smaller = _tried(alone, best, change)
            if smaller is not None:
                best, progress = smaller, True
                break
    return simplest(best)


def _tried(alone: Alone, best: Counterexample, change: Change) -> Counterexample | None:
    model = change.of(best.before)
    if model is None or _size(model) >= _size(best.before):
        return None
    applied = alone.apply(model)
    if applied is None or applied.after is None:
        return None
    checked = check(model, applied.after, applied.bound)
    if checked.status != "broken":
        return None
    instance = Instance(model, True, best.varied, best.source, alone.target.name)
    return Counterexample.seen(alone.rule.name, instance, applied.after, checked)


def _size(model: onnx.ModelProto) -> Size:
    """Nodes; elements; attributes and inputs; numbers that are not 0 or 1."""
    draft = Draft(model)
    arrays = [array_of(t) for t in draft.constants()]
    elements = sum(a.size for a in arrays) + sum(_elements(v) for v in draft.open_inputs())
    odd = sum(int(((a != 0) & (a != 1)).sum()) for a in arrays if a.dtype.kind not in "OSU")
    parts = sum(len(n.attribute) + len(n.input) for n in draft.nodes)
    return len(draft.nodes) + len(draft.graph.output), elements, parts + len(arrays), odd


def _elements(value: onnx.ValueInfoProto) -> int:
    """Of an input; a size that is not known counts as a large one, as does a rank."""
    dims = dims_of(value)
    if dims is None:
        return 1 << 16
    size = 1
    for dim in dims:
        size *= dim if isinstance(dim, int) else 64
    return size + len(dims)


# --- what may be simpler -----------------------------------------------------------------------


def _simplifications(model: onnx.ModelProto) -> Iterator[Change]:
    draft = Draft(model)
    yield from _fewer_nodes(draft)
    yield from _fewer_parts(draft)
    yield from _smaller(draft)
    yield from _plainer(draft)


def _fewer_nodes(draft: Draft) -> Iterator[Change]:
    types = _types(draft.model)
    for index, node in enumerate(draft.nodes):
        yield Change(f"without {node.op_type}", partial(_cut_above, index=index, types=types))
    if len(draft.graph.output) > 1:
        for output in draft.graph.output:
            yield Change(f"without output {output.name}", partial(_drop_output, name=output.name))
    for index, node in enumerate(draft.nodes):
        yield Change(f"ends above {node.op_type}", partial(_cut_below, index=index))


def _fewer_parts(draft: Draft) -> Iterator[Change]:
    for index, node in enumerate(draft.nodes):
        for attribute in node.attribute:
            label = f"{node.op_type} without {attribute.name}"
            yield Change(label, partial(remove_attribute, index=index, name=attribute.name))


def _smaller(draft: Draft) -> Iterator[Change]:
    sizes = {d for v in draft.open_inputs() for d in dims_of(v) or () if isinstance(d, int)}
    sizes |= {d for t in draft.constants() for d in t.dims}
    for old in sorted(sizes, reverse=True):
        for new in (1, 2, 3):
            if new < old:
                yield Change(f"size {old} to {new}", partial(resize, old=old, new=new))
    for given in draft.open_inputs():
        dims = dims_of(given)
        for place, dim in enumerate(dims or ()):
            if dim != 1 and dim != 0:
                for new in (1, 2):
                    yield Change("smaller", partial(set_dim, name=given.name, place=place, dim=new))
        if dims:
            yield Change("rank", partial(reshape, name=given.name, dims=dims[1:]))
        elif dims is None:
            yield Change("rank", partial(reshape, name=given.name, dims=[2]))
    for constant in draft.constants():
        array = array_of(constant)
        if array.size > 1:
            one = array.reshape(-1)[:1].reshape(())
            yield Change("one element", partial(Draft.set_constant, name=constant.name, array=one))


def _plainer(draft: Draft) -> Iterator[Change]:
    for constant in draft.constants():
        array = array_of(constant)
        for plain in _plain(array):
            yield Change("plainer", partial(Draft.set_constant, name=constant.name, array=plain))


def _plain(array: Array) -> Iterator[Array]:
    """Arrays with fewer numbers that are not 0 or 1."""
    if array.dtype.kind in "OSU" or not array.size:
        return
    yield np.ones_like(array)
    yield np.zeros_like(array)
    if is_float(array):
        with np.errstate(all="ignore"):
            yield np.where(np.abs(array) > 1, 1, 0).astype(array.dtype)
    flat = array.reshape(-1)
    if array.size <= 16:
        for place in range(array.size):
            for value in (0, 1):
                changed = flat.copy()
                changed[place] = value
                yield changed.reshape(array.shape)


def _types(model: onnx.ModelProto) -> dict[str, Type]:
    loaded = io.load(model)
    facts = loaded.facts
    facts.complete = Completer(facts)
    values = [v for node in loaded.model.graph for v in node.outputs]
    return {v.name: facts.type(v) for v in values if v.name}


def _cut_above(draft: Draft, index: int, types: dict[str, Type]) -> bool:
    """The node goes; what it computed is given."""
    node = draft.graph.node[index]
    outputs = {v.name for v in draft.graph.output}
    if any(name in outputs for name in node.output):
        return False
    for name in node.output:
        found = types.get(name)
        if not name or not draft.users(name):
            continue
        if found is None or found.dtype is None:
            return False
        dims = (
            None
            if found.shape is None
            else [d if isinstance(d, int) else None for d in found.shape]
        )
        draft.graph.input.append(value_info(name, DTYPES[found.dtype], dims))
    draft.graph.node.remove(node)
    draft.drop_unused()
    return True


def _cut_below(draft: Draft, index: int) -> bool:
    """The node goes; its operands that nodes compute are outputs."""
    node = draft.graph.node[index]
    outputs = [v.name for v in draft.graph.output]
    if not all(name in outputs or not draft.users(name) for name in node.output if name):
        return False
    kept = [name for name in outputs if name not in node.output]
    computed = [n for n in node.input if n and draft.producer(n) is not None]
    if not computed and not kept:
        return False
    draft.graph.node.remove(node)
    del draft.graph.output[:]
    for name in dict.fromkeys([*kept, *computed]):
        draft.graph.output.append(onnx.ValueInfoProto(name=name))
    draft.drop_unused()
    return True


def _drop_output(draft: Draft, name: str) -> None:
    kept = [v for v in draft.graph.output if v.name != name]
    del draft.graph.output[:]
    draft.graph.output.extend(kept)
    draft.drop_dead()
