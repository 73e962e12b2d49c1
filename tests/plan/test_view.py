"""Views against numpy's own strided views of the same memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite.plan import view as views
from rewrite.plan.view import View, dense

SHAPES = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


def strided(memory: np.ndarray, view: View, offset: int = 0) -> np.ndarray:
    step = memory.itemsize
    return np.lib.stride_tricks.as_strided(
        memory[offset:], view.shape, tuple(s * step for s in view.strides)
    )


def memory_of(view: View) -> np.ndarray:
    return np.arange(max(view.size, 1), dtype=np.float32)


@settings(max_examples=200, deadline=None)
@given(SHAPES, st.randoms(use_true_random=False))
def test_permuted_and_reshaped_views_are_numpys(shape, random):
    order = list(range(len(shape)))
    random.shuffle(order)
    view = dense("f32", shape, order)
    memory = memory_of(view)
    x = strided(memory, view)
    assert view.order == tuple(order) or not view.dense or 1 in shape or 0 in shape
    axes = order[:]
    random.shuffle(axes)
    np.testing.assert_array_equal(strided(memory, views.permute(view, axes)), x.transpose(axes))
    for new in {(view.size,), (1, *shape), (*shape, 1), shape[::-1]}:
        found = views.reshaped(view, new)
        if found is not None:
            np.testing.assert_array_equal(strided(memory, found), x.reshape(new))
        else:  # numpy needs a copy as well
            assert not np.shares_memory(x.reshape(new), memory)


@settings(max_examples=200, deadline=None)
@given(SHAPES, st.data())
def test_slices_are_numpys(shape, data):
    view = dense("f32", shape)
    memory = memory_of(view)
    starts, sizes, steps, cut = [], [], [], []
    for n in shape:
        step = data.draw(st.sampled_from([1, 2, -1, -2]))
        start = data.draw(st.integers(0, max(n - 1, 0)))
        picked = range(start, n if step > 0 else -1, step)
        count = data.draw(st.integers(0, len(picked))) if n else 0
        starts.append(start if n else 0)
        sizes.append(count)
        steps.append(step)
        cut.append(list(picked)[:count])
    found, offset = views.sliced(view, starts, sizes, steps)
    x = strided(memory, view)
    wanted = x[np.ix_(*cut)] if shape else x
    np.testing.assert_array_equal(strided(memory, found, offset), wanted)


@settings(max_examples=100, deadline=None)
@given(SHAPES, SHAPES)
def test_broadcast_is_numpys(shape, other):
    try:
        wanted = np.broadcast_shapes(shape, other)
    except ValueError:
        return
    view = dense("f32", shape)
    memory = memory_of(view)
    found = views.broadcast(view, wanted)
    x = strided(memory, view)
    np.testing.assert_array_equal(strided(memory, found), np.broadcast_to(x, wanted))


def test_a_view_says_how_far_it_reaches():
    view = dense("f32", (2, 3, 4), (0, 2, 1))
    assert view.strides == (12, 1, 3)
    assert view.extent == 24
    assert view.dense
    assert not view.contiguous
    gap = View("f32", (2, 3), (8, 1))
    assert gap.extent == 11
    assert not gap.dense
    assert views.reshaped(gap, (6,)) is None
