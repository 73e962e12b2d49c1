"""Node instances of ai.onnx operators: shapes, constants and attributes that matter.

`case(name, operands..., out=number of outputs, opsets=(first, last), attributes...)`; an operand
is "dtype sizes" for random data, a list for an int64 constant, None for an absent one.
"""

from __future__ import annotations

import numpy as np

from tests.ops.harness import Case, case

F = np.float32
INT_MAX, INT_MIN = 2**63 - 1, -(2**63)

UNARY = (
    "Abs Neg Sign Floor Ceil Round Relu ThresholdedRelu LeakyRelu HardSigmoid HardSwish Shrink "
    "Softsign Exp Sin Cos Tan Atan Sinh Cosh Tanh Asinh Erf Sigmoid Softplus Mish Swish Gelu Elu "
    "Celu Selu Identity IsNaN IsInf"
).split()
UNIT = "Asin Acos Atanh".split()
POSITIVE = "Sqrt Reciprocal Log".split()

elementwise: list[Case] = [
    *[case(name, "f32 2,3,4") for name in UNARY],
    *[case(name, "f32 0,3") for name in UNARY],
    *[case(name, F([-0.75, 0.25, 0.5, -1, 1, 0][: 6 if name != "Atanh" else 3]), data=1)
      for name in UNIT],
    *[case(name, "f32>0 3,4") for name in POSITIVE],
    case("Acosh", "f32>0 2,2", data=1) if False else case("Acosh", F([1, 1.5, 3]), data=1),
    case("Gelu", "f32 7", approximate="tanh"),
    case("Swish", "f32 7", alpha=1.5),
    case("LeakyRelu", "f32 7", alpha=0.3),
    case("HardSigmoid", "f32 7", alpha=0.3, beta=0.4),
    case("Elu", "f32 7", alpha=0.3),
    case("Celu", "f32 7", alpha=0.3),
    case("Selu", "f32 7", alpha=1.5, gamma=2.0),
    case("ThresholdedRelu", "f32 7", alpha=0.5),
    case("Shrink", "f32 7", lambd=1.0, bias=0.25),
    case("IsInf", F([np.inf, -np.inf, np.nan, 1]), data=1, detect_negative=0),
    case("IsInf", F([np.inf, -np.inf, np.nan, 1]), data=1, detect_positive=0),
    case("Not", "bool 2,3"),
    case("BitwiseNot", "s32 2,3"),
]  # fmt: skip

BINARY = "Add Sub Mul Div".split()
COMPARE = "Equal Less LessOrEqual Greater GreaterOrEqual".split()
SHAPES = [
    ("2,3", "2,3"), ("2,3", "3"), ("2,1", "1,3"), ("", "2,3"), ("2,3", ""), ("", ""),
    ("0,3", "1"), ("1", "0"), ("4,1,3", "2,1"), ("2,1,1,1,2", "3,1,2,1"),
]  # fmt: skip

