"""The documentation is executed.

What a fence is for stands after its opening backticks:

- `console`: lines that start with `$ ` are run by a shell, one after the other in one folder; what
  follows them is their output, where `...` stands for anything. Pages in EXECUTED are run.
- any word and `file=NAME`: the fence is written to NAME in that folder.
- `rule`: items of a rule file. They compile; on an error's page they may raise that error instead.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from rewrite import resources
from rewrite.errors import RewriteError

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EXECUTED = [
    DOCS / f"{name}.md"
    for name in (
        "tutorial",
        "coverage",
        "targets",
        "command-line",
        "python",
        "quantization",
        "running",
        "explain",
        "authoring",
        "testing",
        "verify",
        "lint/README",
    )
]
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"\"(RW\d{3})\"")


@dataclass(frozen=True)
class Fence:
    page: Path
    line: int
    tag: str
    file: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def fences(page: Path) -> list[Fence]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        words = match[1].split() or [""]
        files = [w.removeprefix("file=") for w in words[1:] if w.startswith("file=")]
        line = text.count("\n", 0, match.start()) + 1
        found.append(Fence(page, line, words[0], files[0] if files else None, match[2]))
    return found


# --- console ------------------------------------------------------------------------------------


def commands(fence: Fence) -> list[tuple[str, str]]:
    """Commands and the output that the page shows for each."""
    found: list[tuple[str, str]] = []
    for line in fence.text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:].rstrip("\n"), ""))
        else:
            command, output = found[-1]
            found[-1] = (command, output + line)
    return found


def pattern_of(shown: str) -> str:
    """A regular expression: the text as shown, blanks at line ends apart, `...` for anything."""
    lines = [re.escape(line.rstrip()).replace(r"\.\.\.", ".*?") for line in shown.splitlines()]
    return r"\s*".join([*(rf"{line}[ ]*\n" for line in lines), ""])


def play(page: Path, folder: Path) -> None:
    here = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    here |= {"COLUMNS": "100", "PYTHONHASHSEED": "0"}
    for fence in fences(page):
        if fence.file is not None:
            path = folder / fence.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text, encoding="utf-8")
        if fence.tag != "console":
            continue
        for command, shown in commands(fence):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=here,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=120,
            )
            if not re.fullmatch(pattern_of(shown), done.stdout, re.DOTALL):
                pytest.fail(f"{fence}: $ {command}\n--- shown\n{shown}--- printed\n{done.stdout}")


@pytest.mark.parametrize("page", EXECUTED, ids=lambda p: p.stem)
def test_commands_print_what_the_page_shows(page, tmp_path):
    play(page, tmp_path)


def test_a_wrong_output_is_seen(tmp_path):
    page = ROOT / "docs" / "tutorial.md"
    fence = Fence(page, 1, "console", None, "$ echo a; echo b\na\n...\n$ echo c\nd\n")
    first, second = commands(fence)
    assert re.fullmatch(pattern_of(first[1]), "a\nb\n", re.DOTALL)
    assert not re.fullmatch(pattern_of(second[1]), "c\n", re.DOTALL)


# --- rules --------------------------------------------------------------------------------------

RULES = [fence for page in PAGES for fence in fences(page) if fence.tag == "rule"]


def codes_of(fence: Fence, folder: Path) -> set[str]:
    """The error codes that the fence raises as a pack of its own."""
    from rewrite.lang.pack import load_pack
    from rewrite.match.vocabulary import vocabulary

    (folder / "pack.yaml").write_text(
        "name: page\ndoc: A page.\nopset: [7, 26]\nexample_opset: 18\n", encoding="utf-8"
    )
    (folder / "page.rules").write_text(fence.text, encoding="utf-8")
    try:
        load_pack(folder, vocabulary(), [resources.folder("rules")])
    except RewriteError as problem:
        return {d.code for d in problem.diagnostics}
    return set()


@pytest.mark.parametrize("fence", RULES, ids=str)
def test_rules_compile(fence, tmp_path):
    found = codes_of(fence, tmp_path)
    if fence.page.parent.name == "errors":
        assert found <= {fence.page.stem}
    else:
        assert found == set()


def test_pages_of_rule_errors_show_the_error(tmp_path):
    for page in sorted({fence.page for fence in RULES if fence.page.parent.name == "errors"}):
        shown = [codes_of(fence, tmp_path) for fence in RULES if fence.page == page]
        assert {page.stem} in shown, page


# --- error codes and links ----------------------------------------------------------------------


def codes_raised() -> set[str]:
    """Those of errors; the codes of `rewrite lint` (RW9nn) have pages made from its checks."""
    sources = (ROOT / "rewrite").rglob("*.py")
    found = {code for path in sources for code in _CODE.findall(path.read_text(encoding="utf-8"))}
    return {code for code in found if not code.startswith("RW9")}


def test_every_code_has_a_page_and_every_page_a_code():
    pages = {path.stem for path in (DOCS / "errors").glob("RW*.md")}
    raised = codes_raised()
    assert sorted(raised - pages) == [], "codes without a page"
    assert sorted(pages - raised) == [], "pages of codes that nothing raises"


@pytest.mark.parametrize("page", sorted((DOCS / "errors").glob("RW*.md")), ids=lambda p: p.stem)
def test_pages_of_errors_begin_with_their_code(page):
    first = page.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(f"# {page.stem}: ")


def test_the_list_of_codes_is_up_to_date():
    spec = importlib.util.spec_from_file_location("errors_index", ROOT / "tools" / "errors.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert (DOCS / "errors" / "README.md").read_text(encoding="utf-8") == tool.index()
    assert {code[2] for code in codes_raised()} <= set(tool.KINDS)


def anchors(page: Path) -> set[str]:
    """The places on a page that a link can name: its headings, as GitHub spells them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" in target:
            continue
        other = page.parent / target if target else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), f"{target}#{anchor}"


