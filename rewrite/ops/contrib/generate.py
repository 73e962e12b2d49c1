"""Writes `com_microsoft.json` from the installed ONNX Runtime.

In: `onnxruntime`'s operator schema list. Out: the file, facts only: names, versions, operands,
attributes with kinds and defaults, type constraints. Run it once per ONNX Runtime release:

    python -m rewrite.ops.contrib.generate
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rewrite.ops.dtypes import from_type_string

OUTPUT = Path(__file__).with_name("com_microsoft.json")

# Operators outside com.microsoft that ONNX Runtime registers and its optimizer writes.
EXTRA = frozenset({("", "SimplifiedLayerNormalization")})

# What the kernels use where the schema states no default: read in their `GetAttrOrDefault`
# calls and in the attribute descriptions. A scale of attention has no constant default
# (1/sqrt(head size)), nor have strides, pads and dilations (their length is the spatial rank).
_ROTARY = {
    "interleaved": 0, "is_packed_batching": 0, "num_heads": 0, "rotary_embedding_dim": 0,
    "scale": 1.0,
}  # fmt: skip
_ATTENTION = {"do_rotary": 0, "mask_filter_value": -10000.0, "past_present_share_buffer": 0}
IMPLICIT: Mapping[str, Mapping[str, int | float | str]] = {
    "Attention": {**_ATTENTION, "rotary_embedding_dim": 0},
    "DecoderAttention": {"mask_filter_value": -10000.0},
    "DecoderMaskedMultiHeadAttention": {
        "mask_filter_value": -10000.0, "output_qk": 0, "past_present_share_buffer": 0,
    },
    "DecoderMaskedSelfAttention": _ATTENTION,
    "DequantizeLinear": {"axis": 1},
    "GroupQueryAttention": {"do_rotary": 0, "rotary_interleaved": 0, "softcap": 0.0},
    "MRotaryEmbedding": {**_ROTARY, "mrope_layout": 0},
    "MultiHeadAttention": {"mask_filter_value": -10000.0},
    "PackedMultiHeadAttention": {"mask_filter_value": -10000.0},
    "PagedAttention": {
        "do_rotary": 0, "qk_norm_epsilon": 1e-6, "rotary_interleaved": 0, "rotary_offset": 0,
        "softcap": 0.0, "v_head_size": 0,
    },
    "QAttention": _ATTENTION,
    "QuantizeLinear": {"axis": 1},
    "RotaryEmbedding": _ROTARY,
    "SparseAttention": {"do_rotary": 0, "rotary_interleaved": 0},
}  # fmt: skip


def collect() -> dict[str, Any]:
    """The content of the file, for the installed version."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    wanted = [s for s in native.get_all_operator_schema() if _wanted(s.domain, s.name)]
    records = sorted((_record(s) for s in wanted), key=lambda r: (r["domain"], r["name"]))
    return {"onnxruntime": onnxruntime.__version__, "operators": records}


def _wanted(domain: str, name: str) -> bool:
    return domain == "com.microsoft" or (domain, name) in EXTRA


def _record(schema: Any) -> dict[str, Any]:
    constraints = {c.type_param_str: _dtypes(c.allowed_type_strs) for c in schema.type_constraints}
    implicit = IMPLICIT.get(schema.name, {})
    return {
        "domain": schema.domain,
        "name": schema.name,
        "since": schema.since_version,
        "inputs": [_operand(p) for p in schema.inputs],
        "outputs": [_operand(p) for p in schema.outputs],
        "attributes": {
            name: _attribute(schema.attributes[name], implicit.get(name))
            for name in sorted(schema.attributes)
        },
        "types": {name: constraints[name] for name in sorted(constraints)},
    }


def _operand(parameter: Any) -> list[str | bool]:
    """[name, option, type], and false where variadic tensors differ in their element type"""
    option = str(parameter.option).rpartition(".")[2].lower()
    record: list[str | bool] = [parameter.name, option, parameter.typeStr]
    return record if parameter.isHomogeneous else [*record, False]


def _attribute(attribute: Any, implicit: int | float | str | None) -> list[Any]:
    """[kind, required, default]"""
    import onnx

    kind = str(attribute.type).rpartition(".")[2].lower()
    raw = attribute._default_value
    if not raw:
        return [kind, attribute.required, implicit]
    value = onnx.helper.get_attribute_value(onnx.AttributeProto.FromString(raw))
    return [kind, attribute.required, value.decode() if isinstance(value, bytes) else value]


def _dtypes(type_strings: Iterable[str]) -> list[str]:
    found = {from_type_string(text) for text in type_strings}
    return sorted(name for name in found if name is not None)


def render(data: Mapping[str, Any]) -> str:
    """One operator a line, so that a new release shows as a readable difference."""
    rows = ",\n".join(json.dumps(record, separators=(",", ":")) for record in data["operators"])
    return f'{{"onnxruntime":"{data["onnxruntime"]}","operators":[\n{rows}\n]}}\n'


def main() -> None:
    OUTPUT.write_text(render(collect()), encoding="utf-8")


if __name__ == "__main__":
    main()
