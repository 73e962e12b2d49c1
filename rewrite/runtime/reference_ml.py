"""Operators of ai.onnx.ml that onnx's evaluator lacks, or computes only in some forms.

In: attributes as plain values, operands. Out: the values of the outputs; None from an operator
that leaves this form to onnx's evaluator. Source: the operator reference of ai.onnx.ml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf, sqrt
from typing import Any

import numpy as np

from rewrite.ops.call import Array
from rewrite.runtime.strings import to_text

Attributes = Mapping[str, Any]
Operator = Callable[[Attributes, Sequence[Any]], list[Any] | None]


def word(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def words(values: Any) -> list[str]:
    return [str(v) for v in to_text(np.array(list(values), object)).tolist()]


# --- maps --------------------------------------------------------------------------------------


def zip_map(attributes: Attributes, inputs: Sequence[Any]) -> list[Any]:
    """One map from class to score per row."""
    keys = _classes(attributes, "classlabels_strings", "classlabels_int64s")
    scores = np.atleast_2d(inputs[0])
    if scores.shape[1] != len(keys):
        raise ValueError(f"{scores.shape[1]} scores for {len(keys)} classes")
    return [[dict(zip(keys, row, strict=True)) for row in scores]]


def _classes(attributes: Attributes, strings: str, integers: str) -> list[Any]:
    found = attributes.get(strings)
    if found is not None and len(found):
        return words(found)
    found = attributes.get(integers)
    if found is None or not len(found):
        raise ValueError(f"neither {strings} nor {integers} is given")
    return [int(v) for v in found]


def cast_map(attributes: Attributes, inputs: Sequence[Any]) -> list[Any]:
    """A map from integers to a row of numbers or strings: in order, or each at its index."""
    given = inputs[0]
    kind = word(attributes.get("cast_to", "TO_FLOAT"))
    items = [given[key] for key in sorted(given)]
    if word(attributes.get("map_form", "DENSE")) == "SPARSE":
        blank = type(items[0])() if items else 0.0
        items = [given.get(k, blank) for k in range(int(attributes.get("max_map", 1)))]
    if kind == "TO_STRING":
        return [np.array([[str(v) for v in items]], object)]
    return [np.array([[float(v) for v in items]], np.float32 if kind == "TO_FLOAT" else np.int64)]


# --- labels ------------------------------------------------------------------------------------


def category_mapper(attributes: Attributes, inputs: Sequence[Any]) -> list[Any]:
    """Strings to integers or the other way round, by a table."""
    names = words(attributes["cats_strings"])
    return [_mapped(inputs[0], names, [int(v) for v in attributes["cats_int64s"]], attributes)]


def label_encoder(attributes: Attributes, inputs: Sequence[Any]) -> list[Any] | None:
    """Of version 1: strings to their place in a list, or the other way round."""
    classes = attributes.get("classes_strings")
    if classes is None:
        return None
    names = words(classes)
    return [_mapped(inputs[0], names, list(range(len(names))), attributes)]


def _mapped(x: Array, names: list[str], numbers: list[int], attributes: Attributes) -> Array:
    if x.dtype == object:
        table = dict(zip(names, numbers, strict=True))
        default = int(attributes.get("default_int64", -1))
        return np.array([table.get(item, default) for item in x.flat], np.int64).reshape(x.shape)
    back = dict(zip(numbers, names, strict=True))
    blank = word(attributes.get("default_string", "_Unused"))
    made = np.empty(x.size, object)
    made[:] = [back.get(int(item), blank) for item in x.flat]
    return made.reshape(x.shape)


# --- scores ------------------------------------------------------------------------------------


def linear_classifier(attributes: Attributes, inputs: Sequence[Any]) -> list[Any] | None:
    """Several classes: scores of each row, and the class of the largest one."""
    x = np.atleast_2d(inputs[0]).astype(np.float32)
    intercepts = np.array(attributes.get("intercepts") or (), np.float32)
    weights = np.array(attributes["coefficients"], np.float32)
    classes = attributes.get("classlabels_strings") or attributes.get("classlabels_ints") or ()
    count = len(classes) or len(intercepts)
    if count < 2 or len(intercepts) not in (0, count) or weights.size < count * x.shape[1]:
        return None
    rows = weights[: count * x.shape[1]].reshape(count, x.shape[1])
    scores = x @ rows.T + (intercepts if intercepts.size else np.float32(0))
    best = scores.argmax(axis=1)
    if attributes.get("classlabels_strings"):
        labels = np.array(words(classes), object)[best]
    else:
        labels = (np.array(classes, np.int64) if classes else np.arange(count))[best]
    return [labels, transformed(word(attributes.get("post_transform", "NONE")), scores)]


def transformed(kind: str, scores: Array) -> Array:
    """`post_transform` over the last dimension."""
    if kind == "LOGISTIC":
        return np.asarray(1 / (1 + np.exp(-scores)))
    if kind in ("SOFTMAX", "SOFTMAX_ZERO"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        if kind == "SOFTMAX_ZERO":
            powers = np.where(np.abs(scores) > 1e-7, powers, 0 * powers)
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
    if kind == "PROBIT":
        normal = np.vectorize(lambda v: 0.5 * (1 + erf(v / sqrt(2))), otypes=[scores.dtype])
        return np.asarray(normal(scores))
    return scores


# --- trees -------------------------------------------------------------------------------------

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": lambda x, v: x <= v, "BRANCH_LT": lambda x, v: x < v,
    "BRANCH_GTE": lambda x, v: x >= v, "BRANCH_GT": lambda x, v: x > v,
    "BRANCH_EQ": lambda x, v: x == v, "BRANCH_NEQ": lambda x, v: x != v,
}  # fmt: skip


def tree_ensemble_regressor(attributes: Attributes, inputs: Sequence[Any]) -> list[Any] | None:
    """Sums (means, minima, maxima) of the leaves that each row reaches.

    Only where numbers are given as tensors; the other form is onnx's.
    """
    if attributes.get("nodes_values_as_tensor") is None:
        return None
    x = np.atleast_2d(inputs[0])
    count = int(attributes.get("n_targets", 1))
    leaves: dict[tuple[int, int], list[int]] = {}
    for k, key in enumerate(
        zip(attributes["target_treeids"], attributes["target_nodeids"], strict=True)
    ):
        leaves.setdefault(key, []).append(k)
    targets, weights = attributes["target_ids"], _numbers(attributes, "target_weights")
    trees = _Trees(attributes)
    how = word(attributes.get("aggregate_function", "SUM"))
    y = np.zeros((len(x), count), weights.dtype)
    for row, out in zip(x, y, strict=True):
        votes: list[list[Any]] = [[] for _ in range(count)]
        for leaf in trees.leaves(row):
            for k in leaves.get(leaf, ()):
                votes[targets[k]].append(weights[k])
        out[:] = [_aggregated(how, v, len(trees.roots)) for v in votes]
    base = _numbers(attributes, "base_values")
    y = y + base if base.size else y
    return [transformed(word(attributes.get("post_transform", "NONE")), y).astype(weights.dtype)]


def _aggregated(how: str, votes: list[Any], trees: int) -> Any:
    if not votes:
        return 0
    if how == "MIN":
        return min(votes)
    if how == "MAX":
        return max(votes)
    return sum(votes) / trees if how == "AVERAGE" else sum(votes)


def _numbers(attributes: Attributes, name: str) -> Array:
    tensor = attributes.get(f"{name}_as_tensor")
    if tensor is not None:
        return np.asarray(tensor if isinstance(tensor, np.ndarray) else tensor.numpy())
    return np.array(attributes.get(name) or (), np.float32)


class _Trees:
    """Nodes by tree and number; the first node of a tree is its root."""

    def __init__(self, attributes: Attributes) -> None:
        ids = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
        self.places = {key: k for k, key in enumerate(ids)}
        self.ids = ids
        self.roots = list({tree: k for k, (tree, _) in reversed(list(enumerate(ids)))}.values())
        self.modes = words(attributes["nodes_modes"])
        self.features = attributes["nodes_featureids"]
        self.values = _numbers(attributes, "nodes_values")
        self.branches = (attributes["nodes_truenodeids"], attributes["nodes_falsenodeids"])
        self.missing = attributes.get("nodes_missing_value_tracks_true")

    def leaves(self, row: Array) -> list[tuple[int, int]]:
        found = []
        for start in self.roots:
            k = start
            while self.modes[k] != "LEAF":
                side = self.branches[0 if self._holds(k, row[self.features[k]]) else 1]
                k = self.places[self.ids[k][0], side[k]]
            found.append(self.ids[k])
        return found

    def _holds(self, k: int, x: Any) -> bool:
        if np.isnan(x):
            return bool(self.missing and self.missing[k])
        return bool(_COMPARISONS[self.modes[k]](x, self.values[k]))


OPERATORS: Mapping[str, Operator] = {
    "CastMap": cast_map,
    "CategoryMapper": category_mapper,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "TreeEnsembleRegressor": tree_ensemble_regressor,
    "ZipMap": zip_map,
}
