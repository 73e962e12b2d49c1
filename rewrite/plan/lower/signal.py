"""Signal operators: Fourier transforms, windows, mel weights.

In: instances. Out: a kernel of rewrite/plan/specs/signal.py over tables of cosines; windows and
weights are constants. A transform whose tables would be large is left to the reference device,
which has a fast one.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.instance import Array
from rewrite.plan.lower.indexing import grain_of
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.specs.signal import COLUMNS, Dft

_MOST_TABLE = 1 << 22  # elements


def _sums(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"


def _tables(
    length: int, samples: int, columns: int, inverse: bool, real_result: bool
) -> tuple[Array, Array]:
    """Cosines and sines of 2 pi j k / length; the inverse turns the other way and divides by the
    length; of a real result only half of the samples are there, which stand for two each."""
    j, k = np.arange(samples)[:, None], np.arange(columns)[None, :]
    angle = (j * k % length) * (2 * np.pi / length)
    cosine, sine = np.cos(angle), np.sin(angle)
    if inverse:
        cosine, sine = cosine / length, -sine / length
    if real_result:
        twice = np.where((j == 0) | (2 * j == length), 1.0, 2.0)
        cosine, sine = cosine * twice, sine * twice
    room = -columns % COLUMNS
    return np.pad(cosine, ((0, 0), (0, room))), np.pad(sine, ((0, 0), (0, room)))


# --- transforms --------------------------------------------------------------------------------


def _dft_sizes(op: Instance) -> tuple[int, int, int, bool]:
    """Axis, length of the transform, samples that are used, whether the result is real."""
    shape = op.shape()
    axes = op.integers_at(2)
    axis = (axes[0] if axes else (1 if op.opset < 20 else -2)) % len(shape)
    real_result = op.integer("inverse", 0) != 0 and op.integer("onesided", 0) != 0
    given = op.integers_at(1)
    length = given[0] if given else (2 * (shape[axis] - 1) if real_result else shape[axis])
    most = length // 2 + 1 if real_result else length
    return axis, length, min(shape[axis], most), real_result


@lowers("DFT", needs=(1, 2))
def dft(low: Lowering, op: Instance) -> None:
    x, result = low.rows(0), low.output(0)
    axis, length, samples, real_result = _dft_sizes(op)
    columns = result.shape[axis]
    inverse = op.integer("inverse", 0) != 0
    tables = _tables(length, samples, columns, inverse, real_result)
    parts_in, parts_out = x.shape[-1], result.shape[-1]
    inner = prod(x.shape[axis + 1 : -1])
    outer = prod(x.shape[:axis])
    steps = [
        x.shape[axis] * inner * parts_in, parts_in, inner * parts_in,
        columns * inner * parts_out, parts_out, inner * parts_out,
    ]  # fmt: skip
    _call(low, x, tables, result, (samples, columns, inner), steps, outer * inner)


def _call(
    low: Lowering,
    x: Tensor,
    tables: tuple[Array, Array],
    result: Tensor,
    sizes: tuple[int, int, int],
    steps: list[int],
    items: int,
) -> None:
    samples, columns, lines = sizes
    sums = _sums(x.dtype)
    cosine, sine = (low.constant(t.astype(to_numpy(sums))) for t in tables)
    spec = Dft(x.dtype, sums, x.shape[-1] == 2, result.shape[-1] == 2)
    pitch = tables[0].shape[1]
    words: list[Tensor | int] = [
        x, cosine, sine, result, samples, columns, pitch, max(lines, 1), *steps,
    ]  # fmt: skip
    work = samples * columns
    low.call(spec, words, items if columns else 0, grain_of(work), flops=4 * work * items)


@refuses("DFT")
def dft_refusal(op: Instance) -> str | None:
    axis, length, samples, _ = _dft_sizes(op)
    if axis == len(op.shape()) - 1:
        return "a transform along real and imaginary parts"
    if length < 1:
        return "a transform of nothing"
    return _too_large(samples * op.out_shape()[axis])


def _too_large(size: int) -> str | None:
    return f"a transform with tables of {size} elements" if size > _MOST_TABLE else None


@lowers("STFT", needs=(1, 2, 3))
def stft(low: Lowering, op: Instance) -> None:
    """The window is part of the tables."""
    x, result = low.rows(0), low.output(0)
    step = (op.integers_at(1) or (1,))[0]
    batch, frames, columns, _ = result.shape
    length = _frame_length(op)
    window = op.known(2)
    cosine, sine = _tables(length, length, columns, False, False)
    if window is not None:
        weights = np.zeros((length, 1))
        used = min(length, window.size)
        weights[:used, 0] = window.reshape(-1)[:used].astype(np.float64)
        cosine, sine = cosine * weights, sine * weights
    parts = x.shape[2] if x.view.rank == 3 else 1
    samples = x.reshaped((*x.shape[:2], parts))
    assert samples is not None
    steps = [x.shape[1] * parts, step * parts, parts, frames * columns * 2, columns * 2, 2]
    sizes = (length, columns, frames)
    _call(low, samples, (cosine, sine), result, sizes, steps, batch * frames)


def _frame_length(op: Instance) -> int:
    given = op.integers_at(3)
    if given:
        return given[0]
    return op.shape(2)[0] if op.has(2) else op.shape()[1]


@refuses("STFT")
def stft_refusal(op: Instance) -> str | None:
    _, frames, columns, _ = op.out_shape()
    step = op.integers_at(1)
    length = _frame_length(op)
    if step is not None and (frames - 1) * step[0] + length > op.shape()[1]:
        return "frames reach beyond the signal"
    return _too_large(length * columns)


# --- constants ---------------------------------------------------------------------------------

# Weights of cosines of 0, 1, 2 turns: https://onnx.ai/onnx/operators/onnx__BlackmanWindow.html
_WINDOWS = {
    "HannWindow": (0.5, -0.5, 0.0),
    "HammingWindow": (25 / 46, -21 / 46, 0.0),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@lowers("HannWindow", "HammingWindow", "BlackmanWindow", needs=(0,))
def window(low: Lowering, op: Instance) -> None:
    (size,) = op.out_shape()
    turn = size if op.integer("periodic", 1) else max(size - 1, 1)
    angle = np.arange(size) * (2 * np.pi / max(turn, 1))
    a, b, c = _WINDOWS[op.name]
    values = a + b * np.cos(angle) + c * np.cos(2 * angle)
    low.alias(0, low.constant(values.astype(to_numpy(op.out_dtype()))))


@lowers("MelWeightMatrix", needs=(0, 1, 2, 3, 4))
def mel_weight_matrix(low: Lowering, op: Instance) -> None:
    """Triangles between neighbouring bins of the mel scale 2595 log10(1 + f / 700)."""
    bins, length, rate, lowest, highest = (np.asarray(op.known(i)).item() for i in range(5))
    rows, columns = op.out_shape()
    mels = [2595 * np.log10(1 + f / 700) for f in (lowest, highest)]
    step = (mels[1] - mels[0]) / (bins + 2)
    hertz = 700 * (10 ** ((np.arange(bins + 2) * step + mels[0]) / 2595) - 1)
    edges = np.floor((length + 1) * hertz / rate).astype(np.int64)
    weights = np.zeros((rows, columns))
    for i in range(columns):
        left, centre, right = (int(e) for e in edges[i : i + 3])
        rising = np.arange(left, centre + 1)
        weights[rising, i] = (rising - left) / (centre - left) if centre > left else 1.0
        falling = np.arange(centre, right)
        weights[falling, i] = (right - falling) / max(right - centre, 1)
    low.alias(0, low.constant(weights.astype(to_numpy(op.out_dtype()))))


@refuses("MelWeightMatrix")
def mel_refusal(op: Instance) -> str | None:
    """Bins beyond the spectrum have no row; without a rate there are no bins."""
    if any(not op.is_known(i) for i in range(5)):
        return None
    _, length, rate, _, highest = (np.asarray(op.known(i)).item() for i in range(5))
    if rate <= 0:
        return f"a sampling rate of {rate}"
    beyond = (length + 1) * highest / rate >= op.out_shape()[0] + 1
    return "bins beyond the spectrum" if beyond else None
