"""Three forms of one quantized model, and models of other kinds: what the rewriting makes of them.

    python tests/bench/quantized_forms.py [--only TEXT] [--target hexagon,cortex-m] [--runs 1]
                                          [--seconds 300] [--gigabytes 6]

For PP-OCR cls and det in three forms (QDQ u8s8, QDQ s8s8, QOperator), smart-turn and tashkeel v2
and v3 of the corpus (`$REWRITE_CORPUS`, else `../shared/models`), and each target: nodes and
kernels before and after, groups (or operators on codes) of each kind, float operators between the
first codes and the last, with the reasons of the report. What has to hold:

- every float operator that is left is in the report, with a reason. Which are left is found out
  here once more, from the types of the rewritten model;
- the three forms end in as many groups of the same kinds, within 5 % of each; larger differences
  stand in `EXPLAINED` with their number and reason, and are as large as it says;
- with `--runs`, under the exact oracle: where the ledger says lsb(0) nothing differs, else no more
  than it says, and with `--max-class exact` nothing (see `quantized.py`).

Exit status 1 where one of them does not.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.bench import quantized  # noqa: E402 - found only now
from tests.bench.corpus import corpus  # noqa: E402

TARGETS = ("hexagon", "x86-avx2", "onnxruntime-cpu", "cortex-m")
FORMS = ("qdq_u8s8", "qdq_s8s8", "qop_u8s8")  # the others are compared with the first
MODELS = {
    **{
        f"{name}.{form}": f"derived/{name}.{form}.onnx"
        for name in ("ppocr-v2-cls", "ppocr-v4-det")
        for form in FORMS
    },
    "smart-turn": "real/smart-turn-v3.2-cpu.onnx",
    "tashkeel-v2": "real/tashkeel-rawi-v2-int8.onnx",
    "tashkeel-v3": "real/tashkeel-rawi-v3-int8.onnx",
}
SHARE = 0.05
_CODES = {TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16}
_ASKS = ("Shape", "Size")  # of a tensor, and not of its numbers
_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}
TABLE = "table of codes"
BOUNDARY = ("QuantizeLinear", "DequantizeLinear")

# (model, form, targets, kind) -> (more than in the first form, reason)
GROUPS = "groups"
ORT = "onnxruntime-cpu"
_DIV = (
    "the QOperator form does not quantize Div of a HardSwish: the mean reads the product's codes "
    "over 6, the next product the quantized quotient"
)
_POOL = "MaxPool and the mean behind it stay in floats: the QOperator form has none before them"
_TRANSPOSED = "ONNX has no QLinearConvTranspose: the QOperator form has it in floats"
_CLAMPS = (
    "the quantizer leaves out a Relu or Clip that u8 codes do by saturating; before opset 12 no "
    "operator clamps s8 codes, so that 15 Relu, and 18 Clip with the Add before them, are tables"
)
EXPLAINED: dict[tuple[str, str, str, str], tuple[int, str]] = {
    ("ppocr-v2-cls", "qop_u8s8", GROUPS, "QLookup"): (8, _DIV),
    ("ppocr-v2-cls", "qop_u8s8", GROUPS, "QGlobalAveragePool"): (-1, _POOL),
    ("ppocr-v4-det", "qop_u8s8", GROUPS, "QConvTranspose"): (-2, _TRANSPOSED),
    ("ppocr-v2-cls", "qdq_s8s8", ORT, "QLinearAdd"): (-18, _CLAMPS),
    ("ppocr-v2-cls", "qdq_s8s8", ORT, TABLE): (33, _CLAMPS),
    ("ppocr-v2-cls", "qop_u8s8", ORT, "QLinearGlobalAveragePool"): (-1, _POOL),
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Left:
    node: str
    operator: str
    reason: str


def kind(node: onnx.NodeProto) -> str:
    """The name of the operator; groups are numbered."""
    return node.op_type if node.domain == "" else re.sub(r"_\d+$", "", node.op_type)


def kinds_of(model: onnx.ModelProto, target: str) -> Counter[str]:
    """Groups of quantized arithmetic, or the quantized operators of onnxruntime, by name."""
    held = model.graph.initializer
    tables = {t.name for t in held if t.data_type in _CODES and len(t.dims) == 1}
    found: Counter[str] = Counter()
    for node in model.graph.node:
        name = kind(node)
        if node.domain == f"rewrite.{target}" or name.startswith("QLinear"):
            found[name] += name.startswith("Q")
        elif name == "QGemm":
            found[name] += 1
        elif name == "Gather" and node.input[0] in tables:
            found[TABLE] += 1
    return +found


def rewritten(path: Path, target: str) -> Row:
    from rewrite import api

    result = api.apply(path, target=target)
    stats = result.stats
    kinds = kinds_of(result.model, target)
    return {
        "nodes": (stats["nodes_before"], stats["nodes_after"]),
        "kernels": (stats["kernels_before"], stats["kernels_after"]),
        "kinds": kinds,
        "left": [Left(**record) for record in stats["float_left"]],
        "found": float_nodes(result.model),
        "ledger": result.ledger.total,
    }


# --- which floats are left, once more -----------------------------------------------------------


def float_nodes(model: onnx.ModelProto) -> list[str]:
    """First outputs of nodes that read or make floats, with computed codes above and below."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    listed = (*graph.input, *graph.value_info, *graph.output)
    types = {v.name: v.type.tensor_type.elem_type for v in listed}
    held = {tensor.name for tensor in graph.initializer}
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    made = {name: node for node in nodes for name in node.output if name}
    behind: set[int] = set()
    for node in nodes:  # in order
        given = [made[name] for name in node.input if name in made]
        given = [n for n in given if n.op_type not in _ASKS]
        if any(id(n) in behind or _makes_codes(n, types) for n in given):
            behind.add(id(node))
    before: set[int] = set()
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for node in reversed(nodes):
        users = [user for name in node.output for user in readers.get(name, ())]
        if any(id(user) in before or _makes_codes(user, types) for user in users):
            before.add(id(node))
    return [
        node.output[0]
        for node in nodes
        if id(node) in behind and id(node) in before and _of_floats(node, types, held)
    ]


