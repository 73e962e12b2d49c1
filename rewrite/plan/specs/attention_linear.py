"""Linear attention as a kernel: a state that is read by queries and written by keys and values.

In: nothing. Out: `LinearAttention`, its integer words, the memory it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from rewrite.plan.spec import Spec

_WIDEST = 64  # elements of a strip of columns at most


@dataclass(frozen=True, slots=True)
class LinearAttention(Spec):
    """For each step t of a sequence, with a state S (head, value) of each batch and head:

        S = decay S                                      if there is a decay
        v = beta (v - S' k)                              if there is a beta
        S = S + k v'            o = scale q' S           for each query head that shares S

    All in float32. Decays are factors already, one for each head, or for each element of a key
    (`by_element`), in float32.

    Words: q, k, v, then past, decay, beta if there are, o, then present if it is wanted; then
    `Integers`. Items: (batch, head of keys).
    """

    dtype: str
    state: str
    head: int
    value: int
    past: bool = False
    decay: bool = False
    by_element: bool = False
    beta: bool = False
    present: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        optional = [name for name in ("past", "decay", "beta") if getattr(self, name)]
        return ("q", "k", "v", *optional, "o", *(["present"] if self.present else []))


@dataclass(frozen=True, slots=True)
class Integers:
    """Strides in elements; heads of q, k, v and o lie side by side in a row."""

    heads: int  # of keys
    group: int  # query heads of each
    steps: int
    q_b: int
    q_t: int
    k_b: int
    k_t: int
    v_b: int
    v_t: int
    o_b: int
    o_t: int
    decay_b: int
    decay_t: int
    decay_h: int
    beta_b: int
    beta_t: int
    beta_h: int
    scale: int  # the bits of a float64

    def words(self) -> list[int]:
        return [getattr(self, field.name) for field in fields(self)]


INTEGERS = tuple(field.name for field in fields(Integers))


def scratch_of(spec: LinearAttention) -> int:
    """The state of one strip of columns."""
    return 4 * spec.head * _WIDEST + 64
