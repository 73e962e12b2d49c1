"""The bounds that the benches print, held in every run of the tests where the models are at hand.

Each bench is a command of its own (see its docstring); here it runs as a user would run it, and
its exit status is the verdict. The corpus bench takes a slice; timing is not tested here, because a
busy machine is no fault of the code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.corpus import corpus

HERE = Path(__file__).resolve().parent

with_models = pytest.mark.skipif(
    corpus() is None, reason="no model collection at $REWRITE_CORPUS or ../shared/models"
)


@with_models
@pytest.mark.parametrize(
    "command",
    [
        ["corpus.py", "--stride", "37", "--runs", "1", "--jobs", "1"],
        ["leftovers.py", "--targets", "generic,hexagon,onnxruntime-cpu"],
        ["ort_expectations.py"],
        ["kernels.py", "--runs", "0"],
        ["quantized_forms.py", "--target", "hexagon"],
    ],
    ids=lambda command: Path(command[0]).stem,
)
def test_bound(command: list[str]) -> None:
    _holds(command)


def test_memory() -> None:
    """A tenth of the bench's size: what does not grow with the model shows most."""
    _holds(["memory.py", "--gigabytes", "0.3"])


def _holds(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.mark.parametrize("bench", ["kernels_rows", "kernels_conv", "kernels_attention"])
def test_a_bench_of_kernels_still_calls_them_as_they_are(bench: str) -> None:
    """They take kernels directly, past plans, so that nothing else notices what has changed."""
    _holds([f"{bench}.py", "--seconds", "0.001"])
