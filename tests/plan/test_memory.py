"""The arena: what lives at once lies apart."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from rewrite.plan import memory
from rewrite.plan.spec import Spec
from rewrite.plan.tensor import Buffer, Draft, Tensor
from rewrite.plan.view import dense


def tensor(elements: int) -> Tensor:
    view = dense("f32", (elements,))
    return Tensor(Buffer("arena", view.bytes), view)


def draft(*words: Tensor, writes: frozenset[int] = frozenset()) -> Draft:
    return Draft(Spec(), words, 1, 1, 0, 0, (), "", writes)


def lives(drafts: list[Draft]) -> dict[Buffer, tuple[int, int]]:
    found: dict[Buffer, tuple[int, int]] = {}
    for number, call in enumerate(drafts):
        for word in call.words:
            buffer = memory.root(word.buffer)
            first, _ = found.get(buffer, (number, number))
            found[buffer] = (first, number)
    return found


def check(drafts: list[Draft], total: int) -> int:
    """No two buffers that live at once overlap; gives the largest sum of live bytes."""
    alive = lives(drafts)
    for a, (a_first, a_last) in alive.items():
        assert 0 <= a.offset <= total - a.bytes
        assert a.offset % memory.ALIGN == 0
        for b, (b_first, b_last) in alive.items():
            if a is not b and a_first <= b_last and b_first <= a_last:
                assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    sums = [
        sum(b.bytes for b, (first, last) in alive.items() if first <= t <= last)
        for t in range(len(drafts))
    ]
    return max(sums, default=0)


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_do_not_overlap_and_waste_little(seed):
    choose = random.Random(seed)
    values = [tensor(choose.choice([16, 160, 1600, 16000]))]
    drafts = []
    for _ in range(120):
        made = tensor(choose.choice([16, 160, 1600, 16000]))
        operands = choose.choices(values[-8:], k=choose.choice([1, 2]))
        drafts.append(draft(*operands, made))
        values.append(made)
    total = memory.place(drafts)
    least = check(drafts, total)
    assert total <= 1.25 * least + 64 * len(drafts)


def test_a_chain_of_pointwise_results_takes_one_buffer():
    values = [tensor(1000) for _ in range(6)]
    drafts = [draft(a, b, writes=frozenset({1})) for a, b in pairwise(values)]
    assert memory.place(drafts) <= 4096
    assert len({memory.root(v.buffer) for v in values}) == 1


def test_an_operand_needed_later_is_not_written_over():
    x, y, z = tensor(1000), tensor(1000), tensor(1000)
    drafts = [draft(x), draft(x, y, writes=frozenset({1})), draft(x, y, z, writes=frozenset({2}))]
    total = memory.place(drafts)
    check(drafts, total)
    assert memory.root(y.buffer) is not memory.root(x.buffer)
    assert memory.root(z.buffer) in (memory.root(x.buffer), memory.root(y.buffer))


def test_an_operand_read_twice_in_different_places_is_not_written_over():
    x, y = tensor(1000), tensor(999)
    shifted = Tensor(x.buffer, y.view, 1)
    front = Tensor(x.buffer, y.view, 0)
    drafts = [draft(x), draft(front, shifted, y, writes=frozenset({2}))]
    memory.place(drafts)
    assert memory.root(y.buffer) is not x.buffer
