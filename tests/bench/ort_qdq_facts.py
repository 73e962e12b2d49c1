"""ONNX Runtime's tests of quantized models as facts about target `onnxruntime-cpu`.

    python tests/bench/ort_qdq_facts.py [--missed] [--cases] [--match TEXT] [--least 85]

The facts are `ORT_QDQ_FACTS.csv` of the corpus (`$REWRITE_CORPUS`, else `../shared/models`), the
operator counts that those tests assert after ONNX Runtime's own passes, and the rows of
`ORT_EXPECTATIONS.csv` whose model has a DequantizeLinear. Their models are made in C++; ours, of
the same graphs, element types and opsets, are in tests/quantized/builders_*.py. Left out are the 15
tests of nhwc_transformer_test.cc: they ask for the layout that kernels of ONNX Runtime work in,
which a session chooses when it loads the model. 79 facts remain, and 13 rows.

Each model is rewritten, counted, and run before and after without optimization. A case is met
`exactly` where all asserted counts are ours, or `further` where no QuantizeLinear, DequantizeLinear
and no operator in float is left more often than asserted, and every quantized operator that should
appear does. A fact is reached where all of its cases are met exactly, and met further where some
are further. A missed fact needs a reason in `ort_qdq_facts.yaml`; a reason for a fact that is met
is an error as well. Outputs may differ by one step of their scale, those in float by 1e-4 of the
largest; a larger difference is an error whatever the counts. Exit status 1 below `--least` per
cent, for wrong outputs, and where reasons are missing or stale.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import ort_expectations
import yaml
from corpus import corpus
from leftovers import graphs, operator_name
from onnx import numpy_helper

import rewrite
from rewrite.errors import RewriteError

HERE = Path(__file__).resolve().parent
REASONS = HERE / "ort_qdq_facts.yaml"
PREFIX = "QDQTransformerTests."
LEFT_OUT = "nhwc_transformer_test.cc"
KINDS = ("exactly", "further", "missed", "wrong")
# Operators whose output has the scale of their first operand.
MOVES = (
    "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Split", "Gather",
    "GatherElements", "Expand", "Tile", "Resize", "MaxPool", "Identity", "Concat", "ReduceMax",
    "ReduceMin",
)  # fmt: skip
# Operator -> operands that are weights, operand that has the type of the data (None: unsigned).
WEIGHTS: dict[str, tuple[tuple[int, ...], int | None]] = {
    "QLinearConv": ((3,), 2),
    "QLinearMatMul": ((3,), 2),
    "QGemm": ((3,), 2),
    "MatMulIntegerToFloat": ((1,), 4),
    "MatMulInteger": ((1,), 2),
    "ConvInteger": ((1,), 2),
    "DynamicQuantizeMatMul": ((1,), None),
    "DynamicQuantizeLSTM": ((1, 2), None),
}

Counts = dict[str, int]


@dataclass(frozen=True)
class Outcome:
    """What came of one model, `detail`: counts that differ, or the difference of the outputs."""

    case: str
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Verdict:
    """What came of one fact: the worst of its cases."""

    key: str
    kind: str
    outcomes: tuple[Outcome, ...]

    @property
    def met(self) -> bool:
        return self.kind in ("exactly", "further")


def builders() -> dict[str, object]:
    """Test or helper -> what makes its models. The folder of the tests is no installed package."""
    sys.path.append(str(HERE.parents[1]))
    from tests.quantized import (  # noqa: F401 - each registers its builders
        builders_contraction,
        builders_elementwise,
        builders_movement,
        builders_pairs,
        builders_weights,
    )
    from tests.quantized.builders_core import FACTS

    return dict(FACTS.builders)


def facts(folder: Path) -> list[tuple[str, str]]:
    """(key, builder) of every fact: some tests run the models of others with another option."""
    found = []
    with (folder / "ORT_QDQ_FACTS.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["test_file"] == LEFT_OUT:
                continue
            test = row["test"].removeprefix(PREFIX)
            fast = "fastmath" in row["test_file"]
            key = f"{test} (fast math)" if fast else test
            found.append((key, test.removesuffix("_FastMath")))
    return found


def left_out(folder: Path) -> int:
    with (folder / "ORT_QDQ_FACTS.csv").open(newline="") as file:
        return sum(row["test_file"] == LEFT_OUT for row in csv.DictReader(file))


# --- one model ----------------------------------------------------------------------------------


def count(model: onnx.ModelProto) -> Counts:
    """Operators by name: `Q`, `DQ` of either domain, `ms.X`, `X`; `saturating`: see there."""
    short = {"QuantizeLinear": "Q", "DequantizeLinear": "DQ"}
    names: Counter[str] = Counter()
    for graph in graphs(model):
        constants = {c.name: c for c in graph.initializer}
        for node in graph.node:
            name = operator_name(node).replace("com.microsoft.", "ms.")
            names[short.get(name.removeprefix("ms."), name)] += 1
            names["saturating"] += _saturating(node, constants)
    return dict(names)


def _saturating(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> bool:
    """Whether unsigned data meet signed weights beyond 64, so that two products may saturate 16
    bits on x86-64 without VNNI (ONNX Runtime asks the same of weights)."""
    if node.op_type not in WEIGHTS:
        return False
    weights, zero = WEIGHTS[node.op_type]
    point = constants.get(node.input[zero]) if zero is not None and zero < len(node.input) else None
    if point is not None and point.data_type != onnx.TensorProto.UINT8:
        return False
    tensors = [constants.get(node.input[index]) for index in weights]
    signed = [t for t in tensors if t is not None and t.data_type == onnx.TensorProto.INT8]
    return any(np.abs(numpy_helper.to_array(t).astype(int)).max(initial=0) > 64 for t in signed)


def judge(case: object, target: str) -> Outcome:
    """Rewrite, count, run, compare."""
    from tests.quantized.builders_core import Case

    assert isinstance(case, Case)
    before = case.graph.proto()
    try:
        after = rewrite.apply(before, target=target).model
    except RewriteError as refused:
        return Outcome(case.name, "missed", f"refused: {refused.diagnostics[0].message}")
    except Exception as crash:  # noqa: BLE001 - a crash is a missed fact, and the others go on
        return Outcome(case.name, "missed", f"crash: {crash!r:.200}")
    wrong = _difference(case, before, after)
    if wrong is not None:
        return Outcome(case.name, "missed" if case.twin else "wrong", wrong)
    kinds = [_compare(expected, count(after), case.strict) for expected in case.expected]
    return Outcome(case.name, *min(kinds, key=lambda kind: KINDS.index(kind[0])))


def _compare(wanted: Counts, ours: Counts, strict: bool) -> tuple[str, str]:
    said = [f"{k}:{ours.get(k, 0)} not {n}" for k, n in wanted.items() if ours.get(k, 0) != n]
    if not said:
        return "exactly", ""
    further = not strict
    for name, number in wanted.items():
        mine = ours.get(name, 0)
        if _is_quantized(name):
            further &= number == 0 or mine == number
        else:
            further &= mine <= number
    return ("further" if further else "missed"), "; ".join(said)


def _is_quantized(name: str) -> bool:
    """Whether the operator computes with codes."""
    return name.startswith(("QLinear", "ms.QLinear", "ms.QGemm", "ms.MatMulInteger"))


# --- outputs ------------------------------------------------------------------------------------


def _difference(case: object, before: onnx.ModelProto, after: onnx.ModelProto) -> str | None:
    """Where outputs differ by more than a step."""
    from tests.quantized.builders_core import Case

    assert isinstance(case, Case)
    feeds = case.graph.feeds
    expected = _run(before if case.twin is None else case.twin.proto(), feeds)
    try:
        found = _run(after, feeds)
    except Exception as refused:  # noqa: BLE001 - the runtime's own exceptions
        return f"does not run: {refused!s:.200}"
    for value, a, b in zip(before.graph.output, expected, found, strict=True):
        step = case.step if case.step is not None else _step(before, value.name, a)
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
        rounding = 1e-6 * np.abs(a.astype(np.float64))  # of the numbers that codes stand for
        if a.shape != b.shape or not (apart <= step + rounding).all():
            return f"{value.name}: {apart.max():.3g} apart, a step is {step:.3g}"
    return None


def _run(model: onnx.ModelProto, feeds: dict[str, object]) -> list[np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    taken = {i.name for i in session.get_inputs()}
    found = session.run(None, {name: x for name, x in feeds.items() if name in taken})
    return [np.asarray(array) for array in found]


def _step(model: onnx.ModelProto, name: str, value: np.ndarray) -> float:
    """One step of the codes that an output stands for."""
    made = {output: node for node in model.graph.node for output in node.output}
    constants = {c.name: c for c in model.graph.initializer}
    while (node := made.get(name)) is not None:
        if node.op_type == "QuantizeLinear":
            return 1.0
        if node.op_type == "DequantizeLinear":
            scale = numpy_helper.to_array(constants[node.input[1]])
            return float(np.abs(scale.astype(np.float64)).max())
        if node.op_type not in MOVES:
            break
        name = node.input[0]
    if value.dtype.kind != "f":
        return 1.0 if node is not None and node.op_type.startswith("QLinear") else 0.0
    return 1e-4 * float(np.abs(value).max(initial=0.0))


# --- all ----------------------------------------------------------------------------------------


def verdicts(folder: Path, match: str, target: str) -> Iterator[Verdict]:
    made = builders()
    done: dict[str, tuple[Outcome, ...]] = {}
    for key, builder in facts(folder):
        if match not in key:
            continue
        if builder not in made:
            yield Verdict(key, "missed", (Outcome("-", "missed", "no model is built"),))
            continue
        if builder not in done:
            done[builder] = tuple(judge(case, target) for case in made[builder]())  # type: ignore[operator]
        outcomes = done[builder]
        yield Verdict(key, max((o.kind for o in outcomes), key=KINDS.index), outcomes)
    for fact in ort_expectations.facts(folder):
        if match not in fact.key:
            continue
        if "DequantizeLinear" not in count_of(folder, fact.model):
            continue
        found = ort_expectations.judge(folder, fact)
        yield Verdict(fact.key, found.kind, (Outcome(fact.model, found.kind, found.ours),))


def count_of(folder: Path, model: str) -> set[str]:
    loaded = onnx.load(folder / "ort" / model, load_external_data=False)
    return {node.op_type for graph in graphs(loaded) for node in graph.node}


def reasons() -> dict[str, str]:
    """Fact -> why it is not met; of those shared with the other bench, its reasons."""
    own = yaml.safe_load(REASONS.read_text()) if REASONS.is_file() else None
    return {**ort_expectations.reasons(), **(own or {})}


def problems(found: list[Verdict], known: dict[str, str]) -> list[str]:
    missed = {v.key for v in found if not v.met}
    keys = {v.key for v in found}
    bad = [f"no reason is given for: {key}" for key in sorted(missed - known.keys())]
    bad += [f"it is met, and has a reason: {k}" for k in known if k in keys and k not in missed]
    for verdict in found:
        for outcome in verdict.outcomes:
            if outcome.kind == "wrong":
                bad.append(f"wrong: {verdict.key}: {outcome.case}: {outcome.detail}")
    return bad


def _report(found: list[Verdict], known: dict[str, str], missed: bool, cases: bool) -> None:
    for verdict in found:
        if verdict.met and missed:
            continue
        good = sum(o.kind in ("exactly", "further") for o in verdict.outcomes)
        print(f"{verdict.kind:8s}{good:4d} of {len(verdict.outcomes):<4d}{verdict.key}")
        worst = [o for o in verdict.outcomes if o.kind == verdict.kind and o.detail]
        for outcome in worst if cases else worst[:1]:
            print(f"            {outcome.case}: {outcome.detail}")
        if not verdict.met:
            print(f"            reason: {known.get(verdict.key, '-')}")


def main() -> int:
    parser = argparse.ArgumentParser(description="facts of ONNX Runtime's QDQ tests that we reach")
    parser.add_argument("--missed", action="store_true", help="list only what is missed")
    parser.add_argument(
        "--cases", action="store_true", help="every case that differs, not the first"
    )
    parser.add_argument("--match", default="", help="only facts whose test has this text")
    parser.add_argument("--least", type=float, default=85.0, help="per cent that must be met")
    parser.add_argument("--target", default="onnxruntime-cpu", help="name or path of a target")
    options = parser.parse_args()
    folder = corpus()
    if folder is None:
        print("no corpus: set REWRITE_CORPUS")
        return 1
    found = list(verdicts(folder, options.match, options.target))
    known = reasons()
    _report(found, known, options.missed, options.cases)
    kinds = Counter(verdict.kind for verdict in found)
    share = 100.0 * sum(v.met for v in found) / max(1, len(found))
    outcomes = [o for v in found for o in v.outcomes]
    good = sum(o.kind in ("exactly", "further") for o in outcomes)
    print(
        f"{len(found)} facts: {kinds['exactly']} exactly, {kinds['further']} further, "
        f"{kinds['missed'] + kinds['wrong']} missed: {share:.1f} % met "
        f"({good} of {len(outcomes)} models)"
    )
    if not options.match:
        left = left_out(folder)
        met = sum(v.met for v in found)
        print(
            f"with the {left} left out taken as missed: {100.0 * met / (len(found) + left):.1f} %"
        )
    wrong = problems(found, known)
    print("\n".join(wrong))
    return 0 if share >= options.least and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
