"""pytest collects rule packs: each `pack.yaml` is a file of tests, each rule a group of them.

In: pytest's hooks. Out: items `pack.yaml::rule::test`, one per example and case, that are selected,
distributed and reported like any other test. What a pack itself says is tested: its own rules,
those of other packs to which it adds conditions, and its cases. Nothing is imported before a pack
is met.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rewrite.audit.cases.case import Outcome, RuleTest
    from rewrite.audit.cases.run import RuleRunner
    from rewrite.audit.cases.suite import Unit
    from rewrite.target.target import Target

MANIFEST = "pack.yaml"
BOTH_KINDS = "fires and rejects"
_LONGEST = 1 << 16  # bytes of a pack.yaml


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option; `--help` has it."""
    parser.getgroup("rewrite", "rule packs").addoption(
        "--rewrite-target",
        action="append",
        default=[],
        metavar="T",
        help="a target that rules are tried for, where they ask: a name from `rewrite targets`, or "
        "a .yaml file; repeatable (all shipped ones)",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> PackFile | None:
    """A pack, where the file is the manifest of one."""
    if file_path.name != MANIFEST or not _is_pack(file_path):
        return None
    pack: PackFile = PackFile.from_parent(parent, path=file_path)
    return pack


def _is_pack(manifest: Path) -> bool:
    """Whether it belongs to rules: others call a file pack.yaml, too."""
    try:
        beside = manifest.parent.iterdir()
        if any(path.name.endswith((".rules", ".cases.yaml")) for path in beside):
            return True
        with manifest.open("rb") as stream:
            lines = stream.read(_LONGEST).splitlines()
    except OSError:
        return False
    return any(line.startswith(b"extends:") for line in lines)


class PackFile(pytest.File):
    """A pack. Rules that do not load are an error of the collection, with all that is wrong."""

    def collect(self) -> Iterator[RuleTests]:
        from rewrite import resources
        from rewrite.audit.cases.find import open_pack
        from rewrite.audit.cases.suite import Selection, own_units
        from rewrite.errors import RewriteError

        names = tuple(self.config.getoption("--rewrite-target"))
        try:
            pack = open_pack(self.path.parent, [resources.folder("rules")])
            known = frozenset(target.name for target in _targets(names)) if names else None
            units = own_units(pack, Selection(targets=known))
        except RewriteError as problem:
            raise self.CollectError(_told(problem)) from None
        for unit in units:
            rule: RuleTests = RuleTests.from_parent(self, name=unit.rule.name, unit=unit)
            yield rule


class RuleTests(pytest.Collector):
    """The tests of one rule; its matcher is built once, when the first of them runs."""

    def __init__(self, *, unit: Unit, **rest: Any) -> None:
        super().__init__(**rest)
        self.unit = unit

    def collect(self) -> Iterator[RuleItem]:
        from rewrite.audit.cases.suite import is_refined

        for test in self.unit.tests:
            yield self._item(test.name, test)
        if self.unit.whole and is_refined(self.unit):
            yield self._item(BOTH_KINDS, None)

    def _item(self, name: str, test: RuleTest | None) -> RuleItem:
        item: RuleItem = RuleItem.from_parent(self, name=name, test=test)
        return item

    @cached_property
    def runner(self) -> RuleRunner:
        from rewrite.audit.cases.run import RuleRunner

        names = tuple(self.config.getoption("--rewrite-target"))
        return RuleRunner(self.unit.pack, self.unit.rule, _targets(names))


class RuleItem(pytest.Item):
    """One example or case; without one, whether the rule has tests of both kinds."""

    def __init__(self, *, test: RuleTest | None, **rest: Any) -> None:
        super().__init__(**rest)
        self.test = test

    @property
    def _rule(self) -> RuleTests:
        assert isinstance(self.parent, RuleTests)
        return self.parent

    def runtest(self) -> None:
        from rewrite.audit.cases.suite import lacking

        runner, unit = self._rule.runner, self._rule.unit
        if self.test is None:
            outcome = lacking(unit.rule, [runner.run(test) for test in unit.tests])
        else:
            outcome = runner.run(self.test)
        if outcome is None:
            return
        if outcome.finding is not None:
            raise NotHeldError(outcome)
        if outcome.refined:
            from rewrite.audit.cases.report import REFINED

            # The test is another pack's, and this one says that it does not want the rule there.
            # Nothing of the rule was shown, so it has not passed; nothing is to be mended, so it is
            # no expected failure. `rewrite test --junit` calls it skipped, too.
            pytest.skip(REFINED)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The diagnostic and what belongs to it; no traceback of ours."""
        from rewrite.audit.cases.report import rows
        from rewrite.errors import RewriteError

        if isinstance(excinfo.value, NotHeldError):
            return "\n".join(rows(excinfo.value.outcome))
        if isinstance(excinfo.value, RewriteError):
            return _told(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test stands in the text of the pack."""
        rule = self._rule.unit.rule
        span = rule.span if self.test is None else self.test.span
        return Path(span.file), span.line - 1, f"{rule.name}: {self.name}"


class NotHeldError(Exception):
    """A test of a rule does not hold."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("" if outcome.problem is None else outcome.problem.message)
        self.outcome = outcome


@cache
def _targets(names: tuple[str, ...]) -> tuple[Target, ...]:
    """The targets named, else those shipped, `generic` first."""
    from rewrite.cli.packs import targets
    from rewrite.match.vocabulary import vocabulary
    from rewrite.target.load import load_target

    return tuple(load_target(name, vocabulary()) for name in targets(names))


def _told(problem: Any) -> str:
    from rewrite.told import told

    return "\n".join(told(problem))
