"""The interface of ONNX's standard backend test suite.

    import rewrite.backend
    outputs = rewrite.backend.prepare(model, device="CPU").run(inputs)

In: models and inputs in order. Out: outputs in order, as `onnx.backend.base` defines it. Models run
as they are; `target="host"` rewrites them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend as OnnxBackend
from onnx.backend.base import BackendRep, namedtupledict

from rewrite.errors import error
from rewrite.execution import compile_model
from rewrite.ops.schemas import newest_opset
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
        if len(values) > len(names):
            message = f"{len(values)} inputs are given, the model has {len(names)}"
            raise error("RW807", message, hint=f"its inputs are {', '.join(names) or 'none'}")
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
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> Any:
        """One node by itself, on arrays in the order of its operands that are not absent.

        `opset_version`: which version of its operator set is meant; by default the newest of
        ONNX, and 1 of others.
        """
        del outputs_info
        given = [np.asarray(v) for v in inputs]
        names = [name for name in dict.fromkeys(node.input) if name]
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(n, _element_type(v), v.shape)
                for n, v in zip(names, given, strict=False)
            ],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        newest = 1 if node.domain else newest_opset()
        opset = helper.make_opsetid(node.domain, int(kwargs.pop("opset_version", newest)))
        model = helper.make_model(graph, opset_imports=[opset])
        return cls.prepare(model, device, **kwargs).run(given)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":", maxsplit=1)[0] == "CPU"


def _element_type(array: np.ndarray[Any, np.dtype[Any]]) -> int:
    if array.dtype.kind in "OUS":
        return onnx.TensorProto.STRING
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


prepare = Backend.prepare
run_node = Backend.run_node
run_model = Backend.run_model
supports_device = Backend.supports_device
