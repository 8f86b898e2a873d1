"""Checks of requested aggregations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from pointstamp.errors import FlowError
from pointstamp.optional import conforms
from pointstamp.reduce.aggregate import Accumulates, Aggregate, Aggregation, FunctionAggregate


@dataclass(frozen=True, slots=True)
class Reducing:
    """The name of an aggregation, whether it runs over all times, and the aggregate of each column."""

    name: str
    running: bool
    aggregates: dict[str, Aggregation]


def is_aggregation(value: object) -> TypeGuard[Aggregation]:
    """Whether a value is an aggregate: a built-in one, or an object with the methods of ``Accumulator``."""
    is_own = not isinstance(value, type) and conforms(value, Accumulates)
    return isinstance(value, Aggregate | FunctionAggregate) or is_own


def checked_aggregates(who: str, aggregates: Mapping[str, object]) -> dict[str, Aggregation]:
    """Return aggregates by name; FlowError for what is none, so that no misspelt option becomes a column."""
    found: dict[str, Aggregation] = {}
    for column, value in aggregates.items():
        if not isinstance(column, str):
            raise FlowError(f"{who}: the name of a column must be a string, got {column!r}. Give it a name.")
        if not is_aggregation(value):
            raise FlowError(
                f"{who}: '{column}' must be an aggregate, such as ps.sum('amount'), got {value!r} of type "
                f"{type(value).__name__}. Give an aggregate."
            )
        found[column] = value
    return found


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The columns for where a session begins and ends, and what is asked of its rows."""

    start: str
    end: str
    aggregates: dict[str, Aggregation]


def session_options(
    who: str, *, start: object, end: object, aggregates: object, named: Mapping[str, object]
) -> SessionOptions:
    """Tell the options of sessions and their aggregates apart: what is an aggregate is a column."""
    ends = {"start": start, "end": end}
    swallowed = {option: value for option, value in ends.items() if is_aggregation(value)}
    mapped: dict[str, object] = {}
    if is_aggregation(aggregates):
        swallowed["aggregates"] = aggregates
    elif isinstance(aggregates, Mapping):
        mapped = dict(aggregates)
    elif aggregates is not None:
        raise FlowError(
            f"{who}: aggregates= must be a mapping from names to aggregates, such as "
            f"{{'total': ps.sum('amount')}}, got {aggregates!r} of type {type(aggregates).__name__}."
        )
    columns = [f"session_{each}" if each in swallowed else given for each, given in ends.items()]
    for column in columns:
        if not isinstance(column, str):
            raise FlowError(f"{who}: start= and end= must name columns, got {column!r}.")
    asked = checked_aggregates(who, {**mapped, **named, **swallowed})
    return SessionOptions(str(columns[0]), str(columns[1]), asked)


def checked_running(who: str, running: object) -> bool:
    """Return whether to run over all times; FlowError where it is not a boolean."""
    if not isinstance(running, bool):
        shown = running if isinstance(running, Aggregate) else repr(running)
        raise FlowError(f"{who}: running= must be True or False, got {shown}. Give one of them.")
    return running
