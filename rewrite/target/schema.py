"""Every key that a target file may have, with its kind and meaning, in one table.

In: nothing. Out: `TARGET`, and what is generated from it: `json_schema()` (targets/schema.json) and
`key_table()` (docs/targets.md).
"""

from __future__ import annotations

import json

from rewrite.schema import DTYPES
from rewrite.target.kinds import Flag, Key, Kind, ListOf, MapOf, Number, Pair, Table, Text, Word
from rewrite.target.requantize import MODES, ROUNDINGS

_DTYPE = Word("dtype")
_OPERATORS = ListOf(Word("operator"))
_MEMBERS = ListOf(Word("operator or class"))
_COUNT = Number(integer=True, least=1)
_POWER = Number(integer=True, least=1, most=1 << 20, power=True)
_POSITIVE = Number(least=0)
_NATURAL = Number(integer=True, least=0)
_GRANULARITY = ListOf(Text(("tensor", "channel", "block")))
_ZERO_POINT = Text(("zero", "any"))

FIXED = Table(
    {
        "dtype": Key(_DTYPE, "element type of the codes", required=True),
        "scale": Key(_POSITIVE, "the scale that they must have", required=True),
        "zp": Key(Number(integer=True), "the zero point that they must have", required=True),
    }
)

LIMITS = Table(
    {
        "dtypes": Key(ListOf(_DTYPE), "element types it takes as first operand"),
        "rank": Key(Pair(_NATURAL), "ranks it takes as first operand"),
        "constant": Key(ListOf(_NATURAL), "operands that must be constant"),
        "static": Key(Flag(), "whether every size must be known"),
        "sizes": Key(Pair(_NATURAL), "sizes of every dimension of operands"),
        "batch": Key(
            Pair(_NATURAL), "sizes of the first of four dimensions or more of the first operand"
        ),
        "kernel": Key(Pair(_COUNT), "sizes of the window in each direction"),
        "kernel_height": Key(Pair(_COUNT), "size of the dilated window in its first direction"),
        "kernel_area": Key(Pair(_COUNT), "product of the sizes of the dilated window"),
        "strides": Key(Pair(_COUNT), "strides in each direction"),
        "weight_sum": Key(_COUNT, "most that magnitudes of the weights of one output sum up to"),
        "weight_zero_point": Key(_ZERO_POINT, "zero points allowed for its weights"),
        "granularity": Key(_GRANULARITY, "what one scale of its weights may cover"),
        "same_qparams": Key(
            ListOf(_NATURAL, or_all=True),
            "operands that must have the scale and zero point of the output",
        ),
        "fixed_qparams": Key(ListOf(FIXED), "scale and zero point that its output must have"),
        "forbidden": Key(_OPERATORS, "operators that cannot be in one group with it"),
        "note": Key(Text(), "a limit that is not checked, in words"),
    }
)

FUSED = Table(
    {
        "operators": Key(_OPERATORS, "what it replaces, in order", required=True),
        "note": Key(Text(), "a limit in words"),
    }
)

GROUP = Table(
    {
        "prologue": Key(_MEMBERS, "operators a group may have before its head"),
        "heads": Key(_MEMBERS, "operators that make a group of this kind", required=True),
        "epilogue": Key(_MEMBERS, "operators a group may have after its first head"),
        "most_heads": Key(_COUNT, "how many heads one group may have (1)"),
        "most": Key(_COUNT, "how many operators one group may have (8)"),
    }
)

INTERMEDIATE = Table(
    {
        "bits": Key(_COUNT, "bits of a sum on the way to the accumulator", required=True),
        "terms": Key(_COUNT, "products that such a sum has", required=True),
        "saturates": Key(Flag(), "whether it saturates (else it wraps)", required=True),
        "avoidable": Key(Flag(), "whether there is another, exact instruction (true)"),
        "instruction": Key(Text(), "the instruction that makes it"),
    }
)

ARITHMETIC = Table(
    {
        "activation": Key(_DTYPE, "element type of the data", required=True),
        "weight": Key(_DTYPE, "element type of the weights", required=True),
        "bias": Key(_DTYPE, "element type of the bias"),
        "bias_bits": Key(_COUNT, "bits of the bias, where fewer than its type has"),
        "accumulator": Key(_DTYPE, "element type of the sum", required=True),
        "accumulator_bits": Key(_COUNT, "bits of the sum, where fewer than its type has"),
        "intermediate": Key(INTERMEDIATE, "narrower sums on the way to the accumulator"),
        "activation_zero_point": Key(_ZERO_POINT, "zero points allowed for the data"),
        "weight_zero_point": Key(_ZERO_POINT, "zero points allowed for weights"),
        "weight_range": Key(Pair(Number(integer=True)), "codes that weights may use"),
        "granularity": Key(_GRANULARITY, "what one scale of the weights may cover"),
    }
)

REQUANTIZE = Table(
    {
        "mode": Key(Text(tuple(MODES)), "how the scale is applied", required=True),
        "multiplier_bits": Key(_COUNT, "bits of a fixed multiplier (as the mode has)"),
        "shift": Key(Pair(Number(integer=True)), "right shifts after a fixed multiplier"),
        "scale": Key(Pair(_POSITIVE), "ratios input × weight / output it takes"),
        "rounding": Key(Text(ROUNDINGS), "what happens to a tie (as the mode has)"),
        "zero_point": Key(
            Text(("after_rounding", "before_rounding")),
            "whether the zero point is added after or before rounding (after)",
        ),
        "saturate": Key(Flag(), "whether the result saturates (else it wraps)"),
    }
)

