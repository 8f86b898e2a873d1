"""Instances of every logical operator, made by hypothesis, and the changes that a value can have.

``operators`` makes instances of one class. An operator that needs columns of certain types has a strategy in
``STRATEGIES``; any other one is tried with values that its annotations allow, until it accepts them.
``changes_of`` yields the values that differ from one in one place, however deep.
"""

import importlib
import pkgutil
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import pointstamp as ps
import pointstamp.plan
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Expression
from pointstamp.incremental.window_functions import OrderFunction, RowFrame
from pointstamp.plan import logical, streams
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, Variable
from pointstamp.reduce.aggregate import Aggregate, FunctionAggregate
from pointstamp.topology.summary import Advance, Summary

COLUMNS: Final = pa.schema(
    [
        pa.field("k", pa.string(), metadata={"comment": "a key"}),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("x", pa.float64()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("tags", pa.list_(pa.field("tag", pa.string(), nullable=False))),
        pa.field("place", pa.struct({"lat": pa.float32(), "names": pa.map_(pa.string(), pa.binary())})),
        pa.field("__order1", pa.int32()),
        pa.field("is_open", pa.bool_()),
        pa.field("w", pa.int64()),
    ],
    metadata={"origin": "tests"},
)


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch as it is; what counts is that there is a function."""
    return batch


def _adding(amount: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    return lambda batch: batch.slice(amount)


class Product:
    """An aggregate that a user wrote."""

    def __init__(self, column: str, start: float) -> None:
        self.column = column
        self.start = start

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        return column_type

    def empty(self) -> Mapping[str, Any]:
        return {"product": self.start}

    def update(self, state: Any, slots: Any, values: pa.Array) -> None:  # noqa: ANN401
        np.multiply.at(state["product"], slots, values)

    def merge(self, state: Any, slots: Any, other: Any) -> None:  # noqa: ANN401
        state["product"][slots] *= other["product"]

    def result(self, state: Any) -> Any:  # noqa: ANN401
        return state["product"]


# Values.

TYPES: Final = [
    *(pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()),
    *(pa.large_string(), pa.string_view(), pa.binary(3), pa.date32(), pa.date64(), pa.time32("ms")),
    *(pa.time64("ns"), pa.timestamp("ns"), pa.timestamp("s", "Europe/Rome"), pa.timestamp("us", "+02:30")),
    *(pa.duration("ns"), pa.decimal32(5, 2), pa.decimal64(18, 0), pa.decimal128(38, 10)),
    *(pa.decimal256(76, 3), pa.null(), pa.month_day_nano_interval(), pa.uuid()),
]
kinds: Final = st.recursive(
    st.sampled_from(TYPES),
    lambda inner: st.one_of(
        st.builds(
            lambda kind, null: pa.list_(pa.field("item", kind, null or pa.types.is_null(kind))),
            inner,
            st.booleans(),
        ),
        st.builds(pa.large_list, inner),
        st.builds(pa.list_view, inner),
        st.builds(lambda kind, size: pa.list_(kind, size), inner, st.integers(1, 3)),
        st.builds(lambda kind: pa.map_(pa.string(), kind), inner),
        st.builds(pa.dictionary, st.sampled_from([pa.int8(), pa.int32()]), st.just(pa.string())),
        st.builds(
            lambda parts: pa.struct([pa.field(f"f {n}", kind) for n, kind in enumerate(parts)]),
            st.lists(inner, max_size=3),
        ),
    ),
    max_leaves=4,
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Python values that an array of a type can have, and None."""
    return st.none() | _there(kind)


def _there(kind: pa.DataType) -> st.SearchStrategy[Any]:
    found = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return st.uuids().map(lambda each: each.bytes)
    if found.is_struct(kind):
        return st.fixed_dictionaries({each.name: values_of(each.type) for each in kind})
    if found.is_map(kind):
        return st.lists(st.tuples(st.text(max_size=3), values_of(kind.item_type)), max_size=3)
    if found.is_fixed_size_list(kind):
        return st.lists(values_of(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    if found.is_nested(kind):
        inner = values_of(kind.value_type) if kind.value_field.nullable else _there(kind.value_type)
        return st.lists(inner, max_size=3)
    if found.is_dictionary(kind):
        return _there(kind.value_type)
    if found.is_null(kind):
        return st.none()
    if found.is_boolean(kind):
        return st.booleans()
    if found.is_floating(kind):
        return st.floats(width=kind.bit_width)
    if found.is_decimal(kind):
        most = 10 ** min(kind.precision, 20) - 1
        return st.integers(-most, most).map(lambda each: Decimal(each).scaleb(-kind.scale))
    if found.is_integer(kind):
        bits = kind.bit_width
        lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return st.integers(*((0, 2**bits - 1) if found.is_unsigned_integer(kind) else (lowest, highest)))
    if found.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if found.is_binary(kind):
        return st.binary(max_size=4)
    if found.is_interval(kind):
        return st.tuples(*[st.integers(-5, 5)] * 3).map(pa.MonthDayNano)
    if found.is_temporal(kind):
        return st.integers(0, 80_000)
    return st.text(max_size=4)


@st.composite
def arrays(draw: st.DrawFn, kind: pa.DataType | None = None, size: int | None = None) -> pa.Array:
    """Arrays of any type, sliced or not."""
    chosen = draw(kinds) if kind is None else kind
    count = draw(st.integers(0, 4)) if size is None else size
    values = draw(st.lists(values_of(chosen), min_size=count + 1, max_size=count + 1))
    return array_of_python(values, chosen).slice(1)


def array_of_python(values: list[Any], kind: pa.DataType) -> pa.Array:
    """An array of values; times are integers of their unit, also inside of other types."""
    if pa.types.is_date64(kind):
        return pa.array([None if each is None else each * 86_400_000 for each in values], pa.int64()).view(
            kind
        )
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(pa.array(values, kind.storage_type))
    if pa.types.is_float16(kind):
        return pa.array([None if each is None else np.float16(each) for each in values], kind)
    if pa.types.is_dictionary(kind):
        encoded = pa.array(values, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)
    if pa.types.is_struct(kind) and kind.num_fields:
        columns = [
            array_of_python([None if each is None else each[part.name] for each in values], part.type)
            for part in kind
        ]
        mask = pa.array([each is None for each in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind) and _has_special(kind):
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)


def _has_special(kind: pa.DataType) -> bool:
    """Whether Python values of a type cannot be given to pyarrow inside of another."""
    if pa.types.is_nested(kind):
        return any(_has_special(kind.field(place).type) for place in range(kind.num_fields))
    special = (pa.types.is_date64(kind), pa.types.is_float16(kind), pa.types.is_dictionary(kind))
    return isinstance(kind, pa.BaseExtensionType) or any(special)


LITERALS: Final = st.one_of(
    *(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.binary()),
    *(st.decimals(allow_nan=False, allow_infinity=False), st.dates(), st.uuids(), st.timedeltas()),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([UTC, ZoneInfo("Europe/Rome"), timezone(timedelta(hours=-3))])),
    st.sampled_from(
        [-0.0, float("nan"), "__order1", np.int16(7), np.float32(0.1), np.datetime64("2024-01-05")]
    ),
    st.lists(st.integers(0, 3) | st.floats() | st.none(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 3), max_size=2),
    arrays(size=1).map(lambda each: each[0]),
)


# Expressions, aggregates and functions of order over the columns of ``COLUMNS``.


def expressions(kind: str = "any") -> st.SearchStrategy[Expression]:
    """Expressions that can be compiled: ``number``, ``condition`` or any."""
    number = st.recursive(
        st.sampled_from([ps.col("n"), ps.col("__order1"), ps.lit(3), ps.lit(pa.scalar(2, pa.int16()))]),
        lambda inner: st.one_of(
            st.builds(lambda one, other: one + other, inner, inner),
            inner.map(lambda each: each.cast("long")),
            inner.map(lambda each: each.try_cast(pa.int64())),
            st.builds(lambda one, other: ps.when(one > 1, one).otherwise(other), inner, inner),
            st.builds(lambda one, other: ps.when(one > 1, one).when(one < 0, other), inner, inner),
        ),
        max_leaves=4,
    )
    condition = st.one_of(
        st.builds(lambda one, other: one > other, number, number),
        st.text(max_size=5).map(lambda each: ps.col("k") == each),
        st.text("ab%_", max_size=5).map(lambda each: ps.col("k").like(each)),
        st.sampled_from([ps.col("is_open"), ps.col("k").is_in("a", "b", None), ps.col("x") == -0.0]),
        st.decimals(0, 100, places=2).map(lambda each: ps.col("price") < each),
        st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)).map(
            lambda each: ps.col("at") >= each
        ),
        st.dates().map(lambda each: ps.col("day") == each),
    )
    known = {"number": number, "condition": condition | condition.map(lambda each: ~each)}
    return known.get(kind, number | condition)


