"""Recognizers of whole groups, one module per kind."""
