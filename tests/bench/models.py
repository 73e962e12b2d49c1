"""Every model of the corpus that onnxruntime runs, run here: outputs against onnxruntime's.

    python tests/bench/models.py [--match TEXT] [--stride K] [--targets none,host] [--jobs 2]
                                 [--strict-native] [--reference] [--all] [--json FILE]

The corpus is `$REWRITE_CORPUS`, else `../shared/models`. onnxruntime runs with all optimizations
off and on one thread; feeds are random (rewrite/audit/feeds.py), of the first plan under which it
runs, for the real models those of models_real.py.
`none` is the model as it is, `host` the model rewritten for this machine. Tolerances are derived
per model (models_tolerance.py). `--strict-native` refuses operators without kernels in the real
models; `--reference` runs every node on the reference device, without plans and kernels.

Verdicts: `equal`, and failures: `different`, `error` (an exception of ours), `fault` (any other
exception), `crash` (the process died), `slow` (more than `--seconds`). Models that onnxruntime does
not run are counted, not judged. Exit status 1 on any failure that EXPLAINED does not name.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from corpus import corpus
from corpus import models as names_of

Row = dict[str, Any]

FAILURES = ("different", "error", "fault", "crash", "slow")

# Where onnxruntime's own outputs are not what the model says, with the reason.
EXPLAINED: Mapping[str, str] = {
    "ort/pytransformers/models/gpt2_past.onnx": "not a valid model: two values have one name, "
    "nodes are out of order (the ONNX checker refuses it)",
    "ort/testdata/transform/fusion/bias_dropout_same_shape_fusion_dim_is_param.onnx": "Dropout in "
    "training mode: random numbers",
    "ort/testdata/transform/dropout_ratio.onnx": "Dropout in training mode: random numbers",
    "ort/testdata/webgpu_pow_cast_test.onnx": "Cast of NaN (a negative base, a broken power) to an "
    "integer, which ONNX leaves open",
}


# --- one model ---------------------------------------------------------------------------------


def check(path: str, name: str, targets: tuple[str, ...], how: Mapping[str, bool]) -> list[Row]:
    """One model, all targets."""
    from models_real import real_feeds

    from rewrite.audit.feeds import NoFeedsError
    from rewrite.audit.runtimes import CannotRunError, OnnxRuntime, source_of, working_plan

    source = source_of(path)
    try:
        theirs = OnnxRuntime(source)
        feeds = real_feeds(name) or working_plan(theirs, source.proto, 0)[1]
        expected = theirs.run(feeds)
    except (CannotRunError, NoFeedsError) as reason:
        return [{"model": name, "target": "-", "verdict": "not run", "reason": str(reason)}]
    except Exception as reason:  # noqa: BLE001 - checking what the runtime returned
        return [{"model": name, "target": "-", "verdict": "not run", "reason": repr(reason)}]
    rows = []
    for target in targets:
        row: Row = {"model": name, "target": target}
        start = time.perf_counter()
        row |= _run(source, feeds, expected, target, how)
        row["seconds"] = round(time.perf_counter() - start, 2)
        rows.append(row)
    return rows


def _run(source: Any, feeds: Any, expected: Any, target: str, how: Mapping[str, bool]) -> Row:
    from models_tolerance import judge

    from rewrite.errors import RewriteError

    try:
        found, devices = _ours(source, feeds, target, how)
    except RewriteError as problem:
        return {"verdict": "error", "reason": str(problem).splitlines()[0][:300]}
    except Exception as problem:  # noqa: BLE001 - a fault of ours is a row, not the end
        return {"verdict": "fault", "reason": f"{type(problem).__name__}: {problem}"[:300]}
    verdict = judge(source, feeds, expected, found)
    return {
        "verdict": "equal" if verdict.reason is None else "different",
        "reason": verdict.reason or "",
        "used": round(verdict.used, 4),
        "tolerance": str(verdict.tolerance),
        "reference": sorted(n for n, d in devices.items() if d == "reference"),
        "nodes": len(devices),
    }


def _ours(source: Any, feeds: Any, target: str, how: Mapping[str, bool]) -> tuple[list, dict]:
    if how["reference"]:
        from rewrite.graph import io
        from tests.runtime.interpreter import Interpreter

        ran = Interpreter(io.to_proto(io.load(source.path)))
        return ran.run(feeds), dict.fromkeys(map(str, ran.ran), "reference")
    import rewrite

    chosen = None if target == "none" else target
    with rewrite.compile(source.path, target=chosen, threads=1, strict=how["strict"]) as session:
        results = session.run(feeds)
        return [results[v.name] for v in source.proto.graph.output], session.devices()


# --- workers -----------------------------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    while True:
        try:
            work = pipe.recv()
        except EOFError:
            return
        pipe.send(check(*work))


class Worker:
    """A process that checks models one after the other; started again where it died."""

    def __init__(self) -> None:
        self.task: tuple[str, float] | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, name: str, work: tuple) -> None:
        self.pipe.send(work)
        self.task = (name, time.monotonic())

    def take(self, seconds: float) -> list[Row] | None:
        """The rows of the task, None while it goes on."""
        assert self.task is not None
        name, since = self.task
        try:
            if self.pipe.poll(0.05):
                rows = self.pipe.recv()
                self.task = None
                return rows
        except (EOFError, ConnectionResetError):
            return self._again(name, "crash", "the process died")
        if time.monotonic() - since > seconds:
            return self._again(name, "slow", f"more than {seconds:g} s")
        return None

    def _again(self, name: str, verdict: str, reason: str) -> list[Row]:
        self.stop()
        self._start()
        self.task = None
        return [{"model": name, "target": "-", "verdict": verdict, "reason": reason}]

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def run(tasks: list[tuple[str, tuple]], jobs: int, seconds: float) -> Iterator[Row]:
    workers = [Worker() for _ in range(jobs)]
    pending = list(reversed(tasks))
    try:
        while pending or any(worker.task for worker in workers):
            for worker in workers:
                if worker.task is not None:
                    yield from worker.take(seconds) or ()
                if worker.task is None and pending:
                    worker.give(*pending.pop())
    finally:
        for worker in workers:
            worker.stop()


# --- the report --------------------------------------------------------------------------------


def summary(rows: list[Row]) -> int:
    for target in dict.fromkeys(row["target"] for row in rows):
        mine = [row for row in rows if row["target"] == target]
        counts = Counter(row["verdict"] for row in mine)
        print(f"{target:8s}", "  ".join(f"{k} {n}" for k, n in sorted(counts.items())))
    ran = [row for row in rows if "nodes" in row]
    native = sum(not row["reference"] for row in ran)
    print(f"{native} of {len(ran)} runs without the reference device")
    if ran:
        print(f"largest share of a tolerance that is used: {max(r['used'] for r in ran):.3f}")
    failures = [row for row in rows if row["verdict"] in FAILURES]
    for row in failures:
        known = EXPLAINED.get(row["model"])
        said = f"explained: {known}" if known else row["reason"]
        print(f"{row['verdict']}: {row['model']} [{row['target']}] {said}")
    bad = [row for row in failures if row["model"] not in EXPLAINED]
    print(f"{len(rows)} runs, {len(bad)} failures")
    return 1 if bad else 0


def tell(row: Row) -> None:
    share = f"{row['used']:.3f} of {row['tolerance']}" if "used" in row else ""
    count = len(row.get("reference", ()))
    device = f"{count} of {row['nodes']} nodes by the reference device" if count else ""
    parts = (row["verdict"], f"{row['model']} [{row['target']}]", share, device, row["reason"])
    print("  ".join(part for part in parts if part), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="")
    parser.add_argument("--stride", type=int, default=1, help="every K-th model")
    parser.add_argument("--targets", default="none,host")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300, help="the most for one model")
    parser.add_argument("--strict-native", action="store_true", help="real models: kernels only")
    parser.add_argument(
        "--reference", action="store_true", help="every node by the reference device"
    )
    parser.add_argument("--all", action="store_true", help="print the rows of equal models, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = corpus()
    if folder is None:
        print("no corpus: set REWRITE_CORPUS to a folder with MANIFEST.csv")
        return 1
    targets = ("none",) if options.reference else tuple(options.targets.split(","))
    tasks = []
    for name in [n for n in names_of(folder) if options.match in n][:: options.stride]:
        strict = options.strict_native and name.startswith("real/")
        how = {"strict": strict, "reference": options.reference}
        tasks.append((name, (str(folder / name), name, targets, how)))
    rows = []
    for row in run(tasks, options.jobs, options.seconds):
        rows.append(row)
        if options.all or row["verdict"] in FAILURES:
            tell(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=0))
    return summary(rows)


if __name__ == "__main__":
    sys.exit(main())
