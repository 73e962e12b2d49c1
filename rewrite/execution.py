"""The façade of execution: a model in, something that runs out.

    session = rewrite.compile("model.onnx", target="host", threads=2)
    outputs = session.run({"x": x})

`InferenceSession` has the call that people already have in their code; `rewrite.backend` is the
interface of the standard backend test suite.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.api import apply, digest_of, find_target
from rewrite.codegen.isa import isa_from_target
from rewrite.errors import RewriteError, error
from rewrite.graph import io
from rewrite.graph.model import LoadedModel
from rewrite.graph.upgrade import upgraded
from rewrite.kept import rewritten, stable_text
from rewrite.runtime.session import Options, Session

if TYPE_CHECKING:
    from rewrite.target.target import Target

PathLike = str | os.PathLike[str]
Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["InferenceSession", "compile_model"]


def compile_model(
    model: io.Source,
    target: PathLike | None = "host",
    threads: int = 1,
    *,
    rules: PathLike | Sequence[PathLike] = (),
    max_class: str | None = None,
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Session:
    """Rewrite a model for a target that this machine can run, and make it ready to run.

    `target` None: the model as it is. `strict`: refuse operators without native kernels instead of
    running them on the reference device. `progress` is told how many kernels are yet to compile.
    """
    found: Target | None = None if target is None else find_target(os.fspath(target))
    isa = None if found is None or found.isa is None else isa_from_target(found.isa)

    def load(source: io.Source) -> LoadedModel:
        if target is None:
            return io.load(source)
        return apply(source, target, rules, max_class).loaded

    def kept(source: io.Source) -> LoadedModel:
        if found is None:
            return load(source)
        packs = (rules,) if isinstance(rules, (str, os.PathLike)) else tuple(rules)
        parts = (stable_text(found), digest_of(found, packs), str(max_class))
        return rewritten(source, parts, load)

    try:
        loaded = kept(model)
    except RewriteError as problem:
        older = upgraded(model) if problem.diagnostics[0].code == "RW504" else None
        if older is None:
            raise
        loaded = load(older)
    session = Session(loaded, Options(threads, strict, target is not None, isa, progress))
    del loaded
    if session.is_large:  # the graph is cyclic garbage, and holds what has been moved to a file
        gc.collect()
    return session


class InferenceSession:
    """`InferenceSession(path).run(names, feeds)`: outputs in order, all of them for None."""

    def __init__(
        self, model: io.Source | bytes, target: PathLike | None = "host", threads: int = 1
    ) -> None:
        if isinstance(model, bytes):
            import onnx

            model = onnx.load_from_string(model)
        self._session = compile_model(model, target, threads)

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], *_: Any
    ) -> list[Any]:
        """The outputs named, in that order."""
        results = self._session.run(input_feed)
        names = list(results) if output_names is None else list(output_names)
        unknown = [name for name in names if name not in results]
        if unknown:
            raise error("RW807", f"the model has no output `{unknown[0]}`")
        return [results[name] for name in names]

    def get_inputs(self) -> tuple[Any, ...]:
        """Names and types of the inputs."""
        return self._session.inputs

    def get_outputs(self) -> tuple[Any, ...]:
        """Names and types of the outputs."""
        return self._session.outputs

    def close(self) -> None:
        self._session.close()
