"""Aggregates of all values: lists and sets of them, and custom aggregates.

A list has every copy of a value, in the order of the values. A custom aggregate gets the rows of a group in
the order of their columns, from left to right, and every copy of a row: what it makes of them then depends on
the rows alone, also where it adds floats one after the other.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.reduce.aggregate import FunctionAggregate
from pointstamp.reduce.binding import Bound
from pointstamp.reduce.states import KeyStates
from pointstamp.tables.aggregates.asked_aggregates import TableAggregate
from pointstamp.tables.aggregates.group_values import GroupValues, Places, firsts_of
from pointstamp.tables.kept.ordering import Ordered, ranks, value_ranks


def list_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The values of each group as a list, or each of them once; an empty list for a group without values."""
    order, is_new = _in_order(given)
    order = order[is_new] if asked.kind == "collect_set" else np.repeat(order, given.weights[order])
    counts = np.bincount(given.group[order], minlength=given.count)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), given.values.take(pa.array(order)), asked.result_type)


def count_distinct_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """How many different values each group has."""
    del asked
    order, is_new = _in_order(given)
    return pa.array(np.bincount(given.group[order[is_new]], minlength=given.count).astype(np.int64))


def made_by_function(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """What a function makes of the rows of each group."""
    own = asked.own
    assert isinstance(own, FunctionAggregate)
    rows = given.rows.select(list(asked.columns))
    order = given.order(*ranks(rows, [Ordered(name) for name in asked.columns]))
    order = np.repeat(order, given.weights[order])
    rows, starts = rows.take(pa.array(order)), firsts_of(given.group[order])
    ends = np.append(starts[1:], len(order))[: len(starts)]
    made = [
        _value(own, rows.slice(start, end - start))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return given.spread(pa.array(made, own.type))


def accumulated(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """What an accumulator makes of the values of each group, from the first one on."""
    assert isinstance(asked.own, Bound)
    assert asked.own.column is not None
    order = given.order(value_ranks(given.values))
    order = np.repeat(order, given.weights[order])
    states = KeyStates(asked.own)
    states.grow(given.count)
    rows = pa.RecordBatch.from_arrays([given.values.take(pa.array(order))], names=[asked.own.column])
    states.update(rows, given.group[order])
    return states.results(np.arange(given.count), f"the aggregate {type(asked.own.accumulator).__name__}")


def _in_order(given: GroupValues) -> tuple[Places, npt.NDArray[np.bool_]]:
    """The rows by group and value, and whether each is the first of its group with its value."""
    found = value_ranks(given.values)
    order = given.order(found)
    group, found = given.group[order], found[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (group[1:] != group[:-1]) | (found[1:] != found[:-1])
    return order, is_new


def _value(own: FunctionAggregate, rows: pa.RecordBatch) -> object:
    made = own.function(rows)
    value = made.as_py() if isinstance(made, pa.Scalar) else made
    value = value.item() if isinstance(value, np.generic) else value
    try:
        pa.scalar(value, own.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"the aggregate {own} must return {own.type}, got {value!r} for {rows.num_rows} rows: {error}"
        ) from error
    return value
