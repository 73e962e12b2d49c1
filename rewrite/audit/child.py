"""The process that compares two models for `apart`: `python -m rewrite.audit.child FOLDER`.

In: FOLDER/request.json. Out: FOLDER/result.json, and FOLDER/steps, a line for each step as it
begins, so that a crash can be told where it happened.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import IO

from rewrite.audit.memory import bound_memory

REQUEST, RESULT, STEPS = "request.json", "result.json", "steps"


def main(folder: Path) -> None:
    request = json.loads((folder / REQUEST).read_text(encoding="ascii"))
    bound_memory(request["nbytes"])
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
