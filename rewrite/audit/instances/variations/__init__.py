"""Variations of models, one family a module. In: a `Draft`, `Hints`. Out: `Change`s."""
