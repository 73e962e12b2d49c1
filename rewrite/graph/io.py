"""ONNX in and out.

In: a path, a ModelProto or an onnx-ir model. Out: a checked `LoadedModel`; and back, whole or not
at all.
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.graph.model import LoadedModel


def load(source: str | os.PathLike[str] | onnx.ModelProto | ir.Model) -> LoadedModel:
    """Read and check a model; the source is not changed."""
    if isinstance(source, ir.Model):
        model = source.clone()
        return LoadedModel(model, Facts(model), "model")
    if isinstance(source, onnx.ModelProto):
        model = ir.from_proto(source)
        return LoadedModel(model, Facts(model), "model")
    model = ir.load(source)
    return LoadedModel(model, Facts(model), str(source))


def to_proto(loaded: LoadedModel) -> onnx.ModelProto:
    """The model as a ModelProto."""
    return ir.to_proto(loaded.model)


def save(loaded: LoadedModel, path: str | os.PathLike[str]) -> None:
    """Write the model."""
    Path(path).write_bytes(to_proto(loaded).SerializeToString())
