"""Node instances of ONNX Runtime's own operators; their types and values come from runs of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.harness import Case, case

F = np.float32


def ms(name: str, *inputs: Any, **rest: Any) -> Case:
    return case(name, *inputs, domain="com.microsoft", **rest)


U8 = np.array(3, np.uint8)
S8 = np.array(-2, np.int8)

floats: list[Case] = [
    ms("Gelu", "f32 2,5"),
    ms("BiasGelu", "f32 2,5", "f32 5"),
    ms("FastGelu", "f32 2,5", "f32 5"),
    ms("FastGelu", "f32 2,5"),
    ms("QuickGelu", "f32 2,5"),
    ms("QuickGelu", "f32 2,5", alpha=1.0),
    ms("BiasSoftmax", "f32 2,3,4,5", "f32 2,1,1,5", axis=3, is_inner_broadcast=1),
    ms("BiasDropout", "f32 2,3", "f32 3", out=1),
    ms("FusedMatMul", "f32 2,3", "f32 3,4"),
    ms("FusedMatMul", "f32 2,3,4", "f32 2,3,5", transA=1, alpha=0.5),
    ms("FusedMatMul", "f32 2,3,4", "f32 2,5,4", transB=1),
    ms("FusedMatMul", "f32 5,2,3,4", "f32 2,3,4,6", transBatchA=1),
    ms("FusedMatMul", "f32 4,2,3,5", "f32 4,2,3,6", transA=1, transBatchA=1, transBatchB=1),
    ms("FusedMatMul", "f32 2,3,3,4", "f32 7,2,3,4", transB=1, transBatchB=1),
    ms("TransposeMatMul", "f32 3,2", "f32 3,4", transA=1, alpha=2.0),
    ms("FusedGemm", "f32 2,3", "f32 3,4", "f32 4", activation="Relu"),
    ms("FusedGemm", "f32 2,3", "f32 4,3", transB=1, activation="LeakyRelu", activation_alpha=0.1),
    *[ms("FusedConv", "f32 1,2,5,6", "f32 3,2,3,3", "f32 3", activation=a, pads=[1, 1, 1, 1],
         **({"activation_params": p} if p else {}))
      for a, p in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.1]),
                   ("Clip", [-1.0, 2.0]), ("HardSigmoid", [0.3, 0.4]))],
    ms("FusedConv", "f32 1,2,5,6", "f32 3,2,3,3", "f32 3", "f32 1,3,3,4", activation="Relu"),
    ms("SkipLayerNormalization", "f32 2,3,8", "f32 2,3,8", "f32 8", "f32 8", "f32 8"),
    ms("SkipLayerNormalization", "f32 2,3,8", "f32 2,3,8", "f32 8", epsilon=0.1),
    ms("SkipSimplifiedLayerNormalization", "f32 2,3,8", "f32 2,3,8", "f32 8"),
    ms("SkipSimplifiedLayerNormalization", "f32 2,3,8", "f32 2,3,8", "f32 8", "f32 8"),
    case("SimplifiedLayerNormalization", "f32 2,3,8", "f32 8"),
    case("SimplifiedLayerNormalization", "f32 2,3,8", "f32 3,8", axis=1, epsilon=0.01),
    ms("EmbedLayerNormalization", np.zeros((2, 3), np.int32), np.zeros((2, 3), np.int32),
       "f32 9,8", "f32 5,8", "f32 2,8", "f32 8", "f32 8", np.ones((2, 3), np.int32), out=2, data=9),
    ms("Rfft", "f32 2,8", signal_ndim=1),
    ms("Inverse", "f32 2,3,3"),
    ms("ExpandDims", "f32 2,3", np.array(-1, np.int32)),
    ms("Trilu", "f32 3,4"),
]  # fmt: skip

attention: list[Case] = [
    ms("Attention", "f32 2,3,8", "f32 8,24", "f32 24", num_heads=2),
    ms("Attention", "f32 2,3,8", "f32 8,22", "f32 22", num_heads=2, qkv_hidden_sizes=[8, 8, 6]),
    ms("Attention", "f32 2,3,8", "f32 8,24", "f32 24", None, "f32 2,2,2,5,4", num_heads=2, out=2),
    ms("MultiHeadAttention", "f32 2,3,8", "f32 2,5,8", "f32 2,5,6", num_heads=2),
    ms("MultiHeadAttention", "f32 2,3,2,3,4", num_heads=2),
    ms("MultiHeadAttention", "f32 2,3,8", "f32 2,2,5,4", "f32 2,2,5,4", num_heads=2),
    ms("MultiHeadAttention", "f32 2,3,8", "f32 2,3,8", "f32 2,3,8", None, None, None,
       "f32 2,2,4,4", "f32 2,2,4,4", num_heads=2, out=3),
    ms("GroupQueryAttention", "f32 2,1,32", "f32 2,1,16", "f32 2,1,16", "f32 2,2,4,8",
       "f32 2,2,4,8", np.array([4, 4], np.int32), np.array(5, np.int32), num_heads=4,
       kv_num_heads=2, out=3),
    ms("GroupQueryAttention", "f32 1,3,64", None, None, None, None, np.array([2], np.int32),
       np.array(3, np.int32), num_heads=4, kv_num_heads=2, out=3),
    ms("RotaryEmbedding", "f32 2,3,16", np.array([[0, 1, 2], [1, 2, 3]]), "f32 9,4", "f32 9,4",
       num_heads=2),
]  # fmt: skip

quantized: list[Case] = [
    *[ms(op, "u8 2,3", F(0.1), U8, "u8 1,3", F(0.2), U8, F(0.3), U8)
      for op in ("QLinearAdd", "QLinearMul")],
    ms("QLinearSigmoid", "s8 2,3", F(0.1), S8, F(0.004), S8),
    ms("QLinearLeakyRelu", "s8 2,3", F(0.1), S8, F(0.1), S8, alpha=0.1),
    ms("QLinearSoftmax", "u8 2,3", F(0.1), U8, F(0.004), np.array(0, np.uint8), opset=13),
    ms("QLinearConcat", F(0.3), U8, "u8 2,3", F(0.1), U8, "u8 2,4", F(0.2), U8, axis=1, data=0),
    ms("QLinearWhere", "bool 2,3", "u8 2,3", F(0.1), U8, "u8 1,3", F(0.2), U8, F(0.3), U8),
    ms("QLinearAveragePool", "u8 1,2,7,8", F(0.1), U8, F(0.1), U8, kernel_shape=[3, 2],
       strides=[2, 2]),
    ms("QLinearAveragePool", "u8 1,7,8,2", F(0.1), U8, F(0.1), U8, kernel_shape=[3, 2],
       channels_last=1),
    ms("QLinearGlobalAveragePool", "u8 1,2,7,8", F(0.1), U8, F(0.1), U8),
    ms("QLinearGlobalAveragePool", "u8 1,7,8,2", F(0.1), U8, F(0.1), U8, channels_last=1),
    ms("QLinearConv", "u8 1,5,6,2", F(0.1), U8, "u8 3,2,3,3", F(0.2), U8, F(0.3), U8,
       channels_last=1),
    ms("QGemm", "u8 2,3", F(0.1), U8, "s8 3,4", F(0.2), S8, None, F(0.3), U8),
    ms("QGemm", "u8 2,3", F(0.1), U8, "s8 4,3", F(0.2), S8, transB=1),
    ms("MatMulIntegerToFloat", "u8 2,3", "s8 3,4", F(0.1), F(0.2)),
    ms("DynamicQuantizeMatMul", "f32 2,3", "s8 3,4", F(0.2)),
    ms("MatMulNBits", "f32 2,3,32", np.ones((8, 1, 16), np.uint8), "f32 8", K=32, N=8, bits=4,
       block_size=32),
    ms("QuantizeLinear", "f32 2,3", F(0.1), U8),
    ms("DequantizeLinear", "u8 2,3", F(0.1), U8),
    ms("QAttention", "u8 2,3,8", "u8 8,24", "f32 24", F(0.1), F(0.2), None, U8, U8, num_heads=2),
    ms("GatherBlockQuantized", np.ones((4, 16), np.uint8), np.array([1, 2]), "f32 4,2",
       bits=4, block_size=16),
]  # fmt: skip

ALL: list[Case] = [*floats, *attention, *quantized]
