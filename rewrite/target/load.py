"""A target's YAML file, and those it extends, to a `Target`.

In: the name of a shipped target or the path of a file, and the `Vocabulary` that knows operators
and their classes. Out: a frozen `Target`, or a `RewriteError` with every problem of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import yaml

from rewrite import resources
from rewrite.errors import Collector, RewriteError, Span, error
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.words import suggestion
from rewrite.schema import DOMAINS
from rewrite.target.check import check_facts
from rewrite.target.kinds import Kind, ListOf, MapOf, Table
from rewrite.target.read import Facts, Known, Reader, written
from rewrite.target.read import Path as FactPath
from rewrite.target.requantize import MODES
from rewrite.target.schema import TARGET
from rewrite.target.target import (
    ActivationFusion,
    Arithmetic,
    Cost,
    Fixed,
    Fused,
    GroupKind,
    Intermediate,
    Isa,
    Layout,
    Limits,
    Lut,
    Memory,
    Operator,
    Requantize,
    Target,
)

LONGEST_CHAIN = 20
MOST_BYTES = 1 << 20  # a target file is some kilobytes; more is not one
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def load_target(name_or_path: str | Path, vocabulary: Vocabulary | None) -> Target:
    """The target. With None for the vocabulary operator names are not checked and classes are
    empty, so that no group fits: enough to list targets, not to match against one."""
    file = find(name_or_path)
    problems = Collector()
    facts = _load(file, _known(vocabulary), problems, ())
    problems.raise_if_any()
    facts.values = cast(dict[str, object], _without_none(facts.values))
    _check_required(facts, TARGET, facts.values, (), problems)
    problems.raise_if_any()
    check_facts(facts, problems)
    problems.raise_if_any()
    classes = vocabulary.classes if vocabulary is not None else {}
    return _build(file, facts, classes)


def find(name_or_path: str | Path) -> Path:
    """The file of a shipped target, or the path itself where it names a file."""
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")):
        return Path(text)
    known = resources.shipped("targets")
    if text in known:
        return known[text]
    hint = suggestion(text, known) or f"known: {', '.join(known)}; or the path of a .yaml file"
    if f"{text}.yaml" in [path.name for path in Path().glob("*.yaml")]:
        hint = f"a target of your own is named by its file: `{text}.yaml`"
    raise error("RW401", f"no target is called `{text}`", hint=hint)


def _known(vocabulary: Vocabulary | None) -> Known:
    packs = frozenset(resources.shipped("rules"))
    if vocabulary is None:
        return Known(packs, DOMAINS, {}, None)

    def operator(domain: str, name: str) -> bool:
        return bool(vocabulary.schemas(domain, name))

    return Known(packs, vocabulary.domains, vocabulary.classes, operator, vocabulary.operators)


# --- files and inheritance ---------------------------------------------------------------------


def _load(file: Path, known: Known, problems: Collector, below: tuple[Path, ...]) -> Facts:
    """The facts of a file laid over those of its parents."""
    root = _compose(file)
    beside = _packs_beside(file)
    reader = Reader(str(file), replace(known, packs=known.packs | beside.keys()), problems)
    if not _NAME.fullmatch(file.stem):
        reader.problems.add(
            "RW406",
            f"`{file.stem}` is not a target name",
            reader.span(root),
            "the file's name is the target's: lower-case letters, digits and hyphens",
        )
    values = reader.read(TARGET, root, ())
    facts = reader.facts
    facts.values = values if isinstance(values, dict) else {}
    packs = facts.values.get("packs")
    if isinstance(packs, (list, tuple)):
        facts.values["packs"] = [beside.get(str(pack), pack) for pack in packs]
    parent = facts.values.get("extends")
    if not isinstance(parent, str):
        return facts
    parent_file = _parent(file, parent, facts.spans[("extends",)], problems, (*below, file))
    if parent_file is None:
        return facts
    return _over(_load(parent_file, known, problems, (*below, file)), facts)


def _packs_beside(file: Path) -> dict[str, str]:
    """Packs in folders beside the file, by name: they come before shipped ones."""
    found = sorted(file.parent.glob("*/pack.yaml"))
    return {path.parent.name: str(path.parent.absolute()) for path in found}


def _parent(
    file: Path, name: str, span: Span, problems: Collector, chain: tuple[Path, ...]
) -> Path | None:
    """A target beside this file comes first, then the shipped ones."""
    known = resources.shipped("targets")
    found = None
    if _NAME.fullmatch(name):  # a name: no path leads anywhere else
        beside = file.with_name(f"{name}.yaml")
        found = beside if beside.is_file() else known.get(name)
    if found is None:
        hint = suggestion(name, known) or f"known: {', '.join(known)}"
        problems.add("RW408", f"no target is called `{name}`", span, hint)
        return None
    if len(chain) > LONGEST_CHAIN:
        message = f"more than {LONGEST_CHAIN} targets extend one another"
        problems.add("RW409", message, span)
        return None
    if found.resolve() in [f.resolve() for f in chain]:
        cycle = " → ".join([*(f.stem for f in chain), name])
        problems.add("RW409", f"targets extend each other: {cycle}", span)
        return None
    return found


def _compose(file: Path) -> yaml.Node:
    try:
        if file.exists() and not file.is_file():  # reading a pipe or a device may not end
            raise error("RW402", "cannot read the target: it is not a file", subject=str(file))
        if file.stat().st_size > MOST_BYTES:
            raise error("RW402", f"the file is larger than {MOST_BYTES} bytes", subject=str(file))
        root = yaml.compose(file.read_bytes().decode("utf-8"), Loader=yaml.SafeLoader)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise error("RW402", f"cannot read the target: {reason}", subject=str(file)) from None
    except UnicodeDecodeError as problem:
        raise error("RW402", f"not UTF-8 text: {problem.reason}", subject=str(file)) from None
    except RecursionError:
        raise error("RW402", "the file is nested too deeply", subject=str(file)) from None
    except yaml.YAMLError as problem:
        raise _yaml_error(problem, file) from None
    if root is None:
        raise error("RW402", "the file is empty", subject=str(file))
    return root


def _yaml_error(problem: yaml.YAMLError, file: Path) -> RewriteError:
    text = getattr(problem, "problem", None) or str(problem).splitlines()[0]
    mark = getattr(problem, "problem_mark", None)
    if mark is None:
        return error("RW402", f"not YAML: {text}", subject=str(file))
    line, column = mark.line + 1, mark.column + 1
    return error("RW402", f"not YAML: {text}", Span(str(file), line, column, line, column + 1))


def _over(parent: Facts, child: Facts) -> Facts:
    """Tables merge key by key; anything else of the child replaces what the parent has."""
    values = cast(dict[str, object], _merge(TARGET, parent.values, child.values))
    values["extends"] = child.values["extends"]
    kept = {p: s for p, s in parent.sources.items() if not _replaced(p, child.spans)}
    return Facts(values, {**parent.spans, **child.spans}, {**kept, **child.sources})


def _replaced(path: FactPath, spans: Mapping[FactPath, Span]) -> bool:
    """Whether the child writes anew the fact at this place, or a list that held it."""
    kind: Kind = TARGET
    for i, part in enumerate(path):
        kind = _member(kind, part)
        if path[: i + 1] in spans and (i + 1 == len(path) or not isinstance(kind, Table | MapOf)):
            return True
    return False


def _merge(kind: Kind, parent: object, child: object) -> object:
    if not isinstance(parent, dict) or not isinstance(child, dict):
        return child
    merged = dict(parent)
    for name, value in child.items():
        if value is None:
            merged.pop(name, None)
        elif name in merged:
            merged[name] = _merge(_member(kind, name), merged[name], value)
        else:
            merged[name] = value
    return merged


def _member(kind: Kind, name: object) -> Kind:
    if isinstance(kind, Table) and isinstance(name, str):
        return kind.keys[name].kind
    if isinstance(kind, MapOf):
        return kind.value
    return kind.item if isinstance(kind, ListOf) else kind


def _without_none(value: object) -> object:
    """A null that had nothing to drop."""
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return value


def _check_required(
    facts: Facts, kind: Kind, value: object, path: FactPath, problems: Collector
) -> None:
    """Missing keys, looked for once everything inherited is in place."""
    if isinstance(kind, ListOf) and isinstance(value, list):
        for i, item in enumerate(value):
            _check_required(facts, kind.item, item, (*path, i), problems)
    elif isinstance(kind, MapOf) and isinstance(value, dict):
        for name, item in value.items():
            _check_required(facts, kind.value, item, (*path, written(name)), problems)
    elif isinstance(kind, Table) and isinstance(value, dict):
        for name, key in kind.keys.items():
            if name in value:
                _check_required(facts, key.kind, value[name], (*path, name), problems)
            elif key.required:
                where = ".".join(map(str, path)) or "the target"
                hint = f"{name}: {key.doc}"
                place = _nearest(facts.spans, path)
                problems.add("RW405", f"`{where}` lacks `{name}`", place, hint)


def _nearest(spans: Mapping[FactPath, Span], path: FactPath) -> Span:
    while path not in spans:
        path = path[:-1]
    return spans[path]


# --- building ----------------------------------------------------------------------------------


def _build(file: Path, facts: Facts, classes: Mapping[str, frozenset[Operator]]) -> Target:
    """The checked values have the shape that TARGET says, which mypy cannot follow: hence Any."""
    v: dict[str, Any] = facts.values
    operators = v["operators"]
    return Target(
        name=file.stem,
        doc=v["doc"],
        file=str(file),
        extends=v.get("extends"),
        packs=tuple(v["packs"]),
        opset=v["opset"],
        groups=v["groups"],
        operators=None if operators == "all" else frozenset(operators),
        decomposed=frozenset(v.get("decomposed", ())),
        limits={op: _limits(row) for op, row in _items(v, "limits")},
        promotes=v.get("promotes", {}),
        fused=tuple(Fused(**_frozen(row)) for row in v.get("fused", ())),
        kinds={name: _group(row, classes) for name, row in _items(v, "fuses")},
        dtypes=tuple(_arithmetic(row) for row in v.get("dtypes", ())),
        requantize=_requantize(v["requantize"]) if "requantize" in v else None,
        activation_fusion=_activation(v.get("activation_fusion")),
        lut=tuple(Lut(**row) for row in v.get("lut", ())),
        partition=v.get("partition", "any"),
        isa=Isa(**_frozen(v["isa"])) if "isa" in v else None,
        vector_bytes=v.get("vector_bytes"),
        align_bytes=v.get("align_bytes"),
        memories={name: Memory(**row) for name, row in _items(v, "memories")},
        layouts=tuple(Layout(**row) for row in v.get("layouts", ())),
        cost=Cost(**v.get("cost", {})),
        sources={_dotted(path): facts.sources[path] for path in sorted(facts.sources, key=_order)},
    )


def _items(values: Mapping[str, Any], key: str) -> list[tuple[Any, Any]]:
    return list(values.get(key, {}).items())


def _frozen(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(x) if isinstance(x, list) else x for k, x in row.items()}


def _limits(row: Mapping[str, Any]) -> Limits:
    plain = _frozen(row)
    if plain.get("same_qparams") == "all":
        plain["same_qparams"] = None
    fixed = tuple(Fixed(**parameters) for parameters in row.get("fixed_qparams", ()))
    return Limits(**plain | {"fixed_qparams": fixed})


def _arithmetic(row: Mapping[str, Any]) -> Arithmetic:
    plain = _frozen(row)
    if "intermediate" in plain:
        plain["intermediate"] = Intermediate(**plain["intermediate"])
    return Arithmetic(**plain)


def _requantize(row: Mapping[str, Any]) -> Requantize:
    return Requantize(**{**MODES[row["mode"]].implied(), **row})


def _activation(row: Mapping[str, Any] | None) -> ActivationFusion | None:
    return None if row is None else ActivationFusion(**_frozen(row))


def _group(row: Mapping[str, Any], classes: Mapping[str, frozenset[Operator]]) -> GroupKind:
    limits: dict[str, int] = {name: row[name] for name in ("most_heads", "most") if name in row}
    return GroupKind(
        heads=_members(row.get("heads", []), classes),
        prologue=_members(row.get("prologue", []), classes),
        epilogue=_members(row.get("epilogue", []), classes),
        **limits,
    )


def _members(
    names: list[Operator | str], classes: Mapping[str, frozenset[Operator]]
) -> frozenset[Operator]:
    found: set[Operator] = set()
    for name in names:
        found |= {name} if isinstance(name, tuple) else classes.get(name, frozenset())
    return frozenset(found)


def _order(path: FactPath) -> list[tuple[bool, int, str]]:
    """By name, and items of a list by number: [2] before [10]."""
    return [(True, p, "") if isinstance(p, int) else (False, 0, p) for p in path]


def _dotted(path: FactPath) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
