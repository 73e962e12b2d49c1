"""Small graphs that once failed, kept as files: `NAME.onnx` and `NAME.npz` in tests/runtime/cases.

In: `Drawn`. Out: files, and `Drawn` again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx

from rewrite.ops.dtypes import to_numpy
from rewrite.schema import DTYPE_OF
from tests.runtime.graphs.models import Drawn

FOLDER = Path(__file__).resolve().parents[1] / "cases"


def keep(drawn: Drawn, folder: Path = FOLDER) -> Path:
    """Writes the model and its feeds under a name of the operators and a digest."""
    model = onnx.ModelProto()
    model.CopyFrom(drawn.model)
    exact = ",".join(name for name, is_exact in drawn.exact.items() if is_exact)
    onnx.helper.set_model_props(model, {"exact": exact})
    data = model.SerializeToString(deterministic=True)
    kinds = dict.fromkeys(node.op_type for node in model.graph.node if node.op_type != "Identity")
    name = "_".join([*list(kinds)[-3:], hashlib.sha256(data).hexdigest()[:8]])
    file = folder / f"{name}.onnx"
    file.write_bytes(data)
    raw = {k: x.view(f"u{x.dtype.itemsize}") for k, x in drawn.feeds.items()}
    np.savez(file.with_suffix(".npz"), **raw)
    return file


def kept(folder: Path = FOLDER) -> list[Path]:
    return sorted(folder.glob("*.onnx"))


def load(file: Path) -> Drawn:
    model = onnx.load(str(file))
    exact = next(p.value for p in model.metadata_props if p.key == "exact").split(",")
    types = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
    with np.load(file.with_suffix(".npz")) as data:
        feeds = {n: data[n].view(to_numpy(DTYPE_OF[types[n]])) for n in types}
    return Drawn(model, feeds, {v.name: v.name in exact for v in model.graph.output})
