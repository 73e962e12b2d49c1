"""Groups that are attention. In: the members of a group. Out: a cluster for its kernel."""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.plan.attention import attention_of, lower_attention
from rewrite.plan.cluster import Cluster, Output
from rewrite.plan.instance import Instance
from rewrite.plan.lowering import Lowering
from rewrite.plan.recognize import recognizes


@recognizes
def attention(members: Sequence[Instance], wanted: Sequence[Output]) -> Cluster | None:
    if [o.value for o in wanted] != [members[-1].results[0]]:
        return None
    found = attention_of(members)
    if isinstance(found, str):
        return None

    def lower(low: Lowering, op: Instance) -> None:
        del op
        lower_attention(low, found)

    return Cluster(members[-1], tuple(members), tuple(wanted), lower=lower)
