"""The checks, found by scanning: one function each, its docstring is its page."""
