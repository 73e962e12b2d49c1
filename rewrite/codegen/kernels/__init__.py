"""Generators, one module per kind of kernel."""
