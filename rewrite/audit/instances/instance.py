"""What a rule is tried on.

In: nothing. Out: `Instance`, `Budget`.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx


@dataclass(frozen=True, slots=True)
class Instance:
    """A valid model. `fires`: the rule, alone, applies to it.

    `varied`: what was done to the seed, in order ("dtype f32 to f16", "dim 4 to 0"); `source`: the
    seed ("example plain", "pattern, divided"); `target`: the name of the target it was tried on.
    """

    model: onnx.ModelProto
    fires: bool
    varied: tuple[str, ...]
    source: str
    target: str = ""

    def __str__(self) -> str:
        return ", ".join([self.source, *self.varied])


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is tried: models that fire, models altogether, seconds of processor time.

    Models are made in one order, which `seed` decides; a run that `seconds` does not end is the
    same wherever it runs.
    """

    firing: int = 60
    most: int = 480
    seconds: float = 20.0
    seed: int = 0
