"""The exact oracle of quantized operators against Python's integers, a million cases each.

    python tests/bench/quant_oracle.py [--cases 1000000] [--seed 7] [--only NAME,...] [--runtime]

A case is one element of one output. Operands are random with many ties, ends of ranges and odd
zero points (tests/quant/cases.py); the other side is tests/quant/exact.py, element by element in
unbounded integers. Exit status 1 if any element differs. Takes about five minutes on two cores.
With --runtime the other side is onnxruntime, and differences are counted by cause; exit status 1 if
one has none.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.quant.cases import CASES
from tests.quant.test_reference import disagreements


def against_runtime(cases: int, seed: int) -> int:
    from rewrite.quant.cause import Cause
    from tests.quant.test_ort import INTEGERS, causes

    failed = 0
    for operator in INTEGERS:
        elements, totals, start = 0, dict.fromkeys(Cause, 0), seed
        while elements < cases:
            more, counts = causes(operator, 40, start, 200)
            elements, start = elements + more, start + 1
            for cause, number in counts.items():
                totals[cause] += number
        shown = ", ".join(f"{c.name.lower()} {n}" for c, n in totals.items() if n)
        print(f"{operator[1]:24} {elements:9} cases  {shown or 'none differ'}", flush=True)
        failed += totals[Cause.UNKNOWN]
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Exact oracle against unbounded integers")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--runtime", action="store_true")
    options = parser.parse_args()
    if options.runtime:
        return against_runtime(options.cases, options.seed)
    only = set(options.only.split(",")) - {""}
    failed = 0
    for operator in CASES:
        if only and operator[1] not in only:
            continue
        start, elements, wrong, seed = time.perf_counter(), 0, 0, options.seed
        while elements < options.cases:
            more, differ = disagreements(operator, 40, seed, 200)
            elements, wrong, seed = elements + more, wrong + differ, seed + 1
        seconds = time.perf_counter() - start
        print(f"{operator[1]:24} {elements:9} cases {wrong:6} differ {seconds:6.1f} s", flush=True)
        failed += wrong
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
