"""Packs: what is read, in which order, what `extends`, `disable`, `refine` and patterns do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rewrite import resources
from rewrite.errors import RewriteError
from rewrite.lang import ast
from rewrite.lang.limits import PACK_FILES
from rewrite.lang.pack import RulePack, load_pack, load_packs
from rewrite.lang.printer import print_condition, print_pattern
from rewrite.lang.sources import fingerprint
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.walk import nodes

Write = Callable[..., Path]


def rule(name: str, match: str = "match y = Relu(x)", head: str = "", emit: str = "y = x") -> str:
    return (
        f'rule {name} in fold{head} {{\n  """A rule."""\n  {match}\n  emit  {emit}\n  claim exact\n'
        '  example fires """g (float x) => (float y) { y = Relu(x) }"""\n'
        '  example rejects """g (float x) => (float y) { y = Neg(x) }"""\n}\n'
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a pack: extra lines of its pack.yaml, and its files."""

    def make(name: str, yaml: str = "", **files: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "pack.yaml").write_text(f"name: {name}\ndoc: A pack.\n{yaml}")
        for stem, text in files.items():
            (folder / f"{stem}.rules").write_text(text)
        return folder

    return make


def codes(load: Callable[[], RulePack]) -> list[str]:
    with pytest.raises(RewriteError) as caught:
        load()
    return [d.code for d in caught.value.diagnostics]


def names(pack: RulePack) -> list[str]:
    return [r.name for r in pack.rules]


# --- order and composition ------------------------------------------------------------------------


def test_rules_come_in_the_order_of_packs_files_and_text(
    write: Write, vocabulary: Vocabulary
) -> None:
    write("base", b=rule("three"), a=rule("one") + rule("two"))
    mine = write("mine", "extends: [base]\n", z=rule("four"))
    pack = load_pack(mine, vocabulary)
    assert names(pack) == ["one", "two", "three", "four"]
    assert [pack.origins[n].pack for n in names(pack)] == ["base", "base", "base", "mine"]
    assert Path(pack.origins["four"].file) == mine / "z.rules"


def test_a_pack_met_twice_counts_once(write: Write, vocabulary: Vocabulary, tmp_path: Path) -> None:
    write("base", a=rule("one"))
    write("left", "extends: [base]\n", a=rule("two"))
    write("right", "extends: [base]\n", a=rule("three"))
    write("top", "extends: [left, right, base]\n")
    pack = load_packs(["top", "left", tmp_path / "base"], vocabulary, [tmp_path])
    assert names(pack) == ["one", "two", "three"]


def test_disable_leaves_out(write: Write, vocabulary: Vocabulary) -> None:
    write("base", a=rule("one") + rule("two") + rule("three", head=" over two"))
    mine = write("mine", "extends: [base]\ndisable: [two]\n")
    assert names(load_pack(mine, vocabulary)) == ["one", "three"]


