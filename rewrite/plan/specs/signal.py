"""Discrete Fourier transforms as sums over tables.

In: nothing. Out: the spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec

COLUMNS = 16  # tables have a multiple of so many columns; those beyond the last are 0


@dataclass(frozen=True, slots=True)
class Dft(Spec):
    """One transform per line: with x[j] = a + ib, the real part of result[k] is the sum over j of
    a cosine[j, k] + b sine[j, k], the imaginary part that of b cosine[j, k] - a sine[j, k].

    Words: x, cosine, sine, result; samples; columns; columns of the tables; lines of a batch; then
    in elements: x from batch to batch, from line to line, from sample to sample; result likewise
    (the last one from column to column). Items: lines of all batches.
    `complex_in`, `complex_out`: whether there is an imaginary part, which stands behind the real
    one. Tables are of `sums`, the type of the sums.
    """

    dtype: str
    sums: str
    complex_in: bool
    complex_out: bool