broadcast: list[Case] = [
    *[case(op, f"f32 {a}", f"f32>0 {b}") for op in BINARY for a, b in SHAPES],
    *[case(op, f"s32 {a}", f"s32 {b}") for op in COMPARE for a, b in SHAPES[:5]],
    *[case(op, "f32 2,3", "f32 3") for op in COMPARE],
    *[case(op, f"bool {a}", f"bool {b}") for op in ("And", "Or", "Xor") for a, b in SHAPES[:5]],
    *[case(op, "u8 2,3", "u8 3") for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")],
    *[case("BitShift", "u32 2,3", np.array([1, 2, 3], np.uint32), direction=d, data=2)
      for d in ("LEFT", "RIGHT")],
    case("Div", np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32), data=2),
    case("Mod", np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32), data=2),
    case("Mod", np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32), data=2,
         fmod=1),
    case("Mod", "f32 5", F([2, -2, 1.5, -1.5, 0.5]), data=2, fmod=1),
    case("Pow", "f32>0 2,3", "f32 3"),
    case("Pow", "f32 2,3", np.array([2], np.int64), data=2),
    case("Pow", np.array([2, -3, 5], np.int32), np.array([3, 2, 0], np.int32), data=2),
    case("PRelu", "f32 2,3,4", "f32 3,1"),
    case("PRelu", "f32 2,3", "f32 1"),
    *[case(op, "f32 2,3", "f32 3", "f32 2,1", opsets=(8, 99)) for op in ("Max", "Min", "Sum", "Mean")],
    *[case(op, "f32 2,3") for op in ("Max", "Min", "Sum", "Mean")],
    *[case(op, "s64 2,3", "s64 3") for op in ("Max", "Min")],
    case("Where", "bool 2,1", "f32 3", "f32 1,1"),
    case("Where", "bool 3", "s64 2,3", "s64 "),
    case("Clip", "f32 2,3", np.array(-1, F), np.array(1, F)),
    case("Clip", "f32 2,3", np.array(-1, F)),
    case("Clip", "f32 2,3", None, np.array(1, F)),
    case("Clip", "f32 2,3", np.array(2, F), np.array(1, F)),
    case("Clip", "s32 2,3", np.array(-2, np.int32), np.array(4, np.int32)),
    case("SwiGLU", "f32 2,3", "f32 2,3"),
]  # fmt: skip

conversion: list[Case] = [
    *[case("Cast", f"{a} 2,3", to=to) for a in ("f32", "s32", "bool", "u8", "f64", "f16")
      for to in (1, 2, 3, 6, 7, 9, 10, 11)],
    case("Cast", F([1.5, -1.5, 2.5, 300, -0.5]), to=6, data=1),
    case("Cast", np.array([300, -1, 65536 + 5], np.int32), to=2, data=1),
    case("CastLike", "f32 2,3", "s32 4"),
    case("BitCast", "f32 2,3", to=6),
]  # fmt: skip

