"""Time per run against onnxruntime and OpenVINO: real models, quantized ones, known networks.

    python tests/bench/compare.py [--match TEXT] [--peers onnxruntime,openvino] [--rounds 9]
                                  [--seconds 0.15] [--unrewritten] [--json FILE]

Each runtime is a process of its own, bound to one processor and running on one thread; they take
turns with pauses between, so that all meet the same moments of the machine. Figures are medians of
processor time per run (a busy machine stretches the clock, not that) and half the distance between
the quartiles. `ratio` is ours over theirs: below 1 we are faster.

Real and derived models are those of the corpus with inputs of their own size (models_real.py);
ResNet-50, MobileNetV2 and a BERT-base-like encoder are made by code (tests/runtime/models), the
first two also in 8 bits (networks_quantized.py). Exit
status 1 where a real float or static 8-bit model takes more than 1.3 times onnxruntime's time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from corpus import corpus
from models_real import real_feeds
from networks_quantized import quantized

from tests.runtime.models import networks

BOUND = 1.3
ROUGHLY = 0.05  # of the largest output: 8-bit codes fall to either side
PAUSE = 0.05
PEER = Path(__file__).with_name("compare_peer.py")
QUANTIZED = ("resnet50", "mobilenet")  # networks that are timed in 8 bits, too
# Quantized while it runs, so that Must hold 6 does not speak of it.
DYNAMIC = ("tashkeel",)


@dataclass(frozen=True)
class Subject:
    """`judged`: a real float or static 8-bit model."""

    name: str
    model: Path
    feeds: dict[str, np.ndarray]
    judged: bool


@dataclass
class Peer:
    """A runtime in its process; `problem` where it does not run the model, or runs another one."""

    name: str
    process: subprocess.Popen[str]
    out: Path
    seconds: list[float] = field(default_factory=list)
    problem: str = ""
    remark: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        low, high = np.percentile(self.seconds, [25, 75])
        return float(high - low) / 2


def subjects(match: str, scratch: Path) -> Iterator[Subject]:
    """The models whose name has the text, written to a folder where they are made here."""
    folder = corpus()
    if folder is not None:
        for kind in ("real", "derived"):
            for path in sorted((folder / kind).glob("*.onnx")):
                feeds = real_feeds(f"{kind}/{path.name}")
                if match in path.stem and feeds is not None:
                    yield Subject(path.stem, path, feeds, not path.stem.startswith(DYNAMIC))
    for name, make in networks.NETWORKS.items():
        if match in name:
            model = make()
            path = scratch / f"{name}.onnx"
            onnx.save(model, str(path))
            yield Subject(name, path, networks.feeds_of(model), False)
    for name in QUANTIZED:
        if match in f"{name}.qdq_u8s8":
            model = networks.NETWORKS[name]()
            path = quantized(model, partial(networks.feeds_of, model), scratch, name)
            yield Subject(path.stem, path, networks.feeds_of(model), True)


def measure(subject: Subject, names: Sequence[str], rounds: int, seconds: float) -> list[Peer]:
    """All runtimes on one model, in turns."""
    with tempfile.TemporaryDirectory() as scratch:
        stored = Path(scratch) / "feeds.npz"
        np.savez(stored, **subject.feeds)
        cpu = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        peers = [start(name, subject.model, stored, cpu) for name in names]
        try:
            for peer in peers:
                wait(peer, "ready")
            live = [peer for peer in peers if not peer.problem]
            counts = [max(3, int(seconds / max(turn(peer, 3)[-1], 1e-6))) for peer in live]
            for _ in range(rounds):
                for peer, count in zip(live, counts, strict=True):
                    peer.seconds += turn(peer, min(count, 2000))
                    time.sleep(PAUSE)
            _check(live)
        finally:
            for peer in peers:
                peer.process.kill()
                peer.process.communicate()
    return peers


def _check(live: list[Peer]) -> None:
    """Ours must be onnxruntime's computation; of others it is told where they are not."""
    found = {peer.name: outputs(peer) for peer in live}
    expected = found.get("onnxruntime")
    for peer in live if expected is not None else ():
        said = differ(found[peer.name], expected)
        if said and peer.name in ("rewrite", "unrewritten"):
            peer.problem = said
        peer.remark = said


