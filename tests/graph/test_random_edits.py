"""Edits that must not change any number, at random places of real models, against onnxruntime."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from rewrite.errors import RewriteError
from rewrite.graph import dead, edit, io, outline, validate
from rewrite.graph.model import LoadedModel

TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
}
EVERY = 13  # models of the collection that are taken
RANDOM_OPERATORS = ("Dropout", "RandomNormal", "RandomUniform", "Multinomial", "Bernoulli")


def execute(path: Path) -> list[np.ndarray] | None:
    """The outputs for inputs that follow from the seed; None where the model does not run."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    random = np.random.default_rng(0)
    feeds = {}
    for given in session.get_inputs():
        if given.type not in TYPES:
            return None
        shape = [d if isinstance(d, int) and d > 0 else 2 for d in given.shape]
        feeds[given.name] = random.integers(0, 2, shape).astype(TYPES[given.type])
    try:
        return session.run(None, feeds)
    except Exception:  # noqa: BLE001 - the collection has models that no input of this kind fits
        return None


def wrap(loaded: LoadedModel, random: np.random.Generator) -> int:
    """Put an Identity behind random values; take some back."""
    facts, done = loaded.facts, 0
    for graph in facts.graphs():
        nodes = list(graph)
        for index in random.integers(len(nodes), size=min(3, len(nodes))):
            for value in nodes[int(index)].outputs:
                if not value.name or facts.type(value).dtype is None:
                    continue
                node = edit.make_node(facts, graph, "", "Identity", [value], {})
                assert isinstance(node, ir.Node)
                made = edit.replace(facts, graph, [(value, node.outputs[0])], [node])
                if isinstance(made, edit.Refused):
                    edit.discard([node])
                elif random.integers(3) == 0:
                    made.undo()
                else:
                    made.finish()
                    done += 1
    return done


def group(loaded: LoadedModel, random: np.random.Generator) -> int:
    """Make functions of random neighbours."""
    facts, done = loaded.facts, 0
    for graph in facts.graphs():
        nodes = list(graph)
        if len(nodes) < 2:
            continue
        for start in random.integers(len(nodes) - 1, size=2):
            some = nodes[int(start) : int(start) + int(random.integers(2, 5))]
            some = [n for n in some if n.graph is graph and n.op_type != "Constant"]
            values = [v for n in some for v in n.outputs]
            outputs = [v for v in values if v.name and facts.uses_outside(v, some)]
            made = outline.outline(facts, graph, some, outputs, "rewrite.test", "Group")
            done += isinstance(made, outline.Outlined)
    return done


def unwrap(loaded: LoadedModel, random: np.random.Generator) -> int:
    """Remove some of the Identity nodes."""
    facts, done = loaded.facts, 0
    for graph in facts.graphs():
        for node in list(graph):
            source = node.inputs[0] if node.inputs else None
            if node.op_type != "Identity" or source is None or random.integers(2):
                continue
            made = edit.replace(facts, graph, [(node.outputs[0], source)], [], [node])
            if not isinstance(made, edit.Refused):
                made.finish()
                done += 1
    return done


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_changes(corpus: Path, tmp_path: Path, seed: int):
    with (corpus / "MANIFEST.csv").open() as stream:
        rows = [r for r in csv.DictReader(stream) if r["ort_runs"] == "yes"]
    random = np.random.default_rng(seed)
    compared = edits = 0
    for row in rows[seed::EVERY]:
        source, target = corpus / row["path"], tmp_path / "out.onnx"
        try:
            loaded = io.load(source)
        except RewriteError:
            continue
        operators = {node.op_type for graph in loaded.facts.graphs() for node in graph}
        halves = any(
            loaded.facts.type(v).dtype == "f16"  # runtimes compute several of them in float32
            for graph in loaded.facts.graphs()
            for node in graph
            for v in node.outputs
        )
        expected = execute(source)
        if expected is None or halves or operators & set(RANDOM_OPERATORS):
            continue
        edits += wrap(loaded, random) + group(loaded, random) + unwrap(loaded, random)
        dead.remove_dead(loaded.facts)
        validate.check_graph(loaded)
        io.save(loaded, target)
        found = execute(target)
        assert found is not None, row["path"]
        for before, after in zip(expected, found, strict=True):
            assert np.array_equal(np.asarray(before), np.asarray(after), equal_nan=True) or (
                np.allclose(before, after, rtol=1e-6, atol=1e-6, equal_nan=True)
            ), row["path"]
        compared += 1
    assert compared >= 25
    assert edits >= 3 * compared