movement: list[Case] = [
    case("Reshape", "f32 2,3,4", [6, 4]),
    case("Reshape", "f32 2,3,4", [0, -1]),
    case("Reshape", "f32 2,3,4", [-1]),
    case("Reshape", "f32 2,3,4", [0, 0, 2, 2]),
    case("Reshape", "f32 2,3,4", [4, -1, 0], note="0 keeps the third size"),
    case("Reshape", "f32 1", np.zeros(0, np.int64), data=1),
    case("Reshape", "f32 0,3", [3, 0, 2], allowzero=1),
    case("Reshape", "f32 0,3", [0, 3]),
    case("Flatten", "f32 2,3,4"),
    case("Flatten", "f32 2,3,4", axis=0),
    case("Flatten", "f32 2,3,4", axis=3),
    case("Flatten", "f32 2,3,4", axis=-1, opsets=(11, 99)),
    case("Squeeze", "f32 1,3,1,2", [0]),
    case("Squeeze", "f32 1,3,1,2", [0, 2]),
    case("Squeeze", "f32 1,3,1,2", [-2], opsets=(11, 99)),
    case("Squeeze", "f32 1,3,1,2"),
    case("Unsqueeze", "f32 3,4", [0]),
    case("Unsqueeze", "f32 3,4", [0, 3]),
    case("Unsqueeze", "f32 3,4", [-1, 1], opsets=(11, 99)),
    case("Unsqueeze", "f32 ", [0]),
    case("Transpose", "f32 2,3,4"),
    case("Transpose", "f32 2,3,4", perm=[1, 0, 2]),
    case("Transpose", "f32 "),
    case("Concat", "f32 2,3", "f32 2,4", axis=1),
    case("Concat", "f32 2,3", "f32 1,3", "f32 0,3", axis=0),
    case("Concat", "f32 2,3", axis=-1, opsets=(11, 99)),
    case("Split", "f32 2,6", [2, 4], out=2, axis=1),
    case("Split", "f32 6,2", out=3, opsets=(7, 17)),
    case("Split", "f32 2,7", out=3, axis=1, num_outputs=3, opsets=(18, 99)),
    case("Split", "f32 2,6", [1, 2, 3], out=3, axis=-1, opsets=(11, 99)),
    case("Slice", "f32 5,6", [1], [4]),
    case("Slice", "f32 5,6", [0, 1], [INT_MAX, 5]),
    case("Slice", "f32 5,6", [1], [INT_MAX], [1]),
    case("Slice", "f32 5,6", [-3], [-1], [1]),
    case("Slice", "f32 5,6", [-100, 2], [100, -1], [0, 1]),
    case("Slice", "f32 5,6", [4], [1], [0]),
    case("Slice", "f32 5,6", [0, 1], [5, 6], [0, 1], [2, 3], opsets=(10, 99)),
    case("Slice", "f32 5,6", [-1], [INT_MIN], [1], [-1], opsets=(10, 99)),
    case("Slice", "f32 5,6", [4], [0], [1], [-2], opsets=(10, 99)),
    case("Slice", "f32 5,6", [10], [-10], [0], [-2], opsets=(10, 99)),
    case("Slice", "f32 0,6", [0], [3], [0]),
    case("Expand", "f32 3,1", [2, 1, 4]),
    case("Expand", "f32 3,1", [1]),
    case("Expand", "f32 ", [2, 2]),
    case("Expand", "f32 1,3", [0, 1]),
    case("Tile", "f32 2,3", [2, 1]),
    case("Tile", "f32 2,3", [0, 2]),
    case("Pad", "f32 2,3", [0, 1, 2, 3]),
    case("Pad", "f32 2,3", [0, 1, 2, 3], np.array(1.5, F)),
    case("Pad", "f32 4,3", [1, -1, -2, 2]),
    case("Pad", "f32 4,3", [1, 1, 2, 2], mode="reflect"),
    case("Pad", "f32 4,3", [1, 1, 2, 5], mode="edge"),
    case("Pad", "f32 4,3", [1, 1, 2, 2], mode="wrap", opsets=(19, 99)),
    case("Pad", "f32 4,3", [1, 2], None, [-1], opsets=(18, 99)),
    case("DepthToSpace", "f32 2,8,2,3", blocksize=2),
    case("DepthToSpace", "f32 2,8,2,3", blocksize=2, mode="CRD", opsets=(11, 99)),
    case("SpaceToDepth", "f32 2,3,4,6", blocksize=2),
    case("SpaceToDepth", "f32 2,3,4,6", blocksize=2, mode="CRD", opsets=(28, 99)),
    case("CenterCropPad", "f32 5,8", [3, 10]),
    case("CenterCropPad", "f32 5,8,3", [10], axes=[1]),
    case("Trilu", "f32 3,4"),
    case("Trilu", "f32 2,3,4", np.array(1), upper=0),
    case("Trilu", "f32 3,4", np.array(-1), upper=1),
    case("ReverseSequence", "f32 4,3,2", [4, 2, 1], data=1),
    case("ReverseSequence", "f32 3,4,2", [4, 2, 1], data=1, batch_axis=0, time_axis=1),
]  # fmt: skip