AGGREGATES: Final = st.one_of(
    st.builds(Aggregate, st.just("count"), where=st.none() | expressions("condition")),
    st.builds(Aggregate, st.sampled_from(["sum", "min", "max", "mean"]), expressions("number")),
    st.builds(Aggregate, st.just("quantile"), st.just("x"), fraction=st.floats(0, 1)),
    st.builds(Aggregate, st.sampled_from(["max_by", "min_by"]), st.just("k"), st.just("n")),
    st.builds(Aggregate, st.just("first"), st.just("k"), st.just(("n desc", "__order1"))),
    st.builds(FunctionAggregate, st.just(doubled), st.just(pa.int64()), st.just(("n", "x"))),
    st.builds(Product, st.just("x"), st.floats(1, 2)),
)
FRAMES: Final = st.none() | st.builds(RowFrame, st.none() | st.integers(0, 3), st.integers(0, 3))
ORDER_FUNCTIONS: Final = st.one_of(
    st.builds(OrderFunction, st.sampled_from(["row_number", "rank", "dense_rank", "running_count"])),
    st.builds(OrderFunction, st.sampled_from(["lag", "lead"]), st.just("n"), st.integers(0, 4), st.none()),
    st.builds(
        OrderFunction, st.just("lag"), st.just("k"), st.just(1), st.text(max_size=3) | st.just("__order1")
    ),
    st.builds(OrderFunction, st.sampled_from(["running_sum", "running_max"]), st.just("n"), frame=FRAMES),
)


