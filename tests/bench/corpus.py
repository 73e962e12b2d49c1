"""Every model of the corpus, every target, through the command line.

    python tests/bench/corpus.py [--targets generic,host] [--match TEXT] [--stride K]
                                 [--runs 2] [--jobs 2] [--json FILE]

The corpus is `$REWRITE_CORPUS`, else `../shared/models`. For each model the ONNX checker is asked
first. Then, per target, `rewrite apply` runs as a user would call it (the command's `main`, in a
worker process that may crash without taking the rest along). Verdicts:

- `equal`: exit 0, the output passes the checker, the outputs agree within the ledger;
- `unverified`: exit 0 and checked, but no runtime runs the input (with the reason);
- `refused`: exit 2 and one clear line on stderr, nothing written;
- failures: `different`, `unchecked` (the checker rejects the output), `traceback`, `crash`,
  `noisy` (more than one message), `left behind` (a refused model with an output file), and
  `wrongly refused`: a model that the checker accepts, not listed with its reason in
  `corpus_refused.yaml`.

Exit status 1 on any failure.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TARGETS = ("generic", "host", "x86-avx2", "hexagon", "onnxruntime-cpu")
FAILURES = (
    "different",
    "unchecked",
    "traceback",
    "crash",
    "noisy",
    "wrongly refused",
    "left behind",
)

Row = dict[str, Any]


def corpus() -> Path | None:
    """The folder of models, or None where this machine has none."""
    named = os.environ.get("REWRITE_CORPUS")
    folder = Path(named) if named else HERE.parents[2] / "shared" / "models"
    return folder if (folder / "MANIFEST.csv").is_file() else None


def models(folder: Path) -> list[str]:
    with (folder / "MANIFEST.csv").open() as file:
        return sorted({row["path"] for row in csv.DictReader(file)})


def accepted(path: Path) -> bool:
    """Whether the ONNX checker takes the model."""
    import onnx

    try:
        onnx.checker.check_model(str(path))
    except Exception:  # noqa: BLE001 - the checker raises several kinds, some of them bare
        return False
    return True


def check(folder: str, name: str, targets: tuple[str, ...], runs: int) -> list[Row]:
    """One model, all targets; runs in a worker."""
    path = Path(folder) / name
    takes = accepted(path)
    with tempfile.TemporaryDirectory() as scratch:
        return [_one(path, name, target, runs, takes, Path(scratch)) for target in targets]


def _one(path: Path, name: str, target: str, runs: int, takes: bool, scratch: Path) -> Row:
    from rewrite.cli import main

    out, report = scratch / "out.onnx", scratch / "report.json"
    for old in scratch.iterdir():
        old.unlink()
    stdout, stderr = io.StringIO(), io.StringIO()
    arguments = ["apply", str(path), "--target", target, "-o", str(out), "--json", str(report)]
    start = time.perf_counter()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        status = main([*arguments, "--verify", str(runs)])
    row: Row = {"model": name, "target": target, "accepted": takes, "exit": status}
    row["seconds"] = round(time.perf_counter() - start, 3)
    said = stderr.getvalue().strip()
    data = json.loads(report.read_text()) if report.is_file() else {}
    row["kernels"] = [data.get("kernels_before"), data.get("kernels_after")]
    row["ledger"] = data.get("ledger", {}).get("total")
    row["fired"] = data.get("fired", {})
    row["refused_steps"] = len(data.get("refused", ()))
    row["verdict"], row["reason"] = _verdict(status, said, data, out, takes)
    return row


def _verdict(status: int, said: str, data: Row, out: Path, takes: bool) -> tuple[str, str]:
    if "Traceback" in said or "RW009" in said:
        return "traceback", said
    if status == 2:
        if out.exists():
            return "left behind", said
        messages = [line for line in said.splitlines() if not line.startswith("  ")]
        if len(messages) > 1:  # a hint and a page are a part of their message
            return "noisy", said
        return ("wrongly refused" if takes else "refused"), said
    if not accepted(out):
        return ("unchecked" if takes else "equal"), "the checker rejects the output"
    verified = data.get("verified", {})
    return str(verified.get("status")), str(verified.get("reason", ""))


def run(
    names: list[str], folder: Path, targets: tuple[str, ...], runs: int, jobs: int
) -> list[Row]:
    """All models. A worker that dies takes its batch along; the batch is run again one by one."""
    rows: list[Row] = []
    pending = list(names)
    with _pool(jobs) as pool:
        futures = {n: pool.submit(check, str(folder), n, targets, runs) for n in pending}
        broken = []
        for name, future in futures.items():
            try:
                found = future.result()
            except BrokenProcessPool:
                broken.append(name)
                continue
            rows += found
            _tell(found)
    for name in broken:
        with _pool(1) as pool:
            try:
                rows += pool.submit(check, str(folder), name, targets, runs).result()
            except BrokenProcessPool:
                rows += [
                    {"model": name, "target": "all", "verdict": "crash", "reason": "process died"}
                ]
    return rows


def _tell(rows: list[Row]) -> None:
    """Failures and slow rows, as they come."""
    for row in rows:
        if row["verdict"] in FAILURES or row["seconds"] > 20:
            where = f"{row['model']} [{row['target']}] {row['seconds']:.1f} s"
            print(f"{row['verdict']}: {where} {row['reason'][:200]}", file=sys.stderr, flush=True)


def _pool(jobs: int) -> ProcessPoolExecutor:
    import multiprocessing

    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_compare_here)


def _compare_here() -> None:
    """A worker may crash, so that `--verify` needs no further process for each model."""
    from rewrite.audit import apart, verify

    apart.compare = verify.compare  # type: ignore[assignment]


def allowed() -> dict[str, str]:
    """Models that the checker accepts and `rewrite` refuses, each with its reason."""
    import yaml

    file = HERE / "corpus_refused.yaml"
    return yaml.safe_load(file.read_text()) or {} if file.is_file() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--match", default="")
    parser.add_argument("--stride", type=int, default=1, help="every K-th model")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = corpus()
    if folder is None:
        print("no corpus: set REWRITE_CORPUS to a folder with MANIFEST.csv")
        return 1
    names = [n for n in models(folder) if options.match in n][:: options.stride]
    rows = run(names, folder, tuple(options.targets.split(",")), options.runs, options.jobs)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=0))
    return summary(rows)


def summary(rows: list[Row]) -> int:
    known = allowed()
    for row in rows:
        if row["verdict"] == "wrongly refused" and row["model"] in known:
            row["verdict"] = "refused"
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row["target"], Counter())[row["verdict"]] += 1
    for target, counter in counts.items():
        print(f"{target:18s}", "  ".join(f"{k} {n}" for k, n in sorted(counter.items())))
    failures = [row for row in rows if row["verdict"] in FAILURES]
    for row in failures:
        print(f"{row['verdict']}: {row['model']} [{row['target']}] {row['reason'][:300]}")
    print(f"{len(rows)} runs, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
