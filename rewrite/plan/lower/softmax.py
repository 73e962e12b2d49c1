"""Softmax and its like: row programs."""

from __future__ import annotations

from rewrite.plan.lower.reduction import row_program, row_refusal
from rewrite.plan.lowering import lowers, refuses

_SOFTMAX = ("Softmax", "LogSoftmax")
_MICROSOFT = ("BiasSoftmax", "QLinearSoftmax")

lowers(*_SOFTMAX, epilogue=True)(row_program)
refuses(*_SOFTMAX)(row_refusal)
lowers(*_MICROSOFT, domain="com.microsoft")(row_program)
refuses(*_MICROSOFT, domain="com.microsoft")(row_refusal)