def outputs(peer: Peer) -> list[np.ndarray]:
    """What its last run gave; ends the process."""
    if peer.process.poll() is None:
        peer.process.communicate()
    with np.load(peer.out) as stored:
        return list(stored.values())


def differ(ours: list[np.ndarray], theirs: list[np.ndarray]) -> str:
    """Whether what was timed is the same computation; models.py is exact about it."""
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape or (a.dtype.kind != "f" and not np.array_equal(a, b)):
            return "other outputs than onnxruntime's"
        if a.dtype.kind == "f" and np.abs(a - b).max() > ROUGHLY * max(np.abs(b).max(), 1e-3):
            return f"outputs {np.abs(a - b).max():.2g} off onnxruntime's"
    return ""


def start(name: str, model: Path, feeds: Path, cpu: int) -> Peer:
    out = feeds.with_name(f"{name}.npz")
    command = [sys.executable, str(PEER), name, str(model), str(feeds), str(cpu), str(out)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return Peer(name, process, out)


def wait(peer: Peer, word: str) -> list[float]:
    """The numbers that it prints before the word."""
    assert peer.process.stdout is not None
    found = []
    for line in peer.process.stdout:
        if line.strip() == word:
            return found
        try:
            found.append(float(line))
        except ValueError:
            continue  # what a runtime tells of itself
    assert peer.process.stderr is not None
    lines = peer.process.stderr.read().strip().splitlines()
    told = [line for line in lines if not line.startswith("hint: ")]
    peer.problem = told[-1][:200] if told else "it ended"
    return found


def turn(peer: Peer, count: int) -> list[float]:
    assert peer.process.stdin is not None
    peer.process.stdin.write(f"{count}\n")
    peer.process.stdin.flush()
    return wait(peer, "done")


# --- the report --------------------------------------------------------------------------------


def row(subject: Subject, peers: Sequence[Peer]) -> str:
    ours = peers[0]
    cells = [f"{subject.name:28.28s}"]
    for peer in peers:
        if peer.problem:
            cells.append(f"{'–':>16s}")
            continue
        cells.append(f"{1e3 * peer.median:9.3f} ±{1e3 * peer.spread:6.3f}")
        if peer is not ours and not ours.problem:
            cells[-1] += f" ({ours.median / peer.median:5.2f})"
    return "  ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="")
    parser.add_argument("--peers", default="onnxruntime,openvino")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.15, help="of one turn")
    parser.add_argument("--unrewritten", action="store_true", help="the models as they are, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = ["rewrite", *(["unrewritten"] if options.unrewritten else ())]
    names += [name for name in options.peers.split(",") if name]
    print("milliseconds of processor time per run, ± half the interquartile range (ours / theirs)")
    print(f"{'model':28s}  " + "  ".join(f"{name:>25s}" for name in names))
    ratios: dict[str, list[float]] = {}
    slow, rows = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for subject in subjects(options.match, Path(scratch)):
            peers = measure(subject, names, options.rounds, options.seconds)
            print(row(subject, peers), flush=True)
            for peer in peers:
                if peer.problem or peer.remark:
                    print(f"    {peer.name}: {peer.problem or peer.remark}")
            rows.append({p.name: p.median if p.seconds else None for p in peers})
            rows[-1]["model"] = subject.name
            if peers[0].problem:
                slow.append(subject.name)
                continue
            for peer in peers[1:]:
                if not peer.problem:
                    ratio = peers[0].median / peer.median
                    ratios.setdefault(peer.name, []).append(ratio)
                    if peer.name == "onnxruntime" and subject.judged and ratio > BOUND:
                        slow.append(subject.name)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    for name, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"geometric mean of ours over {name}: {mean:.2f} ({min(found):.2f}–{max(found):.2f})")
    if slow:
        print(f"more than {BOUND} times onnxruntime, or not run: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
