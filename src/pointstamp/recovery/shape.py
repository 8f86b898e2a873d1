"""The shape of a flow: what must still be there when a query goes on with a flow that may have changed.

State is found again by the place of its operator, that is by kind and name. So an operator that is gone would
lose its state, one that is new would begin without, and one that is of another kind could not read what is
there. All of this is said before anything runs, and is done only if it was accepted.
"""

from functools import partial

from pointstamp.dataflow.plan import Kind, Node, Plan
from pointstamp.errors import RecoveryError
from pointstamp.recovery.ledger import FlowShape
from pointstamp.runtime.snapshots import place_of


def shape_of(plan: Plan, query: str) -> FlowShape:
    """A word for each place of a flow that has rows or state."""
    return FlowShape(
        plan.name, query, {place_of(node): _word(plan, node) for node in plan.nodes if not node.kind.is_door}
    )


def check_shape(before: FlowShape, now: FlowShape, *, accept_changes: bool) -> None:
    """Refuse a flow that differs from the one that was saved, unless that is accepted."""
    gone = [place for place in before.places if place not in now.places]
    new = [place for place in now.places if place not in before.places]
    other = [
        f"{place} (was {before.places[place]}, is {now.places[place]})"
        for place in before.places
        if place in now.places and before.places[place] != now.places[place]
    ]
    if accept_changes or not (gone or new or other):
        return
    said = [
        f"{words} {', '.join(places)}"
        for words, places in (("gone:", gone), ("new:", new), ("changed:", other))
        if places
    ]
    raise RecoveryError(
        f"flow '{now.name}' is not the one that was saved; {'; '.join(said)}. State is found again by name. "
        "Bring the names back, or pass accept_changes=True to lose the state of what is gone and to begin "
        "without any for what is new."
    )


def _word(plan: Plan, node: Node) -> str:
    columns = [f"{field.name} {field.type}" for port in node.outputs for field in port.schema]
    if node.kind is Kind.OUTPUT:
        columns = [f"{field.name} {field.type}" for field in plan.output_schemas()[node.name]]
    logic = node.logic
    if isinstance(logic, partial):
        inner = logic.args[0] if logic.args else logic.func
        logic = inner if isinstance(inner, type) else type(inner)
    name = getattr(logic, "__name__", "") if logic is not None else ""
    return f"{name}({', '.join(columns)})"
