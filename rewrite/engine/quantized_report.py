"""What a run tells about a quantized model.

In: the rewritten model, its target, the journal. Out: plain records by the names
that the JSON report has. All of them are empty for a model without quantized operators.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from rewrite.engine.floats import floats_left
from rewrite.engine.journal import Journal
from rewrite.engine.quantized_bound import output_bounds
from rewrite.engine.quantized_faults import Faults
from rewrite.engine.quantized_saturation import saturation
from rewrite.graph.model import LoadedModel
from rewrite.target.target import Target


def account(
    loaded: LoadedModel, target: Target, journal: Journal, quantized: bool, limit: str
) -> dict[str, Any]:
    """`quantized`: the model had quantized operators before. `limit`: the class that rules had to
    keep to. Writes the metadata of `saturation` into the model, too."""
    if not quantized:
        return {
            "float_left": [], "quantization_faults": [], "saturation": [],
            "lsb_bound": {}, "lsb_unbounded": {},
        }  # fmt: skip
    facts = loaded.facts
    faults = {fault.node: fault for fault in Faults(facts).all()}  # some are seen only now
    faults.update({fault.node: fault for fault in journal.faults})
    bounds = output_bounds(facts, journal)
    return {
        "float_left": _plain(floats_left(facts, journal.refused, target, limit)),
        "quantization_faults": _plain(tuple(faults.values())),
        "saturation": _plain(saturation(facts, target)),
        "lsb_bound": {bound.output: bound.lsb for bound in bounds},
        "lsb_unbounded": {bound.output: bound.reason for bound in bounds if bound.lsb is None},
    }


def _plain(records: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(record) for record in records]
