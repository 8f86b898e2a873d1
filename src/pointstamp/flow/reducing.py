"""What a reduction was asked for: its options and its aggregates, told apart where they are both keywords.

A column may have any name, also that of an option. An option is never an aggregate, so what is given for one
and is an aggregate is a column of that name; and in ``aggregates`` every name is a column. Whatever is
neither is rejected with an error, so that a misspelt option does not become a column, nor a misspelt
aggregate an option.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from pointstamp.errors import FlowError
from pointstamp.reduce.aggregate import Aggregate, Aggregation, FunctionAggregate

_METHODS: Final = ("result_type", "empty", "update", "merge", "result")


@dataclass(frozen=True, slots=True)
class Reducing:
    """The name of a reduction, whether it runs over all times, and the aggregate of each column."""

    name: str
    running: bool
    aggregates: dict[str, Aggregation]


def is_aggregation(value: object) -> TypeGuard[Aggregation]:
    """Whether a value is an aggregate: a built-in one, or an object with the methods of ``Accumulator``."""
    is_own = not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _METHODS)
    return isinstance(value, Aggregate | FunctionAggregate) or is_own


def reducing(
    who: str,
    default: str,
    *,
    aggregates: object,
    running: object,
    name: object,
    named: Mapping[str, object],
) -> Reducing:
    """Tell them apart. Columns come in the order of the mapping, then of the keywords."""
    columns: dict[str, Aggregation] = {}
    if aggregates is not None and not is_aggregation(aggregates):
        columns.update(_mapped(who, aggregates))
    keywords = {"aggregates": aggregates, "running": running, "name": name}
    swallowed = {option: value for option, value in keywords.items() if is_aggregation(value)}
    for column, value in (*named.items(), *swallowed.items()):
        if not is_aggregation(value):
            raise FlowError(
                f"{who}: '{column}' must be an aggregate, such as ps.sum('amount'), but is {value!r} of "
                f"type {type(value).__name__}. The options are aggregates, running and name."
            )
        if column in columns:
            raise FlowError(
                f"{who} was given the aggregate '{column}' twice, in aggregates= and as a keyword. Leave one "
                "of them out."
            )
        columns[column] = value
    column = ", or an aggregate for a column "
    return Reducing(
        checked_name(who, default if "name" in swallowed else name, f"{column}'name'"),
        checked_running(who, "running" not in swallowed and running, f"{column}'running'"),
        columns,
    )


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The columns for where a session begins and ends, and what is asked of its rows."""

    start: str
    end: str
    asked: Reducing


def session_options(
    who: str, *, start: object, end: object, aggregates: object, name: object, named: Mapping[str, object]
) -> SessionOptions:
    """Tell the options of sessions and their aggregates apart, as of any reduction."""
    ends = {"start": start, "end": end}
    swallowed = {option: value for option, value in ends.items() if is_aggregation(value)}
    asked = reducing(
        who, "sessions", aggregates=aggregates, running=False, name=name, named={**named, **swallowed}
    )
    columns = [f"session_{each}" if each in swallowed else given for each, given in ends.items()]
    for column in columns:
        if not isinstance(column, str):
            raise FlowError(f"{who}: start= and end= name columns, and one of them is {column!r}.")
    return SessionOptions(str(columns[0]), str(columns[1]), asked)


def checked_name(who: str, name: object, otherwise: str = "") -> str:
    """The name of an operator; FlowError where it is not a string."""
    if not isinstance(name, str):
        raise FlowError(f"{who}: name= must be a string{otherwise}, but is {name!r}.")
    return name


def checked_running(who: str, running: object, otherwise: str = "") -> bool:
    """Whether to run over all times; FlowError where it is not a boolean."""
    if not isinstance(running, bool):
        shown = running if isinstance(running, Aggregate) else repr(running)
        raise FlowError(f"{who}: running= must be True or False{otherwise}, but is {shown}.")
    return running


def _mapped(who: str, aggregates: object) -> Mapping[str, Aggregation]:
    if not isinstance(aggregates, Mapping):
        raise FlowError(
            f"{who}: aggregates= must be a mapping from names to aggregates, such as "
            f"{{'total': ps.sum('amount')}}, but is {aggregates!r} of type {type(aggregates).__name__}."
        )
    for column, value in aggregates.items():
        if not isinstance(column, str):
            raise FlowError(f"{who}: the name of a column must be a string, but is {column!r}.")
        if not is_aggregation(value):
            raise FlowError(
                f"{who}: '{column}' must be an aggregate, such as ps.sum('amount'), but is {value!r} of "
                f"type {type(value).__name__}."
            )
    return aggregates
