"""Models of opsets before 7, which nothing here reads, as models of opset 7.

In: a model as `io.load` takes it. Out: a ModelProto that means the same, None where it is not of
such an opset or onnx's converter does not take it. Running a model asks for this, rewriting does
not: the names and nodes of what comes out are not those of what went in.
"""

from __future__ import annotations

import os

import onnx
import onnx_ir as ir
from onnx import version_converter

OLDEST = 7  # what checks.py accepts

Source = str | os.PathLike[str] | onnx.ModelProto | ir.Model


def upgraded(source: Source) -> onnx.ModelProto | None:
    """The model at opset 7, where it is older and can be raised."""
    proto = _proto(source)
    if proto is None or not any(
        entry.domain in ("", "ai.onnx") and 1 <= entry.version < OLDEST
        for entry in proto.opset_import
    ):
        return None
    try:
        return version_converter.convert_version(proto, OLDEST)
    except (RuntimeError, ValueError, TypeError):  # an operator without an adapter
        return None


def _proto(source: Source) -> onnx.ModelProto | None:
    if isinstance(source, onnx.ModelProto):
        return source
    if isinstance(source, ir.Model):
        return None  # onnx-ir has converted or refused it already
    return onnx.load(os.fspath(source))
