"""Must hold 7: peak memory of `rewrite apply` on a model of 3 GB with external data.

    python tests/bench/memory.py [--gigabytes 3] [--target host]

The model is generated in a scratch folder (its data file is sparse: 3 GB to read, little on the
disk), rewritten into another folder, where the data is really written, and both are removed. The
figure is the peak resident size of the process, as the operating system accounts it (ru_maxrss).
Exit status 1 if it is above 1.3 times the model's size + 300 MB, or if `apply` fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "graph"))
from large_model import make_large

MEGABYTE = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument("--target", default="host")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return measure(Path(scratch), int(options.gigabytes * (1 << 30)), options.target)


def measure(scratch: Path, size: int, target: str) -> int:
    source, out = scratch / "in", scratch / "out"
    source.mkdir()
    out.mkdir()
    model = source / "large.onnx"
    make_large(model, size)
    command = [sys.executable, "-m", "rewrite", "apply", str(model), "--target", target]
    start = time.perf_counter()
    process = subprocess.Popen([*command, "-o", str(out / "large.onnx")], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    written = sum(file.stat().st_size for file in out.iterdir())
    peak, bound = usage.ru_maxrss / 1024, 1.3 * size / MEGABYTE + 300
    print(f"model {size / MEGABYTE:,.0f} MB, written {written / MEGABYTE:,.0f} MB, {seconds:.1f} s")
    print(f"peak resident size {peak:,.0f} MB (bound {bound:,.0f} MB)")
    return 0 if process.returncode == 0 and peak <= bound and written >= size * 0.8 else 1


if __name__ == "__main__":
    sys.exit(main())
