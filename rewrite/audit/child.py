"""The process that compares two models for `apart`: `python -m rewrite.audit.child FOLDER`.

In: FOLDER/request.json. Out: FOLDER/result.json, and FOLDER/steps, a line for each step as it
begins, so that a crash can be told where it happened.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import IO

REQUEST, RESULT, STEPS = "request.json", "result.json", "steps"


def main(folder: Path) -> None:
    request = json.loads((folder / REQUEST).read_text(encoding="ascii"))
    _bound_resources(request["nbytes"])
    from rewrite.audit.verify import Verification, compare
    from rewrite.engine.ledger import Bound, Entry, Ledger

    entry = Entry("ledger", Bound(**request["bound"]), 1, "of the rewriting")
    ledger = Ledger((entry,), tuple((name, steps) for name, steps in request["outputs"]))
    with (folder / STEPS).open("w", encoding="ascii") as steps:
        try:
            found = compare(
                Path(request["before"]),
                Path(request["after"]),
                request["n"],
                ledger,
                request["seed"],
                lambda runtime, doing: _tell(steps, runtime, doing),
            )
        except MemoryError:
            found = Verification("unverified", reason="the comparison takes too much memory")
    (folder / RESULT).write_text(json.dumps(asdict(found)), encoding="ascii")


def _tell(steps: IO[str], runtime: str, doing: str) -> None:
    steps.write(json.dumps([runtime, doing]) + "\n")
    steps.flush()


def _bound_resources(nbytes: int) -> None:
    """Bound the memory that is written to (mapped weights are not), and leave no core files.

    Where memory runs out all the same, the system is to end this process and not another one.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = nbytes if hard == resource.RLIM_INFINITY else min(nbytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # only Linux has this file, and not in every container
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
