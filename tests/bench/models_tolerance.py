"""How far two runtimes that are both right may differ on a model.

In: a model, feeds, outputs of both. Out: the tolerance of floats and how it comes about, and the
outputs that are outside of it.

A float output of float32 may differ by T max|y|, y being the whole output tensor:

    T = the sum over the longest path of e(node), or 4 C if that is more

    e(contraction over K elements) = 4 u sqrt(K)      MatMul, Gemm, Conv, reductions, pools, RNNs
    e(other operator) = the relative error that its declaration admits (rewrite.ops), at least u

u = 2^-24 (2^-11 for float16, 2^-8 for bfloat16: such tensors are rounded at every step). A sum of
K products with random signs, in any order, has the error u sqrt(K/2) of its result on average: the
roundings of the partial sums, which grow as sqrt(k), add up like a random walk; where all terms
have one sign it is u sqrt(K/3). Two runtimes differ by sqrt(2) of that; 4 standard deviations
cover some ten thousand elements. A recurrent layer is as long a path as it has steps.

C is what the model makes of errors: the largest change of the reference runtime's own outputs, as
a share of max|y|, when every float weight and input is changed at random by the relative error
E = max e(node), in three trials. Weights of all layers are changed at once, so that each layer errs
by about E, as two runtimes may. Where C is used, the root mean square of the differences may be no
more than twice that of the runtime's own: in a quantized model single codes fall to either side and
an element moves by whole steps, but few do. C is measured only where the sum is exceeded: it costs
three runs.

Sigmoid, Tanh, Erf and the like are computed with an absolute error of u where their result is near
zero (onnxruntime: a rational function plus a half), so where a model has one, T max|y| is at least
2 u. Casts to float16 lose what is below its smallest number: there it is at least 4 of these.

Integers, booleans and strings are equal, except where they are made from floats (QuantizeLinear,
ArgMax, TopK, Cast, ...): a float at the edge between two of them falls to either side. There, too,
the reference runtime is asked: integers may differ in as many places, and by as much, as its own
outputs do under such a change (3 trials, twice the largest).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from rewrite.audit.feeds import Feeds, is_float
from rewrite.audit.runtimes import CannotRunError, OnnxRuntime, Source
from rewrite.ops import registry

UNIT = {TensorProto.FLOAT: 2.0**-24, TensorProto.FLOAT16: 2.0**-11, TensorProto.BFLOAT16: 2.0**-8}
FLOOR = {2.0**-24: 2.0**-126, 2.0**-11: 4 * 2.0**-24, 2.0**-8: 2.0**-126}
TRIALS = 3
BOUNDED = frozenset(
    {
        "Sigmoid",
        "Tanh",
        "Erf",
        "HardSigmoid",
        "QuickGelu",
        "Gelu",
        "LSTM",
        "GRU",
        "FastGelu",
        "LinearClassifier",
        "TreeEnsembleClassifier",
    }
)

# Operators that add up many elements.
SUMMING = frozenset(
    {
        "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "FusedMatMul", "FusedGemm",
        "FusedConv", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger",
        "MatMulNBits", "QGemm", "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "CumSum",
        "AveragePool", "GlobalAveragePool", "LpPool", "Softmax", "LogSoftmax",
        "LayerNormalization", "InstanceNormalization", "LSTM", "GRU", "RNN", "GroupNormalization",
        "RMSNormalization", "SimplifiedLayerNormalization", "STFT", "DFT",
        "SkipLayerNormalization", "EmbedLayerNormalization", "MeanVarianceNormalization",
        "Attention", "MultiHeadAttention", "GroupQueryAttention", "DynamicQuantizeLSTM",
        "BatchNormalization", "LpNormalization", "LRN",
        "LinearClassifier", "LinearRegressor", "Normalizer", "TreeEnsembleRegressor",
        "TreeEnsembleClassifier", "SVMClassifier", "SVMRegressor", "Mean", "Sum",
    }
)  # fmt: skip
RECURRENT = frozenset({"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "Loop", "Scan"})
STEPS = 32  # of a recurrent layer whose operand's length is not known
EXACT = frozenset(
    {
        "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Concat", "Slice",
        "Split", "Gather", "GatherND", "GatherElements", "Expand", "Tile", "Shape", "Size",
        "Constant", "ConstantOfShape", "Pad", "Where", "DepthToSpace", "SpaceToDepth", "Relu",
        "Neg", "Abs", "Max", "Min", "Clip", "Dropout", "MaxPool", "Equal", "Less", "Greater",
        "Not", "And", "Or", "Range", "NonZero", "ScatterND", "Trilu", "ZipMap",
        "ArgMax", "ArgMin", "TopK", "NonMaxSuppression", "ReduceMax", "ReduceMin",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`path`: the sum of e along the longest path; `largest`: the largest e; `length`: the longest
    sum; `floor`: an absolute error that is always admitted: some of the smallest numbers of the
    coarsest float type; `own`: C, 0 until it is measured, and `own_mean` the root mean square."""

    path: float
    largest: float
    length: int
    floor: float
    own: float = 0.0
    own_mean: float = 0.0

    @property
    def relative(self) -> float:
        return max(self.path, 4 * self.own)

    def __str__(self) -> str:
        measured = f", C {self.own:.1e}, mean {self.own_mean:.1e}" if self.own else ""
        return f"{self.relative:.1e} (K {self.length}{measured})"