LUT = Table(
    {
        "entries": Key(_COUNT, "entries of a table", required=True),
        "bits": Key(_COUNT, "bits of the codes that it is looked up with", required=True),
        "interpolated": Key(Flag(), "whether entries between are interpolated"),
    }
)

ACTIVATION = Table(
    {
        "kinds": Key(_OPERATORS, "operators that become part of what they follow", required=True),
        "arbitrary_clamp": Key(Flag(), "whether Clip may have any bounds"),
        "clamps": Key(ListOf(Pair(Number())), "bounds that Clip may have, where not any"),
        "same_scale_required": Key(
            Flag(), "whether the codes before and after must have one scale and zero point"
        ),
    }
)

ISA = Table(
    {
        "triple": Key(Text(), "LLVM target triple; `native` is this machine", required=True),
        "cpu": Key(Text(), "LLVM cpu name; `native` is this machine's"),
        "features": Key(ListOf(Text()), "LLVM features, each with + or -"),
    }
)

MEMORY = Table(
    {
        "bytes": Key(_COUNT, "size", required=True),
        "bytes_per_second": Key(_POSITIVE, "what one kernel can move"),
    }
)

LAYOUT = Table(
    {
        "name": Key(Text(), "what the target calls it", required=True),
        "order": Key(Text(), "axes from slow to fast, as NHWC", required=True),
        "tile": Key(MapOf(Text(), _COUNT), "axis → what it is padded to"),
        "pad": Key(Text(("zero", "zero_point")), "what padding holds"),
    }
)

COST = Table(
    {
        "launch_seconds": Key(_POSITIVE, "fixed cost of one kernel"),
        "bytes_per_second": Key(_POSITIVE, "main memory"),
        "flops_per_second": Key(_POSITIVE, "float multiply-adds, times two"),
        "int8_ops_per_second": Key(_POSITIVE, "8-bit multiply-adds, times two"),
        "registers": Key(_COUNT, "vector registers"),
    }
)

TARGET = Table(
    {
        "doc": Key(Text(), "what the target is, one sentence", required=True),
        "extends": Key(Text(), "the target whose facts this one starts from"),
        "packs": Key(ListOf(Word("pack")), "rule packs, in order", required=True),
        "opset": Key(
            Pair(Number(integer=True, least=1, most=99)), "ONNX opsets it takes", required=True
        ),
        "groups": Key(
            Flag(), "whether fused groups may be outlined as local functions", required=True
        ),
        "operators": Key(
            ListOf(Word("operator"), or_all=True),
            "operators it runs; `all` is any standard operator",
            required=True,
        ),
        "decomposed": Key(_OPERATORS, "operators it runs by their ONNX function body"),
        "limits": Key(MapOf(Word("operator"), LIMITS), "limits of single operators"),
        "promotes": Key(
            MapOf(_DTYPE, _DTYPE), "element types it computes in another, by casts of its own"
        ),
        "fused": Key(ListOf(FUSED), "sequences it has one kernel for"),
        "fuses": Key(MapOf(Text(), GROUP), "kinds of group it takes; needs `groups`"),
        "dtypes": Key(ListOf(ARITHMETIC), "arithmetic of its contractions"),
        "requantize": Key(REQUANTIZE, "how an accumulator becomes a code"),
        "activation_fusion": Key(ACTIVATION, "functions that end a contraction for free"),
        "lut": Key(ListOf(LUT), "tables that it computes functions of codes with"),
        "partition": Key(
            Text(("any", "single")),
            "`single`: what comes after the first operator that is not taken is not taken either",
        ),
        "isa": Key(ISA, "what code is compiled for"),
        "vector_bytes": Key(_POWER, "width of a vector register"),
        "align_bytes": Key(_POWER, "alignment that vector accesses need"),
        "memories": Key(MapOf(Text(), MEMORY), "memories, from near to far"),
        "layouts": Key(ListOf(LAYOUT), "tensor layouts it works on"),
        "cost": Key(COST, "what the cost model reckons with"),
    }
)


def json_schema() -> str:
    """The text of targets/schema.json."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rewrite target",
        "$defs": {"dtype": {"type": "string", "enum": list(DTYPES)}},
    }
    return json.dumps({**head, **TARGET.json_schema()}, indent=1) + "\n"


def key_table() -> str:
    """The table of keys in docs/targets.md."""
    rows = ["| key | kind | meaning |", "|---|---|---|"]
    for name, key in TARGET.keys.items():
        rows += _rows(name, key)
    return "\n".join(rows) + "\n"


def _rows(path: str, key: Key) -> list[str]:
    mark = " (required)" if key.required else ""
    rows = [f"| `{path}` | {key.kind.label()} | {key.doc}{mark} |"]
    inner, suffix = _inside(key.kind)
    if inner is not None:
        for name, nested in inner.keys.items():
            rows += _rows(f"{path}{suffix}.{name}", nested)
    return rows


def _inside(kind: Kind) -> tuple[Table | None, str]:
    if isinstance(kind, Table):
        return kind, ""
    if isinstance(kind, ListOf) and isinstance(kind.item, Table):
        return kind.item, "[]"
    if isinstance(kind, MapOf) and isinstance(kind.value, Table):
        return kind.value, ".*"
    return None, ""
