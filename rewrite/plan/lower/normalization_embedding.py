"""EmbedLayerNormalization: rows of three tables added and normalized.

The rows are gathered first (with their places checked), then one row program adds and normalizes
them; how many tokens of a sequence the mask keeps is a sum of the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from rewrite.plan.lower.indexing import grain_of
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.rows import overwrites
from rewrite.plan.rows_draft import Built, Draft, Ref
from rewrite.plan.rows_layout import lay
from rewrite.plan.rows_normalize import standardized
from rewrite.plan.specs.index import GatherRows, short
from rewrite.plan.specs.rows import ADD
from rewrite.plan.view import BYTES

MICROSOFT = "com.microsoft"
_IDS, _SEGMENTS, _WORDS, _PLACES, _KINDS, _SCALE, _BIAS, _MASK, _GIVEN = range(9)


@refuses("EmbedLayerNormalization", domain=MICROSOFT)
def embedding_refusal(op: Instance) -> str | None:
    if op.dtype(_WORDS) not in ("f32", "f16"):
        return f"EmbedLayerNormalization is not computed in {op.dtype(_WORDS)}"
    if op.has(_SEGMENTS) != op.has(_KINDS):
        return "EmbedLayerNormalization with segments or their table alone"
    if not op.has(_GIVEN) and op.shape(_PLACES)[0] < op.shape(_IDS)[1]:
        return "EmbedLayerNormalization of more tokens than it has positions for"
    return None


@lowers("EmbedLayerNormalization", domain=MICROSOFT)
def embedding(low: Lowering, op: Instance) -> None:
    batch, length = op.shape(_IDS)
    shape = (batch, length, op.shape(_WORDS)[1])
    _lengths(low, op)
    if not prod(shape):
        return
    terms = [_gathered(low, low.rows(_WORDS), low.rows(_IDS), shape), _places(low, op, shape)]
    if op.has(_SEGMENTS):
        terms.append(_gathered(low, low.rows(_KINDS), low.rows(_SEGMENTS), shape))
    factors = [low.view(i).broadcast(shape) for i in (_SCALE, _BIAS) if op.has(i)]
    results = [low.output(0), *([low.output(2)] if op.wants(2) else [])]
    built = _program(op, len(terms), results)
    call(low, built, shape, (2,), [*terms, *factors], results, [True] * len(results))


def _program(op: Instance, terms: int, results: Sequence[Tensor]) -> Built:
    """The normalized sum of so many terms, scaled; and the sum."""
    d = Draft()
    total: Ref | None = None
    for k in range(terms):
        term = d.cast(d.operand(("term", k), op.dtype(_WORDS), True), "f32")
        total = term if total is None else d.step("Add", total, term)
    assert total is not None
    y, _, _ = standardized(d, total, op.float32("epsilon", 1e-12))
    for index, name in ((_SCALE, "Mul"), (_BIAS, "Add")):
        if op.has(index):
            factor = d.cast(d.operand(name, op.dtype(index), True), "f32")
            y = d.step(name, y, factor)
    found = [d.cast(v, t.dtype) for v, t in zip((y, total), results, strict=False)]
    return d.finish(found)


def _gathered(low: Lowering, table: Tensor, places: Tensor, shape: Sequence[int]) -> Tensor:
    """Rows of a table, each checked to be there."""
    size, row = table.shape[0], table.shape[1] * BYTES[table.dtype]
    count = prod(places.shape)
    target = low.new(table.dtype, shape)
    words: list[Tensor | int] = [table, places, target, count, 0, size * row, row, size, row]
    low.call(GatherRows(places.dtype, 1, short(row)), words, count, grain_of(row))
    return target


def _places(low: Lowering, op: Instance, shape: tuple[int, ...]) -> Tensor:
    """Rows of the table of positions: as given, or one after another."""
    table = low.rows(_PLACES)
    if op.has(_GIVEN):
        given = low.rows(_GIVEN)
        rows = _gathered(low, table, given, (*given.shape, shape[2]))
        return rows.broadcast(shape)
    return table.sliced((0, 0), (shape[1], shape[2])).broadcast(shape)


def _lengths(low: Lowering, op: Instance) -> None:
    """Output 1: the sum of the mask, 0 without one."""
    if not op.wants(1):
        return
    target = low.output(1)
    if not op.has(_MASK):
        low.fill(target, 0)
        return
    mask = low.view(_MASK)
    d = Draft()
    built = d.finish([d.cast(d.fold(ADD, d.operand("mask", mask.dtype, True)), target.dtype)])
    one_each = target.reshaped((*target.shape, 1))
    assert one_each is not None
    call(low, built, mask.shape, (1,), [mask], [one_each.broadcast(mask.shape)], [False])


def call(
    low: Lowering,
    built: Built,
    shape: Sequence[int],
    axes: Sequence[int],
    operands: Sequence[Tensor],
    outputs: Sequence[Tensor],
    elements: Sequence[bool],
) -> None:
    """One row program over tensors of one shape."""
    given = [t.view for t in operands], [t.view for t in outputs]
    laid = lay(built, shape, axes, *given, elements)
    words: list[Tensor | int] = [*operands, *outputs, *laid.integers]
    low.call(
        laid.spec, words, laid.items, laid.grain, laid.scratch, laid.flops,
        overwrites=overwrites(laid.spec),
    )  # fmt: skip
