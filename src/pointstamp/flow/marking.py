"""Finds the streams of a plan that carry updates, and refuses what may not be aggregated of them.

A cycle is closed when its variable is fed, after everything that reads the variable was written. So marks are
found for the whole plan at once, again and again until nothing changes: each time more streams are marked, or
less is known of what they carry, and both have an end.

Invariant: after every reduction and every feedback that was accepted, no reduction of the plan reads updates
that it must not aggregate.
"""

from pointstamp.errors import FlowError
from pointstamp.flow.plan import Node, Plan
from pointstamp.flow.updates import (
    Passes,
    Reduces,
    Replaces,
    Updates,
    no_table_of,
    objection,
    passed_on,
    replacing,
    together,
    updates_of,
)
from pointstamp.topology.ports import SourcePort


def check_reduces(plan: Plan, source: SourcePort, reduces: Reduces, who: str) -> None:
    """Refuse a reduction that is about to be written, if it must not aggregate what it would read."""
    _check(who, reduces, _marks(plan)[source.operator])


def check_adds_up(plan: Plan, source: SourcePort, who: str) -> None:
    """Refuse a table that is about to be made of updates."""
    read = _marks(plan)[source.operator]
    if read is not None:
        raise FlowError(no_table_of(who, read))


def check_takes_nothing_back(plan: Plan, source: SourcePort, who: str) -> None:
    """Refuse a running reduction of a table's changes, if rows are taken away from the table."""
    seen, waiting = set(), [source.operator]
    while waiting:
        node = plan.nodes[waiting.pop()]
        if node.index in seen:
            continue
        seen.add(node.index)
        if node.sends is Passes.CHANGES:
            raise FlowError(
                f"{who} is running, and reads what '{node.name}' sends: the changes of a table from which "
                "rows are taken away again, and a running reduction would take each of these for one more "
                "row. Use table.group_by(...).agg(...), which takes back what it replaces, or drop 'diff' "
                "first if it is the changes that you want to aggregate."
            )
        if node.kind.is_door or node.sends is Passes.ROWS:
            waiting.extend(port.source.operator for port in node.inputs if port.source is not None)


def check_plan(plan: Plan) -> None:
    """Refuse a plan in which a reduction must not aggregate what it reads."""
    marks = _marks(plan)
    for node in plan.nodes:
        read = _read(node, marks)
        if isinstance(node.sends, Reduces):
            _check(f"'{node.name}'", node.sends, read)
        elif node.sends is Passes.ADDED and read is not None:
            raise FlowError(no_table_of(f"'{node.name}'", read))


def _check(who: str, reduces: Reduces, read: Updates | None) -> None:
    refused = None if read is None else objection(who, reduces, read)
    if refused is not None:
        raise FlowError(refused)


def _marks(plan: Plan) -> list[Updates | None]:
    """What each node sends, if it is updates."""
    marks: list[Updates | None] = [None] * len(plan.nodes)
    changed = True
    while changed:
        changed = False
        for node in plan.nodes:
            mark = _sent(node, _read(node, marks))
            changed |= mark != marks[node.index]
            marks[node.index] = mark
    return marks


def _read(node: Node, marks: list[Updates | None]) -> Updates | None:
    return together(marks[port.source.operator] for port in node.inputs if port.source is not None)


def _sent(node: Node, read: Updates | None) -> Updates | None:
    if isinstance(node.sends, Reduces):
        return updates_of(node.name, node.sends, read)
    if isinstance(node.sends, Replaces):
        return replacing(node.name, node.sends)
    passes = Passes.ROWS if node.kind.is_door else node.sends
    return None if passes is None else passed_on(passes, read)
