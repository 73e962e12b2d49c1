"""LinearAttention of ONNX.

In: instances. Out: the factors of decay as a pointwise kernel, and a call of the recurrence.
"""

from __future__ import annotations

from rewrite.plan.lower.attention_call import neighbours
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.attention import bits_of
from rewrite.plan.specs.attention_linear import Integers, LinearAttention, scratch_of

Q, K, V, PAST, DECAY, BETA = range(6)
_TYPES = frozenset({"f16", "bf16", "f32"})


@refuses("LinearAttention")
def linear_attention_refusal(op: Instance) -> str | None:
    given = [op.dtype(i) for i in range(BETA + 1) if op.has(i)]
    if not _TYPES.issuperset(given):
        return f"LinearAttention of {op.dtype(Q)}"
    heads, shared = op.integer("q_num_heads", 0), op.integer("kv_num_heads", 0)
    if heads < 1 or shared < 1 or heads % shared or any(len(op.shape(i)) != 3 for i in (Q, K, V)):
        return "LinearAttention whose heads do not divide its operands"
    if op.has(DECAY) and op.shape(DECAY)[-1] not in (shared, op.shape(K)[-1]):
        return "LinearAttention with a decay of another width"
    return None


@lowers("LinearAttention")
def linear_attention(low: Lowering, op: Instance) -> None:
    heads, shared = op.integer("q_num_heads", 1), op.integer("kv_num_heads", 1)
    batch, steps, width = op.shape(Q)
    head, value = width // heads, op.shape(V)[2] // shared
    q, k, v = (neighbours(low, low.view(i)) for i in (Q, K, V))
    out = low.output(0)
    operands = {"q": q, "k": k, "v": v, "o": out}
    if op.has(PAST):
        operands["past"] = low.rows(PAST)
    decay, beta = (0, 0, 0), (0, 0, 0)
    if op.has(DECAY):
        operands["decay"] = _factors(low, low.view(DECAY))
        each = op.shape(DECAY)[2] // shared
        decay = (*_outer(operands["decay"]), each)
    if op.has(BETA):
        operands["beta"] = neighbours(low, low.view(BETA))
        beta = (*_outer(operands["beta"]), 1 if op.shape(BETA)[2] != 1 else 0)
    if op.wants(1):
        operands["present"] = low.output(1)
    spec = LinearAttention(
        dtype=op.dtype(Q),
        state=op.out_dtype(1) if op.wants(1) else op.dtype(PAST if op.has(PAST) else Q),
        head=head,
        value=value,
        past=op.has(PAST),
        decay=op.has(DECAY),
        by_element=op.has(DECAY) and op.shape(DECAY)[2] != shared,
        beta=op.has(BETA),
        present=op.wants(1),
    )
    integers = Integers(
        shared, heads // shared, steps, *_outer(q), *_outer(k), *_outer(v), *_outer(out),
        *decay, *beta, bits_of(op.number("scale", 0.0) or head**-0.5),
    )  # fmt: skip
    low.call(
        spec,
        [*(operands[name] for name in spec.operands), *integers.words()],
        batch * shared,
        scratch=scratch_of(spec),
        flops=2 * batch * steps * head * value * (shared + heads),
    )


def _outer(tensor: Tensor) -> tuple[int, int]:
    b, t, _ = tensor.view.strides
    return b, t


def _factors(low: Lowering, decay: Tensor) -> Tensor:
    """e^decay in float32."""
    made = low.new("f32", decay.shape)
    steps = [Step("", "Exp", (0,), "f32")]
    if decay.dtype != "f32":
        steps = [
            Step("", "Cast", (0,), "f32", (("saturate", 1),), 22), Step("", "Exp", (1,), "f32"),
        ]  # fmt: skip
    low.pointwise(Body((decay.dtype,), tuple(steps), (len(steps),)), [decay], [made])
    return made
