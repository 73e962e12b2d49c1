"""What a short run does not need is not loaded, so that `apply` on a small model is quick.

The first run fills the cache folder; the second is looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper

# Parsers, compilers, the interpreter, symbolic arithmetic, reference code, pictures.
UNUSED = (
    "lark", "rewrite.lang.parser", "rewrite.lang.check", "rewrite.match.codegen",
    "rewrite.match.pattern", "rewrite.target.load", "sympy.core", "onnx.reference", "onnxruntime",
    "rich",
)  # fmt: skip

PROGRAM = """
import json, sys
from rewrite.cli import main
from rewrite.cli.lazily import postpone
postpone()
status = main(sys.argv[1:])
loaded = sorted(sys.modules)
import onnx_ir
symbol = onnx_ir.SymbolicDim("N") + 1  # what was postponed is there when it is wanted
print(json.dumps([status, loaded, str(symbol)]))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    node = helper.make_node("Identity", ["x"], ["i"])
    last = helper.make_node("Relu", ["i"], ["y"])
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([node, last], "g", ends[:1], ends[1:])
    path = tmp_path / "model.onnx"
    opsets = [helper.make_opsetid("", 17)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path


def run(model: Path) -> tuple[int, set[str], str]:
    """Status, modules loaded at the end of the command, and a postponed module at work."""
    place = model.parent
    arguments = [
        "apply",
        model,
        "--target",
        "host",
        "-o",
        place / "out.onnx",
        "--json",
        place / "j",
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        env=os.environ | {"XDG_CACHE_HOME": str(place / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    status, loaded, symbol = json.loads(done.stdout.splitlines()[-1])
    return status, set(loaded), symbol


def test_a_second_run_loads_no_more_than_it_needs(model):
    assert run(model)[0] == 0
    status, loaded, symbol = run(model)
    assert status == 0
    assert json.loads((model.parent / "j").read_text())["fired"] == {"identity": 1}
    assert {name for name in UNUSED if name in loaded} == set()
    assert symbol.replace(" ", "") in ("N+1", "1+N")