# Operators.


def scans() -> st.SearchStrategy[Scan]:
    """Inputs with the columns of ``COLUMNS``, read in every way."""
    names = [name for name in COLUMNS.names if name not in ("w", "is_open")]
    kept = st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)
    make: Callable[..., Scan] = Scan
    return st.builds(
        make,
        st.sampled_from(["orders", "customers"]),
        st.just(COLUMNS),
        kind=st.sampled_from(["append", "weights"]),
        marker=st.just("w"),
        trusted=st.booleans(),
        columns=kept,
        name=st.none() | st.text(max_size=3),
    ) | st.builds(
        make,
        st.just("accounts"),
        st.just(COLUMNS),
        st.just("upserts"),
        st.none() | st.just("is_open"),
        st.just(("k", "n")),
        st.none() | st.just("at"),
    )


TABLES: Final = st.sampled_from(["orders", "customers"]).map(lambda name: Scan(name, COLUMNS))
FUNCTIONS: Final = st.sampled_from([doubled, _adding(1), _adding(2), lambda batch: batch])
NAMES: Final = {"name": st.none() | st.text(max_size=4), "origin": st.none() | st.text(max_size=4)}
ORDERS: Final = st.lists(
    st.sampled_from(["n", "k desc", "__order1 desc nulls last", "x asc"]), min_size=1, unique=True
).map(tuple)
KEYS: Final = st.lists(st.sampled_from(["k", "n", "day", "__order1"]), unique=True).map(tuple)
ONE_KEY: Final = st.sampled_from(["k", "n", "day", "__order1"]).map(lambda key: ((key, key),))


