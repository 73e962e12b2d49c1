"""Specs of kernels, one module per family."""
