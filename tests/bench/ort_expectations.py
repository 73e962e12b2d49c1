"""ONNX Runtime's own transformer tests as facts about target `onnxruntime-cpu`.

    python tests/bench/ort_expectations.py [--missed] [--match TEXT] [--least 80]

The facts are `ORT_EXPECTATIONS.csv` of the corpus (`$REWRITE_CORPUS`, else `../shared/models`): a
model, the operator counts that ONNX Runtime's test asserts after its transformers, sometimes the
total. Not all are about a CPU session. By its columns a fact is left out where

- `transformers` begins with `PropagateCastOps` (93 facts: cast propagation of float16 training);
- `transformers` names `BiasDropout` (11 facts: dropout that stays, as in training);
- `note` begins with `CUDA EP` (5 facts: transformers that only the CUDA provider runs).

143 remain; the 13 of them whose model has a DequantizeLinear count in `ort_qdq_facts.py` as well. A
fact is met `exactly` where the model after `apply` has the counts asserted (`UNCHANGED`: those it
had). It is met `further` where the test asserts that something fires, no operator is left more
often than asserted, and those asserted to appear do: other rules of ours then removed what a single
transformer of theirs leaves. Where a test asserts that a transformer leaves the DequantizeLinear of
a model as they are, ONNX Runtime does not lower the model in it, nor do we: `UNQUANTIZED` is the
target without the packs that do. A missed fact needs a reason in
`ort_expectations.yaml`; a reason for a fact that is met is an error as well. Exit status 1 below
`--least` per cent or where reasons are missing or stale.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import onnx
import yaml
from corpus import corpus
from leftovers import graphs, operator_name

import rewrite
from rewrite.errors import RewriteError

HERE = Path(__file__).resolve().parent
REASONS = HERE / "ort_expectations.yaml"
UNQUANTIZED = HERE / "onnxruntime-unquantized.yaml"
Counts = dict[str, int]


@dataclass(frozen=True)
class Fact:
    """One row of the table. `expected` None: the counts stay as they are."""

    model: str
    test: str
    transformers: str
    expected: Counts | None
    total: int | None
    fires: bool
    note: str

    @property
    def name(self) -> str:
        return f"{self.test} {self.model.removeprefix('testdata/')}"

    @property
    def key(self) -> str:
        """How the table of reasons names it: notes tell facts of one test and model apart."""
        return f"{self.name} ({self.note})" if self.note else self.name


def facts(folder: Path) -> list[Fact]:
    """The facts that a CPU session is about."""
    with (folder / "ORT_EXPECTATIONS.csv").open(newline="") as file:
        return [_fact(row) for row in csv.DictReader(file) if _selected(row)]


def _selected(row: dict[str, str]) -> bool:
    if row["transformers"].startswith("PropagateCastOps"):
        return False
    return "BiasDropout" not in row["transformers"] and not row["note"].startswith("CUDA EP")


def quantized(folder: Path, fact: Fact) -> bool:
    """Whether the model has a DequantizeLinear."""
    path = folder / "ort" / fact.model
    return "DequantizeLinear" in count(onnx.load(path, load_external_data=False))


def _fact(row: dict[str, str]) -> Fact:
    after, total = row["expected_after"], row["total_nodes_after"]
    return Fact(
        model=row["model"],
        test=row["test"].removeprefix("GraphTransformationTests."),
        transformers=row["transformers"],
        expected=None if after == "UNCHANGED" else _counts(after),
        total=int(total) if total else None,
        fires=row["kind"] == "fires",
        note=row["note"],
    )


def _counts(text: str) -> Counts:
    pairs = (part.rsplit(":", 1) for part in text.split(";"))
    return {name: int(count) for name, count in pairs}


def count(model: onnx.ModelProto) -> Counts:
    """Operators of the graph and its subgraphs; constants that are nodes are none of them here."""
    return dict(Counter(operator_name(n) for graph in graphs(model) for n in graph.node))


@dataclass(frozen=True)
class Verdict:
    """What came of one fact: `exactly`, `further` or `missed`, and where the counts differ."""

    fact: Fact
    kind: str
    ours: str

    @property
    def met(self) -> bool:
        return self.kind != "missed"


def _target(fact: Fact, before: Counts) -> str:
    number = before.get("DequantizeLinear", 0)
    if number and (fact.expected is None or fact.expected == {"DequantizeLinear": number}):
        return str(UNQUANTIZED)
    return "onnxruntime-cpu"


def judge(folder: Path, fact: Fact) -> Verdict:
    """Apply, count, compare."""
    path = folder / "ort" / fact.model
    before = count(onnx.load(path, load_external_data=False))
    try:
        after = count(rewrite.apply(path, target=_target(fact, before)).model)
    except RewriteError as refused:
        return Verdict(fact, "missed", f"refused: {refused.diagnostics[0].message}")
    except Exception as crash:  # noqa: BLE001 - a crash is a missed fact, and the others go on
        return Verdict(fact, "missed", f"crash: {crash!r:.200}")
    same = before | dict.fromkeys(after.keys() - before.keys(), 0)
    wanted = same if fact.expected is None else fact.expected
    said = [f"{k}:{after.get(k, 0)} not {n}" for k, n in wanted.items() if after.get(k, 0) != n]
    total = sum(after.values())
    if fact.total is not None and total != fact.total:
        said.append(f"{total} nodes, not {fact.total}")
    kind = "exactly" if not said else "missed"
    if said and fact.fires and _further(before, wanted, after):
        kind = "further"
    return Verdict(fact, kind, "; ".join(said))


def _further(before: Counts, wanted: Counts, after: Counts) -> bool:
    """Whether no operator is more than asserted, and none that should appear is missing."""
    for name, number in wanted.items():
        ours = after.get(name, 0)
        appears = number > before.get(name, 0)
        if ours > number or (appears and ours != number):
            return False
    return True


def reasons() -> dict[str, str]:
    """Fact key -> why it is not met."""
    loaded = yaml.safe_load(REASONS.read_text()) if REASONS.is_file() else None
    return dict(loaded or {})


def problems(verdicts: list[Verdict], known: dict[str, str]) -> list[str]:
    """Missed facts without a reason, reasons without a missed fact."""
    missed = {v.fact.key for v in verdicts if not v.met}
    all_keys = {v.fact.key for v in verdicts}
    found = [f"no reason is given for: {key}" for key in sorted(missed - known.keys())]
    stale = [key for key in known if key in all_keys and key not in missed]
    return found + [f"it is met, and has a reason: {key}" for key in stale]


def _report(verdicts: list[Verdict], known: dict[str, str], only_missed: bool) -> None:
    for verdict in verdicts:
        if verdict.met and only_missed:
            continue
        fact = verdict.fact
        expected = "unchanged" if fact.expected is None else fact.expected
        print(f"{verdict.kind:8s}{fact.key} [{fact.transformers}] expected {expected}")
        if verdict.ours:
            print(f"            {verdict.ours}")
        if not verdict.met:
            print(f"            reason: {known.get(fact.key, '-')}")


def main() -> int:
    parser = argparse.ArgumentParser(description="facts of ONNX Runtime's tests that we reach")
    parser.add_argument("--missed", action="store_true", help="list only what is missed")
    parser.add_argument("--match", default="", help="only facts whose test or model has this text")
    parser.add_argument("--least", type=float, default=80.0, help="per cent that must be met")
    options = parser.parse_args()
    folder = corpus()
    if folder is None:
        print("no corpus: set REWRITE_CORPUS")
        return 1
    chosen = [fact for fact in facts(folder) if options.match in fact.key + fact.transformers]
    verdicts = [judge(folder, fact) for fact in chosen]
    known = reasons()
    _report(verdicts, known, options.missed)
    kinds = Counter(verdict.kind for verdict in verdicts)
    share = 100.0 * sum(v.met for v in verdicts) / max(1, len(verdicts))
    print(
        f"{len(verdicts)} facts: {kinds['exactly']} exactly, {kinds['further']} further, "
        f"{kinds['missed']} missed: {share:.1f} % met"
    )
    wrong = problems(verdicts, known)
    print("\n".join(wrong))
    return 0 if share >= options.least and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
