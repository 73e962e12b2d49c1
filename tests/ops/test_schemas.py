"""Schemas against the installed onnx and onnxruntime."""

from __future__ import annotations

import json

import onnx
import onnx.defs
import pytest

from rewrite.ops import schemas
from rewrite.ops.contrib import generate
from rewrite.schema import DTYPES


def test_element_types_are_those_of_onnx() -> None:
    known = {value for name, value in onnx.TensorProto.DataType.items() if name != "UNDEFINED"}
    assert set(DTYPES.values()) == known


def test_every_schema_from_opset_7_on_is_presented_in_order() -> None:
    every: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            every.setdefault(schema.name, set()).add(schema.since_version)
    for name, found in every.items():
        at_seven = max((v for v in found if v <= 7), default=None)
        wanted = sorted(v for v in found if v > 7 or v == at_seven)
        assert [s.since for s in schemas.versions("", name)] == wanted, name


def test_lookup_takes_the_version_in_force() -> None:
    def since(name: str, opset: int) -> int | None:
        schema = schemas.lookup("", name, opset)
        return None if schema is None else schema.since

    assert since("ReduceMean", 17) == 13
    assert since("ReduceMean", 18) == 18
    assert since("Clip", 7) == 6
    assert since("Gelu", 19) is None
    assert since("NoSuchOperator", 20) is None
    assert schemas.lookup("ai.onnx", "Relu", 20) == schemas.lookup("", "Relu", 20)
    assert schemas.newest_opset() == onnx.defs.onnx_opset_version()


def test_defaults_are_plain_values() -> None:
    batchnorm = schemas.lookup("", "BatchNormalization", 15)
    assert batchnorm is not None
    assert batchnorm.attributes["epsilon"].default == pytest.approx(1e-5, rel=1e-6)
    assert batchnorm.attributes["training_mode"].default == 0
    mvn = schemas.lookup("", "MeanVarianceNormalization", 13)
    assert mvn is not None
    assert mvn.attributes["axes"].default == (0, 2, 3)
    gelu = schemas.lookup("", "Gelu", 20)
    assert gelu is not None
    assert gelu.attributes["approximate"].default == "none"
    cast = schemas.lookup("", "Cast", 13)
    assert cast is not None
    assert cast.attributes["to"].required


def test_types_and_options() -> None:
    conv = schemas.lookup("", "Conv", 11)
    assert conv is not None
    assert [(p.name, p.option) for p in conv.inputs] == [
        ("X", "single"), ("W", "single"), ("B", "optional"),
    ]  # fmt: skip
    assert conv.types["T"] == {"f16", "f32", "f64"}
    concat = schemas.lookup("", "Concat", 13)
    assert concat is not None
    assert concat.inputs[0].option == "variadic"
    topk = schemas.lookup("", "TopK", 13)
    assert topk is not None
    assert topk.outputs[1].type == "I"
    assert topk.types["I"] == {"s64"}
    upsample = schemas.lookup("", "Upsample", 12)
    assert upsample is not None
    assert upsample.deprecated


def test_ml_domain_keeps_its_own_numbers() -> None:
    assert [s.since for s in schemas.versions("ai.onnx.ml", "LabelEncoder")] == [1, 2, 4]


CONTRIB_DEFAULTS = [
    ("com.microsoft", "QuickGelu", "alpha", 1.702),
    ("com.microsoft", "FusedMatMul", "alpha", 1.0),
    ("com.microsoft", "FusedMatMul", "transA", 0),
    ("com.microsoft", "FusedMatMul", "transBatchB", 0),
    ("com.microsoft", "SkipLayerNormalization", "epsilon", 1e-12),
    ("com.microsoft", "EmbedLayerNormalization", "epsilon", 1e-12),
    ("", "SimplifiedLayerNormalization", "epsilon", 1e-5),
    ("", "SimplifiedLayerNormalization", "axis", -1),
    ("com.microsoft", "FusedConv", "activation", None),
    ("com.microsoft", "FusedConv", "group", 1),
    ("com.microsoft", "FusedGemm", "activation", None),
    ("com.microsoft", "MultiHeadAttention", "mask_filter_value", -10000.0),
    ("com.microsoft", "MultiHeadAttention", "scale", None),
    ("com.microsoft", "GroupQueryAttention", "do_rotary", 0),
    ("com.microsoft", "RotaryEmbedding", "scale", 1.0),
]


@pytest.mark.parametrize(("domain", "name", "attribute", "value"), CONTRIB_DEFAULTS)
def test_contrib_defaults(domain: str, name: str, attribute: str, value: float | None) -> None:
    schema = schemas.lookup(domain, name, 1)
    assert schema is not None
    default = schema.attributes[attribute].default
    assert default == (value if value is None else pytest.approx(value, rel=1e-6))


def test_contrib_file_is_what_the_installed_runtime_says() -> None:
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="the schemas are read from onnxruntime, which is not installed"
    )
    text = schemas.CONTRIB_FILE.read_text(encoding="utf-8")
    recorded = json.loads(text)["onnxruntime"]
    if onnxruntime.__version__ != recorded:
        pytest.skip(
            f"the file holds the schemas of onnxruntime {recorded}; {onnxruntime.__version__} is "
            "installed, whose schemas may differ"
        )
    assert generate.render(generate.collect()) == text
