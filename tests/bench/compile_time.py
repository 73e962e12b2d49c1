"""Must hold 4: seconds from a model to its first result, with an empty cache and with a full one.

    python tests/bench/compile_time.py [--match TEXT] [--rounds 3] [--target host|none]

ResNet-50, PP-OCR det, smart-turn and a BERT-base-like encoder. Each measurement is a process of its
own: `cold` has an empty cache folder, so that the rules are parsed and every kernel is compiled;
`installed` one where another model has been compiled before, so that the rules are there; `warm`
one that a run of this model has filled. Measured is processor time from `rewrite.compile` to the
end of the first run (plans are made for the sizes that a run brings), imports not counted, less one
plain run; bytecode of the program is there, as behind an installation; medians. Exit status 1 where
cold is above 3 s or warm above 0.5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from corpus import corpus
from models_real import real_feeds

from tests.runtime.models import networks

COLD, WARM = 3.0, 0.5
REAL = ("ppocr-v4-det", "smart-turn-v3.2-cpu")

CHILD = """
import json, sys, time
import numpy as np, onnx, llvmlite.binding
import rewrite.execution
model, feeds_file, target = sys.argv[1:]
with np.load(feeds_file) as stored:
    feeds = {key: stored[key] for key in stored.files}
start, clock = time.process_time(), time.perf_counter()
session = rewrite.compile(model, target=None if target == "none" else target, threads=1)
made = time.process_time()
session.run(feeds)
end, wall = time.process_time(), time.perf_counter()
session.run(feeds)
again = time.process_time() - end
print(json.dumps([end - start - again, made - start, wall - clock - again]))
"""


@dataclass(frozen=True)
class Seconds:
    """Processor time in all and of rewriting and reading alone, and the clock's."""

    busy: float
    rewriting: float
    wall: float


def subjects(match: str, scratch: Path) -> Iterator[tuple[str, Path, dict[str, np.ndarray]]]:
    for name in ("resnet50", "bert"):
        if match in name:
            model = networks.NETWORKS[name]()
            path = scratch / f"{name}.onnx"
            onnx.save(model, str(path))
            yield name, path, networks.feeds_of(model)
    folder = corpus()
    for name in REAL:
        feeds = real_feeds(f"real/{name}.onnx")
        if folder is not None and feeds is not None and match in name:
            yield name, folder / "real" / f"{name}.onnx", feeds


def once(model: Path, feeds: Path, target: str, cache: Path) -> Seconds:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("REWRITE_CACHE", None)
    command = [sys.executable, "-c", CHILD, str(model), str(feeds), target]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return Seconds(*json.loads(done.stdout.splitlines()[-1]))


def measure(
    model: Path, feeds: Path, target: str, rounds: int, tiny: tuple[Path, Path]
) -> tuple[list[Seconds], list[Seconds], list[Seconds]]:
    cold, installed, warm = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            Path(cache).chmod(0o700)
            cold.append(once(model, feeds, target, Path(cache)))
            warm.append(once(model, feeds, target, Path(cache)))
        with tempfile.TemporaryDirectory() as cache:
            Path(cache).chmod(0o700)
            once(*tiny, target, Path(cache))
            installed.append(once(model, feeds, target, Path(cache)))
    return cold, installed, warm


def tiny_model(scratch: Path) -> tuple[Path, Path]:
    text = (
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }"""
    )
    model, feeds = scratch / "tiny.onnx", scratch / "tiny.npz"
    onnx.save(onnx.parser.parse_model(text), str(model))
    np.savez(feeds, x=np.ones(2, np.float32))
    return model, feeds


def told(kind: str, found: list[Seconds], bound: float) -> tuple[str, bool]:
    busy = statistics.median(s.busy for s in found)
    rewriting = statistics.median(s.rewriting for s in found)
    low, high = min(s.busy for s in found), max(s.busy for s in found)
    limit = f"; bound {bound:g}" if bound < np.inf else ""
    text = f"{kind} {busy:5.2f} s ({low:.2f}–{high:.2f}{limit}; before the run {rewriting:.2f})"
    return text, busy <= bound


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", default="host")
    options = parser.parse_args()
    held = True
    with tempfile.TemporaryDirectory() as scratch:
        # An installed package has its bytecode, whatever the environment says of writing it.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(scratch) / "bytecode")
        tiny = tiny_model(Path(scratch))
        with tempfile.TemporaryDirectory() as cache:
            Path(cache).chmod(0o700)
            once(*tiny, options.target, Path(cache))
        for name, model, feeds in subjects(options.match, Path(scratch)):
            stored = Path(scratch) / "feeds.npz"
            np.savez(stored, **feeds)
            cold, installed, warm = measure(model, stored, options.target, options.rounds, tiny)
            first, cold_held = told("cold", cold, COLD)
            second, _ = told("installed", installed, np.inf)
            third, warm_held = told("warm", warm, WARM)
            print(f"{name:20s} {first}  {second}  {third}", flush=True)
            held = held and cold_held and warm_held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
