"""The page without a browser: what it has, that it is safe, its size, its time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import parser

import rewrite
from rewrite.api import find_target, matcher_for
from rewrite.cli import report
from rewrite.graph import io
from rewrite.report import picture
from rewrite.report.page import Run
from rewrite.report.page import page as make_page
from tests.report.models import SMALL, Parsed, large, page_of, small, without_times


@cache
def small_page() -> str:
    return page_of(small())


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    made: dict[str, Any] = json.loads(found[1])
    texts: list[str] = []
    coded = made["strings"]
    for same, rest in zip(coded[::2], coded[1::2], strict=True):
        texts.append((texts[-1] if texts else "")[:same] + rest)
    made["strings"] = texts
    return made


def names(data: dict[str, Any], graph: str) -> list[str]:
    return [data["strings"][number] for number in data[graph]["name"]]


def test_the_page_is_whole_and_needs_nothing_else():
    page = Parsed(small_page())
    assert page.open == []
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.handlers == []
    assert not page.tags & {"link", "img", "iframe", "base", "object"}
    assert "url(" not in small_page()
    assert "@import" not in small_page()


def test_what_the_reader_finds():
    found = set(Parsed(small_page()).texts)
    assert {"Summary", "Graph", "Rules fired", "Partition", "Unsupported", "Run"} <= found
    assert "6 → 4" in found  # nodes: CumSum, a call, Conv and Relu inside
    assert {"conv_chain", "identity", "multiply_one"} <= found
    assert "Conv + Relu" in found
    assert "is not an operator of hexagon" in found
    assert "CumSum" in found


def test_every_node_is_in_the_data_and_reads_without_a_script():
    data = data_of(small_page())
    assert {"c", "r", "one", "s", "i", "y"} <= set(names(data, "before"))
    kinds = [data["kinds"][kind] for kind in data["after"]["kind"]]
    titles = [data["strings"][title] for title in data["after"]["title"]]
    assert sorted(zip(kinds, titles, strict=True)) == [
        ("group", "ConvPointwise"), ("input", "x"), ("operator", "Conv"), ("operator", "CumSum"),
        ("operator", "Relu"), ("output", "y"),
    ]  # fmt: skip
    plain = small_page().partition('<section id="nodes"')[2]
    rows = re.findall(r"<tr><td>before<td>(\w+)<td>(\w+)<td>([^\n]*)", plain)
    assert rows == [
        ("Conv", "c", "unchanged"), ("Relu", "r", "unchanged"),
        ("Add", "one", "computed, its value is a constant now"),
        ("Mul", "s", "rewritten by multiply_one"), ("Identity", "i", "rewritten by identity"),
        ("CumSum", "y", "unchanged"),
    ]  # fmt: skip


def test_where_nodes_come_from():
    data = data_of(small_page())
    before, after = names(data, "before"), names(data, "after")
    kinds = [data["kinds"][kind] for kind in data["after"]["kind"]]
    group = kinds.index("group")
    origins = data["after"]["origin"]
    assert sorted(before[cell] for cell in origins[group]) == ["c", "r"]
    inside = [cell for cell, parent in enumerate(data["after"]["parent"]) if parent == group]
    assert [after[cell] for cell in inside] == ["c", "r"]
    assert [[before[o] for o in origins[cell]] for cell in inside] == [["c"], ["r"]]
    rule, _, went_in, came_out = data["applications"][data["after"]["by"][group]]
    assert data["strings"][data["rules"][rule][0]] == "conv_chain"
    assert sorted(before[cell] for cell in went_in) == ["c", "r"]
    assert came_out == [group]


@pytest.mark.parametrize("target", ["hexagon", "host", "onnxruntime-cpu"])
def test_every_rule_that_fired_is_there_with_its_text(target):
    page = Parsed(page_of(small(), target))
    fired = rewrite.apply(small(), target=target).journal.fired()
    sources = "\n".join(page.inside["pre"])
    for rule in fired:
        assert rule in page.texts
        assert re.search(rf"^\s*rule {rule}\b", sources, re.MULTILINE), rule


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u202egnp.exe\u2066",
    "a\x00b\x1b[31m",
    "'\"><img src=x onerror=alert(1)>",
    "$" + "{model} $style",
    "\u2028\u2029",
    "x" * 10_000,
]


def hostile() -> onnx.ModelProto:
    model = parser.parse_model(SMALL)
    model.graph.name = HOSTILE[0]
    model.graph.input[0].name = model.graph.node[0].input[0] = HOSTILE[4]
    for node, name in zip(model.graph.node, HOSTILE, strict=False):
        old, node.name = node.output[0], name
        if old != "y":
            node.output[0] = f"{name}{old}"
            for user in model.graph.node:
                user.input[:] = [f"{name}{old}" if i == old else i for i in user.input]
    model.graph.node[0].doc_string = HOSTILE[0]
    note = model.metadata_props.add()
    note.key, note.value = HOSTILE[0], HOSTILE[1]
    return model


def test_names_that_look_like_markup_are_text():
    text = page_of(hostile(), name=f"dir/{HOSTILE[0]}")
    page = Parsed(text)
    assert page.open == []
    assert page.handlers == []
    assert "img" not in page.tags
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "<!--" not in text
    assert "x" * 1000 not in text
    assert "$style" in "".join(page.texts)  # a name, not a place of the template
    hidden = [c for c in text if not c.isprintable() and c != "\n"]
    assert hidden == []


RULES = """
rule odd in clean {
  \"\"\"</script><script>alert(1)</script> & more\"\"\"
  # <b>a comment</b> &amp;
  match y = Tan(Sin(x))
  emit y = Tan(x)
  claim approx(atol=9)
  example fires \"\"\"
    g (float[2] x) => (float[2] y) { a = Sin(x) y = Tan(a) }
  \"\"\"
  example rejects other \"\"\"
    g (float[2] x) => (float[2] y) { a = Exp(x) y = Tan(a) }
  \"\"\"
}
"""


TAN = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> '
    "g (float[2] x) => (float[2] y) { a = Sin(x)  y = Tan(a) }"
)


@pytest.fixture
def pack(tmp_path) -> Path:
    (tmp_path / "pack.yaml").write_text("name: odd\ndoc: odd\nopset: [13, 20]\n")
    (tmp_path / "odd.rules").write_text(RULES)
    return tmp_path


def test_rules_are_text_as_well(pack):
    """Packs come from anywhere: what they say about themselves is shown, not obeyed."""
    text = page_of(TAN, "generic", rules=[pack])
    page = Parsed(text)
    assert page.open == []
    assert text.count("<script") == 2
    assert "<b>" not in text
    (source,) = [part for part in page.inside["pre"] if "rule odd" in part]
    assert source == RULES.strip()


def test_rules_whose_file_is_gone_are_named(pack):
    # Packs of the same text are one, wherever they lie.
    (pack / "odd.rules").write_text(RULES + "# another text\n")
    target = find_target("generic")
    result = rewrite.apply(TAN, target="generic", rules=[pack])
    matcher = matcher_for(target, [pack])
    run = Run(io.load(TAN), result.loaded, result.journal, target, matcher)
    (pack / "odd.rules").unlink()
    page = Parsed(make_page(report.build(result, "net.onnx", None, None), run))
    assert "odd" in page.texts
    assert "The file of this rule cannot be read." in page.inside["pre"]


def test_of_too_large_a_model_the_end_is_left_out(monkeypatch):
    monkeypatch.setattr(picture, "MOST_CELLS", 5)
    text = page_of(small())
    data = data_of(text)
    assert Parsed(text).open == []
    assert data["before"]["leftOut"] == 2  # x and four of six nodes are drawn, and y
    assert names(data, "before") == ["x", "c", "r", "one", "s", "y"]


def test_the_script_that_runs_is_ours_alone():
    """A Content-Security-Policy with the hash of our script: whatever slipped through is inert."""
    import base64
    import hashlib

    text = page_of(hostile())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in policy[1]
    assert "unsafe" not in policy[1]
    assert "default-src &#x27;none&#x27;" in policy[1]


def test_weights_are_not_in_it():
    model = small()
    weight = 1234.5678
    model.graph.initializer[0].CopyFrom(
        onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4, 4, 1, 1], [weight] * 16)
    )
    text = page_of(model)
    assert "1234.5" not in text
    assert "64 B" in text  # of 16 floats


def test_the_same_model_gives_the_same_page():
    assert without_times(page_of(small())) == without_times(small_page())
    assert without_times(small_page()) != small_page()


def test_hash_seeds_make_no_difference(tmp_path):
    onnx.save(small(), tmp_path / "net.onnx")
    pages = []
    for seed in "12":
        command = [sys.executable, "-m", "rewrite", "apply", "net.onnx", "--target", "hexagon"]
        subprocess.run(
            [*command, "--dry-run", "--report", "net.html"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        pages.append(without_times((tmp_path / "net.html").read_text(encoding="utf-8")))
    assert pages[0] == pages[1]


def test_a_model_of_5000_nodes():
    model = large()
    start = time.process_time()
    text = page_of(model)
    spent = time.process_time() - start
    data = data_of(text)
    assert len(data["before"]["x"]) >= 5000
    assert len(text.encode()) < 3_000_000
    assert spent < 20, f"{spent:.1f} s with the rewriting"
