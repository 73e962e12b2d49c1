"""A text changed in place, in the form that its file has, and only where nobody else changed it.

In: a file, the text that was read of it, the new text. Out: the file. Texts have `\\n` line ends
and no byte order mark, as the commands work on them; the file keeps its own: what is not changed
stays byte for byte.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path

from rewrite.cli.console import read_text, write_text
from rewrite.errors import RewriteError, error
from rewrite.lang.text import normalize

_MARK = "\ufeff"


def replace(path: Path, before: str, after: str) -> None:
    """Write the new text, where the file still has the old one. Raises RW003, RW005."""
    raw = read_text(path, newline="")
    if normalize(raw) != before:
        raise changed(path)
    write_text(path, _formed(raw, after))


def append(path: Path, before: str, text: str) -> None:
    """Add text behind an empty line, where the file still has the old one (`""`: there is none)."""
    raw = read_text(path, newline="") if path.exists() else ""
    if normalize(raw) != before:
        raise changed(path)
    end = "\r\n" if "\r\n" in raw else "\n"
    gap = f"{raw.rstrip()}{end}{end}" if raw.strip() else ""
    write_text(path, gap + text.replace("\n", end))


def changed(path: Path) -> RewriteError:
    """That somebody else has written the file."""
    message = "cannot write: the file has changed since it was read"
    return error("RW003", message, hint="run the command again", subject=str(path))


def _formed(raw: str, after: str) -> str:
    """The new text with the line ends of the lines that stay; new lines end as the first one."""
    mark = _MARK if raw.startswith(_MARK) else ""
    if "\r\n" not in raw:
        return mark + after
    old = _lines(raw.removeprefix(_MARK))
    end = "\r\n" if old[0].endswith("\r\n") else "\n"
    new = _lines(after)
    plain = [normalize(line) for line in old]
    rows: list[str] = []
    for what, i, j, k, m in SequenceMatcher(None, plain, new, autojunk=False).get_opcodes():
        rows += old[i:j] if what == "equal" else [r.replace("\n", end) for r in new[k:m]]
    return mark + "".join(rows)


def _lines(text: str) -> list[str]:
    """The lines with their ends; nothing but `\\n` ends one."""
    rows = text.split("\n")
    return [*(f"{row}\n" for row in rows[:-1]), *filter(None, rows[-1:])]
