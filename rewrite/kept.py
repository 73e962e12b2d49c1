"""Rewritten models kept on disk, so that proofs about a quantized model are not searched twice.

In: the file of a model, what it is rewritten with, a function that rewrites. Out: the rewritten
model. It is kept in the user's cache folder under a digest of the file, of the packs and the target
and of this program, where rewriting took long and the model is small; a model whose data lie in
other files is not kept.

`REWRITE_CACHE=off` keeps nothing.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import onnx

from rewrite.graph import io
from rewrite.graph.model import LoadedModel
from rewrite.match import store

MOST_BYTES = 48 << 20
WORTH = 0.2  # seconds of rewriting below which nothing is kept


def rewritten(
    model: io.Source,
    parts: Callable[[], tuple[str, ...]],
    rewrite: Callable[[io.Source], LoadedModel],
) -> LoadedModel:
    """The model rewritten, now or earlier. `parts`: all that it follows from besides the file,
    asked for where the model may be kept."""
    file = _place(model, parts)
    if file is None or not isinstance(model, (str, os.PathLike)):
        return rewrite(model)
    found = store.read(file)
    if found is not None:
        return io.load(onnx.load_from_string(found))
    start = time.perf_counter()
    loaded = rewrite(model)
    if time.perf_counter() - start > WORTH and not _has_files(loaded, Path(model)):
        store.write(file, io.to_proto(loaded).SerializeToString())
    return loaded


def _place(model: io.Source, parts: Callable[[], tuple[str, ...]]) -> Path | None:
    """The file under which the model is kept; None where it is not."""
    if not isinstance(model, (str, os.PathLike)) or os.environ.get("REWRITE_CACHE") == "off":
        return None
    folder = store.cache_folder()
    if isinstance(folder, str):
        return None
    try:
        path = Path(model)
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        digest = hashlib.sha256(path.read_bytes())
    except OSError:  # the loader says what is wrong with it
        return None
    for part in (*parts(), *_program()):
        digest.update(len(part).to_bytes(8, "big") + part.encode("utf-8", "surrogateescape"))
    return folder / f"model-{digest.hexdigest()}{store.SUFFIX}"


def _program() -> tuple[str, ...]:
    """This program's own files and the release of onnx."""
    package = Path(__file__).parent
    states = [f"onnx {onnx.__version__}"]
    for layer in ("quant", "lang", "target", "ops", "graph", "match", "engine"):
        for path in sorted((package / layer).rglob("*.py")):
            status = path.stat()
            states.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return tuple(states)


def stable_text(value: object) -> str:
    """A record as text that does not depend on the order in which sets are walked."""
    if isinstance(value, (frozenset, set)):
        return "{" + ", ".join(sorted(map(stable_text, value))) + "}"
    if isinstance(value, Mapping):
        pairs = sorted((stable_text(k), stable_text(v)) for k, v in value.items())
        return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(stable_text, value)) + ")"
    if is_dataclass(value):
        return stable_text([(f.name, getattr(value, f.name)) for f in fields(value)])
    return repr(value)


def _has_files(loaded: LoadedModel, model: Path) -> bool:
    """Whether data of the model lay in other files than its own, of which the digest says nothing;
    rewriting may have computed other constants of all of them."""
    return any(not file.is_at(model) for file in loaded.files)
