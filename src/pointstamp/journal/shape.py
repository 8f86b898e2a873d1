"""The shape of a flow: what must still be there when a query goes on with a flow that may have changed.

State is found again by the place of its operator, that is by kind and name. So an operator that is gone would
lose its state, one that is new would begin without, and one that is of another kind could not read what is
there, or worse, could: a greatest value reads as a least one. And what a table has put out adds up only if
every operator that it is made of computes what it did before: the same aggregate, order, condition. All of
this is reported before anything runs, and happens only if the user accepts it.

What a function computes is not checked: a user who changes the code of a map or of an operator knows best
whether its state still means the same. Expressions on a stream are code in this sense, too.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pointstamp.errors import RecoveryError
from pointstamp.flow.pact import ExchangeBy, ExchangeByFunction, Pact
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.journal.history import FlowShape
from pointstamp.journal.parameters import computes
from pointstamp.reduce.aggregate import Aggregate, Aggregation, FunctionAggregate
from pointstamp.reduce.reductions import RunningReduce
from pointstamp.sinks.port import Publisher, Sink
from pointstamp.state.saved import Saving
from pointstamp.tables.kept.value import is_changes
from pointstamp.worker.snapshots import place_of

_PLACES_MAX: Final = 8


def shape_of(plan: Plan, query: str) -> FlowShape:
    """The shape of a flow: a word for each place that has rows or state."""
    nodes = [node for node in plan.nodes if not node.kind.is_door]
    told = {place_of(node): computes(node.logic) for node in nodes if _is_checked(node)}
    return FlowShape(
        plan.name,
        query,
        {place_of(node): _word(plan, node) for node in nodes},
        {place: words for place, words in told.items() if words},
    )


def _is_checked(node: Node) -> bool:
    """Whether what an operator computes must stay what it is: it keeps something, or is one of tables."""
    return node.in_order or any(is_changes(port.schema) for port in node.outputs)


def check_shape(before: FlowShape, now: FlowShape, *, accept_changes: bool) -> None:
    """Refuse a flow that differs from the one that was saved, unless that is accepted."""
    gone = [place for place in before.places if place not in now.places]
    new = [place for place in now.places if place not in before.places]
    other = [
        f"{place} (was {before.places[place]}, is {now.places[place]})"
        for place in before.places
        if place in now.places and before.places[place] != now.places[place]
    ]
    other += [
        f"{place} (computed {told}, computes {now.computes[place]})"
        for place, told in before.computes.items()
        if place in now.computes
        and told != now.computes[place]
        and before.places.get(place) == now.places.get(place)
    ]
    if accept_changes or not (gone or new or other):
        return
    said = [
        f"{words} {_first(places)}"
        for words, places in (("gone:", gone), ("new:", new), ("changed:", other))
        if places
    ]
    raise RecoveryError(
        f"flow '{now.name}' is not the one that was saved; {'; '.join(said)}. State is found again by name. "
        "Bring the names back, and what they stand for, or pass accept_changes=True: then what is gone loses "
        "its state, what is new begins without any, and what has changed goes on with the state that it has. "
        "Where you have changed nothing, another version of pointstamp has made these operators: go on with "
        "that version, or begin with a new checkpoint and a new output."
    )


def _first(places: list[str]) -> str:
    """Some places in words, of which a flow may have hundreds."""
    more = len(places) - _PLACES_MAX
    return ", ".join(places[:_PLACES_MAX]) + (f" and {more} more" if more > 0 else "")


def check_outputs(sink: Sink, publisher: Publisher, before: FlowShape | None, now: FlowShape) -> None:
    """Ask the publisher whether it can go on from what is published with the flow's present outputs."""
    had = {} if before is None else _outputs(before)
    if hasattr(publisher, "check_outputs"):
        publisher.check_outputs(list(had))
        return
    has = _outputs(now)
    changed = [name for name in {**had, **has} if had.get(name) != has.get(name)]
    if before is not None and changed:
        raise RecoveryError(
            f"flow '{now.name}' has other outputs than before ({', '.join(changed)}), and the sink "
            f"{type(sink).__name__} has no method check_outputs to say whether it can go on with them; "
            "nothing was changed. Take the change back, give the sink's publisher that method, or begin "
            "with a new checkpoint and a new output."
        )


def _outputs(shape: FlowShape) -> dict[str, str]:
    """The outputs of a flow, with a word for the columns of each."""
    prefix = f"{NodeKind.OUTPUT.value} "
    return {p.removeprefix(prefix): word for p, word in shape.places.items() if p.startswith(prefix)}


def _word(plan: Plan, node: Node) -> str:
    columns = [f"{field.name} {field.type}" for port in node.outputs for field in port.schema]
    if node.kind is NodeKind.OUTPUT:
        columns = [f"{field.name} {field.type}" for field in plan.output_schemas()[node.name]]
    name, keeps = _logic(node.logic)
    keys = [key for port in node.inputs for key in _exchanged_by(port.pact)]
    # Where nothing is kept, it does not matter who owns a key.
    by = f" by {', '.join(keys)}" if keeps and keys else ""
    zone = f" in {node.time_zone}" if node.time_zone else ""
    return f"{name}({', '.join(columns)}){by}{f' keeping {keeps}' if keeps else ''}{zone}"


def _exchanged_by(pact: Pact) -> tuple[str, ...]:
    if isinstance(pact, ExchangeByFunction):
        return (str(pact).removeprefix("by "),)
    return pact.keys if isinstance(pact, ExchangeBy) else ()


def _logic(logic: Any) -> tuple[str, str]:  # noqa: ANN401 - whatever makes an operator
    """What an operator is called, and what it keeps from epoch to epoch."""
    if logic is None:
        return "", ""
    if not isinstance(logic, partial):
        return getattr(logic, "__name__", ""), _declared(logic)
    if logic.func is RunningReduce:
        _, _, aggregates = logic.args
        return "RunningReduce", ", ".join(f"{name}={_aggregate(each)}" for name, each in aggregates.items())
    if isinstance(logic.func, type):
        return logic.func.__name__, ""
    users = logic.args[0]  # of which each worker has a copy
    return type(users).__name__, _declared(users)


def _aggregate(aggregate: Aggregation) -> str:
    if isinstance(aggregate, Aggregate | FunctionAggregate):
        return str(aggregate)
    return f"{type(aggregate).__name__}({aggregate.column})"


def _declared(logic: Any) -> str:  # noqa: ANN401 - a user's object, or its class
    state = getattr(logic, "state", None)
    ways = state.items() if isinstance(state, Mapping) else ()
    return ", ".join(
        f"{name} as {type(way).__name__.strip('_').lower()}" for name, way in ways if isinstance(way, Saving)
    )
