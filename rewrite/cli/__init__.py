"""The command line: `rewrite COMMAND …`.

In: arguments. Out: the exit status: 0 done, 1 a check did not hold, 2 bad input or usage. Commands
are the modules of `rewrite/cli/commands`, found by scanning; each has a docstring whose first line
is its help, `options(parser)` and `run(arguments) -> status`, and imports heavy libraries inside
`run`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rewrite.cli import commands, ending
from rewrite.cli.console import complain
from rewrite.cli.lazily import postpone
from rewrite.errors import RewriteError, error

BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 2, 130, 141


class Parser(argparse.ArgumentParser):
    """argparse, with usage errors as diagnostics."""

    def error(self, message: str) -> NoReturn:
        raise error("RW002", message, hint=f"{self.prog} --help")


class Version(argparse.Action):
    """Looks the version up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"rewrite {version('onnx-rewrite')}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Whatever goes wrong is one message on stderr, never a traceback."""
    debug = os.environ.get("REWRITE_DEBUG") == "1"
    _open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a sign shows ?
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()  # a closed pipe shows here, where it can be handled
    except RewriteError as problem:
        if debug:
            raise
        complain(problem)
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return PIPE_CLOSED
    except Exception as problem:  # the last line of defence before the user
        if debug:
            raise
        complain(_told(problem))
        return BAD_INPUT
    return status


def command() -> NoReturn:
    """The process of one command, from its arguments to its exit status."""
    ending.in_order()
    postpone()
    status = main()
    gc.freeze()  # at its end Python would look through everything for garbage once more
    sys.exit(status)


def _run(arguments: Sequence[str]) -> int:
    parsed, left = _parser().parse_known_args(arguments)
    if left:
        hint = f"rewrite {parsed.command} --help" if parsed.command else "rewrite --help"
        raise error("RW002", f"unrecognized arguments: {' '.join(left)}", hint=hint)
    run = getattr(parsed, "run", None)
    if run is None:
        _parser().print_help()
        return BAD_INPUT
    status: int = run(parsed)
    return status


def _parser() -> Parser:
    parser = Parser(prog="rewrite", description="Rewrite ONNX models for a target by rule packs.")
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    parser.set_defaults(run=None)
    found = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", parser_class=Parser
    )
    for info in pkgutil.iter_modules(commands.__path__):
        module = importlib.import_module(f"{commands.__name__}.{info.name}")
        first, _, rest = (module.__doc__ or "").partition("\n")
        sub = found.add_parser(
            info.name,
            help=first,
            description=f"{first}\n{rest}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.options(sub)
        sub.set_defaults(run=module.run)
    return parser


def _told(problem: Exception) -> RewriteError:
    if isinstance(problem, OSError) and problem.filename is None and problem.strerror:
        _silence_stdout()  # of all that is written only this has no name
        return error("RW003", f"cannot write: {problem.strerror}", subject="standard output")
    return _fault(problem)


def _fault(problem: Exception) -> RewriteError:
    text = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
    return error(
        "RW009",
        f"unexpected {text} (a fault in rewrite; please report it)",
        hint="set REWRITE_DEBUG=1 to see where",
    )


def _open_streams() -> None:
    """Streams that the caller closed swallow what is written to them."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def _silence_stdout() -> None:
    """The reader went away: keep Python from complaining again when it closes stdout."""
    # where stdout is not a file of the system, nothing is flushed at exit
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
