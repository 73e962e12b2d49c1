"""ONNX to a graph with its facts, and back. In: a model. Out: `io`, `facts`, `edit`."""
