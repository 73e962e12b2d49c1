"""Why an operator is not taken: every limit, and what is not known does not count."""

from __future__ import annotations

import dataclasses

import pytest

from rewrite.target.support import Call, unsupported
from rewrite.target.target import Limits, Target

CONV, GELU, MISH = ("", "Conv"), ("com.microsoft", "Gelu"), ("", "Mish")
TARGET = Target(
    name="chip",
    doc="A test.",
    file="chip.yaml",
    packs=(),
    opset=(7, 18),
    groups=False,
    operators=frozenset({CONV, ("", "Relu")}),
    decomposed=frozenset({MISH}),
    limits={CONV: Limits(dtypes=("f32",), rank=(3, 4), constant=(1,), static=True)},
    promotes={"f16": "f32"},
)
GOOD = {"dtype": "f32", "rank": 4, "static": True, "constant": (False, True)}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"dtype": None, "rank": None}, None),
        ({"dtype": "f16"}, None),
        ({"dtype": "f64"}, "takes f32, not f64"),
        ({"rank": 5}, "takes rank 3 to 4, not 5"),
        ({"constant": (False, False)}, "needs operand 1 to be constant"),
        ({"constant": (False,)}, None),
        ({"static": False}, "needs sizes that are known"),
    ],
)
def test_limits(change, reason):
    assert unsupported(TARGET, Call(CONV, **{**GOOD, **change})) == reason


def test_a_single_rank_is_no_range():
    target = dataclasses.replace(TARGET, limits={CONV: Limits(rank=(4, 4))})
    assert unsupported(target, Call(CONV, rank=3)) == "takes rank 4, not 3"


def test_operators():
    assert unsupported(TARGET, Call(("", "Relu"))) is None
    assert unsupported(TARGET, Call(MISH)) is None
    assert unsupported(TARGET, Call(GELU)) == "is not an operator of chip"
