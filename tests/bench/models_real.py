"""Inputs of the size and kind that the real models of the corpus are made for.

In: the name of a model. Out: feeds. Derived models take those of the model they come from. Images
show text, sound is a sum of tones: white noise would leave detectors near zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

Array = np.ndarray
Feeds = dict[str, Array]


def text(rng: np.random.Generator, height: int, width: int, line: int) -> Array:
    """(1, 3, height, width), normalized: rows of strokes like letters, `line` high, on paper."""
    page = np.full((height, width), 2.2, np.float32)
    for top in range(line // 4, height - line + 1, line * 3 // 2):
        left = line // 2
        while left + line < width:
            if rng.random() < 0.15:  # between words
                left += line // 2
                continue
            letter = int(rng.integers(line // 3, line // 2 + 2))
            for _ in range(int(rng.integers(2, 5))):
                _stroke(rng, page[top : top + line * 3 // 4, left : left + letter])
            left += letter + 4
    page += rng.standard_normal(page.shape).astype(np.float32) * 0.02
    return np.repeat(page[None, None], 3, axis=1)


def _stroke(rng: np.random.Generator, box: Array) -> None:
    """A line down or across a box, as thick as a pen."""
    if rng.random() < 0.5:
        at = int(rng.integers(0, box.shape[1]))
        box[:, at : at + 3] = -2.0
    else:
        at = int(rng.integers(0, box.shape[0]))
        box[at : at + 3] = -2.0


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
    "ppocr-v2-cls": lambda rng: {"x": text(rng, 48, 192, 36)},
    "ppocr-v4-det": lambda rng: {"x": text(rng, 320, 320, 24)},
    "ppocr-v4-rec": lambda rng: {"x": text(rng, 48, 320, 36)},
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
