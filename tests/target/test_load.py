"""Target files: what a good one becomes, and where a bad one is said to be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrite.errors import RewriteError
from rewrite.lang.vocabulary import Vocabulary
from rewrite.schema import OpSchema
from rewrite.target.load import load_target
from rewrite.target.target import Isa, Limits, Memory

KNOWN = {("", "Conv"), ("", "Relu"), ("", "Add"), ("com.microsoft", "Gelu")}
POINTWISE = frozenset({("", "Relu"), ("", "Add")})

GOOD = """\
doc: A test.
packs: []
opset: [7, 18]
groups: true
operators: [Conv, ms.Gelu]
"""


def schemas(domain: str, name: str) -> tuple[OpSchema, ...]:
    known = (domain, name) in KNOWN
    return (OpSchema(domain, name, 1, (), (), {}, {}, {}),) if known else ()


VOCABULARY = Vocabulary(
    schemas=schemas,
    domains={"": "", "ms": "com.microsoft"},
    commutative=frozenset(),
    classes={"pointwise": POINTWISE},
    functions={},
    target_methods={},
    operators=lambda: ("Add", "Conv", "Relu", "ms.Gelu"),
)


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(path: Path) -> list[tuple[str, int, int, str]]:
    """Code, line, column and text of everything that is wrong with a file."""
    with pytest.raises(RewriteError) as caught:
        load_target(path, VOCABULARY)
    found = []
    for d in caught.value.diagnostics:
        line, column = (d.span.line, d.span.column) if d.span else (0, 0)
        found.append((d.code, line, column, f"{d.message} {d.hint or ''}"))
    return found


# --- what a good file becomes -------------------------------------------------------------------


def test_a_minimal_target(tmp_path):
    target = load_target(write(tmp_path, GOOD), VOCABULARY)
    assert target.name == "mine"
    assert target.domain == "rewrite.mine"
    assert target.opset == (7, 18)
    assert target.has("", "Conv")
    assert target.has("com.microsoft", "Gelu")
    assert not target.has("", "Gelu")


def test_operators_all_is_every_standard_one(tmp_path):
    text = GOOD.replace("[Conv, ms.Gelu]", "all")
    target = load_target(write(tmp_path, text), VOCABULARY)
    assert target.has("", "Anything")
    assert not target.has("com.microsoft", "Gelu")


def test_facts_with_and_without_a_source(tmp_path):
    text = GOOD + (
        "vector_bytes: {value: 128, source: the manual}\n"
        "align_bytes: 64\n"
        "memories:\n  near: {bytes: 1_024, source: a table}\n"
        "isa: {triple: native, features: [+a, -b]}\n"
        "limits:\n  Conv: {dtypes: [f32], rank: [3, 5], constant: [1], static: true}\n"
    )
    target = load_target(write(tmp_path, text), VOCABULARY)
    assert (target.vector_bytes, target.align_bytes) == (128, 64)
    assert target.memories == {"near": Memory(1024)}
    assert target.isa == Isa("native", "", ("+a", "-b"))
    assert target.limits == {("", "Conv"): Limits(("f32",), (3, 5), (1,), True)}
    assert target.sources == {"vector_bytes": "the manual", "memories.near": "a table"}


def test_limits_and_promotions_decide_what_it_has(tmp_path):
    text = GOOD + "limits: {Conv: {dtypes: [f32]}}\npromotes: {f16: f32}\n"
    target = load_target(write(tmp_path, text), VOCABULARY)
    assert target.has("", "Conv", "f32")
    assert target.has("", "Conv", "f16")
    assert not target.has("", "Conv", "f64")


def test_a_child_lays_its_facts_over_its_parent(tmp_path):
    write(
        tmp_path,
        GOOD
        + "vector_bytes: {value: 16, source: old}\n"
        + "isa: {triple: t, cpu: c, features: [+x]}\n"
        + "limits: {Conv: {dtypes: [f32], rank: [3, 5]}, ms.Gelu: {rank: [1, 4]}}\n"
        + "dtypes: [{activation: f32, weight: f32, accumulator: f32, source: s}]\n",
        "base",
    )
    child = write(
        tmp_path,
        "doc: Child.\nextends: base\nvector_bytes: 32\nisa: {cpu: d, features: [+y]}\n"
        "limits: {Conv: {rank: [4, 4]}, ms.Gelu: null}\n"
        "dtypes: [{activation: u8, weight: s8, accumulator: s32}]\n",
    )
    target = load_target(child, VOCABULARY)
    assert (target.doc, target.extends, target.packs) == ("Child.", "base", ())
    assert target.vector_bytes == 32
    assert target.isa == Isa("t", "d", ("+y",))
    assert target.limits == {("", "Conv"): Limits(("f32",), (4, 4))}
    assert [row.activation for row in target.dtypes] == ["u8"]
    assert target.sources == {}  # the facts they spoke of are gone


def test_kinds_of_group(tmp_path):
    text = GOOD + (
        "fuses:\n"
        "  conv: {heads: [Conv], epilogue: [pointwise], most: 3}\n"
        "  twins: {heads: [Conv], most_heads: 2}\n"
        "  norm: {prologue: [Add], heads: [ms.Gelu]}\n"
    )
    target = load_target(write(tmp_path, text), VOCABULARY)
    conv, relu, add = ("", "Conv"), ("", "Relu"), ("", "Add")
    assert target.fuses([conv, relu])
    assert target.fuses([conv, add, relu])
    assert not target.fuses([conv, add, relu, relu])  # four are more than `most`
    assert not target.fuses([relu, conv])  # no prologue
    assert target.fuses([conv, conv])
    assert not target.fuses([conv, conv, conv])
    assert target.fuses([add, ("com.microsoft", "Gelu")])
    assert not target.fuses([add])  # no head
    assert not target.fuses([])


def test_no_groups_where_the_target_takes_none(tmp_path):
    text = GOOD.replace("groups: true", "groups: false") + "fuses: {a: {heads: [Conv]}}\n"
    assert not load_target(write(tmp_path, text), VOCABULARY).fuses([("", "Conv")])


# --- where a bad file is said to be wrong -------------------------------------------------------

BAD = {
    "unknown key": ("packss: []\n", ("RW403", 6, 1, "did you mean `packs`")),
    "unknown key inside": ("isa: {triple: t, cup: x}\n", ("RW403", 6, 18, "did you mean `cpu`")),
    "wrong type": ("vector_bytes: wide\n", ("RW404", 6, 15, "expected power of two")),
    "source with a comma": (
        "vector_bytes: {value: 8, source: a, b}\n",
        ("RW404", 6, 15, "a source with a comma needs quotes"),
    ),
    "text for a flag": ("limits: {Conv: {static: 1}}\n", ("RW404", 6, 25, "true or false")),
    "list for a table": ("isa: [t]\n", ("RW404", 6, 6, "expected a table, found a list")),
    "table for a list": ("fused: {}\n", ("RW404", 6, 8, "expected a list, found a table")),
    "not a power of two": ("vector_bytes: 48\n", ("RW406", 6, 15, "not a power of two")),
    "too small": ("align_bytes: 0\n", ("RW406", 6, 14, "less than 1")),
    "not finite": ("cost: {launch_seconds: inf}\n", ("RW406", 6, 24, "not finite")),
    "pair reversed": ("limits: {Conv: {rank: [5, 3]}}\n", ("RW406", 6, 23, "5 is more than 3")),
    "pair of three": ("limits: {Conv: {rank: [1, 2, 3]}}\n", ("RW404", 6, 23, "[least, most]")),
    "element type": ("promotes: {f17: f32}\n", ("RW406", 6, 12, "did you mean `f16`")),
    "choice": ("requantize: {mode: flaot}\n", ("RW406", 6, 20, "did you mean `float`")),
    "operator": ("decomposed: [Conv, Cnov]\n", ("RW410", 6, 20, "no operator is called `Cnov`")),
    "spelling": ("decomposed: [Conv2D]\n", ("RW410", 6, 14, "did you mean `Conv`?")),
    "domain": ("decomposed: [Gelu]\n", ("RW410", 6, 14, "did you mean `ms.Gelu`?")),
    "lower case": ("fuses: {a: {heads: [relu]}}\n", ("RW410", 6, 21, "did you mean `Relu`?")),
    "prefix": ("decomposed: [xx.Conv]\n", ("RW410", 6, 14, "unknown prefix")),
    "class": ("fuses: {a: {heads: [pointwize]}}\n", ("RW410", 6, 21, "did you mean `pointwise`")),
    "missing inside": ("memories: {near: {}}\n", ("RW405", 6, 18, "`memories.near` lacks `bytes`")),
    "missing in a list": ("fused: [{note: x}]\n", ("RW405", 6, 9, "lacks `operators`")),
    "missing in limits": ("fuses: {a: {most: 2}}\n", ("RW405", 6, 12, "lacks `heads`")),
    "twice": ("doc: Again.\n", ("RW411", 6, 1, "given twice")),
}


@pytest.mark.parametrize("name", BAD)
def test_problems_are_positioned(tmp_path, name):
    text, (code, line, column, message) = BAD[name]
    (found,) = problems(write(tmp_path, GOOD + text))
    assert found[:3] == (code, line, column)
    assert message in found[3]


def test_all_problems_are_found_in_one_go(tmp_path):
    text = "doc: [x]\npacks: [nothing_like_this]\nopset: [0, 7]\noperators: [Foo]\n"
    found = problems(write(tmp_path, text))
    assert [f[:3] for f in found] == [
        ("RW404", 1, 6),
        ("RW407", 2, 9),
        ("RW406", 3, 9),
        ("RW410", 4, 13),
    ]


def test_missing_keys_are_all_named(tmp_path):
    found = problems(write(tmp_path, "doc: Only this.\n"))
    assert [f[0] for f in found] == ["RW405"] * 4
    assert [f[3].split("`")[3] for f in found] == ["packs", "opset", "groups", "operators"]


def test_unknown_parent(tmp_path):
    (found,) = problems(write(tmp_path, GOOD + "extends: hexagonn\n"))
    assert found[:3] == ("RW408", 6, 10)
    assert "did you mean `hexagon`" in found[3]


def test_parents_in_a_circle(tmp_path):
    write(tmp_path, GOOD + "extends: mine\n", "other")
    (found,) = problems(write(tmp_path, GOOD + "extends: other\n"))
    assert found[:3] == ("RW409", 6, 10)
    assert "mine → other → mine" in found[3]


def test_a_target_that_extends_itself(tmp_path):
    (found,) = problems(write(tmp_path, GOOD + "extends: mine\n"))
    assert found[:3] == ("RW409", 6, 10)


def test_problems_of_a_parent_are_positioned_in_the_parent(tmp_path):
    parent = write(tmp_path, GOOD + "vector_bytes: 3\n", "base")
    with pytest.raises(RewriteError) as caught:
        load_target(write(tmp_path, "doc: C.\nextends: base\n"), VOCABULARY)
    (found,) = caught.value.diagnostics
    assert found.span is not None
    assert (found.span.file, found.span.line) == (str(parent), 6)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"doc: [", "not YAML"),
        (b"doc: x\n  packs: ]", "not YAML"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"", "empty"),
        (b"a: 1\n---\nb: 2\n", "not YAML"),
        (b"[" * 50_000, "the file is nested too deeply"),
        (b"#" * (1 << 20) + b"\n", "larger than"),
    ],
)
def test_files_that_are_no_targets(tmp_path, data, message):
    path = tmp_path / "mine.yaml"
    path.write_bytes(data)
    (found,) = problems(path)
    assert found[0] == "RW402"
    assert message in found[3]


def test_aliases_that_multiply_or_loop_are_wrong_types(tmp_path):
    text = "a: &a [x]\nb: &b [*a, *a]\n" + GOOD + "isa: &i {triple: *i}\n"
    codes = {f[0] for f in problems(write(tmp_path, text))}
    assert codes == {"RW403", "RW404"}


def test_a_file_that_is_not_there(tmp_path):
    (found,) = problems(tmp_path / "none.yaml")
    assert found[0] == "RW402"
    assert "No such file" in found[3]


def test_a_name_that_is_no_target():
    with pytest.raises(RewriteError) as caught:
        load_target("hexagonn", VOCABULARY)
    (found,) = caught.value.diagnostics
    assert found.code == "RW401"
    assert found.hint == "did you mean `hexagon`?"


@pytest.mark.parametrize("name", ["hexagonn", "chip"])
def test_a_target_of_this_folder_without_its_ending(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.yaml").write_text(GOOD)
    with pytest.raises(RewriteError) as caught:
        load_target(name, VOCABULARY)
    (found,) = caught.value.diagnostics
    assert found.code == "RW401"
    assert found.hint == f"a target of your own is named by its file: `{name}.yaml`"


def test_packs_beside_the_file_come_before_shipped_ones(tmp_path):
    for name in ("mine", "algebra"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pack.yaml").write_text("name: x\n")
    file = tmp_path / "chip.yaml"
    file.write_text(GOOD.replace("packs: []", "packs: [fusion, mine, algebra]"))
    target = load_target(file, VOCABULARY)
    assert target.packs == ("fusion", str(tmp_path / "mine"), str(tmp_path / "algebra"))


def test_a_pack_that_is_nowhere(tmp_path):
    (tmp_path / "mine").mkdir()  # no pack.yaml in it
    file = tmp_path / "chip.yaml"
    file.write_text(GOOD.replace("packs: []", "packs: [mine]"))
    with pytest.raises(RewriteError) as raised:
        load_target(file, VOCABULARY)
    assert [d.code for d in raised.value.diagnostics] == ["RW407"]
