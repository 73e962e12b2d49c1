"""Serve an editor with the Language Server Protocol, on standard input and output.

Diagnostics while you type, what operators and functions mean, completion, the
definitions of names and patterns, tests run from the text. Needs the extra `lsp`.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from importlib.util import find_spec

from rewrite.cli import ending
from rewrite.errors import error


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stdio", action="store_true", help="accepted for editors that pass it; it changes nothing"
    )


def run(arguments: argparse.Namespace) -> int:
    del arguments  # editors pass --stdio, and there is no other way
    if find_spec("pygls") is None:
        hint = "python -m pip install 'onnx-rewrite[lsp]'"
        raise error("RW770", "the language server needs pygls", hint=hint)
    from rewrite.lsp.server import make

    ending.at_once()  # a thread reads from the editor, and would be waited for
    make(version("onnx-rewrite")).start_io()
    return 0
