"""The standard suite of backends (onnx.backend.test): cases, their data, and what is left out.

In: the installed onnx. Out: `cases()`, each with a model, feeds and expected outputs; `differ`, the
suite's comparison (shape, element type, rtol, atol) extended to sequences, optionals and strings.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from rewrite.runtime.strings import to_text

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

# Names of cases that cannot be passed by a right implementation, with the reason.
EXCLUDED: dict[str, str] = {
    r"test_bernoulli(_double|_seed)?(_expanded)?": "the expected values are one draw of random "
    "numbers; ONNX does not say which generator draws them",
    r"test_gradient_of_add(_and_mul)?": "ai.onnx.preview.training.Gradient is an operator of "
    "training, which differentiates a part of the graph around it",
}

# Wider tolerances (relative), with the reason.
WIDER: dict[str, tuple[float, str]] = {
    "test_attention_4d_causal_fp16_expanded": (
        2.0**-9,
        "the expected values round every step of Softmax to float16; two units in the last place "
        "lie between them and a Softmax that rounds once, which is nearer to the exact result",
    ),
}


# Wider tolerances (absolute), with the reason.
NOISE: dict[str, tuple[float, str]] = dict.fromkeys(
    ("test_dft_inverse", "test_dft_inverse_opset19"),
    (
        4e-7,
        "the expected values come from a transform in float32 of numbers up to 100: where the "
        "exact value is 0 they have two units of the last place of 1",
    ),
)


@dataclass(frozen=True)
class Case:
    """`data`: pairs of inputs, in the order of the graph's, and expected outputs."""

    name: str
    kind: str
    source: Any
    rtol: float
    atol: float

    @property
    def model(self) -> onnx.ModelProto:
        if self.source.model is not None:
            return self.source.model
        return onnx.load(str(self._file))

    @property
    def _file(self) -> Path:
        if self.source.model_dir is not None:
            return Path(self.source.model_dir) / "model.onnx"
        return DATA / "light" / Path(self.source.url).name

    def data(self) -> Iterator[tuple[list[Any], list[Any]]]:
        if self.source.data_sets is not None:
            for inputs, outputs in self.source.data_sets:
                yield [_value(x) for x in inputs], [_value(x) for x in outputs]
        elif self.source.model_dir is not None:
            for folder in sorted(Path(self.source.model_dir).glob("test_data_set*")):
                graph = self.model.graph
                yield _read(folder, "input", graph.input), _read(folder, "output", graph.output)
        else:
            yield self._light()

    def _light(self) -> tuple[list[Any], list[Any]]:
        """Models without weights come with outputs for ramps as the suite's runner makes them."""
        graph = self.model.graph
        known = {tensor.name for tensor in graph.initializer}
        inputs = [Runner.generate_dummy_data(v) for v in graph.input if v.name not in known]
        found = str(self._file.with_suffix("")) + "_output_{}.pb"
        outputs = [
            numpy_helper.to_array(onnx.load_tensor(found.format(k)))
            for k in range(len(graph.output))
        ]
        return inputs, outputs


@cache
def cases() -> dict[str, Case]:
    """Every case by name."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [(kind, case) for kind in KINDS for case in load_model_tests(kind=kind)]
    named: dict[str, Case] = {}
    for kind, case in found:
        name = case.name if case.name not in named else f"{case.name}[{kind}]"
        rtol = max(case.rtol, WIDER.get(case.name, (0.0, ""))[0])
        atol = max(case.atol, NOISE.get(case.name, (0.0, ""))[0])
        named[name] = Case(name, kind, case, rtol, atol)
    return named


def excluded(name: str) -> str | None:
    """Why a case is left out."""
    for pattern, reason in EXCLUDED.items():
        if re.fullmatch(pattern, name):
            return reason
    return None


def feeds_of(model: onnx.ModelProto, inputs: list[Any]) -> dict[str, Any]:
    known = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in known]
    if len(inputs) > len(names):  # inputs with a default are given, too
        names = [value.name for value in model.graph.input]
    return dict(zip(names, inputs, strict=False))


# --- comparison --------------------------------------------------------------------------------


def differ(expected: list[Any], found: list[Any], rtol: float, atol: float) -> str | None:
    """Why outputs differ from what the suite expects, or None."""
    if len(expected) != len(found):
        return f"{len(found)} outputs instead of {len(expected)}"
    for k, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        reason = _differ(wanted, got, rtol, atol)
        if reason is not None:
            return f"output {k}: {reason}"
    return None


def _differ(wanted: Any, got: Any, rtol: float, atol: float) -> str | None:
    if wanted is None or isinstance(wanted, (list, tuple)):
        if wanted is None or not isinstance(got, (list, tuple)):
            return None if wanted is got else f"{type(got).__name__}, not {type(wanted).__name__}"
        return differ(list(wanted), list(got), rtol, atol)
    if not isinstance(got, np.ndarray):
        return f"{type(got).__name__} instead of an array"
    if wanted.shape != got.shape:
        return f"shape {got.shape}, not {wanted.shape}"
    if wanted.dtype != got.dtype:
        return f"{got.dtype}, not {wanted.dtype}"
    if wanted.dtype == object:
        return None if np.array_equal(wanted, got) else f"{got}, not {wanted}"
    return _apart(wanted, got, rtol, atol)


def _apart(wanted: np.ndarray, got: np.ndarray, rtol: float, atol: float) -> str | None:
    if wanted.dtype.name == "bfloat16":
        rtol = max(rtol, 2.0**-6)  # as the suite's own comparison
    if wanted.dtype.kind not in "iubfc" or wanted.dtype.itemsize < 2:
        wanted, got = wanted.astype(np.float64), got.astype(np.float64)
    try:
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)
    except AssertionError as problem:
        return " ".join(str(problem).split())[:400]
    return None


# --- data in files -----------------------------------------------------------------------------


def _value(item: Any) -> Any:
    if isinstance(item, onnx.TensorProto):
        item = numpy_helper.to_array(item)
    return to_text(item)


def _read(folder: Path, kind: str, values: Any) -> list[Any]:
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda f: int(f.stem.split("_")[1]))
    return [_proto(file, value.type) for file, value in zip(files, values, strict=False)]


def _proto(file: Path, type_: onnx.TypeProto) -> Any:
    if type_.HasField("sequence_type"):
        return to_text(numpy_helper.to_list(onnx.SequenceProto.FromString(file.read_bytes())))
    if type_.HasField("optional_type"):
        return to_text(numpy_helper.to_optional(onnx.OptionalProto.FromString(file.read_bytes())))
    return to_text(numpy_helper.to_array(onnx.load_tensor(str(file))))
