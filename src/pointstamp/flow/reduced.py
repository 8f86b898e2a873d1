"""How a reduction of a stream is built: its arguments worked out, its updates checked, its operator added.

What can be brought together from parts is accumulated as rows arrive: ``count``, ``sum``, ``min``, ``max``,
``mean`` and custom accumulators, in an epoch or running over all. Every other aggregate is one of whole
groups, as tables have them, and is asked of the rows of each time by itself; running it would have to take
back what it has sent, which a table does.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from pointstamp.errors import FlowError
from pointstamp.expressions.compiling import compile_condition, compile_expression
from pointstamp.expressions.tree import Expression
from pointstamp.flow.marking import check_reduces, check_takes_nothing_back
from pointstamp.flow.outlet import add_operator, wiring
from pointstamp.flow.reducing import Reducing
from pointstamp.flow.updates import Reduces
from pointstamp.operators.spec import spec
from pointstamp.reduce.aggregate import Aggregate, Aggregation, FunctionAggregate
from pointstamp.reduce.arguments import Arguments
from pointstamp.reduce.reductions import RunningReduce, WindowedReduce, reduced_schema

if TYPE_CHECKING:
    from pointstamp.flow.stream import Stream

ACCUMULATED: Final = ("count", "sum", "min", "max", "mean")


def needs_groups(keys: Collection[str], aggregates: Mapping[str, Aggregation]) -> bool:
    """Whether an epoch is reduced as a table: there is no key, or its rows are looked at together."""
    return not keys or not all(map(_is_accumulated, aggregates.values()))


def reduced(stream: "Stream", keys: tuple[str, ...], asked: Reducing) -> "Stream":
    """One row for each key of a time, or of all so far, with aggregates of its rows."""
    name, who = asked.name, f"'{asked.name}' of {stream}"
    others = [column for column, each in asked.aggregates.items() if not _is_accumulated(each)]
    if asked.running and (others or not keys):
        what = f"'{others[0]}' is {asked.aggregates[others[0]]}" if others else "it has no key column"
        raise FlowError(
            f"{who} cannot be running: {what}. A table keeps it up to date, and takes back what it has sent: "
            "running().reduce(...)."
        )
    at = wiring(stream)
    reduces = Reduces(keys, asked.aggregates, asked.running)
    check_reduces(at.builder.plan, at.source, reduces, who)
    if asked.running:
        check_takes_nothing_back(at.builder.plan, at.source, who)
    arguments, aggregates = Arguments(keys), asked.aggregates
    if not all(_is_plain(each) for each in aggregates.values()):
        aggregates = {
            column: _lowered(f"{who}, '{column}'", stream, each, arguments)
            for column, each in aggregates.items()
        }
        columns = [each.alias(column) for column, each in arguments.columns.items()]
        stream = stream.select(*columns, name=f"{name}: arguments")
    schema = reduced_schema(who, stream.schema, keys, aggregates)
    logic = RunningReduce if asked.running else WindowedReduce
    return add_operator(
        name,
        spec(logic, stream.schema, keys, aggregates),
        {"in": stream.exchange(*keys)},
        {"out": schema},
        in_order=asked.running,
        sends=reduces,
    )[0]


def _is_accumulated(aggregate: Aggregation) -> bool:
    if isinstance(aggregate, FunctionAggregate):
        return False
    return not isinstance(aggregate, Aggregate) or aggregate.kind in ACCUMULATED


def _is_plain(aggregate: Aggregation) -> bool:
    """Whether an aggregate looks at a column as it is, in all rows."""
    return not isinstance(aggregate, Aggregate) or (
        aggregate.where is None and not isinstance(aggregate.column, Expression)
    )


def _lowered(who: str, stream: "Stream", aggregate: Aggregation, arguments: Arguments) -> Aggregation:
    """The same aggregate of a column that the arguments have."""
    if not isinstance(aggregate, Aggregate):
        assert not isinstance(aggregate, FunctionAggregate)
        arguments.named(aggregate.column)
        return aggregate
    if aggregate.where is not None:
        compile_condition(aggregate.where, stream.schema, f"{who}, where=")
    if isinstance(aggregate.column, Expression):
        compile_expression(aggregate.column, stream.schema, who)
    return Aggregate(aggregate.kind, arguments.of(aggregate.column, aggregate.where))
