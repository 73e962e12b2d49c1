"""What targets say about quantized arithmetic: modes, limits, questions, partitions."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from onnx import helper, parser

import rewrite
from rewrite.graph import io
from rewrite.lang import ast
from rewrite.lang.parser import parse
from rewrite.match.expr import compile_condition
from rewrite.match.values import Env
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.requantize import MODES
from rewrite.target.support import Call, unsupported
from rewrite.target.target import Fixed, Intermediate, Lut, Target
from tests.target.test_load import GOOD, VOCABULARY, problems, write


@cache
def target(name: str) -> Target:
    return load_target(name, vocabulary())


# --- the mode of requantization ----------------------------------------------------

# Rounding and width of the multiplier, from the documentation of each arithmetic: ONNX and MLAS
# round to even; gemmlowp's high product rounds up and its shift away from zero; one rounding shift
# and XNNPACK's rndnu round up; Vela's default is that of TensorFlow Lite.
ARITHMETIC = {
    "float": ("half_even", None),
    "onnx_qdq": ("half_even", None),
    "tflite_double": ("half_up_then_away", 32),
    "tflite_single": ("half_up", 32),
    "rndnu": ("half_up", 24),
    "vela": ("half_up_then_away", 32),
    "hvx": ("half_up", 32),
}


def test_every_mode_is_known():
    assert set(MODES) == set(ARITHMETIC)


@pytest.mark.parametrize("mode", ARITHMETIC)
def test_a_mode_implies_its_facts(tmp_path, mode):
    found = load_target(write(tmp_path, GOOD + f"requantize: {{mode: {mode}}}\n"), VOCABULARY)
    how = found.requantize
    assert how is not None
    assert (how.rounding, how.multiplier_bits) == ARITHMETIC[mode]
    assert (how.zero_point, how.saturate) == ("after_rounding", True)


def test_what_is_written_stands(tmp_path):
    text = GOOD + "requantize: {mode: vela, rounding: toward_zero, shift: [0, 63]}\n"
    how = load_target(write(tmp_path, text), VOCABULARY).requantize
    assert how is not None
    assert (how.rounding, how.shift, how.multiplier_bits) == ("toward_zero", (0, 63), 32)


# Text, and where the fact that does not fit begins.
CONTRADICTIONS = {
    "requantize: {mode: float, multiplier_bits: 32}": ("RW412", "32}", "no fixed multiplier"),
    "requantize: {mode: onnx_qdq, shift: [0, 31]}": ("RW412", "[0", "no fixed multiplier"),
    "requantize: {mode: rndnu, multiplier_bits: 32}": ("RW412", "32}", "24 bits"),
    "requantize: {mode: hvx, rounding: half_even}": ("RW412", "half_even", "rounds half_up"),
    "limits: {Conv: {fixed_qparams: [{dtype: s8, scale: 0.1, zp: 128}]}}": (
        "RW413",
        "128}",
        "128 is not a code of s8",
    ),
    "dtypes: [{activation: u8, weight: s4, accumulator: s32, weight_range: [-8, 8]}]": (
        "RW413",
        "[-8",
        "8 is not a code of s4",
    ),
    "dtypes: [{activation: u8, weight: s8, accumulator: s32, accumulator_bits: 40}]": (
        "RW413",
        "40}",
        "s32 has 32 bits, not 40",
    ),
    "activation_fusion: {kinds: [Relu], arbitrary_clamp: true, clamps: [[0, 6]]}": (
        "RW413",
        "[[0",
        "any bounds",
    ),
}


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_contradictions_are_positioned(tmp_path, text):
    code, place, message = CONTRADICTIONS[text]
    (found,) = problems(write(tmp_path, GOOD + text + "\n"))
    assert found[:3] == (code, 6, text.index(place) + 1)
    assert message in found[3]


def test_a_contradiction_with_what_is_inherited_is_at_its_place(tmp_path):
    base = write(tmp_path, GOOD + "requantize: {mode: hvx, multiplier_bits: 32}\n", "base")
    (found,) = problems(write(tmp_path, "doc: C.\nextends: base\nrequantize: {mode: float}\n"))
    assert found[:2] == ("RW412", 6)
    assert base.is_file()


# --- facts of the shipped targets ----------------------------------------------------


def test_modes_of_the_shipped_targets():
    modes = {
        "cortex-m": "tflite_double",
        "ethos-u55": "vela",
        "hexagon": "hvx",
        "host": "float",
        "x86-avx2": "float",
        "onnxruntime-cpu": "float",
    }
    for name, mode in modes.items():
        how = target(name).requantize
        assert how is not None
        assert how.mode == mode
    for name in ("generic", "edgetpu", "tensorrt"):  # no arithmetic of theirs is published
        assert target(name).requantize is None


def test_only_unsigned_by_signed_saturates_on_avx2():
    rows = {(r.activation, r.weight): r.intermediate for r in target("x86-avx2").dtypes}
    assert rows["u8", "s8"] == Intermediate(16, 2, True, True, "vpmaddubsw")
    assert rows["u8", "u8"] is None
    assert rows["s8", "s8"] is None


def test_parameters_that_tensorflow_lite_fixes():
    """TensorFlow Lite 8-bit quantization specification: LOGISTIC, TANH, SOFTMAX, LOG_SOFTMAX."""
    cortex = target("cortex-m")
    fixed = {
        "Sigmoid": (1 / 256, -128),
        "Softmax": (1 / 256, -128),
        "Tanh": (1 / 128, 0),
        "LogSoftmax": (16 / 256, 127),
        "LpNormalization": (1 / 128, 0),
    }
    for name, (scale, zp) in fixed.items():
        assert cortex.fixed_qparams(("", name), "s8") == Fixed("s8", scale, zp)
    assert cortex.fixed_qparams(("", "Sigmoid"), "u8") is None
    assert target("hexagon").fixed_qparams(("", "Tanh"), "u16") == Fixed("u16", 1 / 32768, 32768)


@pytest.mark.parametrize("name", ["cortex-m", "ethos-u55", "edgetpu"])
def test_operators_that_keep_parameters(name):
    found = target(name)
    for operator in ("Concat", "Max", "Min", "MaxPool", "Reshape"):
        if (name, operator) == ("ethos-u55", "Concat"):
            continue  # Vela scales each operand of a concatenation
        assert found.same_qparams(("", operator)), operator
    assert not found.same_qparams(("", "Add"))
    assert found.same_qparams(("", "Max"), 1)


def test_positions_that_keep_parameters():
    assert target("cortex-m").same_qparams(("", "Pad"), 0)
    assert not target("cortex-m").same_qparams(("", "Pad"), 1)


def test_granularity_of_weights():
    assert target("hexagon").takes_scales(("", "Conv"), "channel")
    assert not target("hexagon").takes_scales(("", "MatMul"), "channel")
    assert target("tensorrt").takes_scales(("", "MatMul"), "block")
    assert not target("generic").takes_scales(("", "MatMul"), "channel")


def test_activations_that_end_a_kernel():
    ethos = target("ethos-u55")
    assert ethos.fuses_activation(("", "Tanh"), None)
    assert ethos.fuses_activation(("", "Clip"), (0.0, 6.0))
    assert not ethos.fuses_activation(("", "Clip"), (0.0, 5.0))
    assert target("cortex-m").fuses_activation(("", "Clip"), (0.0, 5.0))
    assert not target("onnxruntime-cpu").fuses_activation(("", "Relu"), None)
    fusion = ethos.activation_fusion
    assert fusion is not None
    assert fusion.same_scale_required


def test_tables():
    assert target("hexagon").table(8) == Lut(256, 8)
    assert target("hexagon").table(16) is None
    assert target("ethos-u55").table(16) == Lut(512, 16, True)


def test_operators_that_are_not_in_one_group():
    """Vela takes no Sigmoid behind an average pool, and Relu and Clip only."""
    pool, relu, sigmoid = ("", "AveragePool"), ("", "Relu"), ("", "Sigmoid")
    assert target("ethos-u55").fuses([pool, relu])
    assert not target("ethos-u55").fuses([pool, sigmoid])


# --- limits on one operator ----------------------------------------------------

IMAGE = (1, 8, 32, 32)
CONV = {"operator": ("", "Conv"), "rank": 4, "constant": (False, True)}
WINDOWS = [
    ({"kernel": (3, 3)}, None),
    ({"kernel": (64, 64)}, None),
    ({"kernel": (65, 1)}, "takes a window height of 1 to 64, not 65"),
    ({"kernel": (64, 65)}, "takes a window area of 1 to 4096, not 4160"),
    ({"kernel": (22, 1), "dilations": (3, 1)}, None),
    ({"kernel": (23, 1), "dilations": (3, 1)}, "takes a window height of 1 to 64, not 67"),
    ({"kernel": (3, 3), "strides": (3, 3)}, None),
    ({"kernel": (3, 3), "strides": (1, 4)}, "takes strides of 1 to 3, not 4"),
    ({"shapes": ((2, 8, 32, 32),)}, "takes a batch of 1, not 2"),
    ({"shapes": (("n", 8, 32, 32),)}, None),
    ({"shapes": ((1, 8, 70_000, 1),)}, "takes sizes of 1 to 65535, not 70000"),
    ({"constant": (False, False)}, "needs operand 1 to be constant"),
    ({"static": False}, "needs sizes that are known"),
    ({"rank": 5}, "takes rank 4, not 5"),
]


@pytest.mark.parametrize(("facts", "reason"), WINDOWS)
def test_limits_of_a_convolution_on_ethos_u55(facts, reason):
    call = Call(**{**CONV, "shapes": (IMAGE,), **facts})
    assert unsupported(target("ethos-u55"), call) == reason


MODEL = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[4,4,9,9] w, float[4,4,3,3] v>
{
  a = Relu(x)
  b = Conv <pads = [4,4,4,4]> (a, w)
  c = Erf(b)
  d = Conv <pads = [1,1,1,1]> (c, v)
  y = Sigmoid(d)
}
"""


