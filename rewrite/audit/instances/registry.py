"""The variations, found by scanning the folder `variations/`.

In: generator functions with `@variation`. Out: `changes(model, hints)`, by kind.

    @variation("swap")
    def swapped(model: onnx.ModelProto, hints: Hints) -> Iterator[Change]: ...

A variation looks at a model and says which changes there are; a change is made only when its turn
comes. It is given the model that it changed, and gives back a valid one or None.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import onnx

from rewrite.audit.instances.draft import Draft
from rewrite.audit.instances.hints import Hints

Make = Callable[[Draft], bool | None]


@dataclass(frozen=True, slots=True)
class Change:
    """`label` says it in words; `make` does it to a draft, or returns False where it cannot."""

    label: str
    make: Make

    def of(self, model: onnx.ModelProto) -> onnx.ModelProto | None:
        draft = Draft(model)
        return None if self.make(draft) is False else draft.finish()


Variation = Callable[[Draft, Hints], Iterator[Change]]

_FOUND: dict[str, Variation] = {}


def variation(kind: str) -> Callable[[Variation], Variation]:
    """Registers a variation under the name of its kind."""

    def register(function: Variation) -> Variation:
        if kind in _FOUND:
            raise ValueError(f"two variations are called {kind!r}")
        _FOUND[kind] = function
        return function

    return register


@cache
def variations() -> Mapping[str, Variation]:
    """All of them by kind, in the order of the alphabet; the folder is read when first asked."""
    from rewrite.audit.instances import variations as folder

    for info in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{folder.__name__}.{info.name}")
    return MappingProxyType(dict(sorted(_FOUND.items())))


def changes(model: onnx.ModelProto, hints: Hints) -> dict[str, list[Change]]:
    """What can be done to the model, by kind. It is not changed."""
    draft = Draft(model)
    found = {kind: list(vary(draft, hints)) for kind, vary in variations().items()}
    return {kind: list_ for kind, list_ in found.items() if list_}
