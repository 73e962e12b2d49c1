"""Time a model here, against other runtimes.

Each runtime has a process of its own; they take turns, so that all meet the same
moments of a busy machine. Prints medians and quartiles of a run, the time from the
file to the first result, and how many times longer than ours a run takes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rewrite.cli.console import add_inputs, number_from, working
from rewrite.errors import error

PEERS = ("onnxruntime", "openvino")


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="an ONNX file")
    add(
        "--threads", type=number_from(1), default=1, metavar="N", help="threads of each runtime (1)"
    )
    add(
        "--against",
        default="",
        metavar="A,B",
        help="runtimes to compare with: onnxruntime, openvino",
    )
    add("--turns", type=number_from(1), default=15, metavar="N", help="runs of each runtime (15)")
    add_inputs(parser)


def run(arguments: argparse.Namespace) -> int:
    from rewrite.cli.feeding import feeds_for, write_arrays
    from rewrite.cli.peers import compare
    from rewrite.execution import compile_model

    against = [name.strip() for name in arguments.against.split(",") if name.strip()]
    for name in against:
        if name not in PEERS:
            raise error("RW708", f"there is no peer `{name}`", hint=f"known: {', '.join(PEERS)}")
    with compile_model(arguments.model, threads=arguments.threads) as session:
        feeds = feeds_for(session, arguments.model, arguments.input, arguments.random)
    names = ["rewrite", *against]
    with tempfile.TemporaryDirectory() as folder, working(f"timing {arguments.model.name}"):
        stored = Path(folder) / "feeds.npz"
        with stored.open("wb") as stream:
            write_arrays(stream, feeds)
        timings = compare(arguments.model, stored, names, arguments.threads, arguments.turns)
    ours = timings[0].median
    print(f"{'runtime':12} {'median':>10} {'quartiles':>21} {'start':>8} {'of ours':>8}")
    for timing in timings:
        low, high = (f"{1e3 * value:.3f}" for value in timing.spread)
        print(
            f"{timing.name:12} {1e3 * timing.median:7.3f} ms {low:>8} – {high:>8} ms "
            f"{timing.start:6.2f} s {timing.median / ours:7.2f}x"
        )
    return 0
