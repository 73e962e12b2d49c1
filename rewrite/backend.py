"""The interface of ONNX's standard backend test suite.

    import rewrite.backend
    outputs = rewrite.backend.prepare(model, device="CPU").run(inputs)

In: models and inputs in order. Out: outputs in order, as `onnx.backend.base` defines it. Models run
as they are; `target="host"` rewrites them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx.backend.base import Backend as OnnxBackend
from onnx.backend.base import BackendRep, namedtupledict

from rewrite.execution import compile_model
from rewrite.runtime.session import Session


class Prepared(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Inputs in the order of the model's; one that is missing at the end is its default."""
        del kwargs
        values = list(inputs) if isinstance(inputs, Sequence) else [inputs]
        names = [port.name for port in self.session.inputs]
        results = self.session.run(dict(zip(names, values, strict=False)))
        made = namedtupledict("Outputs", [port.name for port in self.session.outputs])
        return made(*results.values())


class Backend(OnnxBackend):
    """Models on this machine's processor."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        del device
        return Prepared(compile_model(model, kwargs.get("target")))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> Any:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":", maxsplit=1)[0] == "CPU"


prepare = Backend.prepare
run_model = Backend.run_model
supports_device = Backend.supports_device
