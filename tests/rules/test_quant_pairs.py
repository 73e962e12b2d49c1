"""DequantizeLinear, QuantizeLinear with equal parameters: every code comes back, or they stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

CODES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}
SCALES = [0.1, 0.0235, 1.0, 1 / 3, 7.3e-4, 2.0**-5]


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("uint8", np.float32), ("int8", np.float32), ("uint16", np.float32), ("int8", np.float16)],
)
def test_codes_come_back(rewrite: Callable[..., Any], dtype: str, kind: type[np.floating]) -> None:
    """DequantizeLinear, QuantizeLinear with equal parameters: each code, in the scale's type."""
    low, high = CODES[dtype]
    opset = 21 if dtype.endswith("16") else 19
    for s in [kind(v) for v in SCALES]:
        for z in (low, low + 77, high):
            found = rewrite(_pair(dtype, opset, s, z), "quant-propagate")
            assert found.ops == ["Reshape"], (s, z)
            codes = np.arange(low, high + 1)
            values = (codes - z).astype(kind) * s  # the difference is exact, then one rounding
            ratios = (values / s).astype(np.float64)
            np.testing.assert_array_equal(np.clip(np.rint(ratios) + z, low, high), codes)


def test_sixteen_bits_do_not_come_back_in_half_precision(rewrite: Callable[..., Any]) -> None:
    found = rewrite(_pair("int16", 21, np.float16(0.5), 0), "quant-propagate")
    assert found.ops == ["Reshape", "DequantizeLinear", "QuantizeLinear"]


def _pair(dtype: str, opset: int, s: np.floating, z: int) -> str:
    """A Reshape stands in front, since an input cannot become an output."""
    half = isinstance(s, np.float16)
    scale = int(s.view(np.uint16)) if half else repr(float(s))  # the text form takes bits
    constants = f"{'float16' if half else 'float'} s = {{{scale}}}, {dtype} z = {{{z}}}"
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
        g ({dtype}[1,1] x) => ({dtype}[1] y) <{constants}, int64[1] t = {{1}}>
        {{ i = Reshape(x, t)  d = DequantizeLinear(i, s, z)  y = QuantizeLinear(d, s, z) }}
    """
