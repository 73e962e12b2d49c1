"""The arithmetic of sliding windows: output sizes and padding of convolutions and pools.

In: sizes and the attributes kernel, stride, dilation, pads. Out: sizes. With `i` the input size,
`k` the kernel, `d` the dilation, `s` the stride, `p` both pads:

    floor((i + p - d (k - 1) - 1) / s) + 1
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.ops import dims
from rewrite.ops.call import Attributes, InferenceError
from rewrite.schema import Dim


@dataclass(frozen=True, slots=True)
class Window:
    """Attributes of a sliding window over `rank` spatial dimensions, defaults filled in."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]  # begins, then ends
    auto_pad: str

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def reach(self, axis: int) -> int:
        """The extent of the dilated kernel."""
        return self.dilations[axis] * (self.kernel[axis] - 1) + 1


def read_window(attributes: Attributes, kernel: tuple[int, ...]) -> Window:
    rank = len(kernel)
    strides = attributes.integers("strides") or (1,) * rank
    dilations = attributes.integers("dilations") or (1,) * rank
    auto_pad = attributes.text("auto_pad", "NOTSET") or "NOTSET"
    pads = attributes.integers("pads") or (0,) * (2 * rank)
    if auto_pad != "NOTSET":
        pads = (0,) * (2 * rank)
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        raise InferenceError(f"strides, dilations or pads do not fit {rank} spatial dimensions")
    if min(strides, default=1) < 1 or min(dilations, default=1) < 1 or min(kernel, default=1) < 1:
        raise InferenceError("a kernel, stride or dilation below 1")
    return Window(kernel, strides, dilations, pads, auto_pad)


def output_size(window: Window, axis: int, size: Dim, ceil: bool = False) -> Dim | None:
    """The size of one spatial dimension; None where runtimes or versions disagree."""
    stride, reach = window.strides[axis], window.reach(axis)
    if window.auto_pad.startswith("SAME"):
        return dims.ceildiv(size, stride)
    begin, end = window.pads[axis], window.pads[axis + window.rank]
    room = dims.add(size, begin + end - reach)
    if isinstance(room, int) and room < 0:
        return None  # the kernel does not fit: some make this 0, others refuse
    if not ceil:
        return dims.add(dims.floordiv(room, stride), 1)
    rounded = dims.add(dims.ceildiv(room, stride), 1)
    return rounded if _last_window_starts_inside(rounded, size, stride, begin, end, reach) else None


def _last_window_starts_inside(
    count: Dim, size: Dim, stride: int, begin: int, end: int, reach: int
) -> bool:
    """With ceil_mode a last window that starts in the end pad is dropped by newer versions only."""
    if isinstance(count, int) and isinstance(size, int):
        return (count - 1) * stride < size + begin
    return end + stride <= reach


def same_pads(window: Window, axis: int, size: int) -> tuple[int, int]:
    """Begin and end pads of auto_pad SAME_UPPER or SAME_LOWER."""
    count = -(-size // window.strides[axis])
    missing = max(0, (count - 1) * window.strides[axis] + window.reach(axis) - size)
    less, more = missing // 2, missing - missing // 2
    return (more, less) if window.auto_pad == "SAME_LOWER" else (less, more)


def known_pads(window: Window, axis: int, size: int) -> tuple[int, int]:
    if window.auto_pad.startswith("SAME"):
        return same_pads(window, axis, size)
    return window.pads[axis], window.pads[axis + window.rank]
