"""Einsum: equations of every kind, exact in small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from rewrite.codegen.isa import Isa
from tests.codegen.harness import isas
from tests.plan.matmul_models import run

SIZES = dict(zip("ijklabcde", (5, 7, 4, 3, 6, 2, 7, 8, 3), strict=True))
EQUATIONS = [
    # products of matrices
    "ij,jk->ik", "ij,kj->ik", "ij,jk->ki", "bij,bjk->bik", "bcid,bcjd->bcij", "bcij,bcjd->bicd",
    "...ij,...jk->...ik", "bij,jk->bik", "abc,cd,be->aed", "ij,jk,kl->il", "ijk,jil->kl",
    # diagonals, sums, transposes
    "ii->i", "ii->", "ii", "ij->ji", "ij->", "ij->i", "ij->j", "ij", "ba", "iij,j->i",
    "aab,bcc->ac", "ij,jk,kl->", "ij,kl->", "ij->ij", "iijj->ij",
    # products without sums
    "i,j->ij", "ij,ij->ij", "ij,k->ijk", "a,b,c->abc", "ij,j->ij", ",ij->ij", ",->",
    # sums of elementwise products
    "ij,ij->", "ij,ij->i", "i,i->", "ab,b",
    # dimensions without names
    "b...,b...->...", "i...j->...", "...,...->...", "...->...", "...i,i->...",
    " i j , j k -> i k",
]  # fmt: skip


def operands(equation: str, kind: Any) -> dict[str, Any]:
    rng = np.random.default_rng(len(equation))
    found = {}
    for i, term in enumerate(equation.replace(" ", "").split("->")[0].split(",")):
        sizes: list[int] = []
        for letter in term.replace("...", "."):
            sizes += [2, 3] if letter == "." else [SIZES[letter]]
        found[f"x{i}"] = rng.integers(-4, 5, sizes).astype(kind)
    return found


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.float16, np.int8, np.float64])
def test_equations(kind: Any) -> None:
    for equation in EQUATIONS:
        arrays = operands(equation, kind)
        wide = [a.astype(np.int64) for a in arrays.values()]
        exact = np.einsum(equation, *wide).astype(kind)  # low bits, where they do not fit
        (y,) = run([helper.make_node("Einsum", list(arrays), ["y"], equation=equation)], arrays)
        assert y.dtype == exact.dtype, equation
        assert y.shape == exact.shape, equation
        assert (y == exact).all(), equation


@pytest.mark.parametrize("isa", isas()[1:], ids=lambda isa: str(isa.vector_bytes))
def test_instruction_sets(isa: Isa) -> None:
    for equation in EQUATIONS[:12]:
        arrays = operands(equation, np.float32)
        exact = np.einsum(equation, *arrays.values())
        nodes = [helper.make_node("Einsum", list(arrays), ["y"], equation=equation)]
        (y,) = run(nodes, arrays, ("x1",) if "x1" in arrays else (), isa)
        assert (y == exact).all(), equation


def test_broadcast_and_empty() -> None:
    """Labels of size 1 are repeated; sums over nothing are 0."""
    cases = [
        ("ij,jk->ik", (1, 3), (3, 2)), ("ij,ij->ij", (4, 1), (4, 5)), ("ij,jk->ik", (4, 1), (5, 2)),
        ("...i,...i->...", (2, 1, 4), (3, 4)), ("ij,jk->ik", (2, 0), (0, 3)),
        ("ij->i", (2, 0), None),
    ]  # fmt: skip
    for equation, first, second in cases:
        rng = np.random.default_rng(1)
        shapes = [first] if second is None else [first, second]
        arrays = {f"x{i}": rng.integers(-4, 5, s).astype(np.float32) for i, s in enumerate(shapes)}
        exact = np.einsum(equation, *arrays.values())
        (y,) = run([helper.make_node("Einsum", list(arrays), ["y"], equation=equation)], arrays)
        assert y.shape == exact.shape
        assert (y == exact).all(), equation
