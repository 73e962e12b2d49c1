"""Two models compared without running them.

In: two loaded models. Out: a dictionary: operators, nodes, types of values, initializers,
signature, opsets, ledgers. Nodes are told apart by the name of their first output, which rewriting
keeps wherever a value is still there.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from rewrite.engine.report import running
from rewrite.graph import types
from rewrite.graph.facts import Facts
from rewrite.graph.model import LoadedModel
from rewrite.schema import Dim, Type

Report = dict[str, Any]
LEDGER = "rewrite.ledger"
_STRINGS = "OSU"  # kinds of numpy arrays that hold strings


def compare(before: LoadedModel, after: LoadedModel) -> Report:
    """All that differs; empty tables where nothing does."""
    sides = (before, after)
    counts = [_operators(loaded) for loaded in sides]
    names = sorted({*counts[0], *counts[1]})
    return {
        "kind": "models",
        "before": before.source,
        "after": after.source,
        "nodes": [sum(c.values()) for c in counts],
        "operators": {
            name: [counts[0][name], counts[1][name]]
            for name in names
            if counts[0][name] != counts[1][name]
        },
        "changes": _tables(*(_nodes(loaded) for loaded in sides)),
        "types": _types(before, after),
        "initializers": _initializers(before, after),
        "signature": [_signature(loaded) for loaded in sides],
        "opsets": [dict(sorted(m.model.opset_imports.items())) for m in sides],
        "ledger": [_ledger(loaded) for loaded in sides],
    }


def same(report: Report) -> bool:
    """Whether nothing differs."""
    pairs = (report["signature"], report["opsets"], report["ledger"])
    tables = (report["changes"], report["initializers"])
    return (
        all(old == new for old, new in pairs)
        and not report["types"]
        and not any(part for table in tables for part in table.values())
    )


def _tables(before: dict[str, Report], after: dict[str, Report]) -> Report:
    """Rows that one side lacks, and what is different in those that both have."""
    changed: dict[str, Report] = {}
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        fields = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        if fields:
            changed[name] = {key: [old.get(key), new.get(key)] for key in fields}
    return {
        "added": {name: row for name, row in after.items() if name not in before},
        "removed": {name: row for name, row in before.items() if name not in after},
        "changed": dict(sorted(changed.items())),
    }


# --- nodes -------------------------------------------------------------------------------------


def _operators(loaded: LoadedModel) -> Counter[str]:
    """Nodes that run, by operator; calls of functions count under the function's name."""
    return Counter(_operator(node) for node in running(loaded.facts))


def _operator(node: ir.Node) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _nodes(loaded: LoadedModel) -> dict[str, Report]:
    found: dict[str, Report] = {}
    for node in running(loaded.facts):
        row: Report = {
            "operator": _operator(node),
            "inputs": [None if value is None else value.name for value in node.inputs],
            "outputs": [value.name for value in node.outputs],
        }
        for name, attribute in sorted(node.attributes.items()):
            row[f".{name}"] = _attribute(attribute)
        found[str(node.outputs[0].name) if node.outputs else str(node.name)] = row
    return found


def _attribute(attribute: ir.Attr) -> object:
    """Its value, as JSON can have it; tensors and graphs in words."""
    value = attribute.value
    if attribute.type is ir.AttributeType.TENSOR:
        return f"{value.dtype.name}{list(value.shape.numpy())} {_digest(value)}"
    if isinstance(value, ir.Graph):
        return f"graph of {len(value)} nodes"
    if isinstance(value, (list, tuple)):
        return [v if isinstance(v, (int, float, str)) else str(v) for v in value]
    return value if isinstance(value, (int, float, str)) else str(value)


# --- values ------------------------------------------------------------------------------------


def _types(before: LoadedModel, after: LoadedModel) -> dict[str, list[str]]:
    """Values of one name whose element type or shape is not the same; unknown ones say nothing."""
    old, new = (dict(_typed(loaded)) for loaded in (before, after))
    return {
        name: [_words(old[name]), _words(new[name])]
        for name in old
        if name in new and _contradict(old[name], new[name])
    }


