"""Rules as formulas. In: a compiled rule. Out: what z3 says of them (`values`, `shapes`)."""

from importlib.util import find_spec


def is_installed() -> bool:
    """Whether z3 is there: the extra `verify`. Without it nothing else of this package loads."""
    return find_spec("z3") is not None
