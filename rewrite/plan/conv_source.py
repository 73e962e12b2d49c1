"""The operand of a convolution as its kernel reads it: channels-last, borders written out.

In: (N, C, …) wherever it lies. Out: `Source`. Where nothing has to be added or converted, it is the
tensor itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.conv_window import Frame, Three, image
from rewrite.plan.lowering import Lowering
from rewrite.plan.spec import Body
from rewrite.plan.specs.conv_pad import ConvPad
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import channels_last

INTERLEAVED = 4  # channels at most that are interleaved on the way


@dataclass(frozen=True, slots=True)
class Source:
    """(N, depth, height, width, channels) without gaps, borders and added channels included."""

    tensor: Tensor
    sizes: Three
    channels: int

    @property
    def steps(self) -> Three:
        """Elements from one depth, row and column to the next."""
        _, h, w = self.sizes
        return h * w * self.channels, w * self.channels, self.channels

    @property
    def image(self) -> int:
        return self.sizes[0] * self.steps[0]


@dataclass(frozen=True, slots=True)
class Conversion:
    """How elements are converted on the way: `body` with scalar operands; `fill`: the border."""

    dtype: str
    body: Body | None = None
    scalars: tuple[Tensor, ...] = ()
    fill: int = 0  # its bits


def source_of(
    low: Lowering, x: Tensor, frame: Frame, conversion: Conversion, multiple: int = 1
) -> Source:
    """`multiple`: of which the number of channels has to be."""
    channels = -(-x.shape[1] // multiple) * multiple
    as_it_is = conversion.body is None and conversion.dtype == x.dtype
    if as_it_is and channels == x.shape[1] and not frame.bordered:
        found = low.ordered(x, channels_last(len(x.shape)))
        return Source(found, frame.sizes, channels)
    return _padded(low, x, frame, conversion, channels)


def _padded(
    low: Lowering, x: Tensor, frame: Frame, conversion: Conversion, channels: int
) -> Source:
    sizes = frame.padded if frame.bordered else frame.sizes
    form = _form(x, channels)
    if form == "":
        x = low.ordered(x, channels_last(len(x.shape)))
        form = _form(x, channels)
    target = low.new(conversion.dtype, (x.shape[0], *sizes, channels))
    view = image(x).view
    before = _before(frame)
    here = [min(n, max(0, p - b)) for n, p, b in zip(frame.sizes, sizes, before, strict=True)]
    n, c, d, h, w = view.strides
    spec = ConvPad(
        x.dtype, conversion.dtype, form, x.shape[1] if form == "planes" else 0,
        channels - x.shape[1] if form == "planes" else 0, conversion.body,
        tuple(s.dtype for s in conversion.scalars),
    )  # fmt: skip
    words: list[Tensor | int] = [x, *conversion.scalars, target, *here, x.shape[1]]
    words += [*before, *sizes, channels, target.view.size // max(1, x.shape[0])]
    words += [n, d, h, w, c, conversion.fill]
    rows = x.shape[0] * sizes[0] * sizes[1]
    grain = max(1, 8192 // max(1, sizes[2] * channels))
    low.call(spec, words, rows, grain)
    return Source(target, sizes, channels)


def _before(frame: Frame) -> Three:
    return frame.before if frame.bordered else (0, 0, 0)


def _form(x: Tensor, channels: int) -> str:
    """How rows lie (specs.conv_pad.ConvPad); empty where x has to be brought in order first."""
    given = x.shape[1]
    _, c, _, _, w = image(x).view.strides
    width = x.shape[-1]
    if given == 1 or c == 1:
        if channels == given and (w == given or width == 1):
            return "rows"
        return "pixels"
    if given > INTERLEAVED:
        return ""
    return "planes" if w == 1 else "any"
