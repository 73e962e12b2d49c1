"""What may not remain in real models after rewriting.

    python tests/bench/leftovers.py [--targets generic,host,...]

PP-OCR detection, recognition and classification, silero-vad, magika and the light ResNet-50 of the
ONNX project: no BatchNormalization, no Identity, no node whose operands are all constant (and no
Constant node) in any graph, subgraph or group; the report names each group, its rule and the nodes
that went into it. One Identity is no leftover and counted apart as `handing over`: an If branch
whose output is a value from outside must have a node of its own (onnxruntime refuses a branch that
returns an outer value directly). Prints a row per model and target; exit status 1 if anything
remains.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent))
from corpus import TARGETS, corpus

MODELS = (
    "real/ppocr-v4-det.onnx",
    "real/ppocr-v4-rec.onnx",
    "real/ppocr-v2-cls.onnx",
    "real/silero-vad.onnx",
    "real/silero-vad-16k-op15.onnx",
    "real/silero-vad-op18-ifless.onnx",
    "real/magika-v3_3.onnx",
    "onnx/light/light_resnet50.onnx",
)
FORBIDDEN = ("BatchNormalization", "Identity", "Constant")
HANDING_OVER = "Identity handing over"


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph and every subgraph; local functions are looked at by `leftovers`."""
    pending = [model.graph]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else []
                pending += attribute.graphs


def operator_name(node: onnx.NodeProto) -> str:
    """`Conv`, `com.microsoft.Gelu`."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def leftovers(model: onnx.ModelProto) -> Counter[str]:
    """Operators that should be gone, by name; `constant X`: an X of constants only."""
    found: Counter[str] = Counter()
    for graph in graphs(model):
        constants = {tensor.name for tensor in graph.initializer}
        constants -= {value.name for value in graph.input}
        outputs = {value.name for value in graph.output}
        made = {name for node in graph.node for name in node.output} | constants
        for node in graph.node:
            if node.op_type == "Identity" and _hands_over(
                graph is model.graph, node, outputs, made
            ):
                found[HANDING_OVER] += 1
            elif node.op_type in FORBIDDEN:
                found[node.op_type] += 1
            given = [name for name in node.input if name]
            if given and all(name in constants for name in given):
                found[f"constant {node.op_type}"] += 1
    for function in model.functions:  # a group's small numbers are Constant nodes of its body
        found.update(node.op_type for node in function.node if node.op_type in FORBIDDEN[:2])
    return found


def _hands_over(is_main: bool, node: onnx.NodeProto, outputs: set[str], made: set[str]) -> bool:
    return not is_main and node.output[0] in outputs and node.input[0] not in made


def main() -> int:
    import rewrite

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=",".join(TARGETS))
    folder = corpus()
    if folder is None:
        print("no corpus: set REWRITE_CORPUS to a folder with MANIFEST.csv")
        return 1
    bad = 0
    for target in parser.parse_args().targets.split(","):
        for name in MODELS:
            result = rewrite.apply(folder / name, target=target)
            found = leftovers(result.model)
            groups = result.stats["groups"]
            named = all(g["name"] and g["rule"] and g["nodes"] for g in groups)
            left = ", ".join(f"{n} {op}" for op, n in sorted(found.items())) or "nothing left"
            kernels = f"{result.stats['kernels_before']} -> {result.stats['kernels_after']}"
            print(f"{target:16s} {name:34s} kernels {kernels:12s} groups {len(groups):3d}  {left}")
            bad += any(op != HANDING_OVER for op in found) or not named
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