indexing: list[Case] = [
    case("Gather", "f32 4,3", np.array([[0, 2], [1, 3]]), data=2),
    case("Gather", "f32 4,3", np.array(1), data=2, axis=1),
    case("Gather", "f32 4,3", np.array([-1, 0]), data=2, axis=-1, opsets=(11, 99)),
    case("GatherElements", "f32 3,3", np.array([[0, 2], [1, -1]]), data=2, axis=1),
    case("GatherElements", "f32 3,3", np.array([[0, 2, 1]]), data=2),
    case("GatherND", "f32 2,3,4", np.array([[0, 1], [1, 2]]), data=2),
    case("GatherND", "f32 2,3,4", np.array([[1], [0]]), data=2, batch_dims=1, opsets=(12, 99)),
    case("GatherND", "f32 2,3,4", np.array([[[0]], [[-1]]]), data=2),
    case("Scatter", "f32 3,3", np.array([[1, 0, 2]]), "f32 1,3", data=3, opsets=(9, 10)),
    case("ScatterElements", "f32 3,3", np.array([[1, 0, 2], [0, 2, 1]]), "f32 2,3", data=3),
    case("ScatterElements", "f32 1,5", np.array([[1, -2]]), "f32 1,2", data=3, axis=1),
    case("ScatterElements", "s32 1,5", np.array([[1, 1]]), "s32 1,2", data=3, axis=1,
         reduction="add", opsets=(16, 99)),
    case("ScatterElements", "f32 1,5", np.array([[1, 1]]), "f32 1,2", data=3, axis=1,
         reduction="max", opsets=(18, 99)),
    case("ScatterND", "f32 4,3", np.array([[0], [2]]), "f32 2,3", data=3),
    case("ScatterND", "f32 4,3", np.array([[0, 1], [2, -1]]), "f32 2", data=3),
    case("ScatterND", "s64 4", np.array([[0], [0]]), "s64 2", data=3, reduction="mul",
         opsets=(16, 99)),
    case("Compress", "f32 3,2", np.array([False, True, True]), data=2, axis=0),
    case("Compress", "f32 3,2", np.array([False, True, True]), data=2),
    case("NonZero", F([[1, 0], [0, 2]]), data=1),
    case("Unique", F([2, 1, 1, 3]), data=1, out=4),
    case("Unique", "f32 3,2", out=4, axis=0),
    case("OneHot", np.array([1, -1, 5]), np.array(4), F([2, 7]), data=1),
    case("OneHot", np.array([[1, 0], [3, 2]]), np.array([4]), F([2, 7]), data=1, axis=1),
    case("TopK", "f32 3,5", [2], out=2),
    case("TopK", "f32 3,5", [2], out=2, axis=0, largest=0, opsets=(11, 99)),
    case("TopK", F([1, 3, 3, 2, 1]), [4], out=2),
    case("TopK", F([1, 3, 3, 2, 1]), [4], out=2, largest=0, opsets=(11, 99)),
    case("NonMaxSuppression", "f32 1,6,4", "f32 1,2,6", np.array([2])),
    case("TensorScatter", "f32 2,3,8,4", "f32 2,3,2,4", np.array([1, 3])),
    *[case(op, "f32 3,4", **extra) for op in ("ArgMax", "ArgMin")
      for extra in ({}, {"axis": 1}, {"keepdims": 0})],
    case("ArgMax", F([[1, 3, 3], [2, 2, 0]]), axis=-1, select_last_index=1, opsets=(12, 99), data=1),
    case("ArgMin", "f32 3,4,2", axis=-2, opsets=(11, 99)),
    *[case("CumSum", "f32 3,4", np.array(a), exclusive=x, reverse=r)
      for a in (0, -1) for x in (0, 1) for r in (0, 1)],
    case("CumSum", "s32 3,4", np.array(1)),
    case("CumProd", "f32 3,4", np.array(1)),
]  # fmt: skip

REDUCTIONS = (
    "ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare "
    "ReduceLogSum ReduceLogSumExp"
).split()

reduction: list[Case] = [
    *[case(op, "f32>0 2,3,4", [1]) for op in REDUCTIONS],
    *[case(op, "f32>0 2,3,4", [0, 2], keepdims=0) for op in REDUCTIONS],
    *[case(op, "f32>0 2,3,4") for op in REDUCTIONS],
    *[case(op, "f32>0 2,3,4", keepdims=0) for op in REDUCTIONS],
    *[case(op, "f32>0 2,3,4", [-1], opsets=(11, 99)) for op in REDUCTIONS],
    *[case(op, "s32 2,3", [1]) for op in REDUCTIONS[:5]],
    *[case(op, "f32>0 ") for op in REDUCTIONS],
    *[case(op, "f32 2,0", [1]) for op in REDUCTIONS],
    *[case(op, "f32 2,0", [0]) for op in REDUCTIONS],
    case("ReduceSum", "f32 2,3", noop_with_empty_axes=1, opsets=(13, 99)),
    case("ReduceMean", "f32 2,3", np.zeros(0, np.int64), opsets=(18, 99)),
    case("ReduceMax", "bool 2,3", [1], opsets=(20, 99)),
]  # fmt: skip

