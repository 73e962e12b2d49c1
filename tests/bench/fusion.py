"""Must hold 5: what fusion saves, in bytes of the plan and in time, by our own runtime.

    python tests/bench/fusion.py [--rounds 15] [--scale 1.0]

Six groups of operators (tests/runtime/models/groups.py), each run twice: fused (rewritten for this
machine, one kernel where the planner can) and as written, an operator a kernel
(`Options(fuse=False)`). Both sessions take turns in one process on one thread; figures are bytes
that all kernels read and write, each operand once, and medians of processor time. The outputs of
both are compared. Exit status 1 where a group that memory bounds is not twice as fast fused.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import rewrite
from rewrite.graph import io
from rewrite.runtime.session import Options, Session
from tests.runtime.models.groups import GROUPS, Group, feeds_of

BOUND = 2.0


def unfused(model: onnx.ModelProto) -> Session:
    return Session(io.load(model), Options(threads=1, fuse=False))


def moved(session: Session) -> tuple[int, int]:
    """Bytes that the kernels of all plans read and write, and how many kernels there are."""
    calls = [call for plan in session.plan for call in plan.calls]
    return sum(call.bytes for call in calls), len(calls)


def times(sessions: list[Session], feeds: dict[str, np.ndarray], rounds: int) -> list[float]:
    """Medians of processor time per run; the sessions take turns."""
    found: list[list[float]] = [[] for _ in sessions]
    for _ in range(rounds):
        for session, seconds in zip(sessions, found, strict=True):
            session.run(feeds)
            start = time.process_time()
            session.run(feeds)
            seconds.append(time.process_time() - start)
    return [statistics.median(seconds) for seconds in found]


def measure(group: Group, scale: float, rounds: int) -> bool:
    model = group.make(scale)
    feeds = feeds_of(model)
    with rewrite.compile(model, target="host") as fused, unfused(model) as plain:
        results = [session.run(feeds) for session in (fused, plain)]
        for name, expected in results[1].items():
            most = float(np.abs(expected).max())
            np.testing.assert_allclose(results[0][name], expected, rtol=0, atol=1e-4 * most)
        (fused_bytes, kernels), (plain_bytes, operators) = moved(fused), moved(plain)
        fused_time, plain_time = times([fused, plain], feeds, rounds)
    speed = plain_time / fused_time
    print(
        f"{group.name:32s} kernels {operators:2d} -> {kernels:2d}   MB {plain_bytes / 1e6:7.1f} -> "
        f"{fused_bytes / 1e6:7.1f} ({plain_bytes / max(fused_bytes, 1):4.1f}×)   "
        f"ms {1e3 * plain_time:8.2f} -> {1e3 * fused_time:8.2f} ({speed:4.1f}×)"
        f"{'   memory bound' if group.memory_bound else ''}",
        flush=True,
    )
    return speed >= BOUND or not group.memory_bound


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes")
    parser.add_argument("--match", default="")
    options = parser.parse_args()
    held = [
        measure(group, options.scale, options.rounds)
        for group in GROUPS
        if options.match in group.name
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
