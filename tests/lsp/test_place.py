"""What stands around a place of rule text; what is shown, proposed and found there."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrite.lsp import completion, navigation
from rewrite.lsp.hover import hover
from rewrite.lsp.place import place_at
from rewrite.match.vocabulary import vocabulary

TEXT = '''# conv (not a rule
pattern cube(x) = Pow(x, 3) | prod{x, x, x}

rule conv_cube in fold over other opset 11.. {
  """A "doc" (with brackets."""
  match c = Conv(x, W: const f32[O, ...], B?: const) { group: 1, auto_pad: a }
        y = cube(c) + ms.Gelu(z)
  let   s = sqrt(W) * target.opset
  where rank(W) == 4, target.has(ms.Gelu)
  emit  y = Conv(x, W * s, B) { ..c }
  claim equal(rtol=1e-5)
  example fires plain """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
  example rejects """g (float[2] x) => (float[2] y) { y = Abs(x) }"""
}

rule other in fold {
  """Second."""
  match y = Relu(x)
  emit  y = Abs(x)
  claim exact
}
'''
PATTERNS, RULES = ["cube"], ["conv_cube", "other"]


def at(mark, after=False, nth=1, text=TEXT):
    """The place before (or behind) a text."""
    offset = -1
    for _ in range(nth):
        offset = text.index(mark, offset + 1)
    offset += len(mark) if after else 0
    line = text.count("\n", 0, offset)
    return place_at(text, line, offset - (text.rfind("\n", 0, offset) + 1))


def labels(place):
    return [p.label for p in completion.complete(place, vocabulary(), PATTERNS, RULES)]


def told(place):
    texts = {Path("a.rules"): TEXT}
    return hover(place, vocabulary(), navigation.definitions(texts))


def test_places():
    place = at("Conv(x")
    assert (place.word, place.clause, place.item, place.name) == (
        "Conv",
        "match",
        "rule",
        "conv_cube",
    )
    assert at("ms.Gelu").word == "ms.Gelu"
    assert at("const f32").brackets[-1].head == "Conv"
    assert at("B?").brackets[-1].place == 2
    assert [b.sign for b in at("group: 1").brackets] == ["{"]
    assert at("group: 1").brackets[-1].head == "Conv"
    assert at("auto_pad").brackets[-1].head == "Conv"
    assert at("with brackets").hidden
    assert at("not a rule").hidden
    assert not at("match c").hidden
    assert at("claim exact").name == "other"
    assert place_at("", 5, 5).word == ""


def test_operators_are_shown_with_their_schema():
    text = told(at("Conv(x"))
    assert text.startswith("**Conv**(X, W, B?)")
    assert "`group`: int, default 1" in text
    assert "versions 1, 11, 22" in text
    assert "com.microsoft" in told(at("ms.Gelu"))


def test_other_words_are_shown():
    assert "`group` of Conv: int, default 1" in told(at("group: 1"))
    assert "Pow(x, 3) | prod{x, x, x}" in told(at("cube(c)"))
    assert "`rank(" in told(at("rank(W)"))
    assert "target.has(" in told(at("target.has"))
    assert "`target.opset` → number" in told(at("target.opset"))
    assert "W: const f32[O, ...]" in told(at("W) == 4"))
    assert "element type" in told(at("f32[O"))
    assert "moves constants" in told(at("fold over"))
    assert told(at("with brackets")) is None


@pytest.mark.parametrize(
    ("place", "wanted", "unwanted"),
    [
        (at("Conv(x"), ["Conv", "ms.Gelu", "cube", "prod{}", "chain()"], ["sqrt", "rank"]),
        (at("auto_pad: a"), ["strides", "dilations"], ["group", "epsilon"]),
        (at("const f32", after=False), ["const", "f32", "u8", "f"], ["Conv"]),
        (at("target.", after=True), ["opset", "has", "fuses"], ["rank"]),
        (at("fold over"), ["clean", "fold", "fuse", "group"], ["Conv"]),
        (at("other opset"), ["other"], ["conv_cube"]),
        (at("rank(W)"), ["rank", "sqrt", "W", "c", "x", "s", "case"], ["Conv"]),
        (at("Conv(x, W * s"), ["Conv", "rank", "x", "W"], ["prod{}"]),
        (at("..c", after=False), ["strides", "..c"], []),
        (at("equal(rtol"), ["exact", "lsb(1)"], ["Conv"]),
        (at("with brackets"), [], ["Conv"]),
    ],
    ids=lambda value: value.clause or value.word if hasattr(value, "clause") else "",
)
def test_proposals(place, wanted, unwanted):
    found = labels(place)
    assert set(wanted) <= set(found), sorted(set(wanted) - set(found))
    assert not set(unwanted) & set(found)


def test_a_new_rule_is_proposed_in_an_empty_file():
    place = place_at("", 0, 0)
    rule = next(p for p in completion.complete(place, vocabulary(), [], []) if p.label == "rule")
    assert rule.is_snippet
    assert "example rejects" in rule.insert


def defined(place):
    here = Path("a.rules")
    texts = {here: TEXT, Path("b.rules"): "pattern far(x) = Relu(x)\n"}
    found = navigation.define(place, here, texts)
    return None if found is None else texts[found.path][found.start : found.end + 12]


def test_definitions():
    assert defined(at("cube(c)")).startswith("cube(x) =")
    assert defined(at("other opset")).startswith("other in fold")
    assert defined(at("W) == 4")).startswith("W: const f32")
    assert defined(at("s, B)")).startswith("s = sqrt")
    assert defined(at("Conv(x, W * s")) is None
    text = TEXT.replace("cube(c)", "far(c)")
    place = at("far(c)", text=text)
    here = Path("a.rules")
    found = navigation.define(
        place, here, {here: text, Path("b.rules"): "pattern far(x) = Relu(x)"}
    )
    assert (found.path, found.start) == (Path("b.rules"), 8)


def test_symbols():
    found = navigation.symbols(TEXT)
    assert [(s.kind, s.name) for s in found] == [
        ("pattern", "cube"),
        ("rule", "conv_cube"),
        ("rule", "other"),
    ]
    assert [name for _, name in found[1].examples] == ["fires plain", "rejects 2"]
