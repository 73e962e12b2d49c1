"""Q(move(x)) = move(Q(x)): codes by moved parameters are the moved codes, on random tensors."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.quant import movement
from rewrite.quant.affine import quantize
from rewrite.quant.params import faults, quant_params

SHAPE = (2, 3, 8, 5)


def tensor():
    return np.random.default_rng(41).normal(0, 30, SHAPE).astype(np.float32)


def params_of(axis, block=None):
    rng = np.random.default_rng([42, axis])
    if block is None:
        size = SHAPE[axis]
        return quant_params("s8", rng.uniform(0.1, 2, size).astype(np.float32),
                            rng.integers(-100, 100, size), axis=axis)  # fmt: skip
    shape = list(SHAPE)
    shape[axis] = -(-SHAPE[axis] // block)
    return quant_params("s8", rng.uniform(0.1, 2, shape).astype(np.float32),
                        rng.integers(-100, 100, shape), axis=axis, block=block)  # fmt: skip


EVERY = [params_of(a) for a in range(4)] + [params_of(a, b) for a, b in ((2, 4), (1, 2), (3, 5))]


def check(params, moved, change):
    """`moved`, if there are any, give the codes of the moved tensor."""
    if moved is None:
        return 0
    x = tensor()
    assert faults(moved, change(x).shape) == ()
    assert np.array_equal(quantize(change(x), moved), change(quantize(x, params)))
    return 1


@pytest.mark.parametrize("perm", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 3, 2)])
def test_transpose(perm):
    count = sum(
        check(p, movement.transpose(p, perm), lambda x: np.transpose(x, perm)) for p in EVERY
    )
    assert count == len(EVERY)


@pytest.mark.parametrize(
    ("new", "survivors"),
    [((2, 3, 40), {0, 1}), ((6, 8, 5), {2, 3}), ((2, 1, 3, 8, 5, 1), {0, 1, 2, 3}),
     ((2, 3, 5, 8), {0, 1}), ((240,), set()), ((3, 2, 8, 5), {2, 3}), ((2, 24, 5), {0, 3})],
)  # fmt: skip
def test_reshape(new, survivors):
    kept = set()
    for p in EVERY:
        moved = movement.reshape(p, SHAPE, new)
        if check(p, moved, lambda x: x.reshape(new)) and p.block is None:
            kept.add(p.axis)
    assert kept == survivors


def test_unsqueeze_and_squeeze():
    for p in EVERY:
        for axes in ((0,), (2,), (0, 5), (-1,), (1, 3)):
            at = tuple(a % (4 + len(axes)) for a in axes)
            moved = movement.unsqueeze(p, axes, 4)
            assert check(p, moved, lambda x, at=at: np.expand_dims(x, at)) == 1
            back = movement.squeeze(moved, axes, 4 + len(axes))
            assert back == p


def test_squeeze_of_the_axis_itself():
    one = quant_params("u8", [0.5], [3], axis=0)
    assert movement.squeeze(one, (0,), 3) == quant_params("u8", np.float32(0.5), 3)
    assert movement.squeeze(quant_params("u8", [0.5, 1.0], axis=0), (0,), 3) is None


@pytest.mark.parametrize("axis", range(4))
def test_gather_and_slice(axis):
    indices = np.array([1, 0, 1])
    for p in EVERY:
        moved = movement.gather(p, axis, indices, 4)
        check(p, moved, lambda x: np.take(x, indices, axis))
        if p.block is None or p.axis != axis:
            assert moved is not None
        table = np.array([[0, 1], [1, 0]])
        check(p, movement.gather(p, axis, table, 4), lambda x, t=table: np.take(x, t, axis))
        for start, stop, step in ((0, 2, 1), (1, 8, 1), (0, 8, 2), (4, 8, 1), (-1, -9, -1)):
            if not np.arange(SHAPE[axis])[start:stop:step].size:
                continue
            at = tuple(slice(start, stop, step) if i == axis else slice(None) for i in range(4))
            moved = movement.slice_(p, axis, start, stop, step, SHAPE)
            check(p, moved, lambda x, at=at: x[at])
            assert moved is not None or (p.block is not None and p.axis == axis)


def test_slices_that_cut_blocks_have_none():
    p = params_of(2, 4)
    assert movement.slice_(p, 2, 0, 4, 1, SHAPE) is not None
    assert movement.slice_(p, 2, 4, 8, 1, SHAPE) is not None
    assert movement.slice_(p, 2, 2, 6, 1, SHAPE) is None
    assert movement.slice_(p, 2, 0, 6, 1, SHAPE) is None


def test_repeat():
    new = (7, *SHAPE)
    for p in EVERY:
        check(p, movement.repeat(p, SHAPE, new), lambda x: np.broadcast_to(x, new))
    p = params_of(1)
    assert movement.repeat(p, SHAPE, (2, 6, 8, 5)) is None
    one = quant_params("u8", [0.5], [3], axis=1)
    assert movement.repeat(one, (2, 1), (2, 6)) == quant_params("u8", np.float32(0.5), 3)


def test_concat():
    p, q = params_of(1), quant_params("s8", [0.3, 0.4], [1, 2], axis=1)
    joined = movement.concat([p, q], 1, 4)
    x, y = tensor(), tensor()[:, :2]
    assert np.array_equal(
        quantize(np.concatenate([x, y], 1), joined),
        np.concatenate([quantize(x, p), quantize(y, q)], 1),
    )
    assert movement.concat([p, p], 0, 4) == p
    assert movement.concat([p, q], 0, 4) is None
    one = quant_params("s8", 0.5, 1)
    assert movement.concat([one, one], 1, 4) == one
    assert movement.concat([one, quant_params("s8", 0.25, 1)], 1, 4) is None
    assert movement.concat([one, quant_params("u8", 0.5, 1)], 1, 4) is None


def test_per_tensor_parameters_go_anywhere():
    one = quant_params("s8", 0.5, 1)
    assert movement.transpose(one, (1, 0)) is one
    assert movement.reshape(one, (2, 3), (6,)) is one
    assert movement.gather(one, 0, np.array([1]), 2) is one
