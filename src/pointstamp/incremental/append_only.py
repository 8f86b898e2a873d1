"""Append-only tables: whether rows can be deleted, according to the plan.

Rows are added by a stream without weights, and what is selected, filtered, united, joined or made distinct of
tables that only grow only grows. Everything else may take rows back: a sum replaces the one before, a left
join the row of nulls. An operator that is not known here counts as one that may.

Fast operators that cannot take anything back, components by union-find among them, are for such tables only.
"""

from typing import Final

from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.incremental.distinct import InBoth, OnRows
from pointstamp.incremental.group_aggregates import Once
from pointstamp.incremental.group_operator import OnGroups
from pointstamp.incremental.hash_join import InnerJoin
from pointstamp.incremental.joins import Copied, Dealt, WithPartner
from pointstamp.incremental.stateless import Appended, Consolidated, MappedRows, Weighed
from pointstamp.operators.spec import spec_of
from pointstamp.operators.stateless import Concat, InWindows, PhysicalExplode, PhysicalFilter
from pointstamp.topology.ports import OperatorIndex, SourcePort

_KEEP_GROWING: Final = (
    *(Weighed, PhysicalFilter, Concat, PhysicalExplode, MappedRows, InWindows),
    *(Consolidated, InBoth, InnerJoin, WithPartner, OnRows, Dealt, Copied),
)


def only_appends(plan: Plan, source: SourcePort) -> bool:
    """Whether the table whose changes come out here never loses a row."""
    seen: set[OperatorIndex] = set()
    waiting = [source.operator]
    while waiting:
        node = plan.nodes[waiting.pop()]
        if node.index in seen or _only_adds(node):
            continue
        seen.add(node.index)
        if not (node.kind.is_door or _keeps_growing(node)):
            return False
        for port in node.inputs:
            if port.source is None:
                return False  # a variable that will be fed with whatever there is to come
            waiting.append(port.source.operator)
    return True


def _only_adds(node: Node) -> bool:
    """Whether an operator makes a table of a stream by adding all its rows."""
    made = spec_of(node.logic)
    return made.kind is Appended and made.parameters["weight"] is None


def _keeps_growing(node: Node) -> bool:
    """Whether what an operator makes of tables that grow only grows."""
    made = spec_of(node.logic)
    if made.kind is OnGroups:
        return isinstance(made.parameters["plan"].function, Once)
    return node.kind is NodeKind.OPERATOR and made.kind in _KEEP_GROWING
