"""Strings at run time: object arrays of `str`, whatever form they came in.

In: values as users, models and evaluators give them: numpy's `U`, `S` and string types, object
arrays of `str` or `bytes`. Out: object arrays of `str`. ONNX's strings are UTF-8; bytes that are
not keep their value as surrogate escapes, as Python does for file names.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def to_text(value: Any) -> Any:
    """The same value with every string as `str` in an object array; numbers are left alone.

    Scalars of numpy become arrays of rank 0; sequences and maps are gone through.
    """
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return [to_text(item) for item in value]
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if not is_text(array):
        return array
    if array.dtype.kind == "O" and all(type(item) is str for item in array.flat):
        return array
    text = np.empty(array.shape, object)
    for place, item in enumerate(array.flat):
        text.flat[place] = _decoded(item)
    return text


def is_text(array: np.ndarray[Any, Any]) -> bool:
    """Whether the elements are strings."""
    return array.dtype.kind in "OUST"


def _decoded(item: Any) -> str:
    if isinstance(item, bytes):
        return item.decode("utf-8", "surrogateescape")
    return str(item)