def _typed(loaded: LoadedModel) -> Iterator[tuple[str, Type]]:
    facts: Facts = loaded.facts
    values = [*loaded.model.graph.inputs, *(v for n in running(loaded.facts) for v in n.outputs)]
    for value in values:
        if value.name:
            yield value.name, facts.type(value)


def _contradict(old: Type, new: Type) -> bool:
    if old.dtype is not None and new.dtype is not None and old.dtype != new.dtype:
        return True
    if old.shape is None or new.shape is None:
        return False
    if len(old.shape) != len(new.shape):
        return True
    pairs = zip(old.shape, new.shape, strict=True)
    return any(a != b and _is_given(a) and _is_given(b) for a, b in pairs)


def _is_given(dim: Dim) -> bool:
    """Whether the model says the size, as a number or by a name of its own."""
    return isinstance(dim, int) or not (types.says_nothing(dim) or types.is_made_up(dim))


def _words(kind: Type) -> str:
    sizes = [str(dim) if _is_given(dim) else "?" for dim in kind.shape or ()]
    shape = "" if kind.shape is None else "[" + ", ".join(sizes) + "]"
    return f"{kind.dtype or '?'}{shape}"


# --- initializers ------------------------------------------------------------------------------


def _initializers(before: LoadedModel, after: LoadedModel) -> Report:
    old, new = (_tensors(loaded) for loaded in (before, after))
    found = _tables(*({k: _tensor(v) for k, v in side.items()} for side in (old, new)))
    for name in sorted(old.keys() & new.keys()):
        if name not in found["changed"]:
            distance = _distance(old[name], new[name])
            if distance is not None:
                found["changed"][name] = distance
    return found


def _tensors(loaded: LoadedModel) -> dict[str, ir.TensorProtocol]:
    main = loaded.model.graph
    graphs = (g for g in loaded.facts.graphs() if g is main or loaded.facts.root(g) is main)
    return {
        name: value.const_value
        for graph in graphs
        for name, value in graph.initializers.items()
        if value.const_value is not None
    }


def _tensor(tensor: ir.TensorProtocol) -> Report:
    return {"dtype": tensor.dtype.name.lower(), "shape": list(tensor.shape.numpy())}


def _distance(old: ir.TensorProtocol, new: ir.TensorProtocol) -> Report | None:
    """How far the elements of two tensors of one type are apart; None: they are the same bits."""
    a, b = old.numpy(), new.numpy()
    if a.dtype.kind in _STRINGS:
        count = int(np.count_nonzero(a != b))
        return {"elements": count} if count else None
    if a.tobytes() == b.tobytes():
        return None
    with np.errstate(all="ignore"):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        gap = np.abs(a.astype(wide) - b.astype(wide))
    largest = float(np.nanmax(gap)) if np.isfinite(gap).any() else 0.0
    return {"elements": int(np.count_nonzero(a != b)), "largest": largest}


def _digest(tensor: ir.TensorProtocol) -> str:
    array = tensor.numpy()
    data = repr(array.tolist()).encode() if array.dtype.kind in _STRINGS else array.tobytes()
    return hashlib.sha256(data).hexdigest()[:12]


# --- the whole ---------------------------------------------------------------------------------


def _signature(loaded: LoadedModel) -> Report:
    """Inputs and outputs with their types."""
    return {
        side: [f"{value.name}: {_words(loaded.facts.type(value))}" for value in values]
        for side, values in (
            ("inputs", loaded.model.graph.inputs),
            ("outputs", loaded.model.graph.outputs),
        )
    }


def _ledger(loaded: LoadedModel) -> str | None:
    """The total that the last rewriting promised, if there was one."""
    kept = [v for k, v in sorted(loaded.model.metadata_props.items()) if k.startswith(LEDGER)]
    if not kept:
        return None
    try:
        return str(json.loads(kept[-1]).get("total"))
    except (ValueError, AttributeError):  # written by somebody else
        return "unreadable"
