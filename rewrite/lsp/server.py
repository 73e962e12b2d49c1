"""The language server: the protocol on one side, functions on texts on the other.

In: requests of an editor. Out: answers. pygls keeps the documents; this module turns its positions
(UTF-16) into ours and back, and asks analysis, hover, completion, navigation, examples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer

from rewrite.errors import Diagnostic, RewriteError
from rewrite.lang.printer import format_text
from rewrite.lsp import analysis, completion, examples, navigation
from rewrite.lsp.hover import hover
from rewrite.lsp.place import Place, place_at
from rewrite.match.vocabulary import vocabulary
from rewrite.told import text_of

RUN = "rewrite.runExample"
PAUSE = 0.3  # seconds without a change after which a pack is looked at
_SORTS = {
    "operator": lsp.CompletionItemKind.Class,
    "attribute": lsp.CompletionItemKind.Property,
    "function": lsp.CompletionItemKind.Function,
    "pattern": lsp.CompletionItemKind.Interface,
    "rule": lsp.CompletionItemKind.Module,
    "name": lsp.CompletionItemKind.Variable,
    "type": lsp.CompletionItemKind.TypeParameter,
    "word": lsp.CompletionItemKind.Keyword,
    "field": lsp.CompletionItemKind.Field,
}


class Server(LanguageServer):
    """`told`: the files that diagnostics were published for, so that they can be taken back."""

    def __init__(self, version: str) -> None:
        super().__init__("rewrite", version)
        self.told: set[Path] = set()
        self.changes = 0

    def texts(self) -> dict[Path, str]:
        """The documents that are open, by path."""
        found: dict[Path, str] = {}
        for document in self.workspace.text_documents.values():
            path = _path(document.uri)
            if path is not None:
                found[path] = document.source
        return found

    def pack_texts(self, path: Path) -> dict[Path, str]:
        """The rule files of the pack that a file is in, as they stand."""
        opened = self.texts()
        folder = analysis.pack_folder(path)
        files = (path,) if folder is None else analysis.files_of(folder)
        found = {}
        for file in files:
            if file.suffix == ".rules":
                found[file] = opened[file] if file in opened else file.read_text("utf-8", "replace")
        return found

    def publish(self, path: Path) -> None:
        """Diagnostics of the file and of its pack; those that are gone are cleared."""
        done = analysis.analyse(path, self.texts())
        self.show(done.found, done.files)

    def show(self, found: Mapping[Path, tuple[Diagnostic, ...]], files: Iterable[Path]) -> None:
        """Publish diagnostics by file; of `files` without any, those told earlier are cleared."""
        opened = self.texts()
        for path in dict.fromkeys((*found, *sorted(self.told.intersection(files)))):
            rows = found.get(path, ())
            text = opened.get(path) or text_of(str(path)) or ""
            self.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(
                    uri=uris.from_fs_path(str(path)) or "",
                    diagnostics=[_diagnostic(row, text) for row in rows],
                )
            )
            if rows:
                self.told.add(path)
            else:
                self.told.discard(path)

    def rules(self, uri: str) -> tuple[Path, str] | None:
        """The path and the text of a rule file; None of other files."""
        path = _path(uri)
        if path is None or path.suffix != ".rules":
            return None
        return path, self.workspace.get_text_document(uri).source

    def place(self, uri: str, position: lsp.Position) -> tuple[Path, Place] | None:
        """The place in a rule file; None in other files."""
        found = self.rules(uri)
        if found is None:
            return None
        path, text = found
        lines = text.split("\n")
        row = lines[position.line] if position.line < len(lines) else ""
        column = len(
            row.encode("utf-16-le")[: 2 * position.character].decode("utf-16-le", "ignore")
        )
        return path, place_at(text, position.line, column)


def make(version: str) -> Server:
    """A server with all that it answers to; `start_io` begins to listen."""
    server = Server(version)
    _documents(server)
    _questions(server)
    _tests(server)
    return server


def _documents(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
        _publish(ls, params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
        """A pack is loaded when typing pauses, not at every letter."""
        ls.changes += 1
        now = ls.changes
        await asyncio.sleep(PAUSE)
        if now == ls.changes:
            _publish(ls, params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
        _publish(ls, params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatted(ls: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        document = ls.workspace.get_text_document(params.text_document.uri)
        try:
            text = format_text(document.source, str(_path(document.uri)))
        except RewriteError:  # the diagnostics say what is wrong
            return []
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(len(document.lines) + 1, 0))
        return [] if text == document.source else [lsp.TextEdit(whole, text)]


def _questions(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
        found = ls.place(params.text_document.uri, params.position)
        if found is None:
            return None
        path, place = found
        told = hover(place, vocabulary(), navigation.definitions(ls.pack_texts(path)))
        if told is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, told))

    options = lsp.CompletionOptions(trigger_characters=[".", "{", ":", "("])

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, options)
    def completed(ls: Server, params: lsp.CompletionParams) -> lsp.CompletionList:
        found = ls.place(params.text_document.uri, params.position)
        if found is None:
            return lsp.CompletionList(is_incomplete=False, items=[])
        path, place = found
        texts = ls.pack_texts(path)
        patterns, rules = navigation.names(texts, "pattern"), navigation.names(texts, "rule")
        proposals = completion.complete(place, vocabulary(), patterns, rules)
        items = [_item(number, one) for number, one in enumerate(proposals)]
        return lsp.CompletionList(is_incomplete=False, items=items)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(ls: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
        found = ls.place(params.text_document.uri, params.position)
        if found is None:
            return None
        path, place = found
        texts = {**ls.pack_texts(path), path: place.text}
        where = navigation.define(place, path, texts)
        if where is None:
            return None
        text = texts[where.path]
        uri = uris.from_fs_path(str(where.path)) or ""
        return lsp.Location(uri, _range(text, where.start, where.end))

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def listed(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        found = ls.rules(params.text_document.uri)
        if found is None:
            return []
        _, text = found
        return [
            lsp.DocumentSymbol(
                name=symbol.name,
                kind=lsp.SymbolKind.Class if symbol.kind == "rule" else lsp.SymbolKind.Function,
                range=_range(text, symbol.start, symbol.end),
                selection_range=_range(text, symbol.name_start, symbol.name_end),
            )
            for symbol in navigation.symbols(text)
        ]


def _tests(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    def lenses(ls: Server, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        found = ls.rules(params.text_document.uri)
        if found is None:
            return []
        _, text = found
        made = []
        for symbol in navigation.symbols(text):
            if symbol.kind != "rule":
                continue
            whole = [params.text_document.uri, symbol.name]
            made.append(_lens(text, symbol.start, "run tests", [*whole, ""]))
            for start, name in symbol.examples:
                made.append(_lens(text, start, "run example", [*whole, name]))
        return made

    @server.command(RUN)
    def run(ls: Server, uri: str, rule: str, example: str) -> str:
        """The tests of a rule; the one called `example`, where that is not empty."""
        path = _path(uri)
        if path is None:
            return ""
        done = examples.run(path, ls.texts(), rule, example or None)
        found: dict[Path, tuple[Diagnostic, ...]] = {}
        for row in done.found:
            file = path if row.span is None else Path(row.span.file)
            found[file] = (*found.get(file, ()), row)
        ls.show(found, (path,))
        kind = lsp.MessageType.Error if done.found else lsp.MessageType.Info
        ls.window_show_message(lsp.ShowMessageParams(kind, done.told))
        return done.told


# --- forms of the protocol ---------------------------------------------------------------------


def _publish(ls: Server, uri: str) -> None:
    path = _path(uri)
    if path is not None:
        ls.publish(path)


def _path(uri: str) -> Path | None:
    found = uris.to_fs_path(uri)
    return None if found is None else Path(found)


def _lens(text: str, start: int, title: str, arguments: list[str]) -> lsp.CodeLens:
    return lsp.CodeLens(
        _range(text, start, start + 1), lsp.Command(title, RUN, arguments=arguments)
    )


def _item(number: int, proposal: completion.Proposal) -> lsp.CompletionItem:
    formats = lsp.InsertTextFormat
    return lsp.CompletionItem(
        label=proposal.label,
        kind=_SORTS[proposal.sort],
        detail=proposal.detail or None,
        insert_text=proposal.insert or None,
        insert_text_format=formats.Snippet if proposal.is_snippet else formats.PlainText,
        sort_text=f"{number:04d}",
    )


def _diagnostic(row: Diagnostic, text: str) -> lsp.Diagnostic:
    message = row.message if row.hint is None else f"{row.message}\n{row.hint}"
    place = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 1))
    if row.span is not None:
        lines = text.split("\n")
        start = _position(lines, row.span.line - 1, row.span.column - 1)
        end = _position(lines, row.span.end_line - 1, row.span.end_column - 1)
        place = lsp.Range(start, end)
    return lsp.Diagnostic(
        range=place,
        message=message,
        severity=lsp.DiagnosticSeverity.Error,
        code=row.code,
        source="rewrite",
    )


def _range(text: str, start: int, end: int) -> lsp.Range:
    lines = text.split("\n")
    return lsp.Range(_at(text, lines, start), _at(text, lines, end))


def _at(text: str, lines: list[str], offset: int) -> lsp.Position:
    line = text.count("\n", 0, offset)
    return _position(lines, line, offset - (text.rfind("\n", 0, offset) + 1))


def _position(lines: list[str], line: int, column: int) -> lsp.Position:
    """A line and a column from 0 as the protocol counts: in units of UTF-16."""
    line = max(0, min(line, len(lines) - 1))
    units = len(lines[line][: max(0, column)].encode("utf-16-le")) // 2
    return lsp.Position(line, units)
