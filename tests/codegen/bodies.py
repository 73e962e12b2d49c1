"""Scalar programs run on arrays: a body through the pointwise kernel, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rewrite.codegen.isa import Isa
from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.plan.pointwise import pointwise
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.view import dense
from tests.codegen.harness import run


def step(
    name: str,
    args: Sequence[int | Constant | None],
    dtype: str,
    domain: str = "",
    **attributes: Any,
) -> Step:
    return Step(domain, name, tuple(args), dtype, tuple(sorted(attributes.items())))


def run_body(
    body: Body, arrays: Sequence[np.ndarray], isa: Isa | None = None, splits: int = 1
) -> list[np.ndarray]:
    """The results of the body on arrays of one shape; the kernel must not report a fault."""
    found, status = run_checked(body, arrays, isa, splits)
    assert status == 0
    return found


def run_checked(
    body: Body, arrays: Sequence[np.ndarray], isa: Isa | None = None, splits: int = 1
) -> tuple[list[np.ndarray], int]:
    shape = arrays[0].shape
    given = [np.ascontiguousarray(a) for a in arrays]
    dtypes = [body.dtype(r) for r in body.results]
    made = [np.zeros(shape, to_numpy(d)) for d in dtypes]
    views = [dense(of_numpy(a.dtype) or "", shape) for a in given]
    spec, items, _ = pointwise(shape, views, [dense(d, shape) for d in dtypes], body)
    status = run(spec, [*given, *made], items, isa=isa, splits=splits)
    return made, status


def one_step(
    name: str,
    arrays: Sequence[np.ndarray | None],
    dtype: str,
    isa: Isa | None = None,
    domain: str = "",
    attributes: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """One operator on arrays."""
    present = [a for a in arrays if a is not None]
    numbers = iter(range(len(present)))
    args = [None if a is None else next(numbers) for a in arrays]
    dtypes = tuple(of_numpy(a.dtype) or "" for a in present)
    made = step(name, args, dtype, domain, **(attributes or {}))
    return run_body(Body(dtypes, (made,), (len(present),)), present, isa)[0]
