"""Must hold 4: peak memory while a model runs, against onnxruntime.

    python tests/bench/memory_run.py [--match TEXT] [--runs 5] [--cold]

ResNet-50, PP-OCR det, smart-turn and a BERT-base-like encoder, each in a process per runtime. After
the first run the peak is reset (/proc/self/clear_refs), then the model runs some times: the figure
is the peak resident size of that part above what the process had before the model was loaded, with
the libraries imported. The peak of everything, loading included, is printed beside it. `--cold`:
the cache is empty, so that the same process has also parsed the rules, searched proofs and compiled
every kernel before. Exit status 1 where ours is above onnxruntime's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from compile_time import subjects

CHILD = """
import gc, json, sys
import numpy as np
def status(key):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
name, model, feeds_file, runs = sys.argv[1:]
with np.load(feeds_file) as stored:
    feeds = {key: stored[key] for key in stored.files}
if name == "rewrite":
    import onnx, llvmlite.binding, rewrite.execution
else:
    import onnxruntime
before = status("VmRSS")
if name == "rewrite":
    session = rewrite.compile(model, target="host", threads=1)
    run = lambda: session.run(feeds)
else:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    run = lambda: session.run(None, feeds)
run()
whole = status("VmHWM")
gc.collect()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
for _ in range(int(runs)):
    run()
whole = max(whole, status("VmHWM"))
print(json.dumps([status("VmHWM") - before, whole - before, before]))
"""


def measure(
    name: str, model: Path, feeds: Path, runs: int, cold: bool = False
) -> tuple[float, float, float]:
    """Megabytes: at run, in all, before the model."""
    if cold:
        with tempfile.TemporaryDirectory() as cache:
            Path(cache).chmod(0o700)
            return once(name, model, feeds, runs, {**os.environ, "XDG_CACHE_HOME": cache})
    return once(name, model, feeds, runs, dict(os.environ))


def once(
    name: str, model: Path, feeds: Path, runs: int, environment: dict[str, str]
) -> tuple[float, float, float]:
    command = [sys.executable, "-c", CHILD, name, str(model), str(feeds), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    at_run, whole, before = json.loads(done.stdout.splitlines()[-1])
    return at_run, whole, before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    if not Path("/proc/self/clear_refs").exists():
        print("peaks can be reset on Linux only")
        return 1
    held = True
    print("megabytes above the imported libraries: at run (in all, loading included)")
    with tempfile.TemporaryDirectory() as scratch:
        for name, model, feeds in subjects(options.match, Path(scratch)):
            stored = Path(scratch) / "feeds.npz"
            np.savez(stored, **feeds)
            ours = measure("rewrite", model, stored, options.runs, options.cold)
            theirs = measure("onnxruntime", model, stored, options.runs)
            print(
                f"{name:20s} ours {ours[0]:7.1f} ({ours[1]:7.1f})   "
                f"onnxruntime {theirs[0]:7.1f} ({theirs[1]:7.1f})   ratio {ours[0] / theirs[0]:.2f}"
                f"   libraries {ours[2]:.0f}, {theirs[2]:.0f}",
                flush=True,
            )
            held = held and ours[0] <= theirs[0]
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
