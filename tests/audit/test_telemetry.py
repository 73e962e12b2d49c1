"""onnxruntime tells nobody about the models that are run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RUN = """
import onnx
from rewrite.audit.runtimes import OnnxRuntime, Source
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> '
                                'g (float[2] x) => (float[2] y) { y = Relu(x) }')
runner = OnnxRuntime(Source(model, None))
import numpy as np
print(runner.run({"x": np.array([-1, 2], np.float32)})[0].tolist())
import os
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""


@pytest.mark.parametrize(("given", "wanted"), [(None, "1"), ("0", "0")])
def test_nothing_is_told_unless_the_user_wants_it(given, wanted, tmp_path):
    """What it would send lies in the cache folder until it is sent."""
    pytest.importorskip("onnxruntime")
    kept = {n: v for n, v in os.environ.items() if n != "ORT_DISABLE_TELEMETRY"}
    more = {} if given is None else {"ORT_DISABLE_TELEMETRY": given}
    places = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    if given is not None:
        places["CI"] = "1"  # which onnxruntime takes as a wish to tell nothing, too
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env={**kept, **places, **more},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"[0.0, 2.0]\n{wanted}\n"
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
