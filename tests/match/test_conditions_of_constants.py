"""`case` and `if` with the name of a comparison of constants: what counts is its truth."""

from onnx import parser

import rewrite

PACK = "name: lab\ndoc: Comparisons of constants.\nopset: [13, 26]\nexample_opset: 18\n"
RULE = """
rule halves in clean {
  \"\"\"Which of two operators is made depends on constants.\"\"\"
  match y = x * (k: const f32)
  let   large = k > 1
        positive = k > 0
  where k != 3  if large: k != 5
  emit  y = case { large: Neg(x); positive: Abs(x); else: Relu(x) }
  claim approx(atol=1e9)
  example fires plain \"\"\"g (float[2] x) => (float[2] y) <float k = {2}> { y = Mul(x, k) }\"\"\"
  example rejects three \"\"\"g (float[2] x) => (float[2] y) <float k = {3}> { y = Mul(x, k) }\"\"\"
}
"""


def operators(tmp_path, words):
    (tmp_path / "pack.yaml").write_text(PACK)
    (tmp_path / "lab.rules").write_text(RULE)
    size = words.count(",") + 1
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> '
        f"g (float[{size}] x) => (float[{size}] y) <float[{size}] k = {{{words}}}> "
        "{ y = Mul(x, k) }"
    )
    return [n.op_type for n in rewrite.apply(model, rules=tmp_path).model.graph.node]


def test_the_first_arm_that_is_true_is_taken(tmp_path):
    assert operators(tmp_path, "2,4") == ["Neg"]
    assert operators(tmp_path, "2,0.5") == ["Abs"]  # not all are larger than 1
    assert operators(tmp_path, "-2,0.5") == ["Relu"]


def test_a_condition_counts_where_the_comparison_holds(tmp_path):
    assert operators(tmp_path, "5,7") == ["Mul"]  # both are large, and one is 5
    assert operators(tmp_path, "0.5,5") == ["Abs"]  # not both are large: 5 may be
