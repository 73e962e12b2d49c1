"""Libraries that libraries import, loaded when first used.

In: nothing. Out: `postpone`. onnx-ir imports sympy for arithmetic on the names of sizes, and onnx
reads other text forms of models; loading those takes longer than all else in a short run, which
uses none of them. importlib.util.LazyLoader is Python's own way to put it off: the first look at
such a module loads it. Only the command line does so: a program that imports `rewrite` keeps the
import system as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

POSTPONED = frozenset(
    {
        "sympy", "onnx_ir._symbolic_shapes",
        "google.protobuf.json_format", "google.protobuf.text_format",
    }
)  # fmt: skip


class _Finder(MetaPathFinder):
    """Finds what is to be postponed as the import system would, and wraps its loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in POSTPONED else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def postpone() -> None:
    """From now on, imports of those modules take no time until something of them is used."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
