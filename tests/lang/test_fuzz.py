"""Text from strangers: whatever it is, the answer is a tree or a `RewriteError` with positions."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rewrite import resources
from rewrite.errors import RewriteError, render
from rewrite.lang.check import check
from rewrite.lang.pack import load_pack
from rewrite.lang.parser import parse
from rewrite.lang.printer import format_text
from rewrite.lang.vocabulary import Vocabulary

HERE = Path(__file__).parent
VALID = [p.read_text() for p in sorted((HERE / "pass").glob("*.rules"))]
VALID += [
    p.read_text(encoding="utf-8")[:4000] for p in sorted(resources.folder("rules").rglob("*.rules"))
]
_WORDS = """rule pattern refine in opset over with match each let where emit group claim example
as if ordered shared none const forall case else and or not exact lsb equal approx fires rejects
rtol atol ( ) { } [ ] , : ; . .. ... = | ~ ? ?? + - * ** / // % == != < <= > >= @ # " ' x y W Conv
Relu ms prod sum chain pointwise f32 0 1 2.5 1e-5 99999999999999999999 true inf _ rank target has
ignored"""
WORDS = [*_WORDS.split(), "\n", "\t", "\\", "\u00e9", "\u202e", "\x00"]
SOUP = st.lists(
    st.sampled_from([*WORDS, '"""', '"text"', '"""doc"""', "rule r in fold {", "\nrule ", "}\n"]),
    max_size=60,
)

fuzz = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)


def survive(text: str, vocabulary: Vocabulary) -> None:
    """Parse, check, format: nothing but a `RewriteError`, and its report can be printed."""
    try:
        tree = parse(text, "fuzz.rules")
    except RewriteError as problem:
        for diagnostic in problem.diagnostics:
            assert diagnostic.span is not None
            assert diagnostic.span.line >= 1
            assert diagnostic.span.column >= 1
            render(diagnostic, text)
        return
    for diagnostic in check(tree, vocabulary, (7, 26)).found:
        render(diagnostic, text)
    once = format_text(text, "fuzz.rules")
    assert parse(once, "fuzz.rules") == tree
    assert format_text(once, "fuzz.rules") == once


@fuzz
@given(SOUP, st.sampled_from([" ", "", "\n"]))
def test_words_in_any_order(vocabulary: Vocabulary, words: list[str], between: str) -> None:
    survive(between.join(words), vocabulary)


@fuzz
@given(st.text(max_size=200))
def test_any_characters(vocabulary: Vocabulary, text: str) -> None:
    survive(text, vocabulary)


@fuzz
@given(st.data())
def test_changed_rules(vocabulary: Vocabulary, data: st.DataObject) -> None:
    """A valid file with a few words removed, doubled, exchanged or put in."""
    text = data.draw(st.sampled_from(VALID))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 12))
        word = data.draw(st.sampled_from(["", *WORDS]) | st.just(text[at : at + 2 * length]))
        text = text[:at] + word + text[at + length :]
    survive(text, vocabulary)


_KEYS = """name doc opset example_opset extends disable : [ ] { } , - & * ! | > ' # 7 26 a a-b ?
--- ... %YAML"""
PIECES = [
    *_KEYS.split(), "\n", "\n  ", ": ", "name: x\n", "doc: y\n", "opset: [7, 26]\n", "&a [*a]",
    "\x07", '"',
]  # fmt: skip


@settings(fuzz, max_examples=150)
@given(words=st.lists(st.sampled_from(PIECES), max_size=40), between=st.sampled_from(["", " "]))
def test_manifests(
    vocabulary: Vocabulary,
    tmp_path_factory: pytest.TempPathFactory,
    words: list[str],
    between: str,
) -> None:
    folder = tmp_path_factory.mktemp("pack", numbered=True)
    (folder / "pack.yaml").write_text(between.join(words), encoding="utf-8")
    with suppress(RewriteError):
        load_pack(folder, vocabulary)


def test_deep_yaml_is_no_crash(tmp_path: Path, vocabulary: Vocabulary) -> None:
    for text in ("[" * 50_000, "{a: " * 10_000, "\n- " + "- " * 20_000, "&a [*a, " * 1000):
        (tmp_path / "pack.yaml").write_text("name: " + text)
        with pytest.raises(RewriteError):
            load_pack(tmp_path, vocabulary)
