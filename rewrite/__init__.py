"""Rewrites ONNX models for a target by rule packs.

`import rewrite` loads nothing; `rewrite.apply` and `rewrite.Result` load what they need when named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewrite.api import Result, apply

__all__ = ["Result", "apply"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rewrite' has no attribute {name!r}")
    from rewrite import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
