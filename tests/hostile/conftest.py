"""Shared by the tests of hostile input: packs, models and the command line, in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import parser

from rewrite import cli
from rewrite.engine import driver
from rewrite.engine.journal import Journal
from rewrite.engine.limits import Limits, Options
from rewrite.graph import io
from rewrite.lang.pack import load_pack
from rewrite.match import matcher
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Target

TARGET = Target("test", "A target for tests.", "test.yaml", (), (7, 26), True, None)
MANIFEST = "name: hostile\ndoc: Test.\nopset: [7, 26]\n"


@dataclass(frozen=True)
class Told:
    """What a command left: status and both streams."""

    status: int
    out: str
    err: str

    def code(self) -> str:
        """The code of the one error that there is."""
        assert self.status == 2, self
        assert "RW009" not in self.err, self.err
        assert self.out == "", self.out
        assert self.err.count("error[") == 1, self.err
        return self.err.split("error[")[1][:5]


def parse(text: str, opset: int = 18, ir: int = 10) -> onnx.ModelProto:
    """A model from ONNX text; a header is added where it has none."""
    if not text.lstrip().startswith("<"):
        text = f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n{text}'
    return parser.parse_model(text)


def rule(match: str, emit: str, *, name: str = "r", middle: str = "", claim: str = "exact") -> str:
    """A rule with what a pack demands and these tests do not look at."""
    emit = emit if emit.startswith("group") else f"emit {emit}"
    examples = 'example fires """x"""\n example rejects """x"""'
    body = f'"""Test."""\n match {match}\n {middle}\n {emit}\n claim {claim}\n {examples}'
    return f"rule {name} in fold {{\n {body}\n}}\n"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """run("apply", ...): the command, in this process; streams caught below Python."""

    def go(*arguments: object) -> Told:
        capfd.readouterr()
        status = cli.main([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return Told(status, out, err)

    return go


@pytest.fixture
def make_pack(tmp_path: Path) -> Callable[..., Path]:
    """make_pack(text): a folder with a pack.yaml and, unless it is None, one rule file."""

    def make(text: str | bytes | None, name: str = "hostile", manifest: str = MANIFEST) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "pack.yaml").write_text(manifest, encoding="utf-8")
        if text is not None:
            data = text if isinstance(text, bytes) else text.encode()
            (folder / "a.rules").write_bytes(data)
        return folder

    return make


@pytest.fixture
def rewriter(make_pack: Callable[..., Path]) -> Callable[..., tuple[onnx.ModelProto, Journal]]:
    """rewriter(rules, model): what comes of it and how, with the rules alone."""

    def go(
        rules: str, model: onnx.ModelProto, limits: Limits | None = None, **options: Any
    ) -> tuple[onnx.ModelProto, Journal]:
        pack = load_pack(make_pack(rules), vocabulary())
        loaded = io.load(model)
        settings = Options(**{"fold": False, "tidy": False, **options})
        journal = driver.run(loaded, matcher.build(pack, TARGET), TARGET, limits, settings)
        after = io.to_proto(loaded)
        onnx.checker.check_model(after)
        return after, journal

    return go
