"""Inputs of the size and kind that the real models of the corpus are made for.

In: the name of a model. Out: feeds. Derived models take those of the model they come from. Images
are smooth, with strokes; sound is a sum of tones; white noise would leave detectors near zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

Array = np.ndarray
Feeds = dict[str, Array]


def image(rng: np.random.Generator, height: int, width: int) -> Array:
    """(1, 3, height, width) in [-1, 1]: a gradient with dark strokes on it."""
    y, x = np.mgrid[0:height, 0:width]
    picture = 0.6 + 0.3 * np.sin(x / width * 3 + rng.random()) * np.cos(y / height * 2)
    for _ in range(max(4, height * width // 3000)):
        top, left = rng.integers(0, height - 4), rng.integers(0, width - 12)
        picture[top : top + rng.integers(2, 4), left : left + rng.integers(4, 12)] = -0.8
    noise = rng.standard_normal((3, height, width)) * 0.02
    return (picture + noise)[None].clip(-1, 1).astype(np.float32)


def sound(rng: np.random.Generator, samples: int, rate: int) -> Array:
    time = np.arange(samples) / rate
    tones = rng.uniform(80, 2000, 6)
    wave = sum(np.sin(2 * np.pi * f * time + rng.random()) for f in tones) / 8
    return (wave + rng.standard_normal(samples) * 0.01).astype(np.float32)


def _silero(rng: np.random.Generator) -> Feeds:
    state = (rng.standard_normal((2, 1, 128)) * 0.1).astype(np.float32)
    return {
        "input": sound(rng, 512, 16000)[None],
        "state": state,
        "sr": np.array(16000, np.int64),
    }


REAL: Mapping[str, Callable[[np.random.Generator], Feeds]] = {
    "basic-pitch": lambda rng: {
        "serving_default_input_2:0": sound(rng, 43844, 22050).reshape(1, -1, 1)
    },
    "magika-v3_3": lambda rng: {"bytes": rng.integers(0, 256, (1, 2048)).astype(np.int32)},
    "ppocr-v2-cls": lambda rng: {"x": image(rng, 48, 192)},
    "ppocr-v4-det": lambda rng: {"x": image(rng, 320, 320)},
    "ppocr-v4-rec": lambda rng: {"x": image(rng, 48, 320)},
    "silero-vad": _silero,
    "smart-turn-v3.2": lambda rng: {
        "input_features": (rng.standard_normal((1, 80, 800)) * 0.5).astype(np.float32)
    },
    "tashkeel-rawi": lambda rng: {"input": rng.integers(1, 30, (1, 64))},
}


def real_feeds(name: str, seed: int = 0) -> Feeds | None:
    """Feeds of a real or derived model; None for any other."""
    path = Path(name)
    if path.parent.name not in ("real", "derived"):
        return None
    for stem, make in REAL.items():
        if path.name.startswith(stem):
            return make(np.random.default_rng(seed))
    return None
