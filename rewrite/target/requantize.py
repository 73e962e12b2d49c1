"""The ways of turning an accumulator into a code, and which facts belong to each.

In: nothing. Out: `MODES`. A target names a mode; what the mode implies is filled in by `load.py`,
and what contradicts it is refused there (RW412). The arithmetic itself is `rewrite.quant`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# What happens to a tie. `half_up_then_away` rounds twice: a doubling high product with ties up,
# then a right shift with ties away from zero.
ROUNDINGS = ("half_even", "half_up", "half_away", "half_up_then_away", "toward_zero")


@dataclass(frozen=True, slots=True)
class Mode:
    """One way. `roundings`: those that it has, the usual one first; `bits`: of its multiplier,
    sign included, () where the scale is a float.

    `requantizers`: names in `rewrite.quant`, one for each rounding, () where no kernel can have it.
    `chosen`: multipliers are ours to choose; what Arm's and TensorFlow's compilers derive from the
    scales is what their kernels run. `wide`: the rounding of 16-bit convolutions beside the usual.
    """

    doc: str
    roundings: tuple[str, ...]
    bits: tuple[int, ...] = ()
    requantizers: tuple[str, ...] = ()
    chosen: bool = False
    wide: str | None = None

    def requantizer(self, rounding: str, wide: bool = False) -> str | None:
        """The name of the arithmetic; `wide`: of a convolution of 16-bit codes."""
        if not self.requantizers:
            return None
        usual = rounding == self.roundings[0]
        taken = self.wide if wide and usual and self.wide is not None else rounding
        return self.requantizers[self.roundings.index(taken)]

    def implied(self) -> dict[str, object]:
        """The facts that need not be written."""
        facts: dict[str, object] = {
            "rounding": self.roundings[0],
            "zero_point": "after_rounding",
        }
        return facts | ({"multiplier_bits": self.bits[0]} if self.bits else {})

    def problem(self, key: str, value: object) -> str | None:
        """Why a fact does not belong to this mode; None where it does."""
        if key in ("multiplier_bits", "shift") and not self.bits:
            return "has no fixed multiplier"
        if key == "multiplier_bits" and value not in self.bits:
            return f"has multipliers of {' or '.join(map(str, self.bits))} bits"
        if key == "rounding" and value not in self.roundings:
            return f"rounds {' or '.join(self.roundings)}"
        return None


MODES: Mapping[str, Mode] = {
    "float": Mode(
        "one float32 product with the scale, as MLAS on x86", ("half_even",),
        requantizers=("ort_x86",), chosen=True,
    ),
    "onnx_qdq": Mode("the quotient of QuantizeLinear, rounded once", ("half_even",)),
    "tflite_double": Mode(
        "a 32-bit multiplier and a shift, rounded twice", ("half_up_then_away",), (32,),
        requantizers=("tflite_double",),
    ),
    "tflite_single": Mode(
        "a 32-bit multiplier and a shift, rounded once", ("half_up",), (32,),
        requantizers=("tflite_single",),
    ),
    "rndnu": Mode(
        "a 24-bit significand and a shift in 64 bits", ("half_up",), (24,),
        requantizers=("rndnu",), chosen=True,
    ),
    "vela": Mode(
        "a 32-bit multiplier and a 6-bit shift", ("half_up_then_away", "half_up", "toward_zero"),
        (32,), requantizers=("vela", "vela_natural", "vela_truncate"), wide="half_up",
    ),
    "hvx": Mode(
        "a 32-bit multiplier by vmpyewuh and vmpyowh, then vasr", ("half_up",), (32,),
        requantizers=("hvx",), chosen=True,
    ),
}  # fmt: skip
