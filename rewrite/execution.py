"""The façade of execution: a model in, something that runs out.

    session = rewrite.compile("model.onnx", target="host", threads=2)
    outputs = session.run({"x": x})

`InferenceSession` has the call that people already have in their code; `rewrite.backend` is the
interface of the standard backend test suite.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.api import apply, digest_of, find_target
from rewrite.codegen.isa import isa_from_target
from rewrite.errors import RewriteError, error
from rewrite.graph import collector, io
from rewrite.graph.model import LoadedModel
from rewrite.graph.upgrade import upgraded
from rewrite.kept import rewritten, stable_text
from rewrite.ops.dtypes import ONNX_NAMES
from rewrite.runtime.session import Options, Port, Session

if TYPE_CHECKING:
    from rewrite.target.target import Target

PathLike = str | os.PathLike[str]
Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["InferenceSession", "compile_model"]


def compile_model(
    model: io.Source | bytes,
    target: PathLike | None = "host",
    threads: int = 1,
    *,
    rules: PathLike | Sequence[PathLike] = (),
    max_class: str | None = None,
    strict: bool = False,
    fast_math: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Session:
    """Rewrite a model for a target that this machine can run, and make it ready to run.

    `target` None: the model as it is. `strict`: refuse operators without native kernels instead of
    running them on the reference device. `fast_math`: float32 convolutions may have rounding errors
    about ten times as large, where that is faster. `progress` is told how many kernels are yet to
    compile.
    """
    if isinstance(model, bytes):
        model = io.parse(model)
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

        def parts() -> tuple[str, ...]:
            return stable_text(found), digest_of(found, packs), str(max_class)

        return rewritten(source, parts, load)

    with collector.paused(collects=True):
        try:
            loaded = kept(model)
        except RewriteError as problem:
            older = upgraded(model) if problem.diagnostics[0].code == "RW504" else None
            if older is None:
                raise
            loaded = load(older)
        fuse = target is not None
        session = Session(loaded, Options(threads, strict, fuse, isa, progress, fast_math))
    loaded.release()
    return session


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or output in the terms of ONNX Runtime."""

    name: str
    shape: list[int | str | None]
    type: str | None  # such as tensor(float); None: not a tensor


class InferenceSession:
    """The calls that code for ONNX Runtime makes.

    Of `sess_options` only `intra_op_num_threads` counts, where `threads` does not say it; providers
    are accepted and mean nothing here: there is one device.
    """

    def __init__(
        self,
        path_or_bytes: io.Source | bytes,
        sess_options: object = None,
        providers: object = None,
        provider_options: object = None,
        *,
        target: PathLike | None = "host",
        threads: int | None = None,
    ) -> None:
        del providers, provider_options
        if threads is None:
            threads = getattr(sess_options, "intra_op_num_threads", 0) or 1  # 0: not said
        self._session = compile_model(path_or_bytes, target, threads)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: object = None,
    ) -> list[Any]:
        """The outputs named, in that order; all of them where none is."""
        del run_options
        results = self._session.run(input_feed)
        names = list(output_names or results)
        unknown = [name for name in names if name not in results]
        if unknown:
            known = ", ".join(results)
            raise error(
                "RW807", f"the model has no output `{unknown[0]}`", hint=f"its outputs are {known}"
            )
        return [results[name] for name in names]

    def get_inputs(self) -> list[Argument]:
        """What has to be given."""
        return [_argument(port) for port in self._session.inputs if not port.optional]

    def get_outputs(self) -> list[Argument]:
        return [_argument(port) for port in self._session.outputs]

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]

    def close(self) -> None:
        self._session.close()


def _argument(port: Port) -> Argument:
    dtype = port.type.dtype if port.type is not None else None
    words = {short: word for word, short in ONNX_NAMES.items()}
    kind = None if dtype is None else f"tensor({words[dtype]})"
    return Argument(port.name, list(port.shape or ()), kind)
