"""The judge sees what is wrong: rules that lie about their results are found out."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from tests.property.judge import faults
from tests.property.mutations import mutants, mutators
from tests.property.samples import samples, valid
from tests.property.subject import same_bits, subject

pytest.importorskip("onnxruntime", reason="the numbers come from onnxruntime")

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[2,3] x) => (float[2,3] y) { a = Sinh(x)  y = Identity(a) }"""
EXAMPLES = '''
  example fires """
    g (float[2,3] x) => (float[2,3] y) { y = Sinh(x) }
  """
  example rejects """
    g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }
  """
'''


def kinds(folder, emit, claim):
    """Kinds of the faults of a pack with one rule for Sinh."""
    (folder / "pack.yaml").write_text("name: liar\ndoc: A rule that is wrong.\n")
    rule = f'rule liar in lower {{\n  """Wrong."""\n  match y = Sinh(x)\n  {emit}\n  claim {claim}'
    (folder / "liar.rules").write_text(f"{rule}{EXAMPLES}}}\n")
    item = subject(parser.parse_model(TEXT))
    assert item is not None
    return [fault.kind for fault in faults(item, ("generic",), (folder,))]


@pytest.mark.parametrize(
    ("emit", "claim", "found"),
    [
        ("emit y = (Exp(x) - Exp(-x)) * 0.5", "exact", ["bits"]),
        ("emit y = (Exp(x) - Exp(-x)) * 0.5001", "equal(rtol=1e-6)", ["far"]),
        ("emit y = (Exp(x) - Exp(-x)) * 0.5 + 0.001", "approx(atol=1e-5)", ["far"]),
        ("emit y = (Exp(x) - Exp(-x)) * 0.5", "equal(rtol=1e-6)", ["far"]),  # where x is tiny
        ("emit y = (Exp(x) - Exp(-x)) * 0.5", "approx(atol=1e-6)", []),
        ("emit y = (Exp(x) - Exp(-x)) / 0", "equal(rtol=1e-6)", ["finite"]),
    ],
)
def test_a_lie_is_found(tmp_path, emit, claim, found):
    assert kinds(tmp_path, emit, claim) == found


def test_zeros_have_signs_and_nan_has_none():
    zeros = np.array([0.0, -0.0], np.float32)
    assert not same_bits(zeros, zeros[::-1].copy())
    payloads = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)
    assert same_bits(payloads, payloads[::-1].copy())


def test_every_mutator_makes_valid_models_and_the_same_each_time():
    chosen = samples()[:: len(samples()) // 12]
    made = {name: 0 for name, _ in mutators()}
    for sample in chosen:
        for mutant in mutants(sample.model):
            assert valid(mutant.model)
            made[mutant.name.split(":")[0]] += 1
        break
    again = [m.name for m in mutants(chosen[0].model)]
    assert again == [m.name for m in mutants(chosen[0].model)]
    assert len(set(again)) == len(again)
    assert sum(count > 0 for count in made.values()) >= 8
