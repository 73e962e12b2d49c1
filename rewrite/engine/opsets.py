"""What a person should know about opsets, before wondering why a rule did not apply.

In: a model, a target, the matcher, and the packs that a person brings along: those beside the file
of the target, those of `--rules`. Out: notes for the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rewrite.graph.model import LoadedModel
from rewrite.match.matcher import Matcher
from rewrite.target.target import Target


def notes(
    loaded: LoadedModel, target: Target, matcher: Matcher, own: Mapping[str, Path]
) -> list[str]:
    """`own`: packs by the names they were asked for, with their folders."""
    opset = loaded.facts.import_of(loaded.model.graph, "")
    if opset == 0:  # no operator of ONNX itself
        return []
    found = []
    oldest, newest = target.opset
    if not oldest <= opset <= newest:
        takes = f"{oldest} to {newest}" if oldest < newest else str(oldest)
        found.append(f"the model has opset {opset}, and {target.name} takes {takes}")
    idle = _idle(opset, matcher, {name: path.resolve() for name, path in own.items()})
    return found + [f"no rule of {name} is for opset {opset}, which the model has" for name in idle]


def _idle(opset: int, matcher: Matcher, own: Mapping[str, Path]) -> list[str]:
    """Packs that have rules of their own, none of them for this opset.

    Such packs mostly stand last: where they have a rule that can be used, it is soon found.
    """
    left = dict(own)
    met: set[str] = set()
    for entry in reversed(matcher.entries if left else ()):
        low, high = entry.rule.opset
        file = Path(entry.rule.source.rule.span.file).resolve()
        for name in [name for name, folder in left.items() if file.is_relative_to(folder)]:
            met.add(name)
            if low <= opset <= high:
                del left[name]
        if not left:
            break
    return [name for name in left if name in met]
