"""A model in, a session out: plans are compiled, kept and run."""
