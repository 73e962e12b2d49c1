"""Every key that a target file may have, with its kind and meaning, in one table.

In: nothing. Out: `TARGET`, and what is generated from it: `json_schema()` (targets/schema.json) and
`key_table()` (docs/targets.md).
"""

from __future__ import annotations

import json

from rewrite.schema import DTYPES
from rewrite.target.kinds import Flag, Key, Kind, ListOf, MapOf, Number, Pair, Table, Text, Word

_DTYPE = Word("dtype")
_OPERATORS = ListOf(Word("operator"))
_MEMBERS = ListOf(Word("operator or class"))
_COUNT = Number(integer=True, least=1)
_POWER = Number(integer=True, least=1, most=1 << 20, power=True)
_POSITIVE = Number(least=0)

LIMITS = Table(
    {
        "dtypes": Key(ListOf(_DTYPE), "element types it takes as first operand"),
        "rank": Key(Pair(Number(integer=True, least=0)), "ranks it takes as first operand"),
        "constant": Key(ListOf(Number(integer=True, least=0)), "operands that must be constant"),
        "static": Key(Flag(), "whether every size must be known"),
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

ARITHMETIC = Table(
    {
        "activation": Key(_DTYPE, "element type of the data", required=True),
        "weight": Key(_DTYPE, "element type of the weights", required=True),
        "bias": Key(_DTYPE, "element type of the bias"),
        "accumulator": Key(_DTYPE, "element type of the sum", required=True),
        "weight_zero_point": Key(Text(("zero", "any")), "zero points allowed for weights"),
        "weight_range": Key(Pair(Number(integer=True)), "codes that weights may use"),
        "granularity": Key(
            ListOf(Text(("tensor", "channel", "block"))), "what one scale of the weights may cover"
        ),
    }
)

REQUANTIZE = Table(
    {
        "mode": Key(Text(("float", "fixed")), "how the scale is applied", required=True),
        "multiplier_bits": Key(_COUNT, "bits of a fixed multiplier"),
        "shift": Key(Pair(Number(integer=True)), "right shifts after a fixed multiplier"),
        "scale": Key(Pair(_POSITIVE), "ratios input × weight / output it takes"),
        "rounding": Key(
            Text(("half_even", "half_up", "half_away")), "what happens to a tie", required=True
        ),
        "zero_point": Key(
            Text(("after_rounding", "before_rounding")),
            "whether the zero point is added after or before rounding",
            required=True,
        ),
        "saturate": Key(Flag(), "whether the result saturates (else it wraps)"),
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
