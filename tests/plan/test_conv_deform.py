"""Deformable convolutions: against bilinear samples in float64."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.codegen.harness import isas
from tests.plan.conv_models import model_of, run_model


def sampled(x, y, left):
    """x[:, y, left], interpolated; 0 outside."""
    total = np.zeros(x.shape[0])
    for i in (int(np.floor(y)), int(np.floor(y)) + 1):
        for j in (int(np.floor(left)), int(np.floor(left)) + 1):
            if 0 <= i < x.shape[1] and 0 <= j < x.shape[2]:
                total += x[:, i, j] * (1 - abs(y - i)) * (1 - abs(left - j))
    return total


@pytest.mark.parametrize("isa", isas(), ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize(("group", "groups", "masked"), [(1, 1, False), (2, 3, True)])
def test_displaced_windows(group: int, groups: int, masked: bool, isa) -> None:
    rng = np.random.default_rng(0)
    n, c, h, w, m, kh, kw = 2, 18, 5, 6, 4, 3, 2
    stride, dilation, pads = (2, 1), (1, 2), (1, 1, 0, 1)
    oh = (h + pads[0] + pads[2] - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (w + pads[1] + pads[3] - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    x = rng.standard_normal((n, c, h, w)).astype(np.float32)
    weights = rng.standard_normal((m, c // group, kh, kw)).astype(np.float32)
    offset = rng.uniform(-3, 3, (n, groups * kh * kw * 2, oh, ow)).astype(np.float32)
    mask = rng.uniform(0, 1, (n, groups * kh * kw, oh, ow)).astype(np.float32)
    bias = rng.standard_normal(m).astype(np.float32)
    feeds = {"x": x, "o": offset, **({"m": mask} if masked else {})}
    names = ["x", "w", "o", "b", *(["m"] if masked else [])]
    node = helper.make_node("DeformConv", names, ["y"], strides=stride, dilations=dilation,
                            pads=pads, group=group, offset_group=groups)  # fmt: skip
    (y,) = run_model(model_of([node], feeds, {"w": weights, "b": bias}), feeds, isa)

    o = offset.reshape(n, groups, kh, kw, 2, oh, ow).astype(np.float64)
    s = (mask if masked else np.ones_like(mask)).reshape(n, groups, kh, kw, oh, ow)
    columns = np.zeros((n, c, kh, kw, oh, ow))
    for at in np.ndindex(n, groups, kh, kw, oh, ow):
        image, g, i, j, py, px = at
        row = py * stride[0] - pads[0] + i * dilation[0] + o[image, g, i, j, 0, py, px]
        left = px * stride[1] - pads[1] + j * dilation[1] + o[image, g, i, j, 1, py, px]
        part = slice(g * c // groups, (g + 1) * c // groups)
        found = sampled(x[image, part].astype(np.float64), row, left) * s[at]
        columns[image, part, i, j, py, px] = found
    cut = columns.reshape(n, group, c // group, kh, kw, oh, ow)
    parts = weights.reshape(group, m // group, c // group, kh, kw).astype(np.float64)
    exact = np.einsum("gmcij,ngcijyx->ngmyx", parts, cut).reshape(n, m, oh, ow)
    exact += bias[:, None, None]
    assert np.allclose(y, exact, rtol=1e-4, atol=1e-4)
