"""How operators become kernels, one module per family of operators."""