def test_disable_holds_when_the_pack_is_loaded_otherwise_too(
    write: Write, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    """A target's packs and one of the user's that takes a rule of them away."""
    write("base", a=rule("one") + rule("two"))
    write("mine", "extends: [base]\ndisable: [two]\n")
    assert names(load_packs(["base", "mine"], vocabulary, [tmp_path])) == ["one"]


def test_refine_adds_conditions(write: Write, vocabulary: Vocabulary) -> None:
    base = "match Y = Conv(x, W, B?)\n  where rank(x) == 4"
    write("base", a=rule("one", base, emit="Y = Conv(Neg(x), W, B) { ..Y }"))
    mine = write(
        "mine",
        "extends: [base]\n",
        a="refine one with where rank(W) == 4, target.fuses(Y)\n if B: rank(B) == 1\n",
    )
    (found,) = load_pack(mine, vocabulary).rules
    conditions = [print_condition(s) for s in found.steps if isinstance(s, ast.Where)]
    assert conditions == [
        "rank(x) == 4", "rank(W) == 4", "target.fuses(Y)", "if B: rank(B) == 1",
    ]  # fmt: skip
    asked = [n for s in found.steps for n in nodes(s) if isinstance(n, ast.MethodCall)]
    assert isinstance(asked[0].arguments[0], ast.Name)  # `Y` is a value of the rule, no operator


def test_opsets_are_narrowed_by_what_is_emitted(write: Write, vocabulary: Vocabulary) -> None:
    """Gelu came with opset 20, ScatterElements with 11 (onnx/docs/Operators.md)."""
    text = (
        rule("all")
        + rule("gelu", emit='y = Gelu(x) { approximate: "none" }')
        + rule("bounded", head=" opset ..17", emit="y = ScatterElements(x, x, x) { axis: 0 }")
        + rule("scattered", head=" opset ..9", emit="y = Scatter(x, x, x) { axis: 0 }")
        + rule("zero", emit="y = Reshape(x, [-1]) { allowzero: 0 }")
        + rule("one", emit="y = Reshape(x, [-1]) { allowzero: 1 }")
    )
    pack = load_pack(write("mine", "opset: [8, 22]\n", a=text), vocabulary)
    ranges = {r.name: r.opset for r in pack.rules}
    assert ranges == {
        "all": (8, 22),
        "gelu": (20, 22),
        "bounded": (11, 17),
        "scattered": (9, 9),
        "zero": (8, 22),  # 0 is the default: a version without the attribute means the same
        "one": (14, 22),
    }


def test_manifest_defaults(write: Write, vocabulary: Vocabulary) -> None:
    pack = load_pack(write("mine", a="# none yet\n"), vocabulary)
    assert (pack.opset, pack.example_opset) == ((7, vocabulary.newest_opset), 18)
    narrow = load_pack(write("narrow", "opset: [7, 12]\n", a="# none yet\n"), vocabulary)
    assert (narrow.opset, narrow.example_opset) == ((7, 12), 12)
    both = load_packs([Path(narrow.files[0].path).parent] if narrow.files else [], vocabulary)
    assert both.rules == ()


# --- named patterns -------------------------------------------------------------------------------


def expanded(pack: RulePack, name: str = "r") -> list[str]:
    (found,) = [r for r in pack.rules if r.name == name]
    return [print_pattern(s.pattern) for s in found.match]


def test_calls_are_replaced(write: Write, vocabulary: Vocabulary) -> None:
    write("base", a="pattern cube(x) = Pow(x, 3) | prod{x, x, x}\n")
    text = "pattern twice(a, b) = cube(a) + cube(b)\n" + rule("r", "match y = twice(x, Neg(z))")
    pack = load_pack(write("mine", "extends: [base]\n", a=text), vocabulary)
    assert expanded(pack) == [
        "(Pow(x, 3) | prod{x, x, x}) + (Pow(Neg(z), 3) | prod{Neg(z), Neg(z), Neg(z)})"
    ]
    written = pack.files[-1].tree.rules[0].match[0].pattern
    assert isinstance(written, ast.PatternCall)  # the tree of the file stays as it is


def test_local_names_meet_nothing(write: Write, vocabulary: Vocabulary) -> None:
    """`s`, `a` and `N` of the definition are others than those of the rule, at each call."""
    text = (
        "pattern scaled(x) = Softmax(prod{x, s: const f32[N]}) { axis: a } if (s > 0 and a == 1)\n"
        + rule("r", "match t = scaled(x)\n        y = Add(scaled(t), s: f32[N])")
    )
    first, second = expanded(load_pack(write("mine", a=text), vocabulary))
    assert first == (
        "Softmax(prod{x, s__1: const f32[N__1]}) { axis: a__1 } if (s__1 > 0 and a__1 == 1)"
    )
    assert second == (
        "Add(Softmax(prod{t, s__2: const f32[N__2]}) { axis: a__2 } "
        "if (s__2 > 0 and a__2 == 1), s: f32[N])"
    )


def test_parameters_are_names_too(write: Write, vocabulary: Vocabulary) -> None:
    """An attribute, a size, a condition and an optional operand given by the caller."""
    text = (
        "pattern soft(x, w, a, n) = Softmax(Conv(x, w: const[n], b?) {"
        " group: g, auto_pad: ignored, dilations: ignored, kernel_shape: ignored, pads: ignored,"
        " strides: ignored }) { axis: a } if (a == 1 and g == 1)\n"
        "pattern given(x, b) = Clip(x, b?)\n"
        + rule("r", "match y = given(soft(x, W, axis, N), low)\n  where axis == 1, N == 2")
    )
    (found,) = expanded(load_pack(write("mine", a=text), vocabulary))
    assert found == (
        "Clip(Softmax(Conv(x, W: const [N], b__1?) { group: g__1, auto_pad: ignored, "
        "dilations: ignored, kernel_shape: ignored, pads: ignored, strides: ignored }) "
        "{ axis: axis } if (axis == 1 and g__1 == 1), low?)"
    )


def test_alternatives_of_a_pattern_can_be_asked_for(write: Write, vocabulary: Vocabulary) -> None:
    text = "pattern act(x) = Relu(x) as relu | Tanh(x)\n" + rule(
        "r", "match y = act(x)\n  let   k = case { relu: 1; else: 2 }\n  where k == 1"
    )
    assert names(load_pack(write("mine", a=text), vocabulary)) == ["r"]


def test_patterns_cannot_explode(write: Write, vocabulary: Vocabulary) -> None:
    """Doubling 200 times: the size is computed, nothing of that size is built."""
    lines = ["pattern p0(x) = Add(x, Neg(x))"]
    lines += [f"pattern p{i}(x) = Add(p{i - 1}(x), p{i - 1}(x))" for i in range(1, 200)]
    lines += [f"pattern q{i}(x) = p0(q{i - 1}(x))" for i in range(1, 200)]
    lines += ["pattern q0(x) = Neg(x)"]
    mine = write("mine", a="\n".join(lines) + "\n" + rule("r", "match y = p199(x)"))
    assert set(codes(lambda: load_pack(mine, vocabulary))) == {"RW313"}


def test_a_long_chain_of_definitions_is_no_crash(write: Write, vocabulary: Vocabulary) -> None:
    lines = [f"pattern p{i}(x) = p{i + 1}(x)" for i in range(3000)] + ["pattern p3000(x) = Neg(x)"]
    mine = write("mine", a="\n".join(lines) + "\n" + rule("r", "match y = p0(x)"))
    assert set(codes(lambda: load_pack(mine, vocabulary))) == {"RW313"}


# --- reading --------------------------------------------------------------------------------------


def test_all_files_report_in_one_run(write: Write, vocabulary: Vocabulary) -> None:
    mine = write(
        "mine", "version: 1\n", a=rule("a", "match y = Relux(x)"), b="rule b {", c=rule("c") * 2
    )
    assert sorted(codes(lambda: load_pack(mine, vocabulary))) == [
        "RW101", "RW203", "RW303", "RW309",
    ]  # fmt: skip


def test_a_slip_in_a_pattern_is_reported_once(write: Write, vocabulary: Vocabulary) -> None:
    text = "pattern p(x) = Relux(x)\n" + "".join(rule(n, "match y = p(x)") for n in "abcd")
    assert codes(lambda: load_pack(write("mine", a=text), vocabulary)) == ["RW203"]


def test_links_out_of_the_folder_are_refused(
    write: Write, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.rules"
    outside.write_text(rule("secret"))
    mine = write("mine", a=rule("one"))
    (mine / "b.rules").symlink_to(outside)
    assert codes(lambda: load_pack(mine, vocabulary)) == ["RW314"]
    (mine / "b.rules").unlink()
    (mine / "b.rules").symlink_to(mine / "a.rules")  # inside: a file like any other
    assert codes(lambda: load_pack(mine, vocabulary)) == ["RW309"]


def test_names_of_packs_are_no_paths(write: Write, vocabulary: Vocabulary, tmp_path: Path) -> None:
    write("base", a=rule("one"))
    mine = write("mine", "extends: [../base, /etc]\n")
    assert codes(lambda: load_pack(mine, vocabulary)) == ["RW304", "RW304"]
    assert codes(lambda: load_packs(["nowhere"], vocabulary, [tmp_path])) == ["RW306"]


def test_only_files_are_read(write: Write, vocabulary: Vocabulary) -> None:
    mine = write("mine", a=rule("one"))
    (mine / "b.rules").mkdir()
    os.mkfifo(mine / "c.rules")
    assert codes(lambda: load_pack(mine, vocabulary)) == ["RW301", "RW301"]


def test_too_many_and_too_large_files(write: Write, vocabulary: Vocabulary) -> None:
    mine = write("mine")
    for i in range(PACK_FILES + 1):
        (mine / f"f{i}.rules").touch()
    assert codes(lambda: load_pack(mine, vocabulary)) == ["RW315"]
    large = write("large")
    with (large / "a.rules").open("wb") as stream:
        stream.truncate(1 << 32)
    assert codes(lambda: load_pack(large, vocabulary)) == ["RW315"]


def test_text_that_is_not_utf8(write: Write, vocabulary: Vocabulary) -> None:
    mine = write("mine")
    (mine / "a.rules").write_bytes(b"# fine\n# caf\xe9\n")
    with pytest.raises(RewriteError) as caught:
        load_pack(mine, vocabulary)
    (found,) = caught.value.diagnostics
    assert found.span is not None
    assert (found.code, found.span.line) == ("RW112", 2)


def test_the_digest_tells_every_text_apart(
    write: Write, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    write("base", a=rule("one"))
    mine = write("mine", "extends: [base]\n", a=rule("two"), b="")
    seen = {load_pack(mine, vocabulary).digest}
    assert load_pack(mine, vocabulary).digest in seen
    assert fingerprint([mine], [tmp_path], vocabulary.newest_opset) in seen
    for file, text in [
        (mine / "a.rules", rule("two") + "# a comment\n"),
        (mine / "b.rules", "# a comment\n"),
        (mine / "c.rules", ""),
        (mine / "pack.yaml", "name: mine\ndoc: Another pack.\nextends: [base]\n"),
        (tmp_path / "base" / "a.rules", rule("one") + "\n"),
    ]:
        file.write_text(text)
        digest = fingerprint([mine], [tmp_path], vocabulary.newest_opset)
        assert digest not in seen
        assert digest == load_pack(mine, vocabulary).digest
        seen.add(digest)
    (tmp_path / "base").rename(tmp_path / "mine" / "moved")  # its own place does not matter
    (tmp_path / "mine" / "moved").rename(tmp_path / "base")
    assert fingerprint([mine], [tmp_path], vocabulary.newest_opset) in seen


def test_shipped_packs_compile(vocabulary: Vocabulary) -> None:
    shipped = resources.shipped("rules")
    pack = load_packs(shipped, vocabulary, [resources.folder("rules")])
    assert len(pack.rules) >= 120
    for found in pack.rules:
        low, high = found.opset
        assert low is not None
        assert high is not None
        assert 7 <= low <= high
        assert not any(isinstance(n, ast.PatternCall) for n in nodes(found))


def test_rules_of_other_packs_need_extends(write: Write, vocabulary: Vocabulary) -> None:
    text = rule("mine", head=" over somewhere_else")
    with pytest.raises(RewriteError) as raised:
        load_pack(write("mine", a=text), vocabulary)
    (found,) = raised.value.diagnostics
    assert found.code == "RW308"
    assert found.hint == "pack.yaml names other packs under `extends`"


def test_the_schema_of_pack_yaml_is_generated_and_takes_shipped_packs():
    import jsonschema
    import yaml

    from rewrite import resources
    from rewrite.lang import manifest

    folder = resources.folder("rules")
    text = (folder / "schema.json").read_text(encoding="utf-8")
    assert text == manifest.json_schema(), "run tools/generated.py"
    validator = jsonschema.Draft202012Validator(json.loads(text))
    for path in sorted(folder.glob("*/pack.yaml")):
        assert not list(validator.iter_errors(yaml.safe_load(path.read_text("utf-8"))))
    good = {"name": "a", "doc": "A pack.", "opset": [7, 26]}
    for wrong in ({"name": "A"}, {"doc": ""}, {"opset": [7]}, {"extend": ["b"]}, {"disable": [1]}):
        assert list(validator.iter_errors({**good, **wrong}))
