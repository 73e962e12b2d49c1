"""Facts about operators outside the ONNX standard."""
