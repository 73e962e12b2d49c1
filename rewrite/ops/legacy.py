"""Operands that older opsets carried as attributes.

In: an operator version and an attribute value, or an operand array. Out: the same thing in the
other form. The rest of the tool knows the newest form only: `Squeeze(x, axes)` at every opset.

Source: the differences between consecutive versions in onnx/defs (docs/Changelog.md);
tests/ops/test_legacy.py derives the same table from the installed schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rewrite.ops.dtypes import to_numpy

# What the attribute holds: a list of integers, one integer, a list of floats, one float, or one
# float that stands for a value of the element type of the first input.
Form = Literal["ints", "int", "floats", "float", "element"]
AttributeValue = int | float | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LegacyOperand:
    """`attribute` carries the input `name` in versions since `until` or older."""

    attribute: str
    name: str
    form: Form
    until: int  # the last opset with the attribute
    # Where leaving out the attribute and leaving out the operand mean different things: what
    # each of them means.
    without_attribute: int | None = None
    without_operand: int | None = None

    @property
    def type(self) -> str:
        """The operand's type as a schema writes it."""
        if self.form == "element":
            return "T"
        return "tensor(float)" if self.form in ("float", "floats") else "tensor(int64)"


def _axes(until: int) -> dict[int, LegacyOperand]:
    return {1: LegacyOperand("axes", "axes", "ints", until)}


_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSumSquare",
)  # fmt: skip

# ai.onnx operator -> input index -> legacy operand. No other domain has any.
TABLE: Mapping[str, Mapping[int, LegacyOperand]] = {
    **{name: _axes(17) for name in _REDUCTIONS},
    "ReduceSum": _axes(12),
    "Squeeze": _axes(12),
    "Unsqueeze": _axes(12),
    "Clip": {
        1: LegacyOperand("min", "min", "element", 10),
        2: LegacyOperand("max", "max", "element", 10),
    },
    "DFT": {2: LegacyOperand("axis", "axis", "int", 19, without_attribute=1, without_operand=-2)},
    "Dropout": {1: LegacyOperand("ratio", "ratio", "float", 11)},
    "Pad": {
        1: LegacyOperand("pads", "pads", "ints", 10),
        2: LegacyOperand("value", "constant_value", "element", 10),
    },
    "Slice": {
        1: LegacyOperand("starts", "starts", "ints", 9),
        2: LegacyOperand("ends", "ends", "ints", 9),
        3: LegacyOperand("axes", "axes", "ints", 9),
    },
    "Split": {1: LegacyOperand("split", "split", "ints", 12)},
    "TopK": {1: LegacyOperand("k", "K", "int", 9)},
    "Upsample": {1: LegacyOperand("scales", "scales", "floats", 8)},
}

# Attributes that appeared later with a default that is not what older versions did:
# (operator, attribute) -> (last opset without it, the value that describes the old behaviour).
# Resize-10 has no coordinate transformation: out = floor(x / scale) (its reference code);
# RoiAlign-10 has no half-pixel shift.
IMPLIED: Mapping[tuple[str, str], tuple[int, str]] = {
    ("Resize", "coordinate_transformation_mode"): (10, "asymmetric"),
    ("Resize", "nearest_mode"): (10, "floor"),
    ("RoiAlign", "coordinate_transformation_mode"): (15, "output_half_pixel"),
}


def operands_of(domain: str, name: str, opset: int) -> dict[int, LegacyOperand]:
    """Input index -> legacy operand of the version in force at `opset`; {} where there is none."""
    if domain != "" or name not in TABLE:
        return {}
    return {i: operand for i, operand in TABLE[name].items() if opset <= operand.until}


def implied_attribute(domain: str, name: str, opset: int, attribute: str) -> str | None:
    """The value of a later attribute that an older version means, where it is not the default."""
    if domain != "":
        return None
    until, value = IMPLIED.get((name, attribute), (0, ""))
    return value if opset <= until else None


def legacy_operand(
    domain: str,
    name: str,
    opset: int,
    index: int,
    value: AttributeValue | None,
    input_dtype: str | None,
) -> np.ndarray | None:
    """The operand at `index` as an array, from the attribute's `value` (None: not given).

    `input_dtype` is the element type of the first input: Clip's bounds and Pad's value have it.
    None where leaving the operand out says the same.
    """
    operand = operands_of(domain, name, opset).get(index)
    if operand is None:
        return None
    if value is None:
        value = operand.without_attribute
    if value is None:
        return None
    if operand.form == "element":
        return _element(float(_scalar(value)), input_dtype)
    if operand.form == "float":
        return np.array(_scalar(value), np.float32)
    if operand.form == "floats":
        return np.array(value, np.float32).reshape(-1)
    if operand.form == "ints":
        return np.array(value, np.int64).reshape(-1)
    # TopK wants K in one dimension (onnx/defs/math: "a 1-D tensor containing a single value"),
    # DFT wants a scalar.
    return np.array([_scalar(value)] if name == "TopK" else _scalar(value), np.int64)


def legacy_attribute(
    domain: str, name: str, opset: int, index: int, operand: np.ndarray | None
) -> AttributeValue | None:
    """The attribute's value that says the same as `operand` (None: the operand is left out).

    None for an operand left out means: leave the attribute out. None for an array means that no
    attribute value says the same: several elements for one number, or a number that float32
    (the type of a float attribute) does not hold exactly.
    """
    entry = operands_of(domain, name, opset).get(index)
    if entry is None:
        return None
    if operand is None:
        return entry.without_operand
    if entry.form == "ints":
        return tuple(int(v) for v in operand.reshape(-1))
    if entry.form == "floats":
        return tuple(float(v) for v in operand.reshape(-1))
    if operand.size != 1:
        return None
    item = operand.reshape(-1)[0]
    if entry.form == "int":
        return int(item)
    number = float(item)
    if float(np.float32(number)) != number and number == number:
        return None
    return number if _returns(item, number) else None


def _scalar(value: AttributeValue) -> int | float:
    return value[0] if isinstance(value, tuple) else value


def _element(number: float, dtype: str | None) -> np.ndarray | None:
    """The number as a 0-d array of the element type; None where that is unknown."""
    if dtype is None or dtype in ("string", "c64", "c128"):
        return None
    target = to_numpy(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(number, np.float64).astype(target)


def _returns(item: np.generic, number: float) -> bool:
    """Whether float -> element type gives the element back (an int64 above 2^53 does not)."""
    if item.dtype.kind not in "iub":
        return True
    return int(number) == int(item)
