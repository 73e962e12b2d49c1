"""Known networks quantized to 8 bits by onnxruntime's own tool, as their users do it.

In: a network made by code, a folder. Out: the path of its model in QDQ form: u8 activations, s8
weights per channel, calibrated with random inputs; BatchNormalization is folded first, by
onnxruntime's basic optimizations.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

CALIBRATED = 4  # inputs

Feeds = dict[str, np.ndarray[Any, np.dtype[Any]]]


def quantized(
    model: onnx.ModelProto, feeds: Callable[[int], Feeds], folder: Path, name: str
) -> Path:
    """`feeds(seed)` gives inputs."""
    from onnxruntime import quantization

    plain, folded = folder / f"{name}.plain.onnx", folder / f"{name}.folded.onnx"
    made = folder / f"{name}.qdq_u8s8.onnx"
    onnx.save(model, str(plain))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    onnxruntime.InferenceSession(str(plain), options, providers=["CPUExecutionProvider"])

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left: Iterator[Feeds] = iter([feeds(seed) for seed in range(CALIBRATED)])

        def get_next(self) -> Feeds | None:
            return next(self.left, None)

    logging.disable(logging.WARNING)  # it advises what was done above
    try:
        quantization.quantize_static(
            str(folded), str(made), Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    return made
