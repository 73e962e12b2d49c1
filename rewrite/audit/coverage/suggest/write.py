"""Proposed cases as the text of a `*.cases.yaml`.

In: `Proposal`s. Out: YAML that `rewrite test` reads, with a comment above each case that says what
it shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rewrite.audit.coverage.suggest.propose import Proposal

_PLAIN = re.compile(r"[A-Za-z][\w .,=+-]*[\w.=+]|[A-Za-z]")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"})
_WIDTH = 96


def write(proposals: Sequence[Proposal]) -> str:
    """All of them, in the order given."""
    return "\n".join("\n".join(_case(p)) + "\n" for p in proposals)


def _case(proposal: Proposal) -> Iterator[str]:
    case = proposal.case
    yield from _comment(proposal.keys)
    yield f"- rule: {case.rule}"
    yield f"  name: {_scalar(case.name)}"
    if case.target is not None:
        yield f"  target: {_scalar(case.target)}"
    if case.opsets:
        one, *others = map(str, case.opsets)
        yield f"  opset: [{one}, {', '.join(others)}]" if others else f"  opset: {one}"
    yield from _block("before", case.before)
    if case.after is not None:
        yield from _block("after", case.after)
    if case.fired is not None:
        yield f"  fired: {case.fired}"
    if case.rejects is not None:
        yield f"  rejects: {case.rejects}"
    if case.because is not None:
        yield f"  because: {_scalar(case.because)}"


def _comment(keys: Sequence[str]) -> Iterator[str]:
    line = "# shows"
    for key in keys:
        if len(line) + len(key) > _WIDTH:
            yield line
            line = "#"
        line += f" {key}"
    yield line


def _block(key: str, text: str) -> Iterator[str]:
    yield f"  {key}: |"
    yield from (f"    {row}" for row in text.splitlines())


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