@st.composite
def _batches(draw: st.DrawFn) -> pa.RecordBatch:
    kinds_of_columns = draw(st.lists(kinds, min_size=1, max_size=3))
    count = draw(st.integers(0, 3))
    columns = [draw(arrays(kind, count)) for kind in kinds_of_columns]
    return pa.RecordBatch.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])


@st.composite
def _loops(draw: st.DrawFn) -> Iterate:
    count = draw(st.integers(1, 3))
    variables = tuple(Variable(COLUMNS, name=f"v{n}") for n in range(count))
    start = draw(TABLES)
    starts = (start, *(draw(st.sampled_from([None, start])) for _ in range(count - 1)))
    read = st.sampled_from(variables)
    bodies = tuple(
        logical.Distinct(
            logical.Union((draw(TABLES), logical.Filter(draw(read), draw(expressions("condition")))))
        )
        for _ in range(count)
    )
    return Iterate(variables, starts, bodies, draw(st.none() | st.integers(1, 9)))


_ANY: Final[Mapping[str, Any]] = {
    "Scan": scans,
    "Values": lambda: st.builds(logical.Values, _batches(), **NAMES),
    "Variable": lambda: st.builds(lambda kind: Variable(pa.schema({"c": kind})), kinds),
    "Project": lambda: st.builds(
        lambda table, columns: logical.Project(table, tuple(zip("abc", columns, strict=False))),
        TABLES,
        st.lists(expressions(), min_size=1, max_size=3),
    ),
    "Filter": lambda: st.builds(logical.Filter, TABLES, expressions("condition"), **NAMES),
    "Explode": lambda: st.builds(
        logical.Explode, TABLES, st.just("tags"), st.none() | st.just("place of tag"), st.booleans()
    ),
    "MapBatches": lambda: st.builds(
        logical.MapBatches, TABLES, FUNCTIONS, st.just(COLUMNS), st.none() | st.just("2"), **NAMES
    ),
    "TimeWindow": lambda: st.builds(
        logical.TimeWindow,
        TABLES,
        st.just("at"),
        st.sampled_from(["10 minutes", timedelta(minutes=10), timedelta(days=1)]),
        st.none() | st.sampled_from(["1 minute", timedelta(seconds=1)]),
        st.none() | st.just("30 seconds"),
    ),
    "Join": lambda: st.one_of(
        st.builds(
            logical.Join,
            TABLES,
            TABLES,
            st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
            ONE_KEY,
            st.none() | expressions("condition"),
            st.sampled_from(["_right", "_2"]),
        ),
        st.builds(logical.Join, TABLES, TABLES, st.just("cross"), condition=expressions("condition")),
    ),
    "AsOfJoin": lambda: st.builds(
        logical.AsOfJoin,
        TABLES,
        TABLES,
        ONE_KEY,
        st.just(("at", "at")),
        st.sampled_from(["backward", "forward", "nearest"]),
        st.sampled_from(["inner", "left"]),
        st.none() | st.sampled_from(["10 minutes", timedelta(seconds=3), 5, 2.5]),
    ),
    "Union": lambda: st.builds(logical.Union, st.lists(TABLES, min_size=1, max_size=3).map(tuple)),
    "Except": lambda: st.builds(logical.Except, TABLES, TABLES, st.booleans()),
    "Intersect": lambda: st.builds(logical.Intersect, TABLES, TABLES, st.booleans()),
    "Aggregate": lambda: st.builds(
        lambda table, keys, found: logical.Aggregate(table, keys, tuple(zip("abc", found, strict=False))),
        TABLES,
        KEYS,
        st.lists(AGGREGATES, min_size=1, max_size=3),
    ),
    "Distinct": lambda: st.builds(logical.Distinct, TABLES, **NAMES),
    "TopK": lambda: st.builds(
        logical.TopK, TABLES, st.integers(1, 9), KEYS, ORDERS, st.booleans(), st.none() | st.just("rank")
    ),
    "WindowFunctions": lambda: st.builds(
        lambda table, keys, by, found: logical.WindowFunctions(
            table, keys, by, tuple(zip("abc", found, strict=False))
        ),
        TABLES,
        KEYS,
        ORDERS,
        st.lists(ORDER_FUNCTIONS, min_size=1, max_size=3),
    ),
    "Iterate": _loops,
    "Recursive": lambda: _loops().flatmap(
        lambda loop: st.builds(Recursive, st.just(loop), st.integers(0, len(loop.variables) - 1))
    ),
}
STREAM: Final = streams.Input("clicks", COLUMNS)
LOOP: Final = streams.LoopScope(STREAM, 5)
CHANGES: Final = streams.Input("changes", pa.schema([*COLUMNS, DIFF_FIELD]))
WHEN: Final = st.sampled_from([ps.col("at"), ps.col("at").cast("timestamp")])
SPANS: Final = st.sampled_from(["10 minutes", timedelta(minutes=3)])
FEW: Final = st.lists(st.builds(Aggregate, st.just("sum"), st.just("n")), min_size=1, max_size=2).map(
    lambda found: tuple(zip("abc", found, strict=False))
)


