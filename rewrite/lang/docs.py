"""The generated parts of docs/language.md: grammar, words, phases, limits, functions, errors, ...

In: the grammar, the tables of this layer, a `Vocabulary`, the titles of the error pages. Out: the
text of the page with everything between `<!-- generated: NAME -->` and `<!-- end -->` made anew.
`python tools/language.py` writes it; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rewrite.lang import limits
from rewrite.lang.machine import GRAMMAR
from rewrite.lang.operators import PRECEDENCE
from rewrite.lang.syntax_errors import WORDS
from rewrite.lang.vocabulary import PHASE_DOCS, FunctionSignature, Vocabulary
from rewrite.schema import DTYPE_ATTRIBUTES, DTYPE_CLASSES, DTYPES

_MARKED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_TERMINAL = re.compile(r"^([A-Z_]+)(?:\.\d+)?: (.*)$")
_CLASSES_OF_TERMINALS = {
    "LOWER": "lower_name", "UPPER": "UpperName", "NUMBER": "number", "STRING": "string",
    "TEXT": "text",
}  # fmt: skip
LIMITS = {
    "characters of a `.rules` file": limits.FILE_CHARACTERS,
    "characters of a pack.yaml": limits.MANIFEST_CHARACTERS,
    "characters of all packs loaded together": limits.PACK_CHARACTERS,
    "files of all packs loaded together": limits.PACK_FILES,
    "packs loaded together": limits.PACKS,
    "syntax errors reported for one file": limits.SYNTAX_ERRORS,
    "levels of nesting as written": limits.NESTING,
    "levels of nesting with named patterns expanded": limits.EXPANDED_DEPTH,
    "pattern nodes of a rule with named patterns expanded": limits.EXPANDED_NODES,
    "characters of a number": limits.NUMBER_CHARACTERS,
    "characters of a name": limits.NAME_CHARACTERS,
    "items of `prod{}` and `sum{}`": limits.BAG_ITEMS,
    "operators of a `chain`": limits.CHAIN_LENGTH,
    "siblings of `each`": limits.SIBLINGS,
}


def update(page: str, vocabulary: Vocabulary, errors: Path) -> str:
    """The page with its generated parts up to date. `errors` is the folder of the error pages."""
    parts = _parts(vocabulary, errors)
    return _MARKED.sub(lambda m: m[1] + parts[m[2]]() + m[3], page)


def _parts(vocabulary: Vocabulary, errors: Path) -> Mapping[str, Callable[[], str]]:
    return {
        "grammar": grammar,
        "words": reserved_words,
        "precedence": precedence,
        "phases": phases,
        "limits": limit_table,
        "types": element_types,
        "prefixes": lambda: prefixes(vocabulary),
        "classes": lambda: classes(vocabulary),
        "functions": lambda: functions(vocabulary),
        "target": lambda: target(vocabulary),
        "fields": lambda: fields(vocabulary),
        "errors": lambda: error_table(errors),
    }


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |\n" for row in lines)


# --- grammar ------------------------------------------------------------------------------------


def grammar() -> str:
    """The grammar of the parser, with words and signs in place of the names of terminals."""
    text = GRAMMAR.read_text(encoding="utf-8")
    terminals: dict[str, str] = dict(_CLASSES_OF_TERMINALS)
    for line in text.splitlines():
        found = _TERMINAL.match(line)
        if found is not None and found[2].startswith('"'):
            terminals[found[1]] = found[2].replace('"', "'")
    kept = [line for line in text.splitlines() if not _TERMINAL.match(line)]
    rules = [_readable(line, terminals) for line in kept if not line.startswith(("//", "%"))]
    body = re.sub(r"\n{2,}", "\n\n", "\n".join(rules)).strip()
    return f"```text\n{body}\n```\n"


def _readable(line: str, terminals: Mapping[str, str]) -> str:
    line = re.sub(r"\s+-> \w+", "", line)
    line = re.sub(r"(?<![\w'])[?_](?=[a-z])", "", line)
    line = re.sub(r"\b[A-Z][A-Z_]*\b", lambda m: terminals.get(m[0], m[0]), line)
    return line.replace(":", " =", 1) if re.match(r"\w+:", line) else line


def reserved_words() -> str:
    return " ".join(f"`{w.lower()}`" for w in sorted(WORDS)) + "\n"


def precedence() -> str:
    """Operators, the loosest first."""
    names = {"neg": "`-a`", "not": "`not a`"}
    levels: dict[int, list[str]] = {}
    for operator, level in PRECEDENCE.items():
        levels.setdefault(level, []).append(names.get(operator, f"`{operator}`"))
    notes = {
        "`**`": "groups to the right; binds tighter than a sign before it",
        "`==`": "no chains",
    }
    rows = [(" ".join(ops), notes.get(ops[0], "")) for _, ops in sorted(levels.items())]
    return table(("operators, the loosest first", ""), rows)


def phases() -> str:
    return table(("phase", "a rule there"), [(f"`{n}`", doc) for n, doc in PHASE_DOCS.items()])


# --- tables -------------------------------------------------------------------------------------


def limit_table() -> str:
    return table(("at most", ""), [(what, f"{n:,}") for what, n in LIMITS.items()])


def element_types() -> str:
    names = " ".join(f"`{n}`" for n in DTYPES)
    rows = [
        (f"`{name}`", " ".join(f"`{n}`" for n in DTYPES if n in members))
        for name, members in DTYPE_CLASSES.items()
    ]
    attributes = ", ".join(f"`{a}`" for a in sorted(DTYPE_ATTRIBUTES))
    return (
        f"Element types: {names}. Classes of them:\n\n"
        + table(("class", "stands for"), rows)
        + f"\nAttributes that hold an element type: {attributes}.\n"
    )


def prefixes(vocabulary: Vocabulary) -> str:
    rows = [
        (f"`{p}`" if p else "none", f"`{d or 'ai.onnx'}`") for p, d in vocabulary.domains.items()
    ]
    return table(("prefix", "domain"), rows)


def classes(vocabulary: Vocabulary) -> str:
    rows = []
    for name, members in sorted(vocabulary.classes.items()):
        found = sorted(n if not d else f"{d}:{n}" for d, n in members)
        rows.append((f"`{name}`", ", ".join(found)))
    return table(("class", "operators"), rows)


def signature(function: FunctionSignature, of: str = "") -> str:
    words = []
    for p in function.parameters:
        mark = "*" if p.variadic else ""
        words.append(f"{mark}{p.name}{'?' if p.optional else ''}: {p.kind}")
    return f"`{of}{function.name}({', '.join(words)})` → {function.result}"


def functions(vocabulary: Vocabulary) -> str:
    written = [(n, f) for n, f in sorted(vocabulary.functions.items()) if "__" not in n]
    rows = [
        (signature(f), f"{f.doc} In `emit` only; makes nodes." if f.makes else f.doc)
        for _, f in written
    ]
    return table(("function", ""), rows)


def target(vocabulary: Vocabulary) -> str:
    rows = [(signature(m, "target."), m.doc) for m in vocabulary.target_methods.values()]
    rows += [(f"`target.{n}` → {k}", "") for n, k in vocabulary.target_fields.items()]
    return table(("of the target", ""), rows)


def fields(vocabulary: Vocabulary) -> str:
    return ", ".join(f"`x.{n}` ({k})" for n, k in vocabulary.value_fields.items()) + "\n"


def error_table(errors: Path) -> str:
    rows = []
    for path in sorted(errors.glob("RW[123]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].split(": ", 1)[1]
        rows.append((f"[{path.stem}](errors/{path.name})", title))
    return table(("code", ""), rows)
