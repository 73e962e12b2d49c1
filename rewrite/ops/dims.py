"""Sizes that may be names: exact arithmetic on dimensions, and broadcasting.

In: dimensions (an int, or the name of a size). Out: dimensions. The result of arithmetic on
names is a name in a canonical form, so that two inferences of the same size give equal names:

    add("n", 3)            "?=n+3"
    floordiv("?=h-1", 2)   "?=floor((h+1)/2)-1"
    broadcast_dim("a","b") "?=bc(a,b)"

A name that starts with "?=" is such an expression: a polynomial with integer coefficients over
atoms. An atom is a name of the model, or floor(p/q), min(p,q), max(p,q), bc(p,q) of expressions.
Names that are not identifiers stand in braces. An expression longer than `LONGEST` characters
becomes "?#" and a digest of it, which is still the same name for the same size.

Statements about sizes hold for every run that ends without an error.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import gcd

from rewrite.schema import Dim, Shape

LONGEST = 120

# A polynomial: monomial (its atoms, sorted) -> coefficient, never 0.
Monomial = tuple[str, ...]
Polynomial = dict[Monomial, int]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


class SizeError(ValueError):
    """Sizes that no run can have together."""


# --- arithmetic -------------------------------------------------------------------------------


def add(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        return b if a == 0 else _add(a, b)
    return a if b == 0 else _add(a, b)


def sub(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else _sub(a, b)


def mul(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int):
        if isinstance(b, int):
            return a * b
        return b if a == 1 else _mul(a, b)
    return a if b == 1 else _mul(a, b)


def floordiv(a: Dim, b: Dim) -> Dim:
    """floor(a / b), b > 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a if b == 1 else _floordiv(a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """ceil(a / b), b > 0."""
    return floordiv(sub(add(a, b), 1), b)


def smaller(a: Dim, b: Dim) -> Dim:
    return _ordered("min", a, b)


def larger(a: Dim, b: Dim) -> Dim:
    return _ordered("max", a, b)


def product(sizes: Iterable[Dim]) -> Dim:
    result: Dim = 1
    for size in sizes:
        result = mul(result, size)
    return result


def total(sizes: Iterable[Dim]) -> Dim:
    result: Dim = 0
    for size in sizes:
        result = add(result, size)
    return result


def quotient(numerators: Sequence[Dim], denominators: Sequence[Dim]) -> Dim:
    """The product of the first divided by that of the second, known to be a whole number."""
    above, below = list(numerators), []
    for size in denominators:
        if size in above:
            above.remove(size)
        else:
            below.append(size)
    top, bottom = product(above), product(below)
    if bottom == 0:
        raise SizeError("a size cannot be computed from a product that is 0")
    if isinstance(top, int) and isinstance(bottom, int):
        if top % bottom:
            raise SizeError(f"{bottom} does not divide {top}")
        return top // bottom
    return floordiv(top, bottom)


@lru_cache(1 << 15)
def _add(a: Dim, b: Dim) -> Dim:
    result = dict(_parse(a))
    for monomial, coefficient in _parse(b).items():
        result[monomial] = result.get(monomial, 0) + coefficient
    return _render(result)


@lru_cache(1 << 15)
def _sub(a: Dim, b: Dim) -> Dim:
    result = dict(_parse(a))
    for monomial, coefficient in _parse(b).items():
        result[monomial] = result.get(monomial, 0) - coefficient
    return _render(result)


@lru_cache(1 << 15)
def _mul(a: Dim, b: Dim) -> Dim:
    result: Polynomial = {}
    for m, c in _parse(a).items():
        for n, d in _parse(b).items():
            key = tuple(sorted(m + n))
            result[key] = result.get(key, 0) + c * d
    return _render(result)


@lru_cache(1 << 15)
def _floordiv(a: Dim, b: Dim) -> Dim:
    above, below = _parse(a), _parse(b)
    if len(below) == 1:
        above, below = _cancel(above, below)
    if isinstance(bottom := _render(below), int):
        return _floordiv_int(above, bottom)
    top = _render(above)
    return 1 if top == bottom else _function("floor", f"({text_of(top)})/({text_of(bottom)})")


def _cancel(above: Polynomial, below: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Divides both by the atoms and the integer that the monomial below shares with all above."""
    ((monomial, coefficient),) = below.items()
    if not above:
        return above, below
    shared = gcd(coefficient, *above.values())
    kept: list[str] = []
    terms = {m: list(m) for m in above}
    for atom in monomial:
        if all(atom in left for left in terms.values()):
            for left in terms.values():
                left.remove(atom)
        else:
            kept.append(atom)
    top = {tuple(terms[m]): c // shared for m, c in above.items()}
    return top, {tuple(kept): coefficient // shared}


def _floordiv_int(above: Polynomial, k: int) -> Dim:
    """floor(p / k) = q + floor(r / k), where p = k q + r and r has coefficients in 0..k-1."""
    if k <= 0:
        raise SizeError(f"division of a size by {k}")
    whole = {m: c // k for m, c in above.items()}
    rest = {m: c % k for m, c in above.items() if c % k}
    if not rest or set(rest) == {()}:
        return _render(whole)
    atom = _function("floor", f"({text_of(_render(rest))})/{k}")
    return _add(_render(whole), atom)


def _ordered(function: str, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if function == "min" else max(a, b)
    difference = sub(a, b)
    if isinstance(difference, int):
        return a if (difference <= 0) == (function == "min") else b
    return _function(function, ",".join(sorted((text_of(a), text_of(b)))))


# --- broadcasting -----------------------------------------------------------------------------


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """The size of one dimension of two operands that broadcast against each other."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int):
        if isinstance(b, int):
            raise SizeError(f"{a} and {b} do not broadcast")
        return a  # the name is a, or 1
    if isinstance(b, int):
        return b
    return _broadcast_names(a, b)


def broadcast(a: Shape, b: Shape) -> Shape:
    """numpy's rule: shapes aligned at the end, 1 yields to the other size."""
    if a == b or not b:
        return a
    if not a:
        return b
    if len(a) < len(b):
        a, b = b, a
    offset = len(a) - len(b)
    result = list(a)
    for i, size in enumerate(b, offset):
        if size != 1 and size != result[i]:
            result[i] = broadcast_dim(result[i], size)
    return tuple(result)


def same_dim(a: Dim, b: Dim) -> Dim:
    """One of two sizes that have to be equal: an int if there is one, else the first."""
    if a == b or isinstance(b, str):
        return a
    if isinstance(a, str):
        return b
    raise SizeError(f"{a} is not {b}")


@lru_cache(1 << 15)
def _broadcast_names(a: str, b: str) -> Dim:
    parts = sorted(set(_broadcast_parts(a)) | set(_broadcast_parts(b)))
    return parts[0] if len(parts) == 1 else _function("bc", ",".join(text_of(p) for p in parts))


def _broadcast_parts(name: str) -> list[str]:
    """bc(a,b) -> a, b: broadcasting is associative and idempotent."""
    if not (name.startswith("?=bc(") and _end_of_call(name, 2) == len(name)):
        return [name]
    return [unquote(part) for part in split(name[5:-1], ",")]


# --- text form --------------------------------------------------------------------------------


def _render(terms: Polynomial) -> Dim:
    """The canonical dimension: an int, a plain name, or an expression."""
    present = [(m, c) for m, c in terms.items() if c]
    if not present:
        return 0
    if len(present) == 1:
        monomial, coefficient = present[0]
        if not monomial:
            return coefficient
        if coefficient == 1 and len(monomial) == 1:
            return unquote(monomial[0])
    present.sort(key=lambda term: (-len(term[0]), term[0]))
    text = "".join(_term(m, c) for m, c in present)
    return _bounded(text.removeprefix("+"))


def _term(monomial: Monomial, coefficient: int) -> str:
    sign = "-" if coefficient < 0 else "+"
    factors = list(monomial)
    if abs(coefficient) != 1 or not monomial:
        factors.insert(0, str(abs(coefficient)))
    return sign + "*".join(factors)


def _bounded(text: str) -> str:
    if len(text) <= LONGEST:
        return "?=" + text
    import hashlib

    return "?#" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _function(name: str, arguments: str) -> str:
    return _bounded(f"{name}({arguments})")


def text_of(dim: Dim) -> str:
    """A dimension inside an expression."""
    if isinstance(dim, int):
        return str(dim)
    if dim.startswith("?="):
        return dim[2:]
    return quote(dim)


def quote(name: str) -> str:
    if _IDENTIFIER.match(name):
        return name
    escaped = name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return "{" + escaped + "}"


def unquote(text: str) -> str:
    """The dimension that a text inside an expression stands for (a name, never a number)."""
    if text.startswith("{") and text.find("}") == len(text) - 1:
        return text[1:-1].replace("%7D", "}").replace("%7B", "{").replace("%25", "%")
    return text if _IDENTIFIER.match(text) else "?=" + text


@lru_cache(1 << 15)
def _parse(dim: Dim) -> Polynomial:
    if isinstance(dim, int):
        return {(): dim} if dim else {}
    if not dim.startswith("?="):
        return {(quote(dim),): 1}
    result: Polynomial = {}
    for sign, text in _terms(dim[2:]):
        coefficient, atoms = sign, []
        for factor in split(text, "*"):
            if factor.isdecimal():
                coefficient *= int(factor)
            else:
                atoms.append(factor)
        result[tuple(sorted(atoms))] = coefficient
    return result


def _terms(text: str) -> list[tuple[int, str]]:
    """a-2*b -> (1, a), (-1, 2*b)"""
    found: list[tuple[int, str]] = []
    sign, start = 1, 0
    for i in _top_level(text, "+-"):
        if i > start:
            found.append((sign, text[start:i]))
        sign, start = (-1 if text[i] == "-" else 1), i + 1
    found.append((sign, text[start:]))
    return found


def split(text: str, separator: str) -> list[str]:
    cuts = [-1, *_top_level(text, separator), len(text)]
    return [text[a + 1 : b] for a, b in itertools.pairwise(cuts)]


def _top_level(text: str, wanted: str) -> list[int]:
    """Positions of the wanted characters outside parentheses and braces."""
    found, depth, quoted = [], 0, False
    for i, character in enumerate(text):
        if quoted:
            quoted = character != "}"
        elif character == "{":
            quoted = True
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif depth == 0 and character in wanted:
            found.append(i)
    return found


def _end_of_call(text: str, start: int) -> int:
    """The position after the parenthesis that closes the first one after `start`."""
    depth, quoted = 0, False
    for i in range(start, len(text)):
        character = text[i]
        if quoted:
            quoted = character != "}"
        elif character == "{":
            quoted = True
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0:
                return i + 1
    return len(text)


def is_nonnegative(size: Dim) -> bool:
    """Whether a size or an expression of sizes is surely at least 0 (sizes themselves are)."""
    if isinstance(size, int):
        return size >= 0
    if size.startswith("?="):
        return "-" not in size
    return not size.startswith("?#")