def _per_epoch(keys: tuple[str, ...]) -> LogicalOperator:
    variables = (Variable(COLUMNS), Variable(COLUMNS))
    body = logical.Aggregate(logical.Union(variables), keys, (("total", Aggregate("sum", "n")),))
    return streams.PerEpoch((STREAM, CHANGES), variables, body)


def _of(kind: Any, *given: Any, **named: Any) -> Callable[[], st.SearchStrategy[Any]]:  # noqa: ANN401
    """Instances of a class; what is not a strategy is always the same."""

    def strategy(value: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401
        return value if isinstance(value, st.SearchStrategy) else st.just(value)

    return lambda: st.builds(
        kind, *map(strategy, given), **{name: strategy(each) for name, each in named.items()}
    )


_OF_STREAMS: Final[Mapping[str, Any]] = {
    "Input": _of(
        streams.Input,
        st.sampled_from(["clicks", "views"]),
        COLUMNS,
        st.none() | st.just(ps.by_event_time("at", every="1 minute", lateness="5 minutes")),
        st.sampled_from([None, "drop", "error"]),
    ),
    "Output": _of(streams.Output, TABLES, st.text(max_size=3)),
    "Port": _of(streams.Port, TABLES, st.integers(0, 3), COLUMNS),
    "Custom": _of(
        streams.Custom,
        (STREAM, CHANGES),
        ("one", "other"),
        FUNCTIONS,
        st.sampled_from([None, "n long", COLUMNS]),
    ),
    "Exchange": _of(streams.Exchange, STREAM, KEYS, st.none() | FUNCTIONS),
    "MapRows": _of(streams.MapRows, STREAM, FUNCTIONS, COLUMNS, st.booleans(), st.none() | st.just("1")),
    "FilterBatches": _of(streams.FilterBatches, STREAM, FUNCTIONS),
    "Split": _of(streams.Split, STREAM, FUNCTIONS),
    "Inspect": _of(streams.Inspect, STREAM, FUNCTIONS),
    "Lowered": _of(streams.Lowered, COLUMNS),
    "Delay": _of(streams.Delay, STREAM, st.integers(1, 3)),
    "PerEpoch": lambda: st.sampled_from([("k",), ("k", "n")]).map(_per_epoch),
    "StreamAggregate": _of(streams.StreamAggregate, STREAM, KEYS, FEW, st.booleans()),
    "Rolling": _of(streams.Rolling, STREAM, ("k",), st.integers(1, 5), ("n",), FEW),
    "Lookup": _of(streams.Lookup, STREAM, TABLES, ONE_KEY, st.sampled_from(["inner", "left"])),
    "ToTable": _of(
        streams.ToTable, STREAM, st.sampled_from(["append", "weights"]), st.just("w"), trusted=st.booleans()
    ),
    "FromChanges": _of(streams.FromChanges, CHANGES),
    "UpsertsOf": _of(streams.UpsertsOf, TABLES, ("k",), st.sampled_from(["deleted", "gone"])),
    "Watermark": _of(streams.Watermark, STREAM, "at", SPANS, st.sampled_from(["output", "drop"])),
    "TemporalFilter": _of(streams.TemporalFilter, TABLES, WHEN),
    "EmitOnClose": _of(streams.EmitOnClose, TABLES, WHEN),
    "DelayUntil": _of(streams.DelayUntil, STREAM, WHEN, st.sampled_from([(), (STREAM,)])),
    "SessionWindow": _of(streams.SessionWindow, STREAM, KEYS, "at", SPANS),
    "IntervalJoin": _of(streams.IntervalJoin, STREAM, CHANGES, ONE_KEY, ("at", "at"), SPANS),
    "LoopScope": _of(streams.LoopScope, STREAM, st.integers(1, 4)),
    "EnterLoop": _of(streams.EnterLoop, STREAM, LOOP),
    "LoopVariable": _of(streams.LoopVariable, LOOP, COLUMNS, st.none() | TABLES),
    "FlowVariable": _of(streams.FlowVariable, COLUMNS, Summary(root=Advance(1))),
    "Feedback": _of(streams.Feedback, streams.LoopVariable(LOOP, COLUMNS), TABLES, LOOP),
    "LeaveLoop": _of(streams.LeaveLoop, streams.EnterLoop(STREAM, LOOP), LOOP),
    "DistinctOn": _of(logical.DistinctOn, TABLES, KEYS, ORDERS),
    **{
        kind.__name__: _of(kind, TABLES)
        for kind in (
            streams.Broadcast,
            streams.Probed,
            streams.Consolidate,
            streams.TableChanges,
            streams.AppendedRows,
        )
    },
}
STRATEGIES: Final[Mapping[str, Callable[[], st.SearchStrategy[Any]]]] = {**_ANY, **_OF_STREAMS}


def kinds_of_operators() -> list[type[LogicalOperator]]:
    """Every class of operators that the package defines, in whichever module."""
    for module in pkgutil.iter_modules(pointstamp.plan.__path__, "pointstamp.plan."):
        importlib.import_module(module.name)
    found: dict[str, type[LogicalOperator]] = {}
    waiting: list[type[LogicalOperator]] = [LogicalOperator]
    while waiting:
        for each in waiting.pop().__subclasses__():
            waiting.append(each)
            if each.__module__.startswith("pointstamp") and not each.__name__.startswith("_"):
                found[each.__name__] = each
    return list(found.values())


def operators(kind: type[LogicalOperator]) -> st.SearchStrategy[LogicalOperator]:
    """Instances of one class of operators."""
    if kind.__name__ in STRATEGIES:
        return STRATEGIES[kind.__name__]()
    return _of_annotations(kind)


@st.composite
def _of_annotations(draw: st.DrawFn, kind: type[LogicalOperator]) -> LogicalOperator:
    hints = get_type_hints(kind)
    wanted = {each.name: _of_hint(hints[each.name]) for each in fields(kind) if each.init}
    for _ in range(20):
        try:
            return kind(**{name: draw(each) for name, each in wanted.items()})
        except (FlowError, AssertionError):
            continue
    raise AssertionError(f"give {kind.__name__} a strategy in tests/support/operator_instances.py")


def _of_hint(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(inside)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(_of_hint, inside))
    if origin is tuple and inside[-1] is ...:
        return st.lists(_of_hint(inside[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(_of_hint, inside))
    if isinstance(hint, type) and issubclass(hint, LogicalOperator):
        return TABLES if hint is LogicalOperator else operators(hint)
    if isinstance(hint, type) and issubclass(hint, Expression):
        return expressions()
    known: Mapping[Any, st.SearchStrategy[Any]] = {
        str: st.sampled_from([*COLUMNS.names, "new", "10 minutes"]),
        int: st.integers(1, 9),
        float: st.floats(0, 1),
        bool: st.booleans(),
        type(None): st.none(),
        timedelta: st.just(timedelta(minutes=1)),
        pa.Schema: st.just(COLUMNS),
        pa.DataType: kinds,
        pa.RecordBatch: _batches(),
    }
    return known.get(hint, FUNCTIONS)


# Changes.


def changed(value: Any, name: str, new: Any) -> Any:  # noqa: ANN401
    """A frozen dataclass with another value in one field, which nothing checks."""
    made = object.__new__(type(value))
    for each in fields(value):
        object.__setattr__(made, each.name, new if each.name == name else getattr(value, each.name))
    if isinstance(value, LogicalOperator):
        made.__dict__["schema"] = value.schema
    return made


def changes_of(value: Any) -> Iterator[Any]:  # noqa: ANN401
    """Values that differ from one in one place."""
    if isinstance(value, LogicalOperator):
        yield logical.Filter(value, ps.lit(True)) if value.schema.names else Scan("another", COLUMNS)
    elif isinstance(value, tuple) and not value:
        yield ("given",)
    elif isinstance(value, tuple):
        yield from (value[:place] + value[place + 1 :] for place in range(len(value)))
        for place in range(len(value) - 1):
            one, other = value[place : place + 2]
            if not _is_like(one, other):
                yield (*value[:place], other, one, *value[place + 2 :])
        for place, each in enumerate(value):
            yield from ((*value[:place], new, *value[place + 1 :]) for new in changes_of(each))
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from (changed(value, each.name, new) for new in changes_of(getattr(value, each.name)))
    else:
        yield from _plain_changes(value)


def _is_like(one: Any, other: Any) -> bool:  # noqa: ANN401
    return isinstance(one, LogicalOperator | Expression | tuple) or repr(one) == repr(other)


def _plain_changes(value: Any) -> Iterator[Any]:  # noqa: ANN401
    match value:
        case None:
            yield "given"
        case bool():
            yield not value
        case int():
            yield value + 1
        case timedelta() | datetime():
            yield value + timedelta(microseconds=1)
        case date():
            yield date(1999, 1, 2) if value != date(1999, 1, 2) else date(1999, 1, 3)
        case str():
            yield value + "'"
        case float():
            yield 0.5 if value != 0.5 else -0.0
            if value == 0:
                yield -value
        case Decimal():
            yield value + 1
            yield Decimal(f"{value}0") if "E" not in f"{value}" and "." in f"{value}" else value + 2
        case pa.Schema():
            yield value.append(pa.field("one more", pa.int8()))
            yield pa.schema([each.with_nullable(not each.nullable) for each in value])
            yield value.with_metadata({"changed": "yes"})
        case pa.RecordBatch():
            yield value.append_column("one more", pa.nulls(value.num_rows, pa.int8()))
            yield value.slice(1) if value.num_rows else value.append_column("more", pa.nulls(0, pa.int8()))
        case pa.DataType():
            yield pa.list_(value)
        case pa.Scalar():
            yield pa.scalar(value.as_py(), pa.int32())
        case dict():
            yield {**value, "one more": 1}
        case Product():
            yield Product(value.column, value.start + 1)
        case types.FunctionType():
            yield _adding(77)
        case _:
            raise AssertionError(f"there is no change of {value!r}")