# --- the model ---------------------------------------------------------------------------------


def tolerance_of(model: onnx.ModelProto, feeds: Feeds) -> Tolerance:
    unit = _unit(model)
    sizes = _shapes(model, feeds)
    functions = {(f.domain, f.name): f for f in model.functions}
    walk = _Walk(unit, sizes, functions)
    weights = {tensor.name: 0.0 for tensor in model.graph.initializer}
    path = walk.graph(model.graph.node, dict(weights), 0)
    bounded = any(node.op_type in BOUNDED for node in nodes(model))
    floor = max(FLOOR[unit], 2 * 2.0**-24 if bounded else 0.0)
    return Tolerance(max(path, unit), max(walk.largest, unit), walk.length, floor)


def _unit(model: onnx.ModelProto) -> float:
    """Of the coarsest float type that a value of the model has."""
    found = {tensor.data_type for tensor in model.graph.initializer}
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    found |= {value.type.tensor_type.elem_type for value in values}
    for node in nodes(model):
        found |= {a.i for a in node.attribute if node.op_type == "Cast" and a.name == "to"}
    return max((UNIT[e] for e in found if e in UNIT), default=2.0**-24)


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, subgraphs and function bodies included."""
    pending: list[Sequence[onnx.NodeProto]] = [model.graph.node]
    pending += [function.node for function in model.functions]
    while pending:
        for node in pending.pop():
            yield node
            for attribute in node.attribute:
                pending += [g.node for g in (attribute.g, *attribute.graphs)]


def _shapes(model: onnx.ModelProto, feeds: Feeds) -> dict[str, tuple[int, ...]]:
    """Sizes that are known, with those of the feeds put in."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    del fixed.graph.value_info[:]
    for value in fixed.graph.input:
        if value.name in feeds and value.type.HasField("tensor_type"):
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in feeds[value.name].shape:
                shape.dim.add().dim_value = size
    # As far as it goes: lengths that are not known are taken from other operands.
    with contextlib.suppress(onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        fixed = onnx.shape_inference.infer_shapes(fixed, data_prop=True)
    found = {tensor.name: tuple(tensor.dims) for tensor in fixed.graph.initializer}
    for value in (*fixed.graph.input, *fixed.graph.value_info, *fixed.graph.output):
        dims = value.type.tensor_type.shape.dim
        if all(d.HasField("dim_value") for d in dims):
            found[value.name] = tuple(d.dim_value for d in dims)
    return found


@dataclass
class _Walk:
    unit: float
    sizes: Mapping[str, tuple[int, ...]]
    functions: Mapping[tuple[str, str], onnx.FunctionProto]
    largest: float = 0.0
    length: int = 1

    def graph(self, found: Sequence[onnx.NodeProto], errors: dict[str, float], depth: int) -> float:
        """The largest sum of errors of any value; `errors` of those known so far."""
        worst = 0.0
        for node in found:
            before = max((errors.get(name, 0.0) for name in node.input), default=0.0)
            after = before + self.node(node, errors, depth)
            errors.update(dict.fromkeys(node.output, after))
            worst = max(worst, after)
        return worst

    def node(self, node: onnx.NodeProto, errors: dict[str, float], depth: int) -> float:
        function = self.functions.get((node.domain, node.op_type))
        if function is not None and depth < 16:
            return self.graph(function.node, {}, depth + 1)
        inner = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        if inner:
            worst = max(self.graph(g.node, dict(errors), depth + 1) for g in inner)
            return worst * (STEPS if node.op_type in RECURRENT else 1)
        if node.op_type in EXACT:
            return 0.0
        own = self.unit
        definition = registry.find(node.domain, node.op_type)
        declared = None if definition is None else definition.evaluation
        if isinstance(declared, float):
            own = max(own, declared * self.unit / 2.0**-24)
        if node.op_type in SUMMING:
            terms = self.terms(node)
            self.length = max(self.length, terms)
            own = 4 * self.unit * math.sqrt(terms)
        own *= self.steps(node)
        self.largest = max(self.largest, own)
        return own

    def terms(self, node: onnx.NodeProto) -> int:
        """How many elements are added up for one element of the result: all of the smaller operand
        but its results, as far as sizes are known."""
        shapes = [self.sizes[name] for name in node.input if name in self.sizes]
        if node.op_type in ("Conv", "ConvTranspose", "FusedConv", "ConvInteger"):
            weight = self.sizes.get(node.input[1], (1, 64, 9))
            return max(1, math.prod(weight[1:]))
        if not shapes:
            return 1024
        longest = max((max(shape, default=1) for shape in shapes), default=1)
        out = self.sizes.get(node.output[0]) if node.output else None
        if len(shapes) == 1 and out is not None and math.prod(out):
            return max(1, math.prod(shapes[0]) // math.prod(out), shapes[0][-1] if shapes[0] else 1)
        return max(1, longest)

    def steps(self, node: onnx.NodeProto) -> int:
        if node.op_type not in RECURRENT:
            return 1
        shape = self.sizes.get(node.input[0])
        return max(1, shape[0]) if shape else STEPS


# --- comparison --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """`used`: the largest error as a share of the tolerance; `reason`: None where it is within."""

    used: float
    tolerance: Tolerance
    reason: str | None


def judge(source: Source, feeds: Feeds, expected: Sequence[Any], found: Sequence[Any]) -> Verdict:
    """Whether outputs agree, asking the reference runtime about itself where it is close."""
    tolerance = tolerance_of(source.proto, feeds)
    used, reason = compare(source.proto, expected, found, tolerance, None)
    if reason is None:
        return Verdict(used, tolerance, None)
    changed = disturbed(source.proto, feeds, tolerance.largest, _by_runtime)
    if not changed:
        return Verdict(used, tolerance, reason)
    tolerance = measured(tolerance, expected, changed)
    used, reason = compare(source.proto, expected, found, tolerance, changed)
    return Verdict(used, tolerance, reason)


def compare(
    model: onnx.ModelProto,
    expected: Sequence[Any],
    found: Sequence[Any],
    tolerance: Tolerance,
    changed: Sequence[Sequence[Any]] | None,
) -> tuple[float, str | None]:
    """The largest share of the tolerance that is used, and why it is exceeded."""
    most = 0.0
    for k, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        own = None if changed is None else [trial[k] for trial in changed]
        used, reason = _one(wanted, got, tolerance, own)
        most = max(most, used)
        if reason is not None:
            return max(most, 1.0), f"output {model.graph.output[k].name!r}: {reason}"
    return most, None


def _one(
    wanted: Any, got: Any, tolerance: Tolerance, own: Sequence[Any] | None
) -> tuple[float, str | None]:
    if isinstance(wanted, (list, dict)) or wanted is None:
        return _structure(wanted, got, tolerance)
    wanted, got = np.asarray(wanted), np.asarray(got)
    if wanted.shape != got.shape:
        return np.inf, f"shape {got.shape}, not {wanted.shape}"
    if wanted.dtype != got.dtype and wanted.dtype.kind not in "OUS":
        return np.inf, f"{got.dtype}, not {wanted.dtype}"
    if is_float(wanted) or wanted.dtype.kind == "c":
        return _floats(wanted, got, tolerance)
    differ = wanted != got
    if not differ.any():
        return 0.0, None
    count, step = int(differ.sum()), _largest_step(wanted, got)
    admitted = max((int((np.asarray(o) != wanted).sum()) for o in own or ()), default=0)
    steps = max((_largest_step(wanted, np.asarray(o)) for o in own or ()), default=0)
    if count <= 2 * admitted and step <= 2 * steps:
        return count / (2 * admitted), None
    said = f"{count} of {wanted.size} elements differ, by {step}"
    return np.inf, f"{said} (the runtime's own: {admitted}, by {steps})"


def _structure(wanted: Any, got: Any, tolerance: Tolerance) -> tuple[float, str | None]:
    """Sequences and maps."""
    if type(wanted) is not type(got) or (wanted is not None and len(wanted) != len(got)):
        return np.inf, f"{type(got).__name__} is not {type(wanted).__name__}"
    if wanted is None:
        return 0.0, None
    if isinstance(wanted, dict):
        if list(wanted) != list(got):
            return np.inf, f"keys {list(got)}, not {list(wanted)}"
        wanted = [np.float64(v) if isinstance(v, float) else v for v in wanted.values()]
        got = [np.float64(v) if isinstance(v, np.floating) else v for v in got.values()]
    most = 0.0
    for left, right in zip(wanted, got, strict=True):
        used, reason = _one(left, right, tolerance, None)
        most = max(most, used)
        if reason is not None:
            return most, reason
    return most, None


def _floats(wanted: Any, got: Any, tolerance: Tolerance) -> tuple[float, str | None]:
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = wanted.astype(wide), got.astype(wide)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf, "NaN at different places"
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite & ~np.isnan(a)], b[~finite & ~np.isnan(a)]):
        return np.inf, "infinite at different places"
    if not finite.any():
        return 0.0, None
    magnitude = float(np.abs(a[finite]).max())
    errors = np.abs(a[finite] - b[finite])
    error, mean = float(errors.max()), float(np.sqrt(np.mean(errors**2)))
    if error == 0:
        return 0.0, None
    used = error / (tolerance.relative * magnitude + tolerance.floor)
    if tolerance.own:
        most = max(tolerance.path, 2 * tolerance.own_mean) * magnitude + tolerance.floor
        used = max(used, mean / most)
    said = f"off by {error:.2e} at a magnitude of {magnitude:.2e}, {mean:.2e} in the mean"
    return used, None if used <= 1 else said