contraction: list[Case] = [
    case("MatMul", "f32 2,3", "f32 3,4"),
    case("MatMul", "f32 3", "f32 3,4"),
    case("MatMul", "f32 2,3", "f32 3"),
    case("MatMul", "f32 3", "f32 3"),
    case("MatMul", "f32 5,1,2,3", "f32 4,3,6"),
    case("MatMul", "s32 2,3", "s32 3,4"),
    case("MatMul", "f32 2,0", "f32 0,4"),
    case("Gemm", "f32 2,3", "f32 3,4", "f32 4"),
    case("Gemm", "f32 3,2", "f32 4,3", "f32 2,1", transA=1, transB=1, alpha=0.5, beta=2.0),
    case("Gemm", "f32 2,3", "f32 3,4", opsets=(11, 99)),
    case("Gemm", "f32 2,3", "f32 3,4", "f32 "),
    case("Det", "f32 2,3,3"),
    case("Einsum", "f32 2,3", "f32 3,4", equation="ij,jk->ik"),
    case("Einsum", "f32 2,3,4", equation="...ij->...ji"),
    case("Einsum", "f32 5,2,3", "f32 5,3,4", equation="bij, bjk"),
    case("Einsum", "f32 3,3", equation="ii"),
    case("Einsum", "f32 2,5,3", "f32 5,4", equation="b...i,...j->bij..."),
    case("MatMulInteger", "u8 2,3", "s8 3,4"),
    case("MatMulInteger", "u8 2,3", "s8 3,4", np.array(3, np.uint8), np.array([1, -1, 0, 2], np.int8)),
    case("MatMulInteger", "u8 2,3", "u8 3,4", np.array([3], np.uint8), np.array([1], np.uint8)),
    case("QLinearMatMul", "u8 2,3", F(0.1), np.array(2, np.uint8), "s8 3,4", F(0.2),
         np.array(1, np.int8), F(0.3), np.array(3, np.uint8)),
]  # fmt: skip

