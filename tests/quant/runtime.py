"""One operator in onnxruntime, unoptimized, on the CPU."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper


def run(domain, name, operands, attributes, outputs=1, opset=21, constant=(), level=0):
    """The outputs; operands that are None are absent, those in `constant` are initializers."""
    names, inputs, initializers, feeds = [], [], [], {}
    for i, x in enumerate(operands):
        if x is None:
            names.append("")
            continue
        x, label = np.asarray(x), f"x{i}"
        names.append(label)
        if i in constant:
            initializers.append(numpy_helper.from_array(x, label))
        else:
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            inputs.append(helper.make_tensor_value_info(label, kind, x.shape))
            feeds[label] = x
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(
        name, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes
    )
    declared = [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)]
    graph = helper.make_graph([node], "g", inputs, declared, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return run_model(model, feeds, level)


def run_model(model: onnx.ModelProto, feeds, level=0):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    )[level]
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)
