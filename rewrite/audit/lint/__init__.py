"""Lint: what is wrong, or weak, with rules that load."""