def _largest_step(a: Any, b: Any) -> int:
    if a.dtype.kind not in "iub" or a.shape != b.shape:
        return 1
    return int(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0))


# --- the runtime's own sensitivity -------------------------------------------------------------


Run = Callable[[onnx.ModelProto, Feeds], Sequence[Any] | None]  # None: it cannot run this


def _by_runtime(model: onnx.ModelProto, feeds: Feeds) -> list[Any] | None:
    try:
        return OnnxRuntime(Source(model, None)).run(feeds)
    except CannotRunError:
        return None


def disturbed(
    source: onnx.ModelProto, feeds: Feeds, relative: float, run: Run
) -> list[Sequence[Any]]:
    """Outputs of a reference runtime with weights and inputs changed by a relative error."""
    results = []
    for seed in range(TRIALS):
        rng = np.random.default_rng(seed)
        model = onnx.ModelProto()
        model.CopyFrom(source)
        for tensor in model.graph.initializer:
            if tensor.data_type in UNIT and tensor.data_location != TensorProto.EXTERNAL:
                array = _moved(numpy_helper.to_array(tensor), rng, relative)
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        given = {n: _moved(x, rng, relative) if is_float(x) else x for n, x in feeds.items()}
        found = run(model, given)
        if found is None:
            return []
        results.append(found)
    return results


