"""Write docs/operators.md: which operators run natively, from a run of the standard suite.

    python -m tools.operators [--check] [--list]

In: the node cases of onnx.backend.test, run through `rewrite.backend`. Out: the page: operator by
element type, native or by the reference device, the share of native cases, what is left out and
why. `--check` writes nothing and fails where the page would differ.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import rewrite.backend
from rewrite.errors import RewriteError
from rewrite.ops.dtypes import of_numpy
from tests.runtime import suite

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"

# What has no numbers to compute with, or is not a function of its operands.
NOT_NUMERIC_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training")
NOT_NUMERIC = frozenset(
    {
        "Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        "Multinomial", "ImageDecoder", "Optional", "OptionalGetElement", "OptionalHasElement",
        "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
        "SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence", "If", "Loop",
        "Scan", "StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch",
        "TfIdfVectorizer", "LabelEncoder",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """One case. `device`: native, reference (some node of it) or the reason why it failed."""

    name: str
    operator: str  # with its domain; the name of the case's operator where it is written out
    dtype: str
    device: str
    numeric: bool
    expanded: bool


def run_all() -> list[Ran]:
    found = []
    for name, case in suite.cases().items():
        if case.kind == "node" and suite.excluded(name) is None:
            found.append(_run(case))
    return found


def _run(case: suite.Case) -> Ran:
    model = case.model
    first = model.graph.node[0]
    expanded = "_expanded" in case.name
    operator = f"{first.domain}.{first.op_type}" if first.domain else first.op_type
    inputs, expected = next(case.data())
    given = next((x for x in (*inputs, *expected) if isinstance(x, np.ndarray)), None)
    dtype = "-" if given is None else of_numpy(given.dtype) or "-"
    numeric = (
        all(isinstance(x, np.ndarray) and x.dtype != object for x in (*inputs, *expected))
        and not any(n.op_type in NOT_NUMERIC for n in model.graph.node)
        and first.domain not in NOT_NUMERIC_DOMAINS
    )
    return Ran(case.name, operator, dtype, _device(case, model), numeric, expanded)


def _device(case: suite.Case, model: onnx.ModelProto) -> str:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = rewrite.backend.prepare(model)
            for inputs, expected in case.data():
                found = list(prepared.run(inputs))
                reason = suite.differ(expected, found, case.rtol, case.atol)
                if reason is not None:
                    return f"different: {reason}"
            used = set(prepared.session.devices().values())
    except RewriteError as problem:
        return f"error: {problem}".splitlines()[0]
    except Exception as problem:  # noqa: BLE001 - a fault is told, and the other cases go on
        return f"fault: {problem!r}".splitlines()[0]
    return "reference" if "reference" in used else "native"


# --- the page ----------------------------------------------------------------------------------


def page(ran: Iterable[Ran]) -> str:
    ran = list(ran)
    numeric = [r for r in ran if r.numeric]
    native = sum(r.device == "native" for r in numeric)
    share = 100 * native / max(len(numeric), 1)
    parts = [
        "# Operators\n",
        "Written by `python -m tools.operators` from a run of the standard backend suite "
        f"(`onnx.backend.test` of onnx {onnx.__version__}, kind `node`).\n",
        f"{len(ran)} cases run, {_passed(ran)} pass; {native} of the {len(numeric)} cases of "
        f"numeric operators run natively ({share:.1f} %). *Native* is compiled code; *reference* "
        "is the reference device (rewrite/runtime/reference.py), which computes any operator on "
        "numpy arrays. The element type is that of the first operand. Operators of which the "
        "standard gives a function are tested a second time, written out; those cases count for "
        "the share.\n",
        *_tables(ran),
        "## Left out\n",
        "\n".join(f"- `{pattern}`: {reason}." for pattern, reason in suite.EXCLUDED.items()) + "\n",
        "With a wider tolerance:\n",
        "\n".join(f"- `{name}`: {reason}." for name, (_, reason) in suite.WIDER.items()) + "\n",
    ]
    return "\n".join(parts)


def _passed(ran: list[Ran]) -> int:
    return sum(r.device in ("native", "reference") for r in ran)


def _tables(ran: list[Ran]) -> list[str]:
    """One table per domain."""
    domains: dict[str, dict[str, list[Ran]]] = {}
    for row in ran:
        if not row.expanded:
            domain, _, name = row.operator.rpartition(".")
            domains.setdefault(domain or "ai.onnx", {}).setdefault(name, []).append(row)
    parts = []
    for domain, operators in sorted(domains.items()):
        rows = [_row(name, cases) for name, cases in sorted(operators.items())]
        head = "| operator | native | reference | cases |\n|---|---|---|---|\n"
        parts += [f"## {domain}\n", head + "\n".join(rows) + "\n"]
    return parts


def _row(name: str, cases: list[Ran]) -> str:
    by_type: dict[str, set[str]] = {}
    for case in cases:
        by_type.setdefault(case.dtype, set()).add(case.device)
    native = [t for t, devices in by_type.items() if "native" in devices]
    reference = [t for t, devices in by_type.items() if devices - {"native"}]
    return f"| {name} | {_types(native)} | {_types(reference, by_type)} | {len(cases)} |"


def _types(types: list[str], devices: Mapping[str, set[str]] | None = None) -> str:
    """Types in order; one that only some cases of run natively is in parentheses."""
    told = []
    for name in sorted(types):
        partly = devices is not None and "native" in devices[name]
        told.append(f"({name})" if partly else name)
    return " ".join(told) or "–"


def main() -> int:
    parser = argparse.ArgumentParser(description="write docs/operators.md")
    parser.add_argument("--check", action="store_true", help="fail where the page would differ")
    parser.add_argument("--list", action="store_true", help="name the cases that are not native")
    options = parser.parse_args()
    ran = run_all()
    text = page(ran)
    failed = [r for r in ran if r.device not in ("native", "reference")]
    for case in failed:
        print(f"{case.name}: {case.device}"[:300])
    if options.list:
        for case in ran:
            if case.numeric and case.device == "reference":
                print(f"{case.name}: reference ({case.operator} {case.dtype})")
    print(text.splitlines()[4])
    if options.check:
        return 0 if PAGE.read_text(encoding="utf-8") == text and not failed else 1
    PAGE.write_text(text, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
