"""`python -m tests.property.campaign`: mutants and random graphs, judged at length.

    python -m tests.property.campaign mutants [--rule NAME]... [--kind KIND]... [--share 1/20]
    python -m tests.property.campaign chains --count 1000 --seed 1
    python -m tests.property.campaign graphs --count 1000 --seed 1

Prints each fault once per rule and kind, and at the end how many models were judged. `--save DIR`
keeps the models.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx

from tests.property.judge import TARGETS, WRONG, Fault, faults
from tests.property.mutations import Array, chained, mutants, mutators
from tests.property.samples import samples
from tests.property.subject import subject

Case = tuple[str, onnx.ModelProto, Mapping[str, Array]]


def main(arguments: list[str]) -> int:
    """Runs in children: a runtime, or ONNX, may end the process; what did it is passed over."""
    options = _parser().parse_args(arguments)
    if options.at is not None:
        return _child(options)
    with tempfile.TemporaryDirectory(prefix="campaign") as folder:
        state = Path(folder, "state")
        state.write_text("0 start")
        while True:
            command = [sys.executable, "-m", "tests.property.campaign", *arguments]
            status = subprocess.call([*command, "--at", str(state)])
            if status in (0, 1):
                return status
            number, stage = state.read_text().split(" ", 1)
            print(f"process ended with {status} at model {number}, {stage}", flush=True)
            if stage.startswith("making "):
                with Path(folder, "skipped").open("a") as file:
                    file.write(stage + "\n")
            state.write_text(f"{int(number) + (not stage.startswith('making '))} start")


def _child(options: argparse.Namespace) -> int:
    first = int(options.at.read_text().split()[0])
    options.number = first
    counts: Counter[str] = Counter()
    seen: Counter[tuple[str, tuple[str, ...]]] = Counter()
    started = time.monotonic()
    for number, (name, model, fixed) in enumerate(_cases(options)):
        if number < first:
            continue
        if options.seconds and time.monotonic() - started > options.seconds:
            break
        counts["models"] += 1
        options.at.write_text(f"{number} original {name}")
        item = subject(model, fixed)
        if item is None:
            continue
        options.at.write_text(f"{number} rewritten {name}")
        counts["judged"] += 1
        for fault in faults(item, tuple(options.target) or TARGETS):
            counts[fault.kind] += 1
            seen[fault.key] += 1
            if seen[fault.key] <= options.repeat and (fault.kind in WRONG or options.all):
                _report(name, fault, model, options.save)
        options.number = number + 1
    seconds = time.monotonic() - started
    print(f"{seconds:.0f} s; " + ", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
    for (kind, rules), count in seen.most_common():
        print(f"{count:6d} {kind} {' '.join(rules)}")
    return int(any(counts[kind] for kind in WRONG))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    parser.add_argument("what", choices=["mutants", "chains", "graphs"])
    parser.add_argument("--rule", action="append", default=[])
    parser.add_argument("--pack", action="append", default=[])
    parser.add_argument("--kind", action="append", default=[], help="mutators, by name")
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--share", default="1/1", help="which part of the mutants, as k/n")
    parser.add_argument("--examples", default="1/1", help="which part of the examples, as k/n")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--repeat", type=int, default=1, help="reports per rule and kind")
    parser.add_argument("--all", action="store_true", help="what is no fault as well")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--at", type=Path, help=argparse.SUPPRESS)
    return parser


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    if options.what == "graphs":
        from tests.property.graphs import graphs

        yield from graphs(options.seed, options.count)
        return
    chosen = [
        s
        for s in samples()
        if (not options.rule or s.rule in options.rule)
        and (not options.pack or s.pack in options.pack)
        and _in_part(str(s), options.examples)
    ]
    if options.what == "chains":
        rng = random.Random(options.seed)
        for _ in range(options.count):
            sample = rng.choice(chosen)
            made = chained(sample.model, rng, options.steps)
            if made is not None:
                yield f"{sample} {made.name}", made.model, made.fixed
        return
    skipped = options.at.with_name("skipped")
    dangerous = skipped.read_text().splitlines() if skipped.exists() else []
    for sample in chosen:
        if not options.kind:
            yield str(sample), sample.model, {}
        for kind in options.kind or [name for name, _ in mutators()]:
            making = f"making {sample} {kind}"
            if making in dangerous:
                continue
            options.at.write_text(f"{options.number} {making}")
            for mutant in mutants(sample.model, frozenset([kind])):
                name = f"{sample} {mutant.name}"
                if _in_part(name, options.share):
                    yield name, mutant.model, mutant.fixed
                    options.at.write_text(f"{options.number} {making}")


def _in_part(name: str, share: str) -> bool:
    """Whether the name falls into part k of n, given as "k/n"."""
    part, whole = (int(number) for number in share.split("/"))
    return zlib.crc32(name.encode()) % whole == part - 1


def _report(name: str, fault: Fault, model: onnx.ModelProto, folder: Path | None) -> None:
    print(f"{name}\n    {fault}", flush=True)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        safe = "".join(c if c.isalnum() or c in "._=" else "_" for c in name)[:120]
        onnx.save(model, folder / f"{fault.kind}.{safe}.onnx")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
