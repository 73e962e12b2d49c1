"""The same as rewrite/ops/operands.py of ONNX Runtime's own operators (com.microsoft).

In: `Call`. Out: nothing; `InferenceError` (or `dims.SizeError`) where no run can succeed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite.ops import dims
from rewrite.ops.call import Call
from rewrite.ops.operands import Rule, Sizes, fit, one_of, size_at
from rewrite.schema import Dim


def check_microsoft(name: str, call: Call) -> None:
    """Raises where operands or attributes cannot be right."""
    for attribute in _POSITIVE.get(name, ()):
        if call.integer(attribute, 1) < 1:
            call.fail(f"{attribute} is {call.integer(attribute, 1)}")
    rule = _RULES.get(name)
    if rule is not None:
        rule(call)


_POSITIVE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("Attention", "QAttention", "MultiHeadAttention"), ("num_heads",)),
    "DynamicQuantizeLSTM": ("hidden_size",),
    "GroupQueryAttention": ("num_heads", "kv_num_heads"),
    "MatMulNBits": ("K", "N", "bits", "block_size"),
}


def _fit_all(call: Call, sizes: Sizes, patterns: Mapping[int, str]) -> None:
    for index, pattern in patterns.items():
        fit(call, index, pattern, sizes)


def _projected(call: Call) -> None:
    _fit_all(call, {}, {0: "batch steps inputs", 1: "inputs width", 2: "width"})


def _multi_head_attention(call: Call) -> None:
    ranks = [len(call.shape(i) or ()) if call.has(i) else 0 for i in range(3)]
    if ranks[0] != 3 or ranks[1] not in (3, 4) or ranks[2] != ranks[1]:
        return  # packed operands, or absent ones
    heads = call.integer("num_heads", 1)
    sizes: Sizes = {"heads": heads}
    fit(call, 0, "batch queries hidden", sizes)
    if ranks[1] == 3:
        _fit_all(call, sizes, {1: "batch keys hidden", 2: "batch keys values"})
        hidden, values = sizes.get("hidden"), sizes.get("values")
        if hidden is not None and values is not None:
            fit(call, 3, "biases", {"biases": dims.add(dims.mul(hidden, 2), values)})
            sizes["head"] = dims.quotient([hidden], [heads])
            sizes["value"] = dims.quotient([values], [heads])
    else:
        _fit_all(call, sizes, {1: "batch heads keys head", 2: "batch heads keys value"})
    _fit_all(call, sizes, {6: "batch heads past head", 7: "batch heads past value"})
    keys, past = sizes.get("keys"), sizes.get("past", 0)
    total = None if keys is None or call.has(8) else dims.add(keys, past)
    _masks(call, sizes, total)


def _masks(call: Call, sizes: Sizes, total: Dim | None) -> None:
    """Lengths, or a mask of the keys; what is added to the scores."""
    batch, lengths = sizes.get("batch"), call.length_of(4) if call.has(4) else None
    if lengths is not None and isinstance(batch, int) and lengths not in (batch, 3 * batch + 2):
        call.fail(f"{lengths} lengths for {batch} sequences")
    scores = call.shape(5) if call.has(5) else None
    if scores is None:
        return
    if len(scores) != 4:
        call.fail(f"what is added to the scores has rank {len(scores)}")
    wanted = (batch, sizes.get("heads"), sizes.get("queries"), total)
    for i, (n, m) in enumerate(zip(scores, wanted, strict=True)):
        if isinstance(n, int) and isinstance(m, int) and n != m and (i > 1 or n != 1):
            call.fail(f"what is added to the scores has {n} elements along axis {i}, not {m}")


def _group_query_attention(call: Call) -> None:
    if not call.has(1):  # packed along the last dimension
        return
    heads = call.integer("kv_num_heads", 1)
    sizes: Sizes = {"heads": heads}
    _fit_all(call, sizes, {0: "batch steps _", 1: "batch steps width", 2: "batch steps width"})
    width = sizes.get("width")
    if width is not None:
        sizes["head"] = dims.quotient([width], [heads])
    past = "batch heads room head"
    _fit_all(call, sizes, {3: past, 4: past, 5: "batch *", 7: "places half", 8: "places half"})


def _last_bias(call: Call) -> None:
    last = size_at(call, 0, -1)
    fit(call, 1, "bias", {} if last is None else {"bias": last})


def _by_column(*parameters: int, bias: int | None = None, transposes: bool = False) -> Rule:
    """Scales and zero points of B, one or one for each of its columns."""

    def rule(call: Call) -> None:
        matrix = 3 if transposes else 1
        turned = transposes and call.integer("transB", 0) != 0
        columns = size_at(call, matrix, 0 if turned else -1)
        for index in parameters:
            one_of(call, index, columns, f"operand {index}")
        if bias is not None and columns is not None:
            fit(call, bias, "columns", {"columns": columns})

    return rule


def _matmul_n_bits(call: Call) -> None:
    k, n = call.integer("K", 1), call.integer("N", 1)
    bits, block = call.integer("bits", 4), call.integer("block_size", 32)
    blocks = -(-k // block)
    fit(call, 1, "rows blocks bytes",
        {"rows": n, "blocks": blocks, "bytes": -(-block * bits // 8)})  # fmt: skip
    last = size_at(call, 0, -1)
    if isinstance(last, int) and last != k:
        call.fail(f"a row of A has {last} elements, not {k}")
    packed = n * (-(-blocks * bits // 8))
    zeros = n * blocks if call.type(3).dtype != "u8" else packed
    wanted_of = {2: (n * blocks, "scales"), 3: (zeros, "zero points"), 5: (n, "bias")}
    for index, (wanted, what) in wanted_of.items():
        shape = call.shape(index) if call.has(index) else None
        count = None if shape is None else dims.product(shape)
        if isinstance(count, int) and count != wanted:
            call.fail(f"{count} elements of {what}, not {wanted}")


def _embed_layer_normalization(call: Call) -> None:
    _fit_all(call, {}, {
        0: "batch steps", 1: "batch steps", 2: "_ hidden", 3: "_ hidden", 4: "_ hidden",
        5: "hidden", 6: "hidden", 7: "batch steps", 8: "_ steps",
    })  # fmt: skip


def _dynamic_quantize_lstm(call: Call) -> None:
    directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
    hidden = call.integer("hidden_size", 0) or size_at(call, 2, 1)
    if hidden is None:
        return
    sizes: Sizes = {
        "directions": directions, "hidden": hidden, "gates": dims.mul(hidden, 4),
        "biases": dims.mul(hidden, 8), "peepholes": dims.mul(hidden, 3),
    }  # fmt: skip
    state = "directions batch hidden"
    _fit_all(call, sizes, {
        0: "_ batch inputs", 1: "directions inputs gates", 2: "directions hidden gates",
        3: "directions biases", 4: "batch", 5: state, 6: state, 7: "directions peepholes",
        8: "directions *", 9: "directions *", 10: "directions *", 11: "directions *",
    })  # fmt: skip


def _rotary_embedding(call: Call) -> None:
    _fit_all(call, {}, {2: "places half", 3: "places half"})


def _softmax(call: Call) -> None:
    shape = call.shape(0)
    if shape is not None:
        call.axis(call.integer("axis", -1), len(shape))


_RULES: Mapping[str, Rule] = {
    "Attention": _projected,
    "BiasGelu": _last_bias,
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": _by_column(2, 3, bias=4),
    "EmbedLayerNormalization": _embed_layer_normalization,
    "FastGelu": _last_bias,
    "GroupQueryAttention": _group_query_attention,
    "MatMulIntegerToFloat": _by_column(3, 5, bias=6),
    "MatMulNBits": _matmul_n_bits,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _projected,
    "QGemm": _by_column(4, 5, transposes=True),
    "QLinearSoftmax": _softmax,
    "RotaryEmbedding": _rotary_embedding,
}
