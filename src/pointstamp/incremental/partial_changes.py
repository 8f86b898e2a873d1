"""Partial changes: whether a row may occur several times at one time.

What an operator has computed from all that came at a time, by key, is consolidated already: each row comes
once for each time, from one worker. Adding it up again before it leaves would cost as much as making it.
"""

from typing import Final

from pointstamp.flow.plan import Plan
from pointstamp.incremental.aggregate_operators import OnExtremes, OnSums
from pointstamp.incremental.deletion_check import Border
from pointstamp.incremental.distinct import InBoth, OnlyInFirst, OnRows
from pointstamp.incremental.group_operator import OnGroups
from pointstamp.incremental.stateless import Consolidated
from pointstamp.incremental.top_k import OnFirstOnly, OnTop
from pointstamp.operators.spec import spec_of
from pointstamp.topology.ports import SourcePort

_SEND_SUMS: Final = (
    *(Border, Consolidated, InBoth, OnExtremes, OnGroups),
    *(OnlyInFirst, OnRows, OnSums, OnTop, OnFirstOnly),
)


def come_in_parts(plan: Plan, source: SourcePort) -> bool:
    """Whether the changes that come out here may have to be consolidated."""
    return spec_of(plan.nodes[source.operator].logic).kind not in _SEND_SUMS
