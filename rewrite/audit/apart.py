"""Comparison in a process of its own, so that a runtime that crashes ends only that process.

In: the files of two models, the number of runs, the `Ledger` of the rewriting. Out: the same
`Verification` as `verify.compare`, or an `unverified` one that tells how the process ended.

Runtimes are native code, and models are untrusted: onnxruntime ends with a segmentation fault on
`Min(X, c, "")`. Models are handed over as paths, and results come back as JSON: what a process that
went wrong left behind is data, never code. What it may take is bounded in time and memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rewrite.audit import child
from rewrite.audit.compare import Difference
from rewrite.audit.verify import Verification
from rewrite.engine.ledger import Bound, Ledger

SECONDS = 600.0  # to load both models and measure the conditioning
SECONDS_PER_RUN = 60.0


def compare(
    before: str | Path,
    after: str | Path,
    n: int,
    ledger: Ledger,
    seed: int = 0,
    seconds: float | None = None,
    nbytes: int | None = None,
) -> Verification:
    """Run both models on `n` random inputs elsewhere, and judge the outputs by the ledger.

    `seconds`: after so long it is given up. `nbytes`: memory it may take, without budget what the
    machine has. Raises RuntimeError where the comparison itself is at fault.
    """
    patience = SECONDS + SECONDS_PER_RUN * n if seconds is None else seconds
    request = {
        "before": str(Path(before).absolute()),
        "after": str(Path(after).absolute()),
        "n": n,
        "bound": asdict(ledger.total),
        "outputs": ledger.outputs,
        "seed": seed,
        "nbytes": _memory() if nbytes is None else nbytes,
    }
    if not sys.executable:
        return Verification("unverified", reason="there is no Python program to compare with")
    with tempfile.TemporaryDirectory(prefix="rewrite-") as name:
        folder = Path(name)
        (folder / child.REQUEST).write_text(json.dumps(request), encoding="ascii")
        return _wait(folder, patience)


def _wait(folder: Path, seconds: float) -> Verification:
    """Start the process, wait for its end, and read what it wrote."""
    # -P: the folder where the user stands may hold files that are named like libraries.
    command = [sys.executable, "-P", "-m", child.__name__, str(folder)]
    places = os.pathsep.join(place for place in sys.path if place)
    with (folder / "messages").open("wb") as messages:
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "PYTHONPATH": places},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=messages,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            runtime, doing = _last_step(folder)
            return _unverified(runtime, f"no result after {seconds:.0f} s{doing}")
    if done.returncode < 0:
        runtime, doing = _last_step(folder)
        ended = f"ended with signal {_signal(-done.returncode)}{doing}"
        return _unverified(runtime, f"{runtime or 'the comparison'} {ended}")
    if done.returncode:
        rows = (folder / "messages").read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((row for row in reversed(rows) if row.strip()), "")
        raise RuntimeError(f"the comparison ended with status {done.returncode}: {last}")
    return _read(json.loads((folder / child.RESULT).read_text(encoding="ascii")))


def _read(found: dict[str, object]) -> Verification:
    """The dictionary that `dataclasses.asdict` made of a `Verification`."""
    fields = dict(found)
    worst = fields.pop("worst")
    bound = fields.pop("bound")
    assert isinstance(worst, list)
    assert isinstance(bound, dict)
    differences = tuple(Difference(**row) for row in worst)
    return Verification(**fields, bound=Bound(**bound), worst=differences)  # type: ignore[arg-type]


def _last_step(folder: Path) -> tuple[str, str]:
    """The runtime that was at work, and ` while it ...`; empty where none was."""
    path = folder / child.STEPS
    rows = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    if not rows:
        return "", ""
    runtime, doing = json.loads(rows[-1])
    return str(runtime), f" while {doing}"


def _unverified(runtime: str, reason: str) -> Verification:
    return Verification("unverified", runtime=runtime, reason=reason)


def _signal(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:  # a number without a name, as of real-time signals
        return str(number)


def _memory() -> int:
    """What the machine has: beyond that lies swapping."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