PADS2 = [1, 0, 2, 1]
convolution: list[Case] = [
    case("Conv", "f32 2,3,8,9", "f32 4,3,3,2"),
    case("Conv", "f32 2,3,8,9", "f32 4,3,3,2", "f32 4", pads=PADS2, strides=[2, 3]),
    case("Conv", "f32 2,4,8,9", "f32 6,2,3,3", group=2, dilations=[2, 1]),
    case("Conv", "f32 1,4,9", "f32 4,1,3", group=4, pads=[2, 2], kernel_shape=[3]),
    case("Conv", "f32 1,2,5,6,7", "f32 3,2,2,2,2", strides=[1, 2, 1]),
    *[case("Conv", "f32 1,2,7,8", "f32 3,2,3,2", auto_pad=a, strides=[2, 3])
      for a in ("SAME_UPPER", "SAME_LOWER", "VALID")],
    case("Conv", "f32 1,2,7,8", "f32 3,2,3,3", auto_pad="SAME_UPPER", dilations=[2, 2]),
    case("ConvInteger", "u8 1,2,5,5", "u8 3,2,3,3", np.array(2, np.uint8), np.array(1, np.uint8)),
    case("ConvInteger", "u8 1,2,5,5", "u8 3,2,3,3"),
    case("QLinearConv", "u8 1,2,5,5", F(0.1), np.array(2, np.uint8), "u8 3,2,3,3", F(0.2),
         np.array(1, np.uint8), F(0.3), np.array(3, np.uint8), strides=[2, 2]),
    case("ConvTranspose", "f32 1,3,4,5", "f32 3,2,3,3"),
    case("ConvTranspose", "f32 1,4,4,5", "f32 4,3,3,2", "f32 6", group=2, strides=[2, 3],
         pads=[1, 0, 1, 1]),
    case("ConvTranspose", "f32 1,3,4,5", "f32 3,2,3,3", strides=[2, 2], output_padding=[1, 1],
         dilations=[2, 1]),
    case("ConvTranspose", "f32 1,3,4,5", "f32 3,2,3,3", strides=[3, 2], output_shape=[10, 8]),
    case("ConvTranspose", "f32 1,3,4,5", "f32 3,2,3,3", strides=[2, 2], auto_pad="SAME_UPPER"),
    case("ConvTranspose", "f32 1,3,4", "f32 3,2,3", strides=[2], auto_pad="VALID"),
    case("DeformConv", "f32 1,2,5,5", "f32 3,2,3,3", "f32 1,18,3,3"),
    case("Col2Im", "f32 1,12,6", [3, 4], [2, 2]),
    *[case(op, "f32 2,3,8,9", kernel_shape=[3, 2], **extra)
      for op in ("MaxPool", "AveragePool", "LpPool")
      for extra in ({}, {"strides": [2, 3]}, {"pads": PADS2, "strides": [2, 2]},
                    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
                    {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
                    {"auto_pad": "VALID", "strides": [2, 2]})],
    *[case(op, "f32 2,3,9,11", kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1, opsets=(10, 99))
      for op in ("MaxPool", "AveragePool")],
    case("MaxPool", "f32 1,1,4,4", kernel_shape=[1, 1], strides=[3, 3], ceil_mode=1, pads=[0, 0, 1, 1],
         opsets=(10, 99)),
    case("MaxPool", "f32 1,2,9,9", kernel_shape=[3, 3], dilations=[2, 3], opsets=(10, 99)),
    case("AveragePool", "f32 1,2,9,9", kernel_shape=[3, 3], dilations=[2, 3], opsets=(19, 99)),
    case("AveragePool", "f32 1,2,5,5", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case("MaxPool", "f32 1,2,9", kernel_shape=[3], out=2, opsets=(8, 99)),
    *[case(op, "f32 2,3,4,5") for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")],
    case("MaxUnpool", "f32 1,1,2,2", np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2],
         strides=[2, 2], data=2),
    case("MaxRoiPool", "f32 1,3,8,8", "f32 2,5", pooled_shape=[2, 3]),
    case("RoiAlign", "f32 1,3,8,8", "f32>0 2,4", np.array([0, 0]), output_height=2, output_width=3,
         data=3),
]  # fmt: skip

normalization: list[Case] = [
    *[case(op, "f32 2,3,4", **extra) for op in ("Softmax", "LogSoftmax", "Hardmax")
      for extra in ({}, {"axis": 0}, {"axis": 2})],
    case("Softmax", "f32 2,3,4", axis=-2, opsets=(11, 99)),
    case("BatchNormalization", "f32 2,3,4,5", "f32 3", "f32 3", "f32 3", "f32>0 3"),
    case("BatchNormalization", "f32 2,3", "f32 3", "f32 3", "f32 3", "f32>0 3", epsilon=0.01,
         opsets=(9, 99)),
    case("BatchNormalization", "f32 2,3,4", "f32 3", "f32 3", "f32 3", "f32>0 3", out=3,
         training_mode=1, opsets=(14, 99)),
    case("InstanceNormalization", "f32 2,3,4,5", "f32 3", "f32 3"),
    case("GroupNormalization", "f32 2,4,3,5", "f32 4", "f32 4", num_groups=2, opsets=(21, 99)),
    case("LayerNormalization", "f32 2,3,4", "f32 4", "f32 4", out=3),
    case("LayerNormalization", "f32 2,3,4", "f32 3,4", axis=1, epsilon=0.1),
    case("RMSNormalization", "f32 2,3,4", "f32 4"),
    case("RMSNormalization", "f32 2,3,4", "f32 3,4", axis=1),
    case("LpNormalization", "f32 2,3,4"),
    case("LpNormalization", "f32 2,3,4", axis=1, p=1),
    case("MeanVarianceNormalization", "f32 2,3,4,5"),
    case("LRN", "f32 2,5,3,3", size=3),
    case("LRN", "f32 2,5,3,3", size=4, alpha=0.1, beta=0.5, bias=2.0),
    case("Dropout", "f32 2,3"),
    case("Dropout", "f32 2,3", out=2),
    case("NegativeLogLikelihoodLoss", "f32 3,5", np.array([1, 0, 4]), data=2),
    case("NegativeLogLikelihoodLoss", "f32 3,5,2", np.array([[1, 0]] * 3), data=2, reduction="none"),
    case("SoftmaxCrossEntropyLoss", "f32 3,5", np.array([1, 0, 4]), data=2, out=2),
]  # fmt: skip

generate: list[Case] = [
    case("ConstantOfShape", [2, 3], value=np.array([7], np.int32)),
    case("ConstantOfShape", [2, 3]),
    case("ConstantOfShape", np.zeros(0, np.int64), data=0),
    case("Shape", "f32 2,3,4"),
    case("Shape", "f32 2,3,4", start=1, opsets=(15, 99)),
    case("Shape", "f32 2,3,4", start=-2, end=-1, opsets=(15, 99)),
    case("Shape", "f32 2,3,4", start=2, end=1, opsets=(15, 99)),
    case("Size", "f32 2,3,4"),
    case("Range", np.array(0), np.array(7), np.array(2), data=0),
    case("Range", np.array(5), np.array(0), np.array(-2), data=0),
    case("Range", np.array(5), np.array(0), np.array(2), data=0),
    case("Range", F(0.5), F(3.25), F(0.5), data=0),
    case("EyeLike", "f32 3,4", k=1),
    case("EyeLike", "f32 3,4", dtype=7),
    case("Constant", value=np.array([[1.5, 2]], F)),
    case("Constant", value_int=3, opsets=(12, 99)),
    case("Constant", value_floats=[1.0, 2.0], opsets=(12, 99)),
    *[case(op, np.array(7), data=0) for op in ("HannWindow", "HammingWindow", "BlackmanWindow")],
    case("HannWindow", np.array(6), data=0, periodic=0, output_datatype=11),
    case("RandomNormal", shape=[2, 3]),
    case("RandomUniform", shape=[2, 3], dtype=11),
    case("RandomNormalLike", "f32 2,3"),
    case("RandomUniformLike", "s32 2,3", dtype=1),
    case("Bernoulli", np.full((2, 3), 0.5, F), data=1),
    case("Multinomial", "f32 2,5", sample_size=3),
]  # fmt: skip

quantize: list[Case] = [
    case("QuantizeLinear", "f32 2,3", F(0.1)),
    case("QuantizeLinear", "f32 2,3", F(0.1), np.array(-3, np.int8)),
    case("QuantizeLinear", "f32 2,3", F([0.1, 0.2, 0.3]), np.array([1, 2, 3], np.uint8),
         opsets=(13, 99)),
    case("QuantizeLinear", "f32 3,2", F([0.1, 0.2, 0.3]), axis=0, opsets=(13, 99)),
    case("QuantizeLinear", "f32 2,6", "f32>0 2,3", axis=1, block_size=2, opsets=(21, 99)),
    case("QuantizeLinear", "f32 2,3", F(0.1), output_dtype=5, opsets=(21, 99)),
    case("QuantizeLinear", F([0.05, 0.15, 0.25, -0.05, 1e10, -1e10]), F(0.1), np.array(3, np.uint8)),
    case("DequantizeLinear", "u8 2,3", F(0.1), np.array(3, np.uint8)),
    case("DequantizeLinear", "s8 2,3", F(0.1)),
    case("DequantizeLinear", "s32 2,3", F(0.1)),
    case("DequantizeLinear", "s8 3,2", F([0.1, 0.2, 0.3]), axis=0, opsets=(13, 99)),
    case("DequantizeLinear", "s8 2,6", "f32>0 2,3", np.ones((2, 3), np.int8), axis=1, block_size=2,
         opsets=(21, 99)),
    case("DequantizeLinear", "u16 2,3", F(0.1), np.array(3, np.uint16), opsets=(21, 99)),
    case("DynamicQuantizeLinear", "f32 2,3", out=3),
    case("DynamicQuantizeLinear", "f32>0 2,3", out=3),
]  # fmt: skip

other: list[Case] = [
    case("Resize", "f32 1,2,4,5", None, F([1, 1, 2, 1.5]), opsets=(13, 99)),
    case("Resize", "f32 1,2,4,5", None, F([1, 1, 0.6, 0.5]), opsets=(13, 99), mode="linear"),
    case("Resize", "f32 1,2,4,5", None, None, [1, 2, 7, 3], opsets=(13, 99)),
    case("Resize", "f32 1,2,4,5", None, None, [7, 3], axes=[2, 3], opsets=(18, 99)),
    case("Resize", "f32 1,2,4,5", None, None, [7, 3], axes=[2, 3], opsets=(18, 99),
         keep_aspect_ratio_policy="not_larger"),
    case("Resize", "f32 1,2,4,5", F([1, 1, 2, 1.5]), opsets=(10, 10)),
    case("Upsample", "f32 1,2,4,5", F([1, 1, 2, 3]), opsets=(7, 9)),
    case("Upsample", "f32 1,2,4,5", F([1, 1, 2, 1.5]), opsets=(7, 9)),
    case("GridSample", "f32 1,2,4,5", "f32 1,3,6,2"),
    case("AffineGrid", "f32 2,2,3", [2, 3, 5, 6]),
    case("AffineGrid", "f32 2,3,4", [2, 3, 4, 5, 6]),
    *[case(op, "f32 5,2,3", f"f32 1,{g * 4},3", f"f32 1,{g * 4},4", hidden_size=4, out=n)
      for op, g, n in (("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3))],
    case("LSTM", "f32 5,2,3", "f32 2,16,3", "f32 2,16,4", hidden_size=4, out=3,
         direction="bidirectional"),
    case("GRU", "f32 2,5,3", "f32 1,12,3", "f32 1,12,4", hidden_size=4, out=2, layout=1,
         opsets=(14, 99)),
    case("DFT", "f32 2,8,1", None, np.array(1), opsets=(17, 99)),
    case("DFT", "f32 2,8,1", np.array(5), np.array(1), onesided=1, opsets=(17, 99)),
    case("STFT", "f32 1,32,1", np.array(4), None, np.array(8), data=1),
    case("STFT", "f32 1,32,1", np.array(4), "f32 8", data=1, onesided=0),
    case("MelWeightMatrix", np.array(8), np.array(16), np.array(8000), F(0), F(4000), data=0),
    case("Attention", "f32 2,3,4,8", "f32 2,3,6,8", "f32 2,3,6,5", out=1),
    case("Attention", "f32 2,4,24", "f32 2,6,24", "f32 2,6,15", q_num_heads=3, kv_num_heads=3),
    case("Attention", "f32 2,3,4,8", "f32 2,3,6,8", "f32 2,3,6,8", None, "f32 2,3,7,8", "f32 2,3,7,8",
         out=3),
    case("RotaryEmbedding", "f32 2,3,4,8", "f32 2,4,4", "f32 2,4,4"),
    case("LinearAttention", "f32 2,5,24", "f32 2,5,12", "f32 2,5,10", q_num_heads=4, kv_num_heads=2,
         update_rule="linear", out=2),
    case("CausalConvWithState", "f32 2,3,5", "f32 3,1,4", out=2),
]  # fmt: skip

ALL: list[Case] = [
    *elementwise, *broadcast, *conversion, *movement, *indexing, *reduction, *contraction,
    *convolution, *normalization, *generate, *quantize, *other,
]  # fmt: skip
