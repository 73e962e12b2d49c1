"""Every model of the collection comes out as it went in."""

from __future__ import annotations

import csv
from pathlib import Path

import onnx
from model_diff import differences

from rewrite.errors import RewriteError
from rewrite.graph import io


def test_corpus(corpus: Path):
    """Every model that can be taken comes out as it went in, but for the repairs in its notes."""
    refused, taken = [], 0
    with (corpus / "MANIFEST.csv").open() as stream:
        paths = [row["path"] for row in csv.DictReader(stream)]
    for path in paths:
        try:
            loaded = io.load(corpus / path)
        except RewriteError as failure:
            refused.append((path, [d.code for d in failure.diagnostics]))
            continue
        source = onnx.load(corpus / path)
        found = differences(source, io.to_proto(loaded))
        mended = ("import", "IR version", "without a name")
        expected = sum(any(word in note for word in mended) for note in loaded.notes)
        allowed = ("opset imports", "ir_version", "graph: name")
        assert len(found) <= expected, (path, found, loaded.notes)
        assert all(line.startswith(allowed) for line in found), (path, found)
        taken += 1
    assert taken >= 639
    assert len(refused) <= 14, refused
