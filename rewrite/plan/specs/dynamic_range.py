"""Kernels that find how a tensor is quantized by the range of its elements.

In: nothing. Out: frozen specs.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec

CHUNK = 1 << 14  # elements of one work item


@dataclass(frozen=True, slots=True)
class Extremes(Spec):
    """The least and the largest of 0 and the elements of each chunk of a float32 tensor.

    Words: elements without gaps, f32[chunks][2], how many elements. Items: chunks of CHUNK.
    """


@dataclass(frozen=True, slots=True)
class RangeParameters(Spec):
    """Scale and zero point of DynamicQuantizeLinear from the extremes of all chunks.

    scale = (max - min) / 255, or 1 where that is 0; zero point = saturate(rint(-min / scale)).
    Words: f32[chunks][2], f32[1], u8[1], how many chunks. Items: one.
    """
