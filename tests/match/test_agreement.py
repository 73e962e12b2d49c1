"""Interpreter, generated code and matcher say the same: on generated graphs and on real models."""

from __future__ import annotations

import csv
import os
import random
from collections import Counter
from functools import cache
from pathlib import Path

import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.facts import Facts
from rewrite.lang.pack import load_packs
from rewrite.lang.vocabulary import PHASES
from rewrite.match import interpreter, runtime
from rewrite.match.accept import applies
from rewrite.match.codegen import Program
from rewrite.match.matcher import Entry, Matcher, compile_pack
from rewrite.match.rule import Match
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target
from tests.match.instances import Instance
from tests.match.support import ROOT, ask_everyone, assert_same

CORPUS = Path(os.environ.get("REWRITE_CORPUS", ROOT.parent / "shared" / "models"))
PACKS = tuple(sorted(p.parent.name for p in (ROOT / "rules").glob("*/pack.yaml")))
MOST_NODES = 600  # of a model of the corpus that is asked about


@cache
def entries() -> tuple[Entry, ...]:
    return compile_pack(load_packs(PACKS, vocabulary(), [ROOT / "rules"]))


@cache
def target() -> Target:
    return load_target("hexagon", vocabulary())


@cache
def everything() -> Matcher:
    return Matcher(entries(), target())


@cache
def by_anchor() -> dict[tuple[str, str], list[Entry]]:
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries():
        for operator in sorted(entry.rule.anchors):
            found.setdefault(operator, []).append(entry)
    return found


@cache
def program(entry: Entry) -> runtime.Matching:
    assert isinstance(entry.program, Program)
    return runtime.load(entry.program)


def compare_at(node: ir.Node, facts: Facts, fired: Counter[str]) -> None:
    """Every rule that may end in this node, then the matcher's choice in each phase."""
    found: dict[str, Match] = {}
    for entry in by_anchor().get((node.domain, node.op_type), ()):
        said = interpreter.match(entry.rule, node, facts, target())
        if isinstance(entry.program, Program) and applies(entry.rule, node, facts) is None:
            assert_same(said, program(entry)(node, facts, entry.rule, target()), entry.rule)
        if isinstance(said, Match):
            found[entry.rule.name] = said
            fired[entry.rule.name] += 1
    for phase in PHASES:
        first = next((r for r in everything().rules(phase) if r.name in found), None)
        chosen = everything().match(phase, node, facts)
        assert (chosen and chosen.rule.name) == (first and first.name), (phase, node)


@settings(max_examples=600, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 2**32 - 1))
def test_on_graphs_made_from_patterns(place, seed):
    entry = entries()[place % len(entries())]
    facts, anchor = Instance(entry.rule, random.Random(seed)).build()
    ask_everyone(entry, anchor, facts, target())
    fired: Counter[str] = Counter()
    for node in facts.model.graph:
        compare_at(node, facts, fired)


def test_graphs_made_from_patterns_are_often_matched():
    """Most rules match one of 30 graphs made from them: agreement is not that of refusals."""
    matched = set()
    for entry in entries():
        for seed in range(30):
            facts, anchor = Instance(entry.rule, random.Random(seed)).build()
            if isinstance(interpreter.match(entry.rule, anchor, facts, target()), Match):
                matched.add(entry.rule.name)
                break
    assert len(matched) > 0.6 * len(entries())


OPS = {
    1: ["Relu", "Sigmoid", "Tanh", "Erf", "Sqrt", "Exp", "Neg", "Identity", "Transpose", "Softmax",
        "ReduceMean", "Cast", "Dropout", "Flatten"],
    2: ["Add", "Mul", "Sub", "Div", "Pow", "MatMul", "Max", "Min", "Reshape", "Squeeze", "Concat"],
    3: ["Clip", "Where", "Gemm", "Sum", "Slice", "Conv"],
}  # fmt: skip


def any_graph(chance: random.Random) -> Facts:
    """A small graph without plan: shared values, outputs inside, constants of several ranks."""
    rule = entries()[0].rule
    maker = Instance(rule, chance)
    for _ in range(3):
        maker.input(None)
    pool = [*maker.inputs]
    for _ in range(chance.randint(3, 14)):
        count = chance.choice([1, 1, 2, 2, 2, 3])
        number = chance.choice([None, 0.5, 1.0, 0.0, 2.0, 3.0])
        operands = [
            maker.constant(number) if chance.random() < 0.35 else chance.choice(pool[-5:])
            for _ in range(count)
        ]
        pool.append(maker.node(("", chance.choice(OPS[count])), operands))
    outputs = [v for v in maker.values() if not v.uses()]
    outputs += [v for v in maker.values() if v.uses() and chance.random() < 0.1]
    graph = ir.Graph(
        maker.inputs, outputs, nodes=maker.nodes, initializers=maker.constants, name="g",
        opset_imports={"": chance.choice([11, 13, 17, 20, 23])},
    )  # fmt: skip
    return Facts(ir.Model(graph, ir_version=8))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_on_graphs_without_plan(seed):
    facts = any_graph(random.Random(seed))
    fired: Counter[str] = Counter()
    for node in facts.model.graph:
        compare_at(node, facts, fired)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus of models (REWRITE_CORPUS)")
def test_on_the_corpus():
    """Every model that can be read, smallest first; of large ones the first nodes."""
    with (CORPUS / "MANIFEST.csv").open(encoding="utf-8") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda r: (int(r["bytes"]), r["path"]))
    fired: Counter[str] = Counter()
    read = 0
    for row in rows:
        try:
            loaded = io.load(CORPUS / row["path"])
        except RewriteError:
            continue  # the few that cannot be taken: tests of the graph layer name them
        read += 1
        for graph in loaded.facts.graphs():
            for node, _ in zip(graph, range(MOST_NODES), strict=False):
                compare_at(node, loaded.facts, fired)
    assert read > 0.9 * len(rows)
    assert len(fired) > 50, "rules do match here"
