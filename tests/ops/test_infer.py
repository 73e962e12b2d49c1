"""Types against onnx's shape inference, the reference evaluator, and ONNX Runtime."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewrite.ops import opaque, registry
from rewrite.ops.infer import InferenceError, infer
from rewrite.schema import Type
from tests.ops import cases, cases_microsoft
from tests.ops.harness import (
    Case,
    admitted,
    contradiction,
    label,
    of_numpy,
    onnx_types,
    opsets_of,
    reference_values,
    runtime_values,
    to_node,
)

# The reference evaluator is wrong or old-fashioned here; onnx's inference agrees with us.
NOT_BY_REFERENCE = {
    "MaxPool": "takes floor for auto_pad SAME_LOWER",
    "Dropout": "gives a bool mask before opset 10",
}

IDS = [label(c) for c in cases.ALL]


def opsets(c: Case) -> list[int]:
    """The opsets of the case that have its element types and its form."""
    found = [o for o in opsets_of(c) if admitted(c, o) and to_node(c, o)]
    assert found, "no opset takes the example"
    return found


def ours(c: Case, opset: int, types: list[Type | None] | None = None, known: bool = True) -> Any:
    def constant(index: int) -> np.ndarray | None:
        return c.inputs[index] if known and index >= c.data else None

    given = c.types if types is None else types
    found = infer(c.domain, c.name, opset, given, c.attributes, constant, c.n_outputs)
    assert found is not None, f"{c.name} is not declared"
    assert len(found) == c.n_outputs
    return found


@pytest.mark.parametrize("c", cases.ALL, ids=IDS)
def test_concrete_types_are_those_of_onnx(c: Case) -> None:
    for opset in opsets(c):
        theirs = onnx_types(c, opset)
        assert theirs is not None, "onnx refuses the example"
        for mine, wanted in zip(ours(c, opset), theirs, strict=True):
            assert contradiction(mine, wanted, {}) is None, opset
            if wanted.dtype is not None:
                assert mine.dtype == wanted.dtype
            if wanted.shape is not None and all(isinstance(d, int) for d in wanted.shape):
                assert mine.shape is not None


@pytest.mark.parametrize("c", cases.ALL, ids=IDS)
def test_types_are_those_of_the_reference_values(c: Case) -> None:
    for opset in opsets(c):
        values = reference_values(c, opset)
        if values is None or c.name in NOT_BY_REFERENCE:
            continue
        for mine, array in zip(ours(c, opset), values, strict=True):
            actual = Type(of_numpy(array.dtype), array.shape)
            assert contradiction(mine, actual, {}) is None, opset


def named(c: Case, one_name_per_size: bool) -> tuple[list[Type | None], dict[str, int]]:
    """Operand types with names for sizes: of equal sizes one, or of each its own."""
    sizes: dict[str, int] = {}
    types: list[Type | None] = []
    for i, t in enumerate(c.types):
        if t is None or i >= c.data:
            types.append(t)
            continue
        shape: list[int | str] = []
        for axis, size in enumerate(t.shape or ()):
            assert isinstance(size, int)
            name = f"n{size}" if one_name_per_size else f"x{i}_{axis}"
            if one_name_per_size and size <= 1:
                shape.append(size)
                continue
            sizes[name] = size
            shape.append(name)
        types.append(Type(t.dtype, tuple(shape)))
    return types, sizes


def weakened(types: list[Type | None]) -> Iterator[list[Type | None]]:
    yield types
    for i, t in enumerate(types):
        if t is not None:
            yield [*types[:i], Type(t.dtype, None), *types[i + 1 :]]
            yield [*types[:i], Type(None, t.shape), *types[i + 1 :]]


@pytest.mark.parametrize("one_name_per_size", [True, False], ids=["equal", "free"])
@pytest.mark.parametrize("c", cases.ALL, ids=IDS)
def test_what_is_said_about_named_sizes_holds(c: Case, one_name_per_size: bool) -> None:
    """With names for sizes, unknown shapes, element types or constants: never a contradiction."""
    types, sizes = named(c, one_name_per_size)
    for opset in opsets(c):
        actual = onnx_types(c, opset)
        assert actual is not None
        for known in (True, False):
            for given in weakened(types):
                for mine, wanted in zip(ours(c, opset, given, known), actual, strict=True):
                    assert contradiction(mine, wanted, sizes) is None, opset


MICROSOFT = [(c, 1 if c.domain else 17) for c in cases_microsoft.ALL]


@pytest.mark.parametrize(("c", "opset"), MICROSOFT, ids=[label(c) for c, _ in MICROSOFT])
def test_types_are_those_of_the_runtime(c: Case, opset: int) -> None:
    pytest.importorskip("onnxruntime")
    values = runtime_values(c, opset)
    found = ours(c, opset)
    if values is None:  # no CPU kernel: nothing to compare with
        assert c.name in ("BiasSoftmax", "BiasDropout", "Rfft", "MultiHeadAttention")
        return
    types, sizes = named(c, one_name_per_size=True)
    for mine, array in zip(found, values, strict=True):
        assert contradiction(mine, Type(of_numpy(array.dtype), array.shape), {}) is None
    for given in weakened(types):
        for mine, array in zip(ours(c, opset, given), values, strict=True):
            assert contradiction(mine, Type(of_numpy(array.dtype), array.shape), sizes) is None


# --- refusals ---------------------------------------------------------------------------------

F32 = "f32"


def t(dtype: str, *shape: int | str) -> Type:
    return Type(dtype, shape)


ILL_TYPED: list[tuple[str, int, list[Type | None], dict[str, Any]]] = [
    ("Add", 17, [t(F32, 2), t("f16", 2)], {}),
    ("Add", 17, [t(F32, 2, 3), t(F32, 2)], {}),
    ("Add", 17, [t(F32, 2)], {}),
    ("Add", 17, [t(F32, 2), None], {}),
    ("Add", 17, [t(F32, 2), t(F32, 2), t(F32, 2)], {}),
    ("Relu", 13, [t("s32", 2)], {}),
    ("MatMul", 17, [t(F32, 2, 3), t(F32, 4, 5)], {}),
    ("MatMul", 17, [t(F32), t(F32, 4, 5)], {}),
    ("Gemm", 17, [t(F32, 2, 3, 4), t(F32, 4, 5)], {}),
    ("Gemm", 17, [t(F32, 2, 3), t(F32, 3, 5), t(F32, 7, 5)], {}),
    ("Gemm", 17, [t(F32, 1, 3), t(F32, 3, 5), t(F32, 7, 5)], {}),
    ("Conv", 17, [t(F32, 1, 4, 8, 8), t(F32, 6, 3, 3, 3)], {}),
    ("Conv", 17, [t(F32, 1, 4, 8, 8), t(F32, 6, 4, 3)], {}),
    ("Conv", 17, [t(F32, 1, 4, 8, 8), t(F32, 6, 4, 3, 3)], {"kernel_shape": [3, 2]}),
    ("Concat", 17, [t(F32, 2, 3), t(F32, 3, 3)], {"axis": 1}),
    ("Concat", 17, [t(F32, 2, 3), t(F32, 3)], {"axis": 0}),
    ("Transpose", 17, [t(F32, 2, 3)], {"perm": [0, 0]}),
    ("Transpose", 17, [t(F32, 2, 3)], {"perm": [0, 1, 2]}),
    ("Softmax", 17, [t("s32", 2)], {}),
    ("Where", 17, [t(F32, 2), t(F32, 2), t(F32, 2)], {}),
    ("LayerNormalization", 17, [t(F32, 2, 1), t(F32, 3)], {}),
    ("BatchNormalization", 17, [t(F32, 2, 3, 4), *[t(F32, 4)] * 4], {}),
    ("DepthToSpace", 17, [t(F32, 1, 6, 2, 2)], {"blocksize": 2}),
    ("ArgMax", 17, [t(F32, 2, 3)], {"axis": 2}),
    ("QuantizeLinear", 17, [t(F32, 2, 3), t(F32, 2)], {"axis": 1}),
    ("Einsum", 17, [t(F32, 2, 3), t(F32, 4, 5)], {"equation": "ij,jk->ik"}),
]


@pytest.mark.parametrize(("name", "opset", "types", "attributes"), ILL_TYPED)
def test_ill_typed_nodes_are_refused(
    name: str, opset: int, types: list[Type | None], attributes: dict[str, Any]
) -> None:
    with pytest.raises(InferenceError):
        infer("", name, opset, types, attributes)


def constants(**known: Any) -> Callable[[int], np.ndarray | None]:
    return lambda i: np.array(known[f"i{i}"]) if f"i{i}" in known else None


WRONG_CONSTANTS = [
    ("Reshape", [t(F32, 2, 3), t("s64", 1)], {}, {"i1": [4]}),
    ("Reshape", [t(F32, 2, 3), t("s64", 2)], {}, {"i1": [4, -1]}),
    ("Reshape", [t(F32, 2, 3), t("s64", 2)], {}, {"i1": [-1, -1]}),
    ("Reshape", [t(F32, 2), t("s64", 2)], {}, {"i1": [2, 0]}),
    ("Squeeze", [t(F32, 2, 3), t("s64", 1)], {}, {"i1": [0]}),
    ("Unsqueeze", [t(F32, 2), t("s64", 2)], {}, {"i1": [0, 0]}),
    ("Expand", [t(F32, 2, 3), t("s64", 2)], {}, {"i1": [4, 3]}),
    ("Pad", [t(F32, 2, 3), t("s64", 3)], {}, {"i1": [1, 1, 1]}),
    ("Tile", [t(F32, 2, 3), t("s64", 1)], {}, {"i1": [2]}),
    ("ReduceSum", [t(F32, 2, 3), t("s64", 1)], {}, {"i1": [2]}),
    ("TopK", [t(F32, 2, 3), t("s64", 1)], {}, {"i1": [4]}),
]


@pytest.mark.parametrize(("name", "types", "attributes", "known"), WRONG_CONSTANTS)
def test_constants_that_do_not_fit_are_refused(
    name: str, types: list[Type | None], attributes: dict[str, Any], known: dict[str, Any]
) -> None:
    with pytest.raises(InferenceError):
        infer("", name, 18, types, attributes, constants(**known))


def test_absent_operands_behind_the_last_one_do_not_count() -> None:
    # Pad has three operands at opset 17, and a fourth one, its axes, from opset 18 on.
    types: list[Type | None] = [t(F32, 2, 3), t("s64", 4), None, None]
    found = infer("", "Pad", 17, types, {"mode": "edge"}, constants(i1=[1, 1, 1, 1]))
    assert found is not None
    assert tuple(found) == (t(F32, 4, 5),)
    with pytest.raises(InferenceError, match="takes 3 operands, not 4"):
        infer("", "Pad", 17, [*types[:3], t("s64", 1)], {"mode": "edge"})


def test_unknown_operators_are_not_declared() -> None:
    assert infer("", "NoSuchOperator", 17, [t(F32, 2)], {}) is None
    assert infer("", "Gelu", 13, [t(F32, 2)], {}) is None
    assert infer("some.domain", "Add", 17, [t(F32, 2)], {}) is None


# --- names and tokens -------------------------------------------------------------------------


def one(name: str, *types: Type | None, **rest: Any) -> Type:
    symbols = rest.pop("symbols", None)
    known = rest.pop("known", {})
    found = infer("", name, 18, types, rest, constants(**known), symbols=symbols)
    assert found is not None
    return found[0]


def test_equal_names_are_equal_sizes() -> None:
    x = t(F32, "b", "s", 64)
    assert one("Add", x, t(F32, 64)) == x
    assert one("Add", x, t(F32, 1, "s", 1)) == x
    assert one("MatMul", x, t(F32, 64, 10)).shape == ("b", "s", 10)
    assert one("Add", t(F32, "n"), t(F32, "m")) == one("Add", t(F32, "m"), t(F32, "n"))
    assert one("Conv", t(F32, "b", 3, "h", "w"), t(F32, 8, 3, 3, 3), pads=[1, 1, 1, 1]) == t(
        F32, "b", 8, "h", "w"
    )


def test_reshape_with_sizes_computed_from_names() -> None:
    x = t(F32, "b", "s", 64)
    target: dict[int, tuple[int | str, ...]] = {1: ("b", "s", 8, 8)}
    assert one("Reshape", x, t("s64", 4), symbols=target.get).shape == ("b", "s", 8, 8)
    assert one("Reshape", x, t("s64", 3), known={"i1": [0, -1, 8]}).shape == ("b", "?=8*s", 8)
    assert one("Reshape", x, t("s64", 2), known={"i1": [-1, 64]}).shape == ("?=b*s", 64)


def test_fresh_names_differ() -> None:
    x = t(F32, 4, 4)
    a, b = one("NonZero", x), one("NonZero", x)
    assert a.shape is not None
    assert b.shape is not None
    assert a.shape[1] != b.shape[1]
    names = iter(["?u", "?v"])
    found = infer("", "NonZero", 17, [x], {}, fresh=lambda: next(names))
    assert found == (Type("s64", (2, "?u")),)


def test_unknown_rank_is_followed_by_token() -> None:
    x = Type(F32, opaque.opaque("x"))
    y = Type(F32, opaque.opaque("y"))
    scalar = Type(F32, ())
    assert one("Relu", x) == x
    assert one("Softmax", x) == x
    assert one("Add", x, scalar) == x
    assert one("Mul", x, x) == x
    assert one("Add", x, y) == one("Add", y, x)
    assert one("Greater", x, scalar) == Type("bool", x.shape)
    assert one("Clip", x, scalar, scalar) == x
    assert one("Add", x, Type(F32, None)).shape is None
    assert one("MatMul", x, t(F32, 4, 5)).shape is None
    assert one("Reshape", x, t("s64", 2), known={"i1": [2, 3]}).shape == (2, 3)
    bias = t(F32, 1, 3)
    twice = one("Add", one("Add", x, bias), bias)
    assert twice == one("Add", x, bias)
    assert twice != x


# --- cost -------------------------------------------------------------------------------------


def test_elementwise_inference_takes_microseconds() -> None:
    x, y = t(F32, "n", 128, 768), t(F32, 768)
    best = {}
    for name, operands in (("Relu", [x]), ("Add", [x, y])):
        infer("", name, 17, operands, {})
        runs = []
        for _ in range(20):
            start = time.process_time()
            for _ in range(200):
                infer("", name, 17, operands, {})
            runs.append((time.process_time() - start) / 200)
        best[name] = min(runs)
    assert max(best.values()) < 5e-6, best


def test_importing_the_package_imports_no_family() -> None:
    code = (
        "import sys, rewrite.ops, rewrite.ops.infer, rewrite.ops.evaluate\n"
        "assert 'rewrite.ops.convolution' not in sys.modules\n"
        "assert 'onnx' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_families_load_in_milliseconds(tmp_path: Path) -> None:
    """From byte code, in processor time: other work on the machine does not count."""
    code = (
        "import time, numpy, rewrite.ops.registry as r\n"
        "start = time.process_time(); r.operators(); print(time.process_time() - start)"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def seconds() -> float:
        run = [sys.executable, "-c", code]
        return float(subprocess.run(run, check=True, capture_output=True, env=environment).stdout)

    seconds()  # writes the byte code
    assert min(seconds() for _ in range(3)) < 0.06


def test_declarations_cover_the_schemas() -> None:
    declared = registry.operators()
    assert sum(domain == "" for domain, _ in declared) >= 150
    for (domain, name), definition in declared.items():
        assert definition.doc, f"{domain}.{name} has no doc"
