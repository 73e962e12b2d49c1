"""What a model says about its values besides how they are computed.

In: ValueInfoProtos and TensorAnnotations, kept as they were read. Out: the same, for the value
that has the name now. onnx-ir has no place for map and opaque types and for the second listing of
an output, so nothing of this is kept in its objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx_ir as ir


@dataclass(slots=True)
class Declared:
    """Declarations by value. Values without one are not in the tables."""

    infos: dict[ir.Value, onnx.ValueInfoProto] = field(default_factory=dict)
    annotations: dict[ir.Value, onnx.TensorAnnotation] = field(default_factory=dict)
    # Outputs that are inputs, initializers or listed before: what each further listing says.
    listings: dict[ir.Value, list[onnx.ValueInfoProto]] = field(default_factory=dict)
    # About names that no value of the graph has.
    strays: dict[ir.Graph, list[onnx.ValueInfoProto]] = field(default_factory=dict)
    stray_annotations: dict[ir.Graph, list[onnx.TensorAnnotation]] = field(default_factory=dict)

    def contradicts(self, value: ir.Value, shape: tuple[int, ...]) -> bool:
        """Whether the value is declared with a shape that this one does not fit."""
        info = self.infos.get(value)
        if info is None or not info.type.tensor_type.HasField("shape"):
            return False
        dims = info.type.tensor_type.shape.dim
        known = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        return len(known) != len(shape) or any(
            declared is not None and declared >= 0 and declared != size
            for declared, size in zip(known, shape, strict=True)
        )

    def move(self, old: ir.Value, new: ir.Value) -> Saved:
        """`new` takes the place of `old`: what was declared about `old` is about `new` now."""
        infos = self.infos
        if not (old in infos or new in infos or self.annotations or self.listings):
            return []
        tables: list[dict[ir.Value, Any]] = [infos, self.annotations, self.listings]
        if not any(old in table or new in table for table in tables):
            return []
        saved = [(value, [table.get(value) for table in tables]) for value in (old, new)]
        for table in tables:
            table.pop(new, None)
            if old in table:
                table[new] = table.pop(old)
        return saved

    def restore(self, saved: Saved) -> None:
        """Undo `move`."""
        tables: list[dict[ir.Value, Any]] = [self.infos, self.annotations, self.listings]
        for value, entries in saved:
            for table, entry in zip(tables, entries, strict=True):
                table.pop(value, None)
                if entry is not None:
                    table[value] = entry

    def forget(self, value: ir.Value) -> None:
        """The value is gone."""
        self.infos.pop(value, None)
        if self.annotations or self.listings:  # mostly there are none
            self.annotations.pop(value, None)
            self.listings.pop(value, None)


Saved = list[tuple[ir.Value, list[Any]]]
