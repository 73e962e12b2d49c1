"""Planted near misses: the reasons that `rewrite explain` gives are the smallest right ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from onnx import parser

from rewrite import resources
from rewrite.audit.examples import with_header
from rewrite.audit.explain.answer import answer
from rewrite.audit.explain.reasons import REASONS
from rewrite.audit.explain.story import tell
from rewrite.lang.pack import load_pack
from rewrite.match import matcher
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target

TABLE = yaml.safe_load((Path(__file__).parent / "near_misses.yaml").read_text(encoding="utf-8"))
CASES = TABLE["cases"]
ANY = '"""g (float[1] x) => (float[1] y) { y = Abs(x) }"""'


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pack")
    (folder / "pack.yaml").write_text("name: planted\ndoc: Near misses.\nopset: [7, 26]\n")
    examples = f"example fires a {ANY} example rejects b {ANY}"  # a rule must have them
    text = re.sub(r"^(claim .*|  claim .*)$", rf"\1 {examples}", TABLE["rules"], flags=re.M)
    (folder / "planted.rules").write_text(text)
    pack = load_pack(folder, vocabulary(), [resources.folder("rules")])
    target = load_target("generic", vocabulary())
    return target, matcher.build(pack, target)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_reasons(case, planted):
    target, rules = planted
    model = parser.parse_model(with_header(case["model"], case.get("opset", 18)))
    found = answer(tell(model, target, rules, "approx"), case["rule"], case["node"])
    (miss,) = found.misses
    if "fate" in case:
        assert found.fate is not None
        assert found.fate.code == case["fate"]["code"]
        assert found.fate.by == case["fate"].get("by", "")
        return
    assert found.fate is None
    told = [(r.code, r.key, r.would) for r in miss.reasons]
    wanted = [(r["code"], r["key"], r.get("would")) for r in case["reasons"]]
    assert [t[:2] for t in told] == [w[:2] for w in wanted], told
    for (_, _, would), (_, _, expected) in zip(told, wanted, strict=True):
        assert expected is None or would == expected


def test_each_reason_code_is_planted():
    planted = {reason["code"] for case in CASES for reason in case.get("reasons", ())}
    planted |= {case["fate"]["code"] for case in CASES if "fate" in case}
    assert planted == set(REASONS)


def test_there_are_enough():
    assert len(CASES) >= 60
