"""Rule files of one rule."""

from __future__ import annotations

MANIFEST = "name: page\ndoc: A page.\nopset: [7, 26]\nexample_opset: 18\n"


def rule(body: str, name: str = "r", phase: str = "clean", more: str = "") -> str:
    """A rule file: the body is `match`, conditions, `emit` and `claim`."""
    return (
        f'rule {name} in {phase} {more}{{\n  """x becomes y."""\n{body}\n'
        '  example fires plain """g (float x) => (float y) { y = Neg(x) }"""\n'
        '  example rejects other """g (float x) => (float y) { y = Abs(x) }"""\n}\n'
    )
