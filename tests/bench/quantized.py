"""Every quantized model of the corpus, rewritten for three targets, under the exact oracle.

    python tests/bench/quantized.py [--only TEXT] [--target hexagon,x86-avx2] [--class exact,lsb]
                                    [--runs 2] [--seconds 300] [--gigabytes 6] [--jobs 1]
                                    [--json FILE]

The corpus is `$REWRITE_CORPUS`, else `../shared/models`; quantized is what has QuantizeLinear,
DequantizeLinear, an operator on codes, or weights in few bits. With `--max-class exact` outputs
must be equal under the oracle, and so must every value whose name both models have; with `lsb`
outputs may differ by what the ledger says. Each model and target runs in a process of its own,
bounded in time and memory. Verdicts:

- `equal`, `within` (the ledger);
- `refused`: the oracle has no value for the model, which is said with the reason;
- failures: `different`, `beyond` (the ledger), `traceback`, `crash`, `timeout`.

Exit status 1 on any failure.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.bench.corpus import corpus, models  # noqa: E402 - found only now

TARGETS = ("hexagon", "onnxruntime-cpu", "x86-avx2")
CLASSES = ("exact", "lsb")
FAILURES = ("different", "beyond", "traceback", "crash", "timeout")
MARKS = ("Quantize", "QLinear", "QGemm", "QAttention", "Integer", "NBits")

Row = dict[str, Any]


def is_quantized(path: Path) -> bool:
    """Whether a node of the model speaks of codes."""
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception:  # noqa: BLE001 - files of the corpus that are no models
        return False
    graphs = [model.graph.node, *(function.node for function in model.functions)]
    return any(
        any(mark in node.op_type for mark in MARKS) or node.op_type in ("Quant", "FloatQuant")
        for nodes in graphs
        for node in nodes
    )


def check(path: Path, target: str, limit: str, runs: int) -> Row:
    """One model, one target, one class; runs in a process of its own."""
    from rewrite import api
    from rewrite.audit.feeds import NoFeedsError
    from rewrite.audit.layers import compare_layers
    from rewrite.audit.oracle.run import Oracle
    from rewrite.audit.oracle.step import OracleError
    from rewrite.errors import RewriteError

    try:
        Oracle(path)
    except (OracleError, RewriteError) as problem:
        return {"verdict": "refused", "reason": str(problem)}
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.onnx"
        result = api.apply(path, target=target, max_class=limit)
        result.save(out)
        allowed = result.ledger.total
        row: Row = {"ledger": str(allowed), "applied": len(result.journal.applied)}
        row["kernels"] = [result.stats["kernels_before"], result.stats["kernels_after"]]
        try:
            found = compare_layers(path, out, runs)
        except (OracleError, NoFeedsError) as problem:
            row |= _unlike(path, out, str(problem))
            return row
    row |= {"compared": len(found.layers), "undecided": found.undecided, "sizes": found.plan}
    row["lsb"] = max((layer.lsb for layer in found.outputs), default=0.0)
    broken = [layer for layer in found.outputs if layer.reason]
    if found.equal:
        row["verdict"] = "equal"
    elif limit == "lsb" and not broken and row["lsb"] <= allowed.lsb:
        row["verdict"] = "within"
    else:
        row["verdict"] = "different" if limit == "exact" else "beyond"
    first = found.first
    row["reason"] = (
        ""
        if first is None
        else f"{first.layer.name}: {dict(first.causes)}, "
        + (f"{first.layer.differing} differ by up to {first.layer.lsb:.4g} {first.layer.reason}")
    )
    return row


def _unlike(before: Path, after: Path, reason: str) -> Row:
    """Whether the original already has no exact value on any inputs."""
    from rewrite.audit.feeds import NoFeedsError
    from rewrite.audit.oracle.compare import inputs_for
    from rewrite.audit.oracle.run import Oracle
    from rewrite.audit.oracle.step import OracleError

    try:
        inputs_for(Oracle(before), before, 1, 0)
    except (OracleError, NoFeedsError):
        return {"verdict": "refused", "reason": reason}
    return {"verdict": "different", "reason": f"only the original runs: {reason} ({after.name})"}


def child(arguments: list[str]) -> None:
    """`--child MODEL TARGET CLASS RUNS BYTES`: one row of JSON on stdout."""
    path, target, limit, runs, nbytes = arguments
    resource.setrlimit(resource.RLIMIT_DATA, (int(nbytes), int(nbytes)))
    start = time.perf_counter()
    try:
        row = check(Path(path), target, limit, int(runs))
    except Exception:  # noqa: BLE001 - whatever it is, it is a failure to be told
        row = {"verdict": "traceback", "reason": traceback.format_exc()[-1500:]}
    row["seconds"] = round(time.perf_counter() - start, 2)
    print(json.dumps(row))


def one(job: tuple[Path, str, str, str], options: argparse.Namespace) -> Row:
    folder, name, target, limit = job
    head = {"model": name, "target": target, "class": limit}
    nbytes = str(int(options.gigabytes * (1 << 30)))
    command = [sys.executable, str(HERE / "quantized.py"), "--child"]
    command += [str(folder / name), target, limit, str(options.runs), nbytes]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds)
    except subprocess.TimeoutExpired:
        return {**head, "verdict": "timeout", "reason": f"more than {options.seconds:.0f} s"}
    if done.returncode:
        return {**head, "verdict": "crash", "reason": done.stderr[-500:]}
    row: Row = {**head, **json.loads(done.stdout.splitlines()[-1])}
    if row["verdict"] in FAILURES:
        print(f"{row['verdict']}: {name} [{target}, {limit}] {row['reason']}", file=sys.stderr)
    return row


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default=",".join(TARGETS))
    parser.add_argument("--class", dest="classes", default=",".join(CLASSES))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = corpus()
    if folder is None:
        print("no corpus: set REWRITE_CORPUS to a folder with MANIFEST.csv")
        return 1
    names = [n for n in models(folder) if options.only in n and is_quantized(folder / n)]
    jobs = [
        (folder, name, target, limit)
        for name in names
        for target in options.target.split(",")
        for limit in options.classes.split(",")
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda job: one(job, options), jobs))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=0))
    return summary(rows, len(names))


def summary(rows: list[Row], count: int) -> int:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        counts.setdefault((row["target"], row["class"]), Counter())[row["verdict"]] += 1
    for (target, limit), counter in counts.items():
        text = "  ".join(f"{verdict} {n}" for verdict, n in sorted(counter.items()))
        print(f"{target:18} {limit:6} {text}")
    told = {(row["model"], row["reason"]) for row in rows if row["verdict"] == "refused"}
    for name, reason in sorted(told):
        print(f"refused: {name} {reason[:200]}")
    failures = [row for row in rows if row["verdict"] in FAILURES]
    for row in failures:
        where = f"{row['model']} [{row['target']}, {row['class']}]"
        print(f"{row['verdict']}: {where} {row['reason'][-300:]}")
    if rows:
        slow = max(rows, key=lambda row: float(row.get("seconds", 0.0)))
        print(f"slowest {slow.get('seconds')} s, {slow['model']} [{slow['target']}]")
    print(f"{count} models, {len(rows)} runs, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
