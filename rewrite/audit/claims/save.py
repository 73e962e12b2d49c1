"""Counterexamples as files.

In: a counterexample, a folder. Out: NAME.onnx (the model), NAME.after.onnx (what the rule made of
it), NAME.npz (inputs, and the outputs of both), NAME.txt (both models as text, and the numbers).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from rewrite import files
from rewrite.audit.claims.counterexample import Counterexample
from rewrite.audit.feeds import Array
from rewrite.errors import error
from rewrite.quant.codes import values_of

_MOST_SHOWN = 64  # elements of an array in the text


def save(found: Counterexample, folder: Path, name: str) -> Path:
    """The path of the model. Raises RW003 where the files cannot be written."""
    arrays = {f"input {n}": a for n, a in found.feeds.items()}
    arrays |= {f"before {n}": a for n, a in found.wanted.items()}
    arrays |= {f"after {n}": a for n, a in found.got.items()}
    made = {
        f"{name}.onnx": found.before.SerializeToString(deterministic=True),
        f"{name}.after.onnx": found.after.SerializeToString(deterministic=True),
        f"{name}.npz": _npz(arrays),
        f"{name}.txt": text_of(found).encode(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in made.items():
            with files.whole(folder / file) as stream:
                stream.write(data)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise error("RW003", f"cannot write: {reason}", subject=str(folder)) from None
    return folder / f"{name}.onnx"


def text_of(found: Counterexample) -> str:
    """What a person reads: the reason, where it comes from, both models, the numbers."""
    rows = [f"{found.rule} (target {found.target}): {found.reason}"]
    rows.append("from " + ", ".join([found.source, *found.varied]))
    rows += ["", "before:", onnx.printer.to_text(found.before)]
    rows += ["", "after:", onnx.printer.to_text(found.after), ""]
    for title, arrays in (("input", found.feeds), ("before", found.wanted), ("after", found.got)):
        rows += [f"{title} {name}: {_shown(array)}" for name, array in arrays.items()]
    return "\n".join(rows) + "\n"


def _shown(array: Array) -> str:
    if array.size > _MOST_SHOWN:
        return f"{array.dtype}{list(array.shape)}"
    return f"{array.dtype}{list(array.shape)} {array.reshape(-1).tolist()}"


def _npz(arrays: Mapping[str, Array]) -> bytes:
    """Types that numpy has not are kept as the numbers that they stand for, in float64."""
    stream = io.BytesIO()
    plain = {n: a if a.dtype.kind in "biufc" else _plain(a) for n, a in arrays.items()}
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in plain.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def _plain(array: Array) -> Array:
    return array.astype(np.str_) if array.dtype.kind in "OSU" else values_of(array)
