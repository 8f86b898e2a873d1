"""Reductions by key.

- *oracle*: random rows of random epochs in random order against lists of rows that are summed up from scratch
  in plain Python. It finds a row that is lost, counted twice or counted at the wrong time.
- *exact*: sums at the edge of their type. It finds what wraps or is rounded.
- *types*: results of each aggregate for each type of column. It finds a value that comes back as another.
- *own*: aggregates that a user writes. It finds what the protocol promises and does not keep.
- *misuse*: what cannot be reduced. It finds an error that does not say what is wrong.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import FlowError, SchemaError
from pointstamp.operators.context import Context
from pointstamp.reduce import constructors, reductions
from pointstamp.reduce.aggregate import Aggregate, Aggregation
from pointstamp.reduce.constructors import count, mean
from pointstamp.reduce.reductions import RunningReduce, WindowedReduce, reduced_schema
from pointstamp.topology.domain import Time

Reduce = WindowedReduce | RunningReduce
Results = dict[tuple[Any, ...], tuple[Any, ...]]


class FakeContext:
    """Records what an operator sends and asks for."""

    operator = "totals"

    def __init__(self) -> None:
        self.time: Time = ()
        self.asked: list[Time] = []
        self.sent: list[tuple[Time, pa.RecordBatch]] = []

    def notify_at(self) -> None:
        self.asked.append(self.time)

    def send(self, batch: pa.RecordBatch) -> None:
        batch.validate(full=True)
        self.sent.append((self.time, batch))


class Driver:
    """Feeds an operator as a worker would."""

    def __init__(self, operator: Reduce) -> None:
        self.operator = operator
        self.context = FakeContext()

    def receive(self, when: Time, batch: pa.RecordBatch) -> None:
        self.context.time = when
        self.operator.on_receive(cast("Context", self.context), "in", batch)

    def complete(self, when: Time) -> Results:
        """Notify the operator, and return what it sends: for each key its aggregates."""
        assert self.context.asked.count(when) == 1
        self.context.time = when
        before = len(self.context.sent)
        self.operator.on_notify(cast("Context", self.context))
        results: Results = {}
        for at, batch in self.context.sent[before:]:
            assert at == when
            keys = len(KEYS)
            for row in batch.to_pylist():
                values = [plain(value) for value in row.values()]
                assert tuple(values[:keys]) not in results, "a key was sent twice"
                results[tuple(values[:keys])] = tuple(values[keys:])
        return results


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever Arrow gives
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


KEYS = ["id", "name"]
SCHEMA = pa.schema(
    {
        "unused": pa.bool_(),
        "id": pa.int64(),
        "n": pa.int32(),
        "name": pa.string(),
        "x": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(9, 2),
    }
)
AGGREGATES: dict[str, Aggregation] = {
    "rows": count(),
    "values": count("s"),
    "total": constructors.sum("n"),
    "volume": constructors.sum("x"),
    "money": constructors.sum("d"),
    "least": constructors.min("n"),
    "greatest": constructors.max("x"),
    "first": constructors.min("s"),
    "last": constructors.max("d"),
    "typical": mean("n"),
}


def expected(rows: Sequence[Mapping[str, Any]]) -> Results:
    """The aggregates of each key, from scratch."""
    by_key: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(tuple(row[key] for key in KEYS), []).append(row)

    def over(column: str, function: Callable[[list[Any]], Any], of: list[Mapping[str, Any]]) -> Any:  # noqa: ANN401
        values = [row[column] for row in of if row[column] is not None]
        return function(values) if values else None

    return {
        key: (
            len(of),
            len([row for row in of if row["s"] is not None]),
            over("n", sum, of),
            over("x", sum, of),
            over("d", sum, of),
            over("n", min, of),
            over("x", max, of),
            over("s", min, of),
            over("d", max, of),
            over("n", lambda values: sum(values) / len(values), of),
        )
        for key, of in by_key.items()
    }


rows_of_keys = st.fixed_dictionaries(
    {
        "unused": st.none(),
        "id": st.none() | st.integers(0, 3),
        "name": st.none() | st.sampled_from(["", "a", "b"]),
        "n": st.none() | st.integers(-(2**31), 2**31 - 1),
        "x": st.none() | st.integers(-8, 8).map(lambda quarters: quarters / 4),  # sums of these are exact
        "s": st.none() | st.text("ab\u00e9\U0001f600", max_size=3),
        "d": st.none() | st.integers(-999_999_999, 999_999_999).map(lambda cents: Decimal(cents).scaleb(-2)),
    }
)
Arrivals = list[tuple[int, list[dict[str, Any]]]]
arrivals = st.lists(st.tuples(st.integers(0, 3), st.lists(rows_of_keys, min_size=1, max_size=8)), max_size=8)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def run(operator: Reduce, batches: Arrivals, eager: st.DataObject) -> dict[int, Results]:
    """Deliver the batches in this order; an epoch completes when it and all before have come, or later."""
    driver = Driver(operator)
    results: dict[int, Results] = {}
    missing = Counter(epoch for epoch, _ in batches)
    waiting = sorted(missing)
    for epoch, rows in batches:
        driver.receive((epoch,), batch_of(rows))
        missing[epoch] -= 1
        while waiting and not missing[waiting[0]] and eager.draw(st.booleans()):
            epoch_complete = waiting.pop(0)
            results[epoch_complete] = driver.complete((epoch_complete,))
    for epoch in waiting:
        results[epoch] = driver.complete((epoch,))
    return results


waiting_limits = pytest.mark.parametrize("waiting_rows_max", [0, 5, 8_192], ids="waiting_{}".format)


# oracle


@waiting_limits
@given(batches=arrivals, data=st.data())
def test_oracle_a_window_has_the_rows_of_its_time_and_no_others(
    waiting_rows_max: int, batches: Arrivals, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reductions, "_WAITING_ROWS_MAX", waiting_rows_max)
        operator = WindowedReduce(SCHEMA, KEYS, AGGREGATES)
        results = run(operator, batches, data)
    for epoch, result in results.items():
        assert result == expected([row for at, rows in batches if at == epoch for row in rows])
    assert not operator._open


@waiting_limits
@given(batches=arrivals, data=st.data())
def test_oracle_a_running_value_has_the_rows_of_all_times_up_to_its_own(
    waiting_rows_max: int, batches: Arrivals, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reductions, "_WAITING_ROWS_MAX", waiting_rows_max)
        results = run(RunningReduce(SCHEMA, KEYS, AGGREGATES), batches, data)
    before: Results = {}
    for epoch, result in sorted(results.items()):
        now = expected([row for at, rows in batches if at <= epoch for row in rows])
        # Rows are counted, so every key with rows at this epoch has changed, and no other.
        assert result == {key: values for key, values in now.items() if before.get(key) != values}
        before = now


@given(batches=arrivals, data=st.data())
def test_oracle_a_running_value_is_sent_again_only_if_it_changed(
    batches: Arrivals, data: st.DataObject
) -> None:
    wanted = {"least": AGGREGATES["least"], "first": AGGREGATES["first"], "greatest": AGGREGATES["greatest"]}
    columns = [list(AGGREGATES).index(name) for name in wanted]
    results = run(RunningReduce(SCHEMA, KEYS, wanted), batches, data)
    before: Results = {}
    for epoch, result in sorted(results.items()):
        everything = expected([row for at, rows in batches if at <= epoch for row in rows])
        now = {key: tuple(values[column] for column in columns) for key, values in everything.items()}
        assert result == {
            key: values for key, values in now.items() if key not in before or before[key] != values
        }
        before = now


def test_oracle_times_of_a_loop_are_folded_in_the_order_of_notifications() -> None:
    driver = Driver(RunningReduce(SCHEMA, KEYS, {"rows": count()}))
    row = {"unused": None, "id": 1, "name": "a", "n": 1, "x": None, "s": None, "d": None}
    for when in ((1, 0), (0, 5), (0, 0)):  # (0, 5) and (1, 0) are not ordered
        driver.receive(when, batch_of([row]))
    assert [driver.complete(when) for when in ((0, 0), (1, 0), (0, 5))] == [
        {(1, "a"): (1,)},
        {(1, "a"): (2,)},
        {(1, "a"): (3,)},
    ]


def test_oracle_many_rows_are_kept_as_one_state_per_key() -> None:
    operator = WindowedReduce(SCHEMA, KEYS, {"total": constructors.sum("n"), "rows": count()})
    driver = Driver(operator)
    for _ in range(50):
        columns = [pa.nulls(1_000, kind) for kind in SCHEMA.types]
        columns[1], columns[2] = pa.array(np.arange(1_000) % 10), pa.array(np.ones(1_000, np.int32))
        driver.receive((0,), pa.record_batch(columns, schema=SCHEMA))
        held = operator._open[(0,)]
        assert sum(batch.num_rows for batch in held._waiting) <= 8_192
        assert held.groups is None or len(held.groups) == 10
    assert driver.complete((0,)) == {(key, None): (5_000, 5_000) for key in range(10)}


def test_oracle_without_aggregates_the_distinct_keys_are_sent_once() -> None:
    row = {"unused": None, "id": 1, "name": "a", "n": 1, "x": None, "s": None, "d": None}
    driver = Driver(RunningReduce(SCHEMA, KEYS, {}))
    driver.receive((0,), batch_of([row, row, {**row, "id": 2}]))
    driver.receive((1,), batch_of([row, {**row, "id": 3}]))
    assert driver.complete((0,)) == {(1, "a"): (), (2, "a"): ()}
    assert driver.complete((1,)) == {(3, "a"): ()}


# exact


def reduce_column(kind: pa.DataType, batches: Sequence[Sequence[Any]], wanted: Aggregation) -> Any:  # noqa: ANN401
    """The aggregate of one key over several batches, each folded by itself."""
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "v": kind})
    driver = Driver(WindowedReduce(schema, KEYS, {"total": wanted}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reductions, "_WAITING_ROWS_MAX", 0)
        for values in batches:
            ids, names = pa.array([7] * len(values), pa.int64()), pa.array(["k"] * len(values))
            driver.receive((0,), pa.record_batch([ids, names, pa.array(values, kind)], schema=schema))
        results = driver.complete((0,))
    (type_of_result,) = reduced_schema("", schema, [], {"total": wanted}).types
    assert driver.context.sent[-1][1].schema.field("total").type == type_of_result
    return results[(7, "k")][0]


extreme_ints = st.sampled_from([2**63 - 1, -(2**63), 2**62, 2**61, -(2**61), 2**32, -1, 0, 1])
some_batches = st.lists(st.lists(extreme_ints, min_size=1, max_size=6), min_size=1, max_size=5)


@given(some_batches)
def test_exact_integer_sums_are_right_or_refused_in_any_order(batches: list[list[int]]) -> None:
    total = sum(value for values in batches for value in values)
    if -(2**63) <= total < 2**63:
        assert reduce_column(pa.int64(), batches, constructors.sum("v")) == total
    else:
        with pytest.raises(FlowError, match=r"operator 'totals': the sum 'total' of the column 'v'.*id = 7"):
            reduce_column(pa.int64(), batches, constructors.sum("v"))


@given(
    st.lists(st.lists(st.sampled_from([2**64 - 1, 2**63, 5]), min_size=1, max_size=4), min_size=1, max_size=3)
)
def test_exact_unsigned_sums_are_right_or_refused(batches: list[list[int]]) -> None:
    total = sum(value for values in batches for value in values)
    if total < 2**63:
        assert reduce_column(pa.uint64(), batches, constructors.sum("v")) == total
    else:
        with pytest.raises(FlowError, match="does not fit int64"):
            reduce_column(pa.uint64(), batches, constructors.sum("v"))


@pytest.mark.parametrize("digits", [9, 38, 50, 76])
@given(data=st.data())
def test_exact_decimal_sums_are_right_or_refused(digits: int, data: st.DataObject) -> None:
    most = 10**digits - 1
    unscaled = st.sampled_from([most, -most, most // 2, 2**64, -(2**64), 2**63, 1, -1]).filter(
        lambda value: abs(value) <= most
    )
    batches = data.draw(st.lists(st.lists(unscaled, min_size=1, max_size=5), min_size=1, max_size=4))
    kind = pa.decimal128(digits, 2) if digits <= 38 else pa.decimal256(digits, 2)
    total = sum(value for values in batches for value in values)
    with localcontext(prec=100):
        values = [[Decimal(value).scaleb(-2) for value in batch] for batch in batches]
        if abs(total) < 10 ** min(digits + 10, 38 if digits <= 38 else 76):
            assert reduce_column(kind, values, constructors.sum("v")) == Decimal(total).scaleb(-2)
        else:
            with pytest.raises(FlowError, match="does not fit decimal"):
                reduce_column(kind, values, constructors.sum("v"))


def test_exact_a_sum_that_would_wrap_around_to_zero_is_refused() -> None:
    with pytest.raises(FlowError, match="does not fit int64"):
        reduce_column(pa.int64(), [[2**61]] * 8, constructors.sum("v"))
    assert reduce_column(pa.int64(), [[2**61]] * 8 + [[-(2**61)]] * 7, constructors.sum("v")) == 2**61
    kind, values = pa.decimal128(38, 0), [[Decimal(2**61)]] * 8
    assert reduce_column(kind, values, constructors.sum("v")) == 2**64


def test_exact_a_running_sum_is_refused_at_the_time_at_which_it_grows_too_large() -> None:
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "v": pa.int64()})
    driver = Driver(RunningReduce(schema, KEYS, {"rows": count(), "total": constructors.sum("v")}))
    for epoch in range(2):
        columns = {"id": [1, 2], "name": ["a", None], "v": pa.array([None, 2**62])}
        driver.receive((epoch,), pa.record_batch(columns, schema=schema))
    assert driver.complete((0,)) == {(1, "a"): (1, None), (2, None): (1, 2**62)}
    with pytest.raises(FlowError, match="at the key id = 2, name = None"):
        driver.complete((1,))


# types

MOMENTS = [datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(1969, 7, 20, tzinfo=UTC)]
# Older versions of pyarrow have no narrow decimals.
NARROW = [getattr(pa, name)(7, 2) for name in ("decimal32", "decimal64") if hasattr(pa, name)]
DECIMALS = [pa.decimal128(20, 2), pa.decimal256(50, 2), *NARROW]
ORDERED: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [5, 0, 100]) for kind in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.uint32())),
    (pa.int64(), [2**63 - 1, -(2**63), 0]),
    (pa.uint64(), [2**64 - 1, 0]),
    *((kind, [1.5, -2.0, math.inf]) for kind in (pa.float16(), pa.float32(), pa.float64())),
    (pa.bool_(), [True, False]),
    *((kind, [date(2024, 2, 29), date(1969, 12, 31)]) for kind in (pa.date32(), pa.date64())),
    *((kind, [time(1), time(23, 59, 59), time(0)]) for kind in (pa.time32("s"), pa.time64("us"))),
    (pa.timestamp("us", "UTC"), MOMENTS),
    (pa.duration("ms"), [timedelta(1), timedelta(-1)]),
    *((kind, ["b", "", "é", "z", "😀"]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, [b"b", b"", b"\xff"]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(2), [b"ab", b"aa"]),
    *((kind, [Decimal("1.50"), Decimal("-10.00")]) for kind in DECIMALS),
]


@pytest.mark.parametrize(("kind", "values"), ORDERED, ids=[str(kind) for kind, _ in ORDERED])
def test_types_least_and_greatest_are_values_of_the_column(kind: pa.DataType, values: list[Any]) -> None:
    for batches in ([[None, *values]], [[value] for value in values], [[None]]):
        present = [value for batch in batches for value in batch if value is not None]
        assert reduce_column(kind, batches, constructors.min("v")) == (min(present) if present else None)
        assert reduce_column(kind, batches, constructors.max("v")) == (max(present) if present else None)
        assert reduce_column(kind, batches, count("v")) == len(present)


def test_types_nan_is_greater_than_every_number_and_counts_in_sums() -> None:
    for batches in ([[math.nan, 1.0]], [[1.0], [math.nan]], [[math.nan], [1.0]]):
        assert reduce_column(pa.float64(), batches, constructors.min("v")) == 1.0
        assert reduce_column(pa.float64(), batches, constructors.max("v")) == "NaN"
        assert reduce_column(pa.float64(), batches, constructors.sum("v")) == "NaN"
        assert reduce_column(pa.float64(), batches, mean("v")) == "NaN"
    assert reduce_column(pa.float64(), [[math.nan]], constructors.min("v")) == "NaN"
    assert reduce_column(pa.float64(), [[math.inf], [-math.inf]], constructors.sum("v")) == "NaN"


def test_types_encoded_columns_are_aggregated_by_value() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    assert reduce_column(kind, [["b", None], ["a"]], constructors.min("v")) == "a"


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int64(), pa.float16(), pa.float32(), *DECIMALS], ids=str)
def test_types_numbers_of_every_kind_have_a_sum_and_a_mean(kind: pa.DataType) -> None:
    assert reduce_column(kind, [[1, None], [2]], constructors.sum("v")) == 3
    assert reduce_column(kind, [[1, None], [2]], mean("v")) == 1.5
    for nothing in ([[None]], [[None], [None]]):
        assert reduce_column(kind, nothing, constructors.sum("v")) is None
        assert reduce_column(kind, nothing, mean("v")) is None


# own


class Distinct:
    """The set of distinct values; Python runs once for each key of a batch."""

    def __init__(self, column: str) -> None:
        self.column = column

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        return pa.list_(column_type)

    def empty(self) -> Mapping[str, Any]:
        return {"seen": frozenset()}

    def update(self, state: dict[str, Any], slots: Any, values: pa.Array) -> None:  # noqa: ANN401
        by_slot = (
            pa.table({"slot": slots, "value": values}).group_by("slot").aggregate([("value", "distinct")])
        )
        for slot, found in zip(*(column.to_pylist() for column in by_slot.columns), strict=True):
            state["seen"][slot] = state["seen"][slot].union(found)

    def merge(self, state: dict[str, Any], slots: Any, other: dict[str, Any]) -> None:  # noqa: ANN401
        state["seen"][slots] |= other["seen"]

    def result(self, state: dict[str, Any]) -> Any:  # noqa: ANN401
        return [sorted(seen) for seen in state["seen"]]


@waiting_limits
@given(batches=arrivals, data=st.data())
def test_own_aggregates_are_folded_and_sent_like_the_others(
    waiting_rows_max: int, batches: Arrivals, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reductions, "_WAITING_ROWS_MAX", waiting_rows_max)
        results = run(RunningReduce(SCHEMA, KEYS, {"texts": Distinct("s")}), batches, data)
    sent: Results = {}
    for epoch, result in sorted(results.items()):
        seen: dict[tuple[Any, ...], set[str]] = {}
        for row in (row for at, rows in batches if at <= epoch for row in rows):
            values = seen.setdefault((row["id"], row["name"]), set())
            values.update([] if row["s"] is None else [row["s"]])
        now = {key: (sorted(values) or None,) for key, values in seen.items()}
        assert result == {key: value for key, value in now.items() if key not in sent or sent[key] != value}
        sent = now


class Broken(Distinct):
    """An aggregate that does not keep what it promises."""

    def __init__(self, made: Any) -> None:  # noqa: ANN401
        super().__init__("v")
        self.made = made

    def result(self, state: dict[str, Any]) -> Any:  # noqa: ANN401
        return self.made


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        ([], "operator 'totals': 'total' must return one result for each of 1 keys, got 0"),
        (["word"], "operator 'totals': 'total' must return list<item: int64>, got another type"),
    ],
)
def test_own_results_that_do_not_fit_are_refused(made: Any, complaint: str) -> None:  # noqa: ANN401
    with pytest.raises(SchemaError, match=complaint):
        reduce_column(pa.int64(), [[1]], Broken(made))


# misuse


def test_misuse_a_reduced_schema_has_the_keys_and_then_the_aggregates() -> None:
    assert str(reduced_schema("'reduce'", SCHEMA, KEYS, AGGREGATES)).split("\n") == [
        "id: int64",
        "name: string",
        "rows: int64",
        "values: int64",
        "total: int64",
        "volume: double",
        "money: decimal128(19, 2)",
        "least: int32",
        "greatest: double",
        "first: string",
        "last: decimal128(9, 2)",
        "typical: double",
    ]


class OnlyIntegers(Distinct):
    """An aggregate that refuses a type in its own words."""

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        raise TypeError("only integers have bits")


@pytest.mark.parametrize(
    ("keys", "aggregates", "complaint"),
    [
        (
            ["id"],
            {"total": constructors.sum("amount")},
            "'reduce': 'total' needs the column 'amount', got",
        ),
        (["who"], {}, "'reduce' needs the key column 'who', got 'unused' bool, 'id' int64"),
        (
            ["id"],
            {"total": constructors.sum("s")},
            r"'total' is sum\(s\), but sum is not defined for s, which is string",
        ),
        (["id"], {"total": mean("s")}, r"'total' is mean\(s\), but mean is not defined for s"),
        (["id"], {"id": count()}, "'reduce': the column 'id' already exists"),
        (
            ["id"],
            {"bits": OnlyIntegers("s")},
            "'bits' cannot aggregate s of type string: only integers have bits",
        ),
    ],
)
def test_misuse_what_cannot_be_reduced_is_named(
    keys: list[str], aggregates: dict[str, Aggregation], complaint: str
) -> None:
    with pytest.raises(SchemaError, match=complaint):
        reduced_schema("'reduce'", SCHEMA, keys, aggregates)


@pytest.mark.parametrize(
    "kind",
    [pa.null(), pa.list_(pa.int64()), pa.month_day_nano_interval(), pa.struct({"a": pa.int64()})],
    ids=str,
)
def test_misuse_types_without_an_order_have_no_least_value(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="min is not defined for v"):
        reduced_schema("'reduce'", pa.schema({"v": kind}), [], {"least": constructors.min("v")})


def test_misuse_an_unknown_aggregate_or_one_without_its_column_is_refused() -> None:
    with pytest.raises(FlowError, match=r"unknown aggregate 'mode'\. Choose one of count, sum"):
        Aggregate("mode")  # type: ignore[arg-type]
    with pytest.raises(FlowError, match="'sum' needs a column"):
        Aggregate("sum")
