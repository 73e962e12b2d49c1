"""`rewrite targets`: what is told of a target, written down by hand."""

from __future__ import annotations

from rewrite.cli import main

TARGET = """\
doc: A test.
packs: [algebra]
opset: [13, 21]
groups: false
operators: [Conv, Relu]
isa: {triple: riscv64-unknown-elf, features: [+v]}
limits: {Conv: {rank: [4, 4]}}
dtypes: [{activation: s8, weight: s8, bias: s32, accumulator: s32}]
requantize: {mode: tflite_single}
vector_bytes: 32
memories: {near: {bytes: 1_048_576}}
layouts: [{name: c32, order: NHWC, tile: {C: 32}}]
cost: {launch_seconds: 1e-6}
fused:
""" + "".join(
    f"  - {{operators: [Conv, Relu], source: {source}}}\n"
    for source in ["page 1"] * 11 + ["page 2"]
)


def test_a_target_is_told_in_lines(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text(TARGET)
    assert main(["targets", str(tmp_path / "mine.yaml")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "mine: A test.",
        f"  file       {tmp_path / 'mine.yaml'}",
        "  packs      algebra",
        "  opset      13 to 21",
        "  operators  2",
        "  limits     of 1 operator",
        "  groups     not taken; the result is plain ONNX",
        "  arithmetic s8 x s8 + s32 in s32",
        "  requantize tflite_single, half_up, zero point after rounding",
        "  isa        riscv64-unknown-elf +v",
        "  vectors    32 bytes",
        "  memory     near, 1,048,576 bytes",
        "  layout     c32, NHWC C32",
        "  cost       launch_seconds 1e-06",
        "  sources",
        "    fused[0] to fused[10]: page 1",
        "    fused[11]: page 2",
    ]
