"""The collector of garbage: off inside, afterwards as before; much garbage is gone at the end."""

from __future__ import annotations

import gc
import weakref

import pytest

from rewrite.graph import collector


class Ring:
    """An object that holds itself: only the collector frees it."""

    def __init__(self) -> None:
        self.self = self


def rings(count: int) -> weakref.ref[Ring]:
    """So many rings that nobody has; one of them."""
    for _ in range(count):
        last = weakref.ref(Ring())
    return last


def test_garbage_of_many_objects_is_collected(monkeypatch):
    monkeypatch.setattr(collector, "MANY", 1_000)
    with collector.paused(collects=True):
        assert not gc.isenabled()
        last = rings(2_000)
        assert last() is not None
    assert last() is None
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(("count", "collects"), [(10, True), (2_000, False)])
def test_other_garbage_is_left_for_later(monkeypatch, count, collects):
    monkeypatch.setattr(collector, "MANY", 1_000)
    with collector.paused(collects):
        last = rings(count)
    assert last() is not None
    gc.collect()  # what was there before is looked at again
    assert last() is None


def test_objects_that_somebody_has_frozen_stay_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector.paused(), collector.paused():
            assert not gc.isenabled()
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("on", [True, False])
def test_an_error_leaves_it_as_it_was(on):
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(KeyError), collector.paused():
            raise KeyError
        assert gc.isenabled() == on
        assert gc.get_freeze_count() == 0
    finally:
        gc.enable()
