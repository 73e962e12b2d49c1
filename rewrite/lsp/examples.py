"""The tests of one rule, run from an editor.

In: the path of a rule file, the texts of open files, the name of a rule, perhaps of one example.
Out: `Run`: how many hold, the diagnostics of those that do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rewrite import resources
from rewrite.audit.cases.find import tests_of
from rewrite.audit.cases.run import RuleRunner
from rewrite.errors import Diagnostic, RewriteError
from rewrite.lang.pack import load_pack
from rewrite.lsp.analysis import copied, moved, pack_folder
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target


@dataclass(frozen=True, slots=True)
class Run:
    """`told`: one sentence. `found`: what does not hold, or keeps the pack from loading."""

    told: str
    found: tuple[Diagnostic, ...]


def run(path: Path, texts: Mapping[Path, str], rule: str, example: str | None = None) -> Run:
    """Run the tests of a rule, or the one that is called `fires plain`."""
    folder = pack_folder(path)
    if folder is None:
        return Run("the file is not in a pack: there is no pack.yaml beside it", ())
    with copied(folder, texts) as copy:
        try:
            found, count = _tests(copy, rule, example)
        except RewriteError as problem:
            rows = tuple(moved(d, copy, folder) for d in problem.diagnostics)
            return Run("the pack does not load", rows)
        rows = tuple(moved(d, copy, folder) for d in found)
    if not count:
        return Run(f"`{rule}` has no such test", ())
    what = "tests" if example is None else f"test `{example}`"
    if rows:
        return Run(f"{rule}: {len(rows)} of {count} {what} fail: {rows[0].message}", rows)
    return Run(f"{rule}: {count} {what} hold" if example is None else f"{rule}: {what} holds", ())


def _tests(folder: Path, rule: str, example: str | None) -> tuple[list[Diagnostic], int]:
    pack = load_pack(folder, vocabulary(), [resources.folder("rules")])
    chosen = next((one for one in pack.rules if one.name == rule), None)
    if chosen is None:
        return [], 0
    targets = [load_target(name, vocabulary()) for name in resources.target_names()]
    runner = RuleRunner(pack, chosen, targets)
    tests = [t for t in tests_of(pack, chosen) if example is None or t.name == example]
    outcomes = [runner.run(test) for test in tests]
    return [o.problem for o in outcomes if o.problem is not None], len(outcomes)
