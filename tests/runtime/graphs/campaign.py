"""Many generated graphs, each run unrewritten and rewritten for this machine.

    python -m tests.runtime.graphs.campaign [--examples 1000] [--seed 0]

A graph that fails is shrunk by hypothesis, kept in tests/runtime/cases, and the campaign goes on
with another seed until the examples are used up. Exit status 1 on any failure.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.runtime.graphs.cases import keep
from tests.runtime.graphs.judge import disagreement
from tests.runtime.graphs.models import Drawn, models

PER_ROUND = 100


def settings_of(examples: int, **rest: object) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        **rest,  # type: ignore[arg-type]
    )


class DisagreementError(AssertionError):
    """A session computes something else than the graph means."""


def run(examples: int, start: int) -> tuple[int, list[str]]:
    """How many graphs were run, and the failures."""
    operators: Counter[str] = Counter()
    failures: list[str] = []
    done, number = 0, start
    while done < examples:
        count = _round(number, min(PER_ROUND, examples - done), operators, failures)
        done += count
        number += 1
        print(f"seed {number - 1}: {done} graphs, {len(failures)} failures", flush=True)
    print(f"{len(operators)} operators: {dict(operators.most_common())}")
    return done, failures


def _round(number: int, examples: int, operators: Counter[str], failures: list[str]) -> int:
    seen = 0
    worst: list[tuple[Drawn, str]] = []

    @seed(number)
    @settings_of(examples, phases=(Phase.generate, Phase.shrink))
    @given(models())
    def check(drawn: Drawn) -> None:
        nonlocal seen
        seen += not worst
        operators.update(node.op_type for node in drawn.model.graph.node)
        try:
            reason = disagreement(drawn)
        except Exception:  # a fault is a failure, to be shrunk as such
            worst.append((drawn, traceback.format_exc(limit=-3)))
            raise
        if reason is not None:
            worst.append((drawn, reason))
            raise DisagreementError(reason)

    try:
        check()
    except Exception:  # noqa: BLE001 - whatever it was, the smallest graph is reported
        drawn, reason = worst[-1]
        file = keep(drawn)
        failures.append(f"{file.name}: {reason}")
        print(f"{file.name}: {reason}\n{drawn!r}", flush=True)
    return max(seen, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done, failures = run(options.examples, options.seed)
    print(f"{done} graphs, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
