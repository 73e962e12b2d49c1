"""What rule text may refer to, gathered from the layers that know.

In: operator schemas and traits, builtins, what a target can be asked. Out: the `Vocabulary`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from rewrite.lang.vocabulary import Kind, Vocabulary
from rewrite.match.builtins import registry
from rewrite.match.form import Operator
from rewrite.match.targets import FIELD_KINDS, METHODS
from rewrite.ops import registry as operators
from rewrite.ops import schemas
from rewrite.schema import DOMAINS

VALUE_FIELDS: Mapping[str, Kind] = {"shape": "list", "dtype": "dtype", "rank": "number"}


def _unary() -> frozenset[Operator]:
    """Pointwise operators with one operand in every version."""
    return frozenset(
        key
        for key in operators.pointwise()
        if (found := schemas.versions(*key))
        and all([p.option for p in s.inputs] == ["single"] for s in found)
    )


class _Classes(Mapping[str, frozenset[Operator]]):
    """Class of operators -> its members, found when asked for: schemas are slow to read."""

    _MAKERS: Mapping[str, Callable[[], frozenset[Operator]]] = {
        "pointwise": operators.pointwise,
        "unary": _unary,
    }

    def __getitem__(self, name: str) -> frozenset[Operator]:
        return _class_members(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._MAKERS)

    def __len__(self) -> int:
        return len(self._MAKERS)


@cache
def _class_members(name: str) -> frozenset[Operator]:
    return _Classes._MAKERS[name]()


@cache
def _operators() -> tuple[str, ...]:
    """Every operator as rules spell it."""
    return tuple(
        f"{prefix}.{name}" if prefix else name
        for prefix, domain in DOMAINS.items()
        for name in schemas.names(domain)
    )


@cache
def vocabulary() -> Vocabulary:
    """Everything that rules may name, for the installed ONNX."""
    return Vocabulary(
        schemas=schemas.versions,
        domains=DOMAINS,
        commutative=operators.commutative(),
        classes=_Classes(),
        functions={name: b.signature for name, b in registry.functions().items()},
        target_methods={name: method.signature for name, method in METHODS.items()},
        target_fields=FIELD_KINDS,
        value_fields=VALUE_FIELDS,
        newest_opset=schemas.newest_opset(),
        operators=_operators,
    )
