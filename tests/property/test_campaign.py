"""A slice of the campaigns: mutants of rule examples and random graphs are rewritten rightly.

The runs are processes of their own, because a runtime may end its process on an odd model. They are
the same models each time; `python -m tests.property.campaign` judges others, and all of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="the numbers come from onnxruntime")
ROOT = Path(__file__).resolve().parents[2]


def judged(*arguments: str) -> int:
    """How many models a campaign judged; fails with its report where it found a fault."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.property.campaign", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    counted = re.search(r"(\d+) judged", done.stdout)
    assert counted is not None, done.stdout
    return int(counted.group(1))


def test_mutants_of_examples():
    assert judged("mutants", "--examples", "1/30", "--share", "1/20") >= 120


def test_examples_mutated_twice():
    assert judged("chains", "--count", "60", "--seed", "1") >= 30


def test_random_graphs():
    assert judged("graphs", "--count", "120", "--seed", "1") >= 90
