"""The page of a check, made from its docstring.

In: a `Check`. Out: Markdown, and the examples in it: a rule file that the check finds something in
and one that no check finds anything in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rewrite.audit.lint.registry import Check

_FENCE = re.compile(r"^```rule (bad|good)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MANIFEST = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LEADS = {"bad": "Found:", "good": "Not found:"}


def page(check: Check) -> str:
    """Examples with a pack.yaml of their own are no rules by themselves: their fence is `text`."""
    tag = "rule" if manifest(check) is None else "text"
    body = _FENCE.sub(lambda m: f"{_LEADS[m[1]]}\n\n```{tag}\n{m[2]}```", check.page)
    return f"# {check.code}: {lower(check.title)}\n\n{check.severity.title()}.\n\n{body}\n"


def lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def example(check: Check, kind: str) -> str:
    """The rule file of the page that is `bad` or `good`; raises `LookupError` without one."""
    found = [m[2] for m in _FENCE.finditer(check.page) if m[1] == kind]
    if len(found) != 1:
        raise LookupError(f"the page of {check.code} has {len(found)} examples marked {kind}")
    return found[0]


def manifest(check: Check) -> str | None:
    """The pack.yaml of the examples, where the page has one."""
    found = _MANIFEST.search(check.page)
    return None if found is None else found[1]


def table(checks: Sequence[Check]) -> str:
    """All checks, each with its page."""
    rows = [f"| [{c.code}]({c.code}.md) | {c.severity} | {lower(c.title)} |\n" for c in checks]
    return "| code | | |\n|---|---|---|\n" + "".join(rows)