def _moved(array: Any, rng: np.random.Generator, relative: float) -> Any:
    factors = 1.0 + relative * rng.choice([-1.0, 1.0], array.shape)
    with np.errstate(all="ignore"):
        return np.asarray(array.astype(np.float64) * factors).astype(array.dtype)


def measured(
    tolerance: Tolerance, expected: Sequence[Any], changed: Sequence[Sequence[Any]]
) -> Tolerance:
    """The tolerance with C, from outputs of disturbed runs."""
    largest, mean = 0.0, 0.0
    for trial in changed:
        for wanted, got in zip(expected, trial, strict=True):
            if (
                isinstance(wanted, np.ndarray)
                and is_float(wanted)
                and np.shape(got) == wanted.shape
            ):
                most, middle = _change(wanted, np.asarray(got))
                largest, mean = max(largest, most), max(mean, middle)
    return replace(tolerance, own=largest, own_mean=mean)


def _change(before: Any, after: Any) -> tuple[float, float]:
    """The largest change and its root mean square, as shares of the magnitude before."""
    a, b = before.astype(np.float64), after.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    magnitude = float(np.abs(a[finite]).max(initial=0.0))
    if not magnitude:
        return 0.0, 0.0
    errors = np.abs(a[finite] - b[finite]) / magnitude
    return float(errors.max()), float(np.sqrt(np.mean(errors**2)))
