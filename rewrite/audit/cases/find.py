"""The tests of a rule, found: its examples, then the cases that name it.

In: a `RulePack`, a rule. Out: `RuleTest`s in the order of the text. Cases stand in files
`*.cases.yaml` beside the `.rules` files of a pack, and come along where another pack extends it.
Files come from strangers: links that lead out of the folder, files that are too many or too large
are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from rewrite.audit.cases.case import Case, RuleTest
from rewrite.audit.cases.read import SUFFIX, read_cases
from rewrite.audit.cases.tree import MOST_CHARACTERS
from rewrite.errors import Collector, Diagnostic, Label, RewriteError, Span, error
from rewrite.lang import ast
from rewrite.lang.pack import RulePack, load_pack
from rewrite.lang.sources import MANIFEST
from rewrite.lang.words import suggestion
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import find, load_target
from rewrite.target.target import Target

MOST_FILES = 500  # of one folder
_CASE = "case "  # how names of tests of cases begin
_NEARLY = ("cases.yaml", "cases.yml")


def tests_of(pack: RulePack, rule: ast.Rule) -> tuple[RuleTest, ...]:
    """The tests of the rule. Raises `RewriteError` where files of cases have faults."""
    examples = (_example(rule, e, number) for number, e in enumerate(rule.examples, 1))
    cases = (test for c in cases_of(pack) if c.rule == rule.name for test in tests_of_case(c))
    return (*examples, *cases)


def _example(rule: ast.Rule, example: ast.Example, number: int) -> RuleTest:
    kind = "fires" if example.fires else "rejects"
    name = f"{kind} {example.name or number}"
    return RuleTest(rule.name, name, example.fires, example.text, example.span)


def tests_of_case(case: Case) -> tuple[RuleTest, ...]:
    """One test; of a case with several opsets one for each."""
    name, fires = f"{_CASE}{case.name}", case.rejects is None
    one = RuleTest(case.rule, name, fires, case.before, case.span, case)
    if len(case.opsets) < 2:
        return (replace(one, opset=next(iter(case.opsets), None)),)
    return tuple(replace(one, name=f"{name}, opset {n}", opset=n) for n in case.opsets)


# --- files --------------------------------------------------------------------------------------


def open_pack(folder: Path, search: Sequence[Path]) -> RulePack:
    """A pack that loads, and whose cases do. Raises `RewriteError` with all that is wrong."""
    try:
        pack = load_pack(folder, vocabulary(), search)
    except RewriteError as problem:
        raise RewriteError((*problem.diagnostics, *_faults_in(folder))) from None
    cases_of(pack)
    return pack


def demand_rules(only: Iterable[str], packs: Sequence[RulePack], known: Sequence[str]) -> None:
    """That the rules asked for are `known`. Raises RW004."""
    for name in only:
        if name in known:
            continue
        homes = (pack.origins[name].pack for pack in packs if name in pack.origins)
        home = next(homes, None)
        if home is None:
            message, hint = f"none of the packs has a rule `{name}`", suggestion(name, known)
        else:
            message = f"`{name}` is a rule of the pack `{home}`, and counts there"
            hint = f"name `{home}`, or its folder"
        raise error("RW004", message, hint=hint)


def _faults_in(folder: Path) -> tuple[Diagnostic, ...]:
    """What is wrong with the files of cases of a folder, whatever its rules are."""
    if not folder.is_dir():
        return ()
    try:
        return tuple(fault for path in _files_in(folder) for fault in _read(*_stamped(path))[1])
    except RewriteError as problem:
        return problem.diagnostics


def cases_of(pack: RulePack) -> tuple[Case, ...]:
    """All cases of a pack and of those that it extends, in the order of packs and files.

    Raises `RewriteError` with every fault of the files, cases that name no rule of the pack, and
    those that have a rule and a name in common.
    """
    return _checked(pack, tuple(_stamped(path) for path in files_of(pack)))


def files_of(pack: RulePack) -> tuple[Path, ...]:
    """The files of cases, those of packs that are extended first."""
    return tuple(path for folder in pack.folders for path in _files_in(folder))


def _files_in(folder: Path) -> list[Path]:
    names = sorted(folder.iterdir())
    unread = [p for p in names if p.name in _NEARLY or p.name.endswith(".cases.yml")]
    if unread:
        hint = f"call it NAME{SUFFIX}, so that its tests are run"
        message = "a file of cases of this name is not read"
        raise RewriteError(tuple(_unread(path, message, hint) for path in unread))
    paths = [p for p in names if p.name.endswith(SUFFIX)]
    if len(paths) > MOST_FILES:
        message = f"more than {MOST_FILES} files of cases"
        raise RewriteError((_unread(folder / MANIFEST, message),))
    return paths


def _stamped(path: Path) -> tuple[Path, int, int]:
    """A file and the state it is in."""
    try:
        state = path.stat()
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise RewriteError((_unread(path, f"cannot read: {reason}"),)) from None
    return path, state.st_mtime_ns, state.st_size


def _checked(pack: RulePack, files: Sequence[tuple[Path, int, int]]) -> tuple[Case, ...]:
    names = {rule.name for rule in pack.rules}
    errors = Collector()
    found: list[Case] = []
    taken: dict[tuple[str, str], Case] = {}
    for path, changed, size in files:
        cases, faults = _read(path, changed, size)
        errors.found += faults
        for case in cases:
            if case.rule not in names:
                if path.parent in pack.folders[-1:]:  # that of a pack below may be disabled here
                    message = f"the pack `{pack.name}` has no rule `{case.rule}`"
                    hint = suggestion(case.rule, names)
                    errors.add("RW712", message, case.place("rule"), hint)
                continue
            # One with several opsets is called by its name, and each of its tests has one as well.
            tests = (test.name.removeprefix(_CASE) for test in tests_of_case(case))
            called = [(case.rule, name) for name in (case.name, *tests)]
            first = next((taken[name] for name in called if name in taken), None)
            taken.update((name, case) for name in called if name not in taken)
            found.append(case)
            if first is not None:
                message = f"two cases of `{case.rule}` are called `{case.name}`"
                note = (Label(first.place("name"), "the first one"),)
                errors.add("RW712", message, case.place("name"), None, note)
    errors.raise_if_any()
    return tuple(found)


@lru_cache(maxsize=1024)
def _read(path: Path, changed: int, size: int) -> tuple[tuple[Case, ...], tuple[Diagnostic, ...]]:
    """The cases of a file as it was then, and what is wrong with it."""
    text = text_of(path)
    if isinstance(text, Diagnostic):
        return (), (text,)
    errors = Collector()
    cases = read_cases(text, str(path), vocabulary().newest_opset, errors)
    for case in cases:
        if case.target is not None:
            errors.found += _target_faults(case)
    return cases, tuple(errors.found)


def text_of(path: Path) -> str | Diagnostic:
    """The text of a file with the line ends that it has, or why it is not read."""
    try:
        if not path.resolve().is_relative_to(path.parent.resolve()):
            return _unread(path, "the file leads out of the pack's folder")
        if not path.is_file():  # a pipe would keep us waiting
            return _unread(path, "it is not a file")
        size = path.stat().st_size
        if size > 4 * MOST_CHARACTERS:
            return _unread(path, f"the file has {size} bytes, which is too much to be read")
        with path.open(encoding="utf-8", newline="") as stream:
            return stream.read()
    except OSError as problem:
        return _unread(path, f"cannot read: {problem.strerror or problem}")
    except UnicodeDecodeError:
        return _unread(path, "not UTF-8 text")


def _unread(path: Path, message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic("RW709", message, Span(str(path), 1, 1, 1, 1), hint)


# --- targets ------------------------------------------------------------------------------------


def target_of(test: RuleTest) -> Target | None:
    """The target that a case names; None: those that the rule is tested for."""
    if test.case is None or test.case.target is None:
        return None
    return _target(*_stamped(find(_place(test.case))))


def _place(case: Case) -> str:
    """What a case calls its target: a name, or a file in the folder of the case."""
    name = str(case.target)
    if name.endswith((".yaml", ".yml")):
        return str(Path(case.span.file).parent / name)
    return name


def _target_faults(case: Case) -> Iterator[Diagnostic]:
    """Why the target that a case names is none."""
    place = case.place("target")
    name = str(case.target)
    if "/" in name or "\\" in name:
        message = f"`{name}` is neither a target's name nor a file beside this one"
        yield Diagnostic("RW711", message, place)
        return
    try:
        file = find(_place(case))
    except RewriteError as problem:
        (first, *_) = problem.diagnostics
        yield Diagnostic("RW711", first.message, place, first.hint)
        return
    if not file.is_file():
        yield Diagnostic("RW711", f"there is no file `{name}` beside this one", place)


@lru_cache(maxsize=256)
def _target(path: Path, changed: int, size: int) -> Target:
    """The target in a file as it was then."""
    return load_target(path, vocabulary())
