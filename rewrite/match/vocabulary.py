"""What rule text may refer to, gathered from the layers that know.

In: operator schemas and traits, builtins, what a target can be asked. Out: the `Vocabulary`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from rewrite.lang.vocabulary import Kind, Vocabulary
from rewrite.match.builtins import registry
from rewrite.match.targets import DOMAINS, FIELD_KINDS, METHODS
from rewrite.ops import registry as operators
from rewrite.ops import schemas

VALUE_FIELDS: Mapping[str, Kind] = {"shape": "list", "dtype": "dtype", "rank": "number"}


@cache
def vocabulary() -> Vocabulary:
    """Everything that rules may name, for the installed ONNX."""
    return Vocabulary(
        schemas=schemas.versions,
        domains=DOMAINS,
        commutative=operators.commutative(),
        classes={"pointwise": operators.pointwise()},
        functions={name: b.signature for name, b in registry.functions().items()},
        target_methods={name: method.signature for name, method in METHODS.items()},
        target_fields=FIELD_KINDS,
        value_fields=VALUE_FIELDS,
        newest_opset=schemas.newest_opset(),
    )
