"""Inputs for commands that run a model.

In: `NAME=FILE.npy` arguments, or a seed. Out: feeds. Sizes that the model does not fix are tried
until it runs.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx

from rewrite.audit.feeds import PLANS, NoFeedsError, make_feeds, open_inputs
from rewrite.errors import RewriteError, error
from rewrite.ops.dtypes import to_numpy
from rewrite.runtime.session import Session

MOST_BYTES = 4 << 30  # of one input file
_NPY, _ZIP = b"\x93NUM", b"PK\x03\x04"  # how files of numpy begin


def feeds_for(session: Session, model: Path, files: Sequence[str], seed: int) -> dict[str, Any]:
    """Feeds from files, or random ones under which the model runs."""
    if files:
        return as_declared(session, _from_files(files))
    proto = onnx.load(str(model), load_external_data=False)
    problem: RewriteError | NoFeedsError | None = None
    for plan in PLANS:
        try:
            feeds = make_feeds(proto, plan, seed)
            session.run(feeds)
        except (RewriteError, NoFeedsError) as found:
            problem = problem or found
            if not open_inputs(proto):
                break
            continue
        return feeds
    if isinstance(problem, RewriteError):
        raise problem
    raise error("RW810", str(problem), hint="give inputs: --input NAME=FILE.npy")


def write_arrays(stream: IO[bytes], arrays: Mapping[str, Any]) -> None:
    """An .npz file. numpy.savez takes names as parameters, and one of its own is `file`."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, _storable(array), allow_pickle=False)


def _storable(value: Any) -> np.ndarray[Any, Any]:
    """Strings as numpy's own: objects would have to be pickled."""
    array = np.asarray(value)
    return array.astype(str) if array.dtype.kind == "O" else array


def as_declared(session: Session, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of ml_dtypes again what they were: numpy keeps such types as so many bytes."""
    types = {port.name: port.type for port in session.inputs}
    found = dict(feeds)
    for name, array in feeds.items():
        declared = types.get(name)
        if array.dtype.kind != "V" or declared is None or declared.dtype is None:
            continue
        wanted = to_numpy(declared.dtype)
        if wanted.kind == "V" and wanted.itemsize == array.dtype.itemsize:
            found[name] = array.view(wanted)
    return found


def _from_files(files: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in files:
        name, array = _from_file(text)
        if name in found:
            raise error("RW810", f"input `{name}` is given twice")
        found[name] = array
    return found


def _from_file(text: str) -> tuple[str, Any]:
    name, sign, path = text.partition("=")
    if not sign or not name or not path:
        raise error("RW810", f"`{text}` is not NAME=FILE.npy")
    file = Path(path)
    try:
        if file.stat().st_size > MOST_BYTES or not file.is_file():
            raise error("RW810", "not a file of at most 4 GB", subject=path)
        with file.open("rb") as stream:
            if stream.read(len(_NPY)) not in (_NPY, _ZIP):
                hint = "write it with numpy.save"
                raise error("RW810", "this is no .npy file", subject=path, hint=hint)
        array = np.load(file, allow_pickle=False)
    except OSError as problem:
        raise error("RW810", f"cannot be read: {problem.strerror}", subject=path) from problem
    except ValueError as problem:
        raise error("RW810", f"cannot be read: {problem}", subject=path) from problem
    if not isinstance(array, np.ndarray):
        raise error(
            "RW810",
            "it holds several arrays; one is wanted",
            subject=path,
            hint="write one array with numpy.save",
        )
    return name, array