def test_every_page_is_linked():
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    }
    assert [str(page) for page in PAGES[1:] if page.resolve() not in linked] == []


# --- tables of names ----------------------------------------------------------------------------


def names_in(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading: the names in each cell, in backquotes."""
    text = (DOCS / page).read_text(encoding="utf-8").split(f"{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    rows = [line.split("|")[1:3] for line in table[0].splitlines()[2:]]
    found: dict[str, list[str]] = {}
    for first, second in rows:
        for name in re.findall(r"`(\w+)`", first):
            found[name] = re.findall(r"`(\w+)`", second)
    return found


def test_keys_of_the_json_report():
    from onnx import parser

    import rewrite
    from rewrite.audit.verify import Verification
    from rewrite.cli import report

    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    made = report.build(rewrite.apply(model), "m.onnx", None, Verification("equal", 1))
    shown = names_in("command-line.md", "### JSON")
    assert list(shown) == list(made)
    assert set(shown["stop"]) >= set(made["stop"])
    assert set(shown["ledger"]) >= set(made["ledger"])
    assert set(shown["seconds"]) == set(made["seconds"])
    assert set(shown["verified"]) >= set(made["verified"])


def test_reasons_to_stop_and_kinds_of_tidying():
    from typing import get_args

    from rewrite.engine.journal import Reason
    from rewrite.report.words import TIDIED

    shown = names_in("command-line.md", "### JSON")
    assert set(shown["stop"]) >= set(get_args(Reason))
    assert set(shown["folded"]) == set(TIDIED)


def test_records_of_the_journal():
    from rewrite.engine import journal
    from rewrite.engine.quantized_faults import QuantizationFault

    records = {
        "applied": journal.Applied,
        "refused": journal.Refused,
        "folded": journal.Folded,
        "groups": journal.Grouped,
        "cleaned": journal.Cleaned,
        "cycles": journal.Cycle,
        "stop": journal.Stop,
        "drift": journal.Drifted,
        "faults": QuantizationFault,
    }
    shown = names_in("python.md", "## The journal")
    assert list(shown) == [f.name for f in fields(journal.Journal)]
    for name, record in records.items():
        assert shown[name] == [f.name for f in fields(record)]


def test_parameters_of_apply():
    import rewrite

    expected = list(inspect.signature(rewrite.apply).parameters)
    assert list(names_in("python.md", "# Python")) == expected


def options_of(command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    from rewrite.cli import main

    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = capsys.readouterr().out.split("\noptions:\n", 1)[1]
    found = re.findall(r"^  (?:-\w(?: \S+)?, )?(--?[a-z-]+)", told, re.MULTILINE)
    return set(found) - {"--help"}


def test_options_of_the_other_commands(capsys):
    """Each command has a row, and in it each of its options."""
    import pkgutil

    from rewrite.cli import commands

    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    section = page.split("\n## Options of the others\n", 1)[1].split("\n## ", 1)[0]
    rows = dict(re.findall(r"^\| \[?`(\w+)`\S* \| (.*) \|$", section, re.MULTILINE))
    names = {info.name for info in pkgutil.iter_modules(commands.__path__)} - {"apply", "diff"}
    shown = {name: set(re.findall(r"`(--?[a-z-]+)", rows.get(name, ""))) for name in sorted(names)}
    assert shown == {name: options_of(name, capsys) for name in sorted(names)}


@pytest.mark.parametrize("command", ["apply", "diff"])
def test_options(command, capsys):
    """Each option stands in the first cell of a row of the command's section."""
    from rewrite.cli import main

    with pytest.raises(SystemExit):
        main([command, "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--output"}
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    section = re.split(r"^## (?!#)", page.split(f"\n## {command}\n", 1)[1], flags=re.MULTILINE)[0]
    cells = re.findall(r"^\| (`-.*?) \|", section, re.MULTILINE)
    assert {option for cell in cells for option in re.findall(r"`(--[a-z-]+)", cell)} == options
