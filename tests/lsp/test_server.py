"""The server as an editor sees it: a process, the protocol, diagnostics that come and go."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="the extra `lsp` is not installed")

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.client import LanguageClient

RULE = '''rule double in clean {
  """Relu of a Relu is one Relu: \N{GREEK SMALL LETTER ALPHA}\N{MATHEMATICAL BOLD SMALL A}."""
  match y = Relu(Relu(x))
  emit  y = Relu(x)
  claim equal(rtol=0)
  example fires plain """
    g (float[2] x) => (float[2] y) { a = Relu(x)  y = Relu(a) }
  """
  example rejects used """
    g (float[2] x) => (float[2] y, float[2] a) { a = Relu(x)  y = Relu(a) }
  """
}
'''
MANIFEST = "name: acme\ndoc: A pack.\nopset: [14, 26]\n"
WAIT = 60  # seconds: a machine that does other things, too


class Editor(LanguageClient):
    """A client that keeps what it is told."""

    def __init__(self):
        super().__init__("editor", "1")
        self.found = {}
        self.messages = []
        self.news = asyncio.Event()

        @self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def diagnostics(params):
            self.found[Path(uris.to_fs_path(params.uri)).name] = params.diagnostics
            self.news.set()

        @self.feature(lsp.WINDOW_SHOW_MESSAGE)
        def message(params):
            self.messages.append(params.message)

    async def told(self, name, wanted):
        """Wait until the diagnostics of a file are as wanted."""
        async with asyncio.timeout(WAIT):
            while not wanted(self.found.get(name)):
                self.news.clear()
                await self.news.wait()
        return self.found[name]

    def open(self, path, text=None):
        text = path.read_text() if text is None else text
        item = lsp.TextDocumentItem(uris.from_fs_path(str(path)), "rewrite", 1, text)
        self.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def change(self, path, text, version):
        document = lsp.VersionedTextDocumentIdentifier(version, uris.from_fs_path(str(path)))
        whole = lsp.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [whole]))


def edit(work):
    """Run something with a server, which must end when it is told to."""

    async def whole():
        editor = Editor()
        await editor.start_io(sys.executable, "-m", "rewrite", "lsp", "--stdio")
        await editor.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
        editor.initialized(lsp.InitializedParams())
        try:
            return await work(editor)
        finally:
            await editor.shutdown_async(None)
            editor.exit(None)
            await editor.stop()

    return asyncio.run(whole())


@pytest.fixture
def pack(tmp_path):
    folder = tmp_path / "acme"
    folder.mkdir()
    (folder / "pack.yaml").write_text(MANIFEST)
    (folder / "a.rules").write_text(RULE)
    return folder


def test_diagnostics_come_and_go_with_the_text(pack):
    path = pack / "a.rules"

    async def work(editor):
        editor.open(path)
        editor.change(path, RULE.replace("Relu(Relu(x))", "Relu(Rellu(x))"), 2)
        (wrong,) = await editor.told("a.rules", lambda found: found)
        assert wrong.code == "RW203"
        assert "Relu" in wrong.message
        row = RULE.replace("Relu(Relu(x))", "Relu(Rellu(x))").split("\n")[wrong.range.start.line]
        assert row[wrong.range.start.character :].startswith("Rellu")
        editor.change(path, RULE, 3)
        await editor.told("a.rules", lambda found: found is not None and not found)
        assert path.read_text() == RULE

    edit(work)


def test_positions_count_as_the_protocol_does(pack):
    """A letter outside of the basic plane is two units."""
    path = pack / "a.rules"
    bold = "\N{MATHEMATICAL BOLD SMALL A}"
    wrong_text = RULE.replace("  emit ", f'  where "{bold}" == nothing\n  emit ')

    async def work(editor):
        editor.open(path, wrong_text)
        found = await editor.told("a.rules", lambda found: found)
        row = wrong_text.split("\n")[found[0].range.start.line]
        units = row[: row.index("nothing")].encode("utf-16-le")
        assert found[0].range.start.character == len(units) // 2

    edit(work)


def test_questions(pack):
    path = pack / "a.rules"
    document = lsp.TextDocumentIdentifier(uris.from_fs_path(str(path)))

    async def work(editor):
        editor.open(path)
        position = lsp.Position(2, 13)
        shown = await editor.text_document_hover_async(lsp.HoverParams(document, position))
        assert shown.contents.value.startswith("**Relu**(X)")
        proposals = await editor.text_document_completion_async(
            lsp.CompletionParams(document, position)
        )
        assert "Conv" in [item.label for item in proposals.items]
        where = await editor.text_document_definition_async(
            lsp.DefinitionParams(document, lsp.Position(3, 17))
        )
        assert (where.range.start.line, where.range.start.character) == (2, 22)
        symbols = await editor.text_document_document_symbol_async(
            lsp.DocumentSymbolParams(document)
        )
        assert [s.name for s in symbols] == ["double"]
        edits = await editor.text_document_formatting_async(
            lsp.DocumentFormattingParams(document, lsp.FormattingOptions(2, True))
        )
        assert not edits

    edit(work)


def test_examples_are_run_from_the_text(pack):
    path = pack / "a.rules"
    uri = uris.from_fs_path(str(path))
    wrong = RULE.replace("emit  y = Relu(x)", "emit  y = Neg(x)")

    async def work(editor):
        editor.open(path)
        lenses = await editor.text_document_code_lens_async(
            lsp.CodeLensParams(lsp.TextDocumentIdentifier(uri))
        )
        commands = [(lens.command.title, *lens.command.arguments[1:]) for lens in lenses]
        assert commands == [
            ("run tests", "double", ""),
            ("run example", "double", "fires plain"),
            ("run example", "double", "rejects used"),
        ]

        async def run(rule, example=""):
            params = lsp.ExecuteCommandParams("rewrite.runExample", [uri, rule, example])
            return await editor.workspace_execute_command_async(params)

        assert await run("double") == "double: 2 tests hold"
        assert await run("double", "fires plain") == "double: test `fires plain` holds"
        editor.change(path, wrong, 2)
        assert (await run("double")).startswith("double: 1 of 2 tests fail")
        (failed,) = await editor.told("a.rules", lambda found: found)
        assert failed.code == "RW704"
        assert failed.range.start.line == 5
        assert (await run("single")).endswith("has no such test")
        assert path.read_text() == RULE

    edit(work)


def test_targets_and_manifests(pack):
    target = pack.parent / "chip.yaml"
    target.write_text("doc: x\npacks: [acme]\nopset: [7, 18]\ngroups: no\noperators: [Conf]\n")
    manifest = pack / "pack.yaml"

    async def work(editor):
        editor.open(target)
        found = await editor.told("chip.yaml", lambda found: found)
        assert {d.code for d in found} <= {"RW406", "RW407", "RW410", "RW411"}
        assert any("Conf" in d.message for d in found)
        editor.open(manifest, MANIFEST + "extends: [algebrah]\n")
        found = await editor.told("pack.yaml", lambda found: found)
        assert "algebra" in found[0].message

    edit(work)


def test_files_that_belong_to_nothing(tmp_path):
    lonely = tmp_path / "a.rules"
    lonely.write_text(RULE)

    async def work(editor):
        editor.open(lonely)
        document = lsp.TextDocumentIdentifier(uris.from_fs_path(str(lonely)))
        shown = await editor.text_document_hover_async(
            lsp.HoverParams(document, lsp.Position(900, 900))
        )
        assert shown is None
        params = lsp.ExecuteCommandParams("rewrite.runExample", [document.uri, "double", ""])
        assert "not in a pack" in await editor.workspace_execute_command_async(params)

    edit(work)