def _model() -> object:
    model = parser.parse_model(MODEL)
    for name, size in (("w", 9), ("v", 3)):
        tensor = helper.make_tensor(name, 1, [4, 4, size, size], [0.01] * (16 * size * size))
        kept = [t for t in model.graph.initializer if t.name != name]
        del model.graph.initializer[:]
        model.graph.initializer.extend([*kept, tensor])
    return model


def test_what_follows_the_first_operator_not_taken_is_not_taken():
    rows = rewrite.apply(_model(), target="edgetpu").stats["unsupported"]
    reasons = {row["operator"]: row["reason"] for row in rows}
    assert reasons["Erf"] == "is not an operator of edgetpu"
    assert reasons["Conv"] == "comes after Erf, which ends what edgetpu runs"
    assert reasons["Sigmoid"] == "comes after Erf, which ends what edgetpu runs"
    assert [row["operator"] for row in rows].count("Conv") == 1  # the one before runs


def test_other_targets_go_on_behind_what_they_do_not_take(tmp_path):
    text = "doc: Plain.\nextends: edgetpu\npartition: any\n"
    rows = rewrite.apply(_model(), target=str(write(tmp_path, text))).stats["unsupported"]
    assert {row["operator"] for row in rows} == {"Erf"}


# --- what rules may ask ----------------------------------------------------