def _makes_codes(node: onnx.NodeProto, types: dict[str, int]) -> bool:
    return any(types.get(name) in _CODES for name in node.output)


def _of_floats(node: onnx.NodeProto, types: dict[str, int], held: set[str]) -> bool:
    if node.op_type in BOUNDARY or node.op_type in ("DynamicQuantizeLinear", *_ASKS):
        return False
    made = [types.get(name) for name in node.output]
    read = [types.get(name) for name in node.input if name not in held]
    if not set(made) & _FLOATS and set(made) & _CODES and node.domain:
        return False  # codes at once: such an operator ends the floats, as QuantizeLinear does
    return bool({*made, *read} & _FLOATS)


# --- the checks ---------------------------------------------------------------------------------


def unnamed(row: Row) -> Iterator[str]:
    told = {record.node: record.reason for record in row["left"]}
    for name in row["found"]:
        if not told.get(name):
            yield f"{name} computes with floats, and the report has no reason"
    for record in row["left"]:
        if not record.reason:
            yield f"{record.node} ({record.operator}) has no reason"


def differences(name: str, target: str, rows: dict[str, Row]) -> Iterator[tuple[str, bool]]:
    """What differs between the forms, and whether that may be."""
    first = rows[FORMS[0]]["kinds"]
    where = ORT if target == ORT else GROUPS
    for form in FORMS[1:]:
        kinds = rows[form]["kinds"]
        for each in sorted({*first, *kinds}):
            more = kinds[each] - first[each]
            known, reason = EXPLAINED.get((name, form, where, each), (0, ""))
            if reason and known != more:
                yield f"{form}: {each} {more:+d}, explained are {known:+d}", False
            elif reason:
                yield f"{form}: {each} {more:+d}: {reason}", True
            elif more:
                yield f"{form}: {each} {more:+d}", abs(more) <= SHARE * first[each]
        yield from _totals(name, form, where, first, kinds)


def _totals(
    name: str, form: str, where: str, first: Counter[str], kinds: Counter[str]
) -> Iterator[tuple[str, bool]]:
    a, b = sum(first.values()), sum(kinds.values())
    explained = sum(
        number
        for (n, f, w, _), (number, _) in EXPLAINED.items()
        if (n, f, w) == (name, form, where)
    )
    share = abs(b - a - explained) / a
    yield f"{form}: {a} and {b} in all, {share:.1%} apart beside what is explained", share <= SHARE


def tell(name: str, target: str, row: Row) -> None:
    nodes, kernels = row["nodes"], row["kernels"]
    print(
        f"{name:24} {target:16} nodes {nodes[0]} -> {nodes[1]}  kernels {kernels[0]} -> "
        f"{kernels[1]}  {row['ledger']}"
    )
    print("    ", "  ".join(f"{n} {each}" for each, n in sorted(row["kinds"].items())))
    counted = Counter((record.operator, record.reason) for record in row["left"])
    for (operator, reason), count in sorted(counted.items()):
        print(f"     float: {count} {operator}: {reason}")


def oracle(path: Path, name: str, target: str, options: argparse.Namespace) -> Iterator[str]:
    """Both classes under the exact oracle, each in a process of its own."""
    for limit in quantized.CLASSES:
        row = quantized.one((path.parent, path.name, target, limit), options)
        print(f"     oracle, {limit}: {row['verdict']} {row.get('ledger', '')} {row['seconds']} s")
        if row["verdict"] in quantized.FAILURES:
            yield f"{name} [{target}, {limit}] {row['verdict']}: {row['reason']}"
        elif row["verdict"] != "equal" and row.get("ledger") in ("exact", "lsb(0)"):
            yield f"{name} [{target}, {limit}] is not equal under {row['ledger']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default=",".join(TARGETS))
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--gigabytes", type=float, default=6.0)
    options = parser.parse_args()
    folder = corpus()
    if folder is None:
        print("no corpus: set REWRITE_CORPUS to a folder with MANIFEST.csv")
        return 1
    failures = []
    for target in options.target.split(","):
        rows: dict[str, Row] = {}
        for name in (n for n in MODELS if options.only in n):
            rows[name] = row = rewritten(folder / MODELS[name], target)
            tell(name, target, row)
            failures += [f"{name} [{target}]: {text}" for text in unnamed(row)]
            if options.runs:
                failures += oracle(folder / MODELS[name], name, target, options)
        failures += compared(target, rows)
    for text in failures:
        print("FAIL", text)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


def compared(target: str, rows: dict[str, Row]) -> list[str]:
    failures = []
    for name in dict.fromkeys(n.rpartition(".")[0] for n in rows if n.endswith(FORMS)):
        forms = {form: rows[f"{name}.{form}"] for form in FORMS if f"{name}.{form}" in rows}
        if len(forms) < len(FORMS):
            continue
        for text, holds in differences(name, target, forms):
            print(f"{name} [{target}] {text}")
            if not holds:
                failures.append(f"{name} [{target}] {text}")
    return failures


if __name__ == "__main__":
    sys.exit(main())
