"""Rule packs: folders of rule text to one list of rules, ready to be compiled.

In: pack names or folders, a `Vocabulary`. Out: `RulePack`: packs that are extended included,
`disable` and `refine` carried out, pattern calls expanded, everything checked; or `RewriteError`
with all that is wrong in any of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from rewrite.errors import Collector, RewriteError
from rewrite.lang import ast
from rewrite.lang.assemble import Assembly, Origin
from rewrite.lang.check import check_rules, opset_range
from rewrite.lang.parser import parse
from rewrite.lang.sources import MANIFEST, PackSource, TextFile, digest, find_sources
from rewrite.lang.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One `.rules` file: its text and its tree as written, with pattern calls."""

    path: str
    text: str
    tree: ast.RuleFile


@dataclass(frozen=True)
class RulePack:
    """Rules in the order of packs and text. Every rule's `opset` is the range it can be used in."""

    name: str  # of several packs: their names with `+` between
    doc: str
    opset: tuple[int, int]  # the hull of the ranges of the packs
    example_opset: int
    rules: tuple[ast.Rule, ...]
    files: tuple[SourceFile, ...]
    digest: str  # of all text read; equal digests are equal packs
    origins: Mapping[str, Origin]  # rule name -> where it comes from
    texts: Mapping[str, str]  # file -> text, pack.yaml files included; for error messages

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the packs, that of the pack itself last."""
        paths = (Path(path) for path in self.texts)
        return tuple(path.parent for path in paths if path.name == MANIFEST)

    @property
    def own_files(self) -> tuple[SourceFile, ...]:
        """The files of the pack itself, not of those that it extends."""
        return tuple(f for f in self.files if Path(f.path).parent in self.folders[-1:])


def added(files: Iterable[SourceFile], rule: str) -> tuple[ast.Where, ...]:
    """The conditions that `refine` adds to a rule in these files."""
    refinements = (r for file in files for r in file.tree.refinements if r.rule == rule)
    return tuple(where for refinement in refinements for where in refinement.where)


def load_pack(folder: str | Path, vocabulary: Vocabulary, search: Sequence[Path] = ()) -> RulePack:
    """One pack with all that it extends."""
    return load_packs((folder,), vocabulary, search)


def load_packs(
    packs: Iterable[str | Path], vocabulary: Vocabulary, search: Sequence[Path] = ()
) -> RulePack:
    """Several packs, merged in order; a pack met twice counts once."""
    errors = Collector()
    packs = tuple(packs)
    sources = find_sources(packs, search, vocabulary.newest_opset, errors)
    files = {s.folder: _parse_all(s.files, errors) for s in sources}
    assembly = Assembly(errors)
    for source in sources:
        assembly.add(source, [f.tree for f in files[source.folder]])
    rules = assembly.finish()
    ranges = {r.name: assembly.origins[r.name].opset for r in rules}
    check_rules(rules, assembly.definitions(), vocabulary, ranges, errors)
    _drop_repeated(errors)
    errors.raise_if_any()
    # what a pack extends comes before it, so one pack asked for is the last
    named = sources[-1:] if len(packs) == 1 else sources
    return _merged(sources, named, files, rules, assembly, vocabulary)


def _parse_all(files: Iterable[TextFile], errors: Collector) -> list[SourceFile]:
    found: list[SourceFile] = []
    for file in files:
        try:
            found.append(SourceFile(file.path, file.text, parse(file.text, file.path)))
        except RewriteError as problem:
            errors.found += problem.diagnostics
    return found


def _drop_repeated(errors: Collector) -> None:
    """A slip in a named pattern shows in every rule that uses it; once is enough."""
    unique = {(d.code, d.span, d.message): d for d in reversed(errors.found)}
    errors.found[:] = list(reversed(unique.values()))


def _merged(
    sources: Sequence[PackSource],
    named: Sequence[PackSource],
    files: Mapping[Path, list[SourceFile]],
    rules: Sequence[ast.Rule],
    assembly: Assembly,
    vocabulary: Vocabulary,
) -> RulePack:
    narrowed: list[ast.Rule] = []
    for rule in rules:
        allowed = opset_range(rule, vocabulary, assembly.origins[rule.name].opset)
        assert allowed is not None  # an empty range has been reported
        narrowed.append(replace(rule, opset=allowed))
    manifests = [s.manifest for s in sources]
    newest = vocabulary.newest_opset  # all there is to say where no pack is given
    texts = {s.yaml.path: s.yaml.text for s in sources}
    texts |= {f.path: f.text for s in sources for f in files[s.folder]}
    return RulePack(
        name="+".join(s.manifest.name for s in named),
        doc=named[0].manifest.doc if len(named) == 1 else "",
        opset=(
            min((m.opset[0] for m in manifests), default=newest),
            max((m.opset[1] for m in manifests), default=newest),
        ),
        example_opset=max((m.example_opset for m in manifests), default=newest),
        rules=tuple(narrowed),
        files=tuple(f for s in sources for f in files[s.folder]),
        digest=digest(sources),
        origins=MappingProxyType(dict(assembly.origins)),
        texts=MappingProxyType(texts),
    )
