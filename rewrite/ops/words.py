"""Attributes that are one of some words, or positive.

In: `Call`. Out: nothing; `InferenceError` where no run can succeed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite.ops.call import Call


def check_words(name: str, call: Call) -> None:
    """Raises where an attribute of an operator of ai.onnx cannot be right."""
    for attribute, words in _WORDS.get(name, {}).items():
        word = call.text(attribute, "")
        if word and word not in words:
            call.fail(f"{attribute} is `{word}`, not one of {', '.join(words)}")
    for attribute in _POSITIVE.get(name, ()):
        if call.integer(attribute, 1) < 1:
            call.fail(f"{attribute} is {call.integer(attribute, 1)}")


_PADDING = {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")}
_DIRECTION = {"direction": ("forward", "reverse", "bidirectional")}
_REDUCTION = {"reduction": ("none", "add", "mul", "max", "min")}
_LOSS = {"reduction": ("none", "sum", "mean")}

_WORDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(
        ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"),
        _PADDING,
    ),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _DIRECTION),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _REDUCTION),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _LOSS),
    "BitShift": {"direction": ("LEFT", "RIGHT")},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "Gelu": {"approximate": ("none", "tanh")},
    "GridSample": {
        "mode": ("linear", "nearest", "cubic", "bilinear", "bicubic"),
        "padding_mode": ("zeros", "border", "reflection"),
    },
    "Pad": {"mode": ("constant", "reflect", "edge", "wrap")},
    "Resize": {
        "mode": ("nearest", "linear", "cubic"),
        "coordinate_transformation_mode": (
            "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
            "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize",
        ),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    },
    "RoiAlign": {
        "mode": ("avg", "max"),
        "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
    },
    "TensorScatter": {"mode": ("linear", "circular")},
    "Upsample": {"mode": ("nearest", "linear")},
}  # fmt: skip

_POSITIVE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("RNN", "GRU", "LSTM"), ("hidden_size",)),
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"), ("group",)),
    **dict.fromkeys(("LpPool", "GlobalLpPool"), ("p",)),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), ("blocksize",)),
    "DeformConv": ("group", "offset_group"),
    "GroupNormalization": ("num_groups",),
    "LRN": ("size",),
}
