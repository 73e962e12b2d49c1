"""What a node has to be beyond its element types: operands that fit each other, known words.

In: `Call`. Out: nothing; `InferenceError` (or `dims.SizeError`) where no run can succeed. Kernels
take all this for granted: they read as many elements as the first operand tells them to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from rewrite.ops import dims
from rewrite.ops.call import Call
from rewrite.ops.words import check_words
from rewrite.schema import Dim, Shape

Rule = Callable[[Call], None]
Sizes = dict[str, Dim]

ANY = "_"  # in a pattern: any size
REST = "*"  # last in a pattern: any further dimensions


def check(name: str, call: Call) -> None:
    """Raises where operands or attributes cannot be right."""
    check_words(name, call)
    rule = _RULES.get(name)
    if rule is not None:
        rule(call)


# --- shapes ------------------------------------------------------------------------------------


def fit(call: Call, index: int, pattern: str, sizes: Sizes) -> None:
    """Operand `index` against a pattern: numbers, names (`sizes` holds what they are, once they
    are met), `_` and `*`. Absent operands and unknown shapes fit."""
    shape = call.shape(index) if call.has(index) else None
    if shape is None:
        return
    words = pattern.split()
    rest = bool(words) and words[-1] == REST
    words = words[:-1] if rest else words
    if len(shape) < len(words) or (len(shape) > len(words) and not rest):
        call.fail(f"operand {index} of shape {_told(shape)} is not [{', '.join(pattern.split())}]")
    for word, size in zip(words, shape, strict=False):
        if word == ANY:
            continue
        wanted: Dim = int(word) if word.isdigit() else sizes.setdefault(word, size)
        if isinstance(wanted, int) and isinstance(size, int) and wanted != size:
            what = "a dimension" if word.isdigit() else f"`{word}`"
            call.fail(f"operand {index} of shape {_told(shape)}: {what} is {size}, not {wanted}")
        if not word.isdigit():
            sizes[word] = dims.same_dim(wanted, size)


def _told(shape: Shape) -> str:
    return "[" + ", ".join("?" if str(n).startswith("?") else str(n) for n in shape) + "]"


def one_of(call: Call, index: int, size: Dim | None, what: str) -> None:
    """A scalar, one element, or `size` of them."""
    shape = call.shape(index) if call.has(index) else None
    if shape is None or len(shape) == 0:
        return
    if len(shape) > 1:
        call.fail(f"{what} has rank {len(shape)}")
    (n,) = shape
    if isinstance(n, int) and n != 1 and isinstance(size, int) and n != size:
        call.fail(f"{what} has {n} elements, not {size}")


def size_at(call: Call, index: int, axis: int) -> Dim | None:
    shape = call.shape(index)
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else None


def _axis(call: Call) -> None:
    """Before opset 13 an axis stood for all dimensions from there on, of which may be none."""
    shape, axis = call.shape(0), call.attributes.get("axis")
    if shape is None or axis is None:
        return
    if call.opset < 13 and int(axis) == len(shape):
        return
    call.axis(int(axis), len(shape))


def _lp_normalization(call: Call) -> None:
    if call.integer("p", 2) not in (1, 2):
        call.fail(f"p is {call.integer('p', 2)}, not 1 or 2")
    _axis(call)


def _conv(call: Call) -> None:
    weights = size_at(call, 1, 0)
    fit(call, 2, "filters", {} if weights is None else {"filters": weights})


def _conv_integer(call: Call) -> None:
    one_of(call, 3, size_at(call, 1, 0), "the zero point of the weights")


def _qlinear_conv(call: Call) -> None:
    filters = size_at(call, 3, 0)
    one_of(call, 4, filters, "the scale of the weights")
    one_of(call, 5, filters, "the zero point of the weights")
    fit(call, 8, "filters", {} if filters is None else {"filters": filters})


def _conv_transpose(call: Call) -> None:
    group, channels, filters = call.integer("group", 1), size_at(call, 1, 0), size_at(call, 1, 1)
    if isinstance(channels, int) and channels % group:
        call.fail(f"{channels} channels in {group} groups")
    if filters is not None:
        fit(call, 2, "filters", {"filters": dims.mul(filters, group)})
    shape, wanted = call.shape(0), call.integers("output_shape")
    if shape is not None and wanted is not None and len(wanted) < len(shape) - 2:
        call.fail(f"output_shape {list(wanted)} for {len(shape) - 2} dimensions")


def _deform_conv(call: Call) -> None:
    shape = call.shape(1)
    if shape is None or len(shape) != 4:
        return
    groups = call.integer("offset_group", 1)
    places = dims.mul(groups, dims.mul(shape[2], shape[3]))
    sizes: Sizes = {"filters": shape[0], "masks": places, "offsets": dims.mul(2, places)}
    channels = size_at(call, 0, 1)
    if isinstance(channels, int) and channels % groups:
        call.fail(f"{channels} channels in {groups} groups of offsets")
    fit(call, 0, "batch _ _ _", sizes)
    fit(call, 2, "batch offsets rows columns", sizes)
    fit(call, 3, "filters", sizes)
    fit(call, 4, "batch masks rows columns", sizes)


def _matmul_integer(call: Call) -> None:
    for index, axis, what in ((2, -2, "rows of A"), (3, -1, "columns of B")):
        shape = call.shape(index) if call.has(index) else None
        if shape is not None and len(shape) == 1:
            one_of(call, index, size_at(call, index - 2, axis), f"the zero point of {what}")


_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_ACTIVATIONS = frozenset(
    {
        "relu", "tanh", "sigmoid", "affine", "leakyrelu", "thresholdedrelu", "scaledtanh",
        "hardsigmoid", "elu", "softsign", "softplus",
    }
)  # fmt: skip


def _recurrent(name: str) -> Rule:
    def rule(call: Call) -> None:
        directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
        sizes: Sizes = {"directions": directions}
        hidden = call.integer("hidden_size", 0) or size_at(call, 2, 2)
        if hidden is not None:
            gates = dims.mul(hidden, _GATES[name])
            sizes |= {"hidden": hidden, "gates": gates, "biases": dims.mul(gates, 2)}
            sizes["peepholes"] = dims.mul(hidden, 3)
        by_batch = call.integer("layout", 0) == 1
        state = "batch directions hidden" if by_batch else "directions batch hidden"
        patterns = (
            "batch steps inputs" if by_batch else "steps batch inputs",
            "directions gates inputs", "directions gates hidden", "directions biases", "batch",
            state, state, "directions peepholes",
        )  # fmt: skip
        for index, pattern in enumerate(patterns):
            fit(call, index, pattern, sizes)
        _functions(call, directions, {"RNN": 1, "GRU": 2, "LSTM": 3}[name])

    return rule


def _functions(call: Call, directions: int, count: int) -> None:
    given = call.attributes.get("activations")
    if not given:
        return
    names = [v.decode() if isinstance(v, bytes) else str(v) for v in given]
    if len(names) != directions * count:
        call.fail(f"{len(names)} activations, not {directions * count}")
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            call.fail(f"there is no activation `{name}`")


def _attention(call: Call) -> None:
    """Queries, keys and values; what has gone before; the mask."""
    shapes = [call.shape(i) for i in range(3)]
    ranks = {len(shape) for shape in shapes if shape is not None}
    if len(ranks) > 1:
        call.fail("queries, keys and values are of several ranks")
    if None in shapes:
        return
    sizes: Sizes = {}
    if ranks == {4}:
        inputs = ("batch _ queries head", "batch heads keys head", "batch heads keys values")
        heads, shared = size_at(call, 0, 1), size_at(call, 1, 1)
    else:
        inputs = ("batch queries _", "batch keys _", "batch keys _")
        heads, shared = call.integer("q_num_heads", 0), call.integer("kv_num_heads", 0)
        if heads < 1 or shared < 1:
            call.fail(f"{heads} heads of queries, {shared} of keys")
        sizes["heads"] = shared
        for index, count, name in ((0, heads, "head"), (1, shared, "head"), (2, shared, "values")):
            head = dims.quotient([size_at(call, index, 2) or 0], [count])
            sizes[name] = dims.same_dim(sizes.get(name, head), head)
    before = ("batch heads past head", "batch heads past values")
    for index, pattern in ((0, inputs[0]), (1, inputs[1]), (2, inputs[2]), (4, before[0]),
                           (5, before[1]), (6, "batch")):  # fmt: skip
        fit(call, index, pattern, sizes)
    if isinstance(heads, int) and isinstance(shared, int) and (not shared or heads % shared):
        call.fail(f"{heads} heads of queries for {shared} of keys")
    total = sizes.get("keys")
    if call.has(4):
        past = sizes.get("past")
        total = None if past is None or total is None else dims.add(total, past)
    _mask(call, sizes.get("queries"), total)


def _linear_attention(call: Call) -> None:
    sizes: Sizes = {}
    for index, pattern in ((0, "batch steps _"), (1, "batch steps _"), (2, "batch steps _")):
        fit(call, index, pattern, sizes)
    heads, shared = call.integer("q_num_heads", 1), call.integer("kv_num_heads", 1)
    q, k = size_at(call, 0, 2), size_at(call, 1, 2)
    if q is not None and k is not None:
        dims.same_dim(dims.quotient([q], [heads]), dims.quotient([k], [shared]))


def _causal_conv(call: Call) -> None:
    sizes: Sizes = {}
    for index, pattern in (
        (0, "batch channels _"), (1, "channels _ _"), (2, "channels"), (3, "batch channels _"),
    ):  # fmt: skip
        fit(call, index, pattern, sizes)


def _tensor_scatter(call: Call) -> None:
    batch = size_at(call, 0, 0)
    fit(call, 2, "batch", {} if batch is None else {"batch": batch})


def _mask(call: Call, queries: Dim | None, total: Dim | None) -> None:
    """Broadcast to queries by keys; from opset 24 on of fewer keys, too."""
    shape = call.shape(3) if call.has(3) else None
    if not shape:
        return
    rows, columns = (shape[-2] if len(shape) > 1 else 1), shape[-1]
    if isinstance(rows, int) and isinstance(queries, int) and rows not in (1, queries):
        call.fail(f"a mask of {rows} rows for {queries} queries")
    if not isinstance(columns, int) or not isinstance(total, int) or columns in (1, total):
        return
    if call.opset < 24 or columns > total:
        call.fail(f"a mask of {columns} columns for {total} keys")


def _grid_sample(call: Call) -> None:
    x, sizes = call.shape(0), Sizes()
    if x is None or len(x) < 3:
        return
    fit(call, 0, "batch *", sizes)
    fit(call, 1, " ".join(["batch", *[ANY] * (len(x) - 2), str(len(x) - 2)]), sizes)


def _non_max_suppression(call: Call) -> None:
    sizes: Sizes = {}
    fit(call, 0, "batch boxes 4", sizes)
    fit(call, 1, "batch _ boxes", sizes)
    for index in (2, 3, 4):
        one_of(call, index, 1, f"operand {index}")


def _loss(call: Call) -> None:
    x = call.shape(0)
    if x is None or len(x) < 2:
        return
    sizes: Sizes = {f"n{i}": n for i, n in enumerate(x)}
    fit(call, 1, " ".join(f"n{i}" for i in range(len(x)) if i != 1), sizes)
    fit(call, 2, "n1", sizes)


def _not_beyond(call: Call, index: int, axis: int) -> None:
    """Places are as many as elements of data at most, except along the axis."""
    data, places = call.shape(0), call.shape(index)
    if data is None or places is None:
        return
    if len(data) != len(places):
        call.fail(f"indices of rank {len(places)} for data of rank {len(data)}")
    axis = call.axis(axis, len(data))
    for i, (n, m) in enumerate(zip(data, places, strict=True)):
        if i != axis and isinstance(n, int) and isinstance(m, int) and m > n:
            call.fail(f"{m} indices along axis {i}, where data has {n}")


def _gather_elements(call: Call) -> None:
    _not_beyond(call, 1, call.integer("axis", 0))


def _scatter_elements(call: Call) -> None:
    _not_beyond(call, 1, call.integer("axis", 0))
    indices = call.shape(1)
    if indices is not None:
        sizes: Sizes = {f"i{k}": n for k, n in enumerate(indices)}
        fit(call, 2, " ".join(sizes), sizes)


def _scatter_nd(call: Call) -> None:
    data, indices = call.shape(0), call.shape(1)
    if data is None or not indices or not isinstance(indices[-1], int):
        return
    if indices[-1] > len(data):
        call.fail(f"indices of {indices[-1]} axes for data of rank {len(data)}")
    wanted = (*indices[:-1], *data[indices[-1] :])
    sizes: Sizes = {f"n{k}": n for k, n in enumerate(wanted)}
    fit(call, 2, " ".join(sizes), sizes)


def _gather_nd(call: Call) -> None:
    data, indices, batch = call.shape(0), call.shape(1), call.integer("batch_dims", 0)
    if data is None or indices is None:
        return
    for n, m in zip(data[:batch], indices[:batch], strict=False):
        dims.same_dim(n, m)


def _channels(*parameters: int) -> Rule:
    """One number for each channel."""

    def rule(call: Call) -> None:
        channels = size_at(call, 0, 1)
        sizes: Sizes = {} if channels is None else {"channels": channels}
        for index in parameters:
            fit(call, index, "channels", sizes)

    return rule


def _batch_normalization(call: Call) -> None:
    x = call.shape(0)
    if x is not None and len(x) > 1:  # of one dimension: one channel
        _channels(1, 2, 3, 4)(call)


def _group_normalization(call: Call) -> None:
    if call.opset >= 21:
        _channels(1, 2)(call)
    else:
        groups = call.integer("num_groups", 1)
        for index in (1, 2):
            fit(call, index, "groups", {"groups": groups})


def _prelu(call: Call) -> None:
    x, slope = call.shape(0), call.shape(1)
    if x is None or slope is None:
        return
    if len(slope) > len(x):
        call.fail(f"a slope of rank {len(slope)} for a tensor of rank {len(x)}")
    for n, m in zip(reversed(x), reversed(slope), strict=False):
        if isinstance(n, int) and isinstance(m, int) and m not in (1, n):
            call.fail(f"a slope of {m} for {n} elements")


def _one_hot(call: Call) -> None:
    one_of(call, 1, 1, "the depth")
    fit(call, 2, "2", {})


def _pad(call: Call) -> None:
    one_of(call, 2, 1, "what is put around")


def _affine_grid(call: Call) -> None:
    fit(call, 1, "rank", {})
    rank, sizes = call.length_of(1), call.integers_of(1)
    if rank is None:
        return
    if rank not in (4, 5):
        call.fail(f"a grid for a tensor of rank {rank}")
    fit(call, 0, f"batch {rank - 2} {rank - 1}", {} if sizes is None else {"batch": sizes[0]})


def _mel_weights(call: Call) -> None:
    for index in range(5):
        one_of(call, index, 1, f"operand {index}")


def _compress(call: Call) -> None:
    fit(call, 1, "places", {})


def _slice(call: Call) -> None:
    sizes: Sizes = {}
    for index in range(1, 5):
        fit(call, index, "axes", sizes)


def _clip(call: Call) -> None:
    one_of(call, 1, 1, "the least number")
    one_of(call, 2, 1, "the largest number")


_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"({_TERM}(?:,{_TERM})*)(?:->({_TERM}))?")


def _einsum(call: Call) -> None:
    equation = call.text("equation", "")
    found = _EQUATION.fullmatch(equation.replace(" ", ""))
    if found is None:
        call.fail(f"`{equation}` is no equation")
    left, right = found[1], (found[2] or "").replace("...", ".")
    known = {*left.replace("...", "."), "."}  # of no dimensions where no operand has any
    for label in right:
        if label not in known:
            call.fail(f"`{label}` of the result is in no operand")
        if right.count(label) > 1:
            call.fail(f"`{label}` is twice in the result")


def _dft(call: Call) -> None:
    last = size_at(call, 0, -1)
    if isinstance(last, int) and last not in (1, 2):
        call.fail(f"numbers of {last} parts, not of 1 or 2")


def _quantize(call: Call) -> None:
    if call.integer("block_size", 0) < 0:
        call.fail(f"block_size is {call.integer('block_size', 0)}")
    scale = call.shape(1)
    if scale is not None:
        sizes: Sizes = {f"n{k}": n for k, n in enumerate(scale)}
        zero = call.shape(2) if call.has(2) else None
        if zero is not None and not (len(zero) + len(scale) == 1 and {*zero, *scale} == {1}):
            fit(call, 2, " ".join(sizes), sizes)


def _resize(call: Call) -> None:
    crops = call.text("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    x, length = call.shape(0), call.length_of(1)
    if not crops or call.opset < 11 or x is None:
        return
    axes = call.integers("axes")
    wanted = 2 * (len(x) if axes is None else len(axes))
    if not call.has(1) or (length is not None and length != wanted):
        call.fail(f"a region of {length or 0} numbers, not {wanted}")


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _axis),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _loss),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantize),
    **{name: _recurrent(name) for name in _GATES},
    "AffineGrid": _affine_grid,
    "Attention": _attention,
    "BatchNormalization": _batch_normalization,
    "CausalConvWithState": _causal_conv,
    "Clip": _clip,
    "Compress": _compress,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "DFT": _dft,
    "DeformConv": _deform_conv,
    "Einsum": _einsum,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "GridSample": _grid_sample,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _channels(1, 2),
    "LinearAttention": _linear_attention,
    "LpNormalization": _lp_normalization,
    "MatMulInteger": _matmul_integer,
    "MelWeightMatrix": _mel_weights,
    "NonMaxSuppression": _non_max_suppression,
    "OneHot": _one_hot,
    "PRelu": _prelu,
    "Pad": _pad,
    "QLinearConv": _qlinear_conv,
    "Resize": _resize,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "TensorScatter": _tensor_scatter,
}