RULES = """
rule tagged in clean {{
  \"\"\"Only for asking.\"\"\"
  match y = shared Relu(x)
  where {condition}
  emit  y = Abs(x)
  claim approx(atol=1.0)
  example fires one \"\"\"g (float[3,4] x) => (float[3,4] y) {{ y = Relu(x) }}\"\"\"
}}
"""
RELU = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[3,4] x) => (float[3,4] y) { y = Relu(x) }
"""
ANSWERS = {
    "cortex-m": [
        "target.requantizes()",
        "target.contracts(s8, s8)",
        "not target.contracts(u8, s8)",
        "target.zero_weights(s8, s8)",
        "target.zero_data(s16, s8)",
        "not target.zero_data(s8, s8)",
        'target.scales_per(Conv, "channel")',
        "target.same_qparams(Concat, 1)",
        "target.fixes_qparams(Sigmoid, s8)",
        "target.fixed_scale(Sigmoid, s8) == 0.00390625",
        "target.fixed_zp(Sigmoid, s8) == -128",
        "target.lut(8)",
        "target.lut_entries(16) == 513",
        "target.lut_entries(32) == 0",
        "target.fuses_activation(Clip, 0, 5)",
        'target.requantize == "tflite_double"',
        "not target.single_partition",
        "target.takes(y)",
    ],
    "ethos-u55": [
        "target.fused_same_scale",
        "not target.fuses_activation(Clip, 0, 5)",
        "target.weight_sum(Conv) == 127 * 65536",
        "target.weight_sum(Gemm) > 1e300",
    ],
    "edgetpu": [
        "target.single_partition",
        'target.requantize == "none"',
        "not target.requantizes()",
    ],
    "x86-avx2": ["target.saturates(u8, s8)", "not target.saturates(s8, s8)"],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_questions_of_rules(name):
    loaded = io.load(parser.parse_model(RELU))
    value = loaded.model.graph.outputs[0]
    for condition in ANSWERS[name]:
        rule = parse(RULES.format(condition=condition), "asked.rules").rules[0]
        (step,) = rule.steps
        assert isinstance(step, ast.Where)
        env = Env({"y": value}, loaded.facts, target(name))
        assert compile_condition(step.condition)(env), condition


def test_shipped_files_name_a_source_for_every_list(tmp_path):
    for name in ("cortex-m", "ethos-u55", "edgetpu", "tensorrt"):
        found = target(name)
        assert Path(found.file).name == f"{name}.yaml"
        rows = [f"dtypes[{i}]" for i, row in enumerate(found.dtypes) if row.weight[0] != "f"]
        assert set(rows) <= set(found.sources), name
        limited = {key for key in found.sources if key.startswith("limits.")}
        assert len(limited) == len(found.limits), name
