"""Data flows one way: what each layer may import, how long a file may be.

`LAYERS` is the rule; the table in docs/architecture.md must say the same.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rewrite"
MOST_LINES = 500

# Layers from first to last; a layer imports itself and those before it. The values are the
# libraries it may use besides the standard one, by the name they are imported as.
LAYERS: dict[tuple[str, ...], set[str]] = {
    ("errors", "files", "schema", "resources", "told"): set(),
    ("quant",): {"numpy", "ml_dtypes"},
    ("lang",): {"yaml"},
    ("target",): {"yaml"},
    ("ops",): {"numpy", "ml_dtypes", "onnx"},
    ("graph",): {"numpy", "ml_dtypes", "google.protobuf", "onnx", "onnx_ir"},
    ("match",): {"numpy", "ml_dtypes", "onnx_ir"},
    ("engine",): {"numpy", "onnx", "onnx_ir"},
    ("plan",): {"numpy", "ml_dtypes", "onnx", "onnx_ir"},
    ("codegen",): {"numpy", "ml_dtypes", "llvmlite"},
    ("runtime",): {"numpy", "ml_dtypes", "onnx", "onnx_ir", "llvmlite"},
    ("audit",): {"numpy", "ml_dtypes", "onnx", "onnx_ir", "onnxruntime", "yaml", "z3"},
    ("report",): {"numpy", "onnx_ir"},
    ("lsp",): {"pygls", "lsprotocol"},
    # onnx: the type of a model, the interface of its backend suite
    ("api", "kept", "execution", "backend", "cli"): {"numpy", "onnx", "rich"},
}
EXCEPTIONS = {
    # Run by hand once per release of the library it reads; nothing imports it.
    "rewrite/ops/contrib/generate.py": {"onnxruntime"},
    # The runtimes that `rewrite bench --against` times, in processes of their own.
    "rewrite/cli/peers.py": {"onnxruntime", "openvino"},
    # pytest loads it.
    "rewrite/pytest_plugin.py": {"pytest"},
}
PYPI_NAMES = {"pyyaml": "yaml", "onnx-ir": "onnx_ir", "protobuf": "google.protobuf"}

SOURCES = sorted(PACKAGE.rglob("*.py"))
EVERY_FILE = sorted(
    path
    for folder in ("rewrite", "tests", "tools", "demo")
    for path in (ROOT / folder).rglob("*.py")
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def layer_of(module: str) -> int | None:
    """The number of a module's layer; the package itself belongs to the last."""
    parts = module.split(".")
    if parts[0] != "rewrite":
        return None
    for number, names in enumerate(LAYERS):
        if len(parts) > 1 and parts[1] in names:
            return number
    return len(LAYERS) - 1


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def violations(path: Path) -> Iterator[str]:
    here = layer_of("rewrite." + path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
    assert here is not None
    extra = EXCEPTIONS.get(str(path.relative_to(PACKAGE.parent)), set())
    allowed = list(LAYERS.values())[here] | extra
    for line, module in imports(path):
        there = layer_of(module)
        top = module.split(".")[0]
        if there is not None:
            if there > here:
                yield f"{path}:{line}: {module} is a later layer"
        elif top in sys.stdlib_module_names:
            continue
        elif not any(module == a or module.startswith(a + ".") for a in allowed):
            yield f"{path}:{line}: {module} is not for this layer"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_point_up_the_table(path):
    assert list(violations(path)) == []


@pytest.mark.parametrize("path", EVERY_FILE, ids=name_of)
def test_files_stay_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_scan_sees_a_violation(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "lang").mkdir()
    wrong = tmp_path / "lang" / "wrong.py"
    wrong.write_text("import numpy\ndef f():\n    from rewrite.graph import io\n")
    assert [v.split(": ")[1] for v in violations(wrong)] == [
        "numpy is not for this layer",
        "rewrite.graph.io is a later layer",
    ]


def test_the_architecture_page_says_the_same():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `rewrite/")]
    documented = {}
    for names, _, libraries in rows:
        modules = re.findall(r"`(?:rewrite/)?(\w+)(?:\.py|/)`", names)
        words = re.findall(r"[\w.-]+\w", libraries.replace("if installed", ""))
        documented[tuple(modules)] = {PYPI_NAMES.get(word, word) for word in words}
    assert documented == LAYERS
    assert list(documented) == list(LAYERS)
