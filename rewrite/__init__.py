"""Rewrites ONNX models for a target by rule packs, and runs them.

`import rewrite` loads nothing; what is named is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewrite import backend
    from rewrite.api import Result, apply
    from rewrite.execution import InferenceSession
    from rewrite.execution import compile_model as compile  # noqa: A004
    from rewrite.runtime.session import Session

__all__ = ["InferenceSession", "Result", "Session", "apply", "backend", "compile"]
__version__ = "0.1.0"

_HOME = {
    "InferenceSession": ("rewrite.execution", "InferenceSession"),
    "Result": ("rewrite.api", "Result"),
    "Session": ("rewrite.runtime.session", "Session"),
    "apply": ("rewrite.api", "apply"),
    "compile": ("rewrite.execution", "compile_model"),
}


def __getattr__(name: str) -> Any:
    if name == "backend":
        return import_module("rewrite.backend")
    if name not in _HOME:
        raise AttributeError(f"module 'rewrite' has no attribute {name!r}")
    module, member = _HOME[name]
    return getattr(import_module(module), member)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
