"""Reductions that resume from what was saved.

- *journey*: random rows on random numbers of workers, saved whole or by changes at random epochs and taken up
  by other workers, against one worker that was never interrupted. It finds state that is lost, doubled or
  altered on the way, for every aggregate and every kind of state column.
- *exact*: the state itself, before and after, whole and by changes. Results would hide what is off in it.
- *changes*: how many rows a save has. It finds a change that is saved again and again, or never.
- *refusal*: state that could not come back as it was, and what is said about it.
"""

import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrow.hash_table import Slots
from pointstamp.dataflow import Dataflow
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.flow.plan import Plan
from pointstamp.operators.context import Context
from pointstamp.reduce.accumulators import State
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.reduce.reductions import RunningReduce, WindowedReduce
from pointstamp.state.pieces import Piece, merged
from support.journeys import Journey, written


class Own:
    """An aggregate over ``s`` whose state is whatever a test puts there."""

    column = "s"

    def __init__(self, first: Any) -> None:  # noqa: ANN401
        self._first = first

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        return pa.string()

    def empty(self) -> Mapping[str, Any]:
        return {"has_value": 0, "kept": self._first}

    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        for slot, value in zip(slots.tolist(), values.to_pylist(), strict=True):
            state["kept"][slot] = self.changed(state["kept"][slot], value)

    def merge(self, state: State, slots: Slots, other: State) -> None:
        for slot, value in zip(slots.tolist(), other["kept"], strict=True):
            state["kept"][slot] = self.joined(state["kept"][slot], value)

    def result(self, state: State) -> list[str]:
        return [self.shown(value) for value in state["kept"]]

    def changed(self, kept: Any, value: str) -> Any:  # noqa: ANN401
        raise NotImplementedError

    def joined(self, kept: Any, other: Any) -> Any:  # noqa: ANN401
        return kept + other

    def shown(self, kept: Any) -> str:  # noqa: ANN401
        return repr(kept)


class Longest(Own):
    """Plain objects without a declared type: nested dictionaries and lists."""

    def __init__(self) -> None:
        super().__init__({"longest": [""], "nan": math.nan})

    def changed(self, kept: Any, value: str) -> Any:  # noqa: ANN401
        return self.joined(kept, {"longest": [value]})

    def joined(self, kept: Any, other: Any) -> Any:  # noqa: ANN401
        longest = max(kept["longest"][0], other["longest"][0], key=lambda text: (len(text), text))
        return {"longest": [longest], "nan": math.nan}

    def shown(self, kept: Any) -> str:  # noqa: ANN401
        return str(kept["longest"][0])


class Distinct(Own):
    """Objects whose type must be declared to come back as sets."""

    def __init__(self) -> None:
        super().__init__(frozenset())

    def changed(self, kept: Any, value: str) -> Any:  # noqa: ANN401
        return kept | {value}

    def joined(self, kept: Any, other: Any) -> Any:  # noqa: ANN401
        return kept | other

    def shown(self, kept: Any) -> str:  # noqa: ANN401
        assert type(kept) is frozenset
        return ",".join(sorted(kept))

    def state_types(self) -> Mapping[str, Any]:
        return {"kept": frozenset[str]}


class Turns(Own):
    """A number that Arrow has not."""

    def __init__(self) -> None:
        super().__init__(np.complex128(0))

    def changed(self, kept: Any, value: str) -> Any:  # noqa: ANN401
        return kept + complex(len(value), 1)


SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "name": pa.dictionary(pa.int8(), pa.string()),
        "n": pa.int64(),
        "x": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(9, 2),
        "b": pa.binary(),
        "day": pa.date32(),
        "f": pa.float32(),
    }
)
AGGREGATES: dict[str, Aggregation] = {
    "rows": ps.count(),
    "texts": ps.count("s"),
    "total": ps.sum("n"),
    "volume": ps.sum("x"),
    "money": ps.sum("d"),
    "least": ps.min("n"),
    "greatest": ps.max("x"),
    "lowest": ps.min("f"),
    "first": ps.min("s"),
    "last": ps.max("d"),
    "code": ps.max("b"),
    "day": ps.min("day"),
    "typical": ps.mean("x"),
    "longest": Longest(),
    "distinct": Distinct(),
    "turns": Turns(),
}
rows_of_epoch = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.none(), st.integers(-3, 6)),
            "name": st.one_of(st.none(), st.sampled_from(["", "a", "b"])),
            # So large that floats would lose some of it, and that the sum of all rows fits.
            "n": st.one_of(st.none(), st.integers(-(1 << 55), 1 << 55), st.integers(-2, 2)),
            # Whole numbers, so that the order of adding does not matter.
            "x": st.one_of(st.none(), st.sampled_from([0.0, -3.0, 8.0, math.inf, math.nan])),
            "s": st.one_of(st.none(), st.text("xyz", max_size=3)),
            "d": st.one_of(
                st.none(), st.sampled_from([Decimal("0.00"), Decimal("-7.25"), Decimal("1234567.89")])
            ),
            "b": st.one_of(st.none(), st.binary(max_size=2)),
            "day": st.one_of(st.none(), st.dates(date(1969, 1, 1), date(2030, 1, 1))),
            "f": st.one_of(st.none(), st.sampled_from([0.5, -1.25, math.nan])),
        }
    ),
    max_size=12,
)
acts = st.sampled_from(["nothing", "whole", "changes", "whole then", "changes then", "changes then"])
Step = tuple[list[dict[str, Any]], str, int]


def plan_of(keys: list[str], aggregates: Mapping[str, Any]) -> Plan:
    flow = Dataflow("totals")
    rows = flow.stream_input("rows", SCHEMA)
    flow.output("running", rows.group_by(*keys, running=True).agg(**aggregates))
    flow.output("windowed", rows.group_by(*keys).agg(**aggregates))
    return flow.plan


def batches_of(rows: list[dict[str, Any]], parts: int = 3) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist(rows[part::parts], schema=SCHEMA) for part in range(parts)]


def shown(results: Mapping[tuple[str, int], pa.Table]) -> dict[tuple[str, int], list[str]]:
    """What came out, in an order of its own; the result of adding floats to NaN or infinity has no sign."""
    return {at: sorted(repr(row) for row in table.to_pylist()) for at, table in results.items()}


@settings(max_examples=24)
@given(
    keys=st.sampled_from([["id"], ["name"], ["id", "name"]]),
    workers=st.integers(1, 3),
    steps=st.lists(st.tuples(rows_of_epoch, acts, st.integers(1, 4)), min_size=1, max_size=6),
)
def test_a_journey_over_any_workers_gives_what_an_uninterrupted_run_gives(
    keys: list[str], workers: int, steps: list[Step]
) -> None:
    plan = plan_of(keys, AGGREGATES)
    with Journey(plan, workers) as run, Journey(plan, 1) as straight:
        for rows, act, number in steps:
            straight.next_epoch({"rows": batches_of(rows, 1)})
            run.next_epoch({"rows": batches_of(rows)})
            if act != "nothing":
                run.save(changes_only="changes" in act)
            if "then" in act:
                run.go_on(number)
        run.finish()
        straight.finish()
        assert shown(run.results) == shown(straight.results)


class Outlet:
    """A context that keeps what is sent."""

    operator = "totals"

    def __init__(self) -> None:
        self.time = (0,)
        self.sent: list[pa.RecordBatch] = []

    def notify_at(self) -> None:
        """The test notifies by itself."""

    def send(self, batch: pa.RecordBatch) -> None:
        self.sent.append(batch)


class Driven:
    """One running reduction, epoch by epoch."""

    def __init__(self, keys: list[str], aggregates: Mapping[str, Aggregation]) -> None:
        self.outlet = Outlet()
        self.context = cast("Context", self.outlet)
        self.operator = RunningReduce(SCHEMA, keys, aggregates)

    def epoch(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.operator.on_receive(self.context, "in", pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        self.operator.on_notify(self.context)
        sent: list[dict[str, Any]] = self.outlet.sent[-1].to_pylist()
        return sent

    def save(self, *, changes_only: bool) -> Piece:
        return self.operator.save(changes_only=changes_only)["groups"]


@settings(max_examples=40)
@given(epochs=st.lists(rows_of_epoch.filter(bool), min_size=1, max_size=4))
def test_what_is_restored_is_the_very_state_that_was_saved(
    epochs: list[list[dict[str, Any]]],
) -> None:
    # A set is written in an order that says nothing.
    aggregates = {name: each for name, each in AGGREGATES.items() if name != "distinct"}
    driven, again = Driven(["id", "name"], aggregates), Driven(["id", "name"], aggregates)
    chain = []
    for rows in epochs:
        driven.epoch(rows)
        chain.append(driven.save(changes_only=True))
    whole = driven.save(changes_only=False).table
    again.operator.restore(again.context, {"groups": whole})
    assert repr(again.save(changes_only=False).table.to_pylist()) == repr(whole.to_pylist())
    assert sorted(map(repr, merged(chain).to_pylist())) == sorted(map(repr, whole.to_pylist()))


def test_changes_hold_the_keys_that_changed_and_each_once() -> None:
    driven = Driven(["id"], {"least": ps.min("n")})
    driven.epoch([{"id": each, "n": 10} for each in range(100)])
    first = driven.save(changes_only=True)
    assert first.is_whole
    assert first.table.num_rows == 100
    driven.epoch([{"id": 5, "n": 3}, {"id": 6, "n": 11}, {"id": 7, "n": 10}])
    driven.epoch([{"id": 5, "n": 2}, {"id": 200, "n": 1}])
    then = driven.save(changes_only=True)
    assert not then.is_whole
    assert then.table.column("id").to_pylist() == [5, 200]
    assert driven.save(changes_only=True).table.num_rows == 0
    assert driven.save(changes_only=False).table.num_rows == 101


def test_the_first_save_after_restoring_is_whole() -> None:
    driven, again = Driven(["id"], {"rows": ps.count()}), Driven(["id"], {"rows": ps.count()})
    driven.epoch([{"id": 1}, {"id": 2}])
    again.operator.restore(again.context, {"groups": driven.save(changes_only=True).table})
    again.epoch([{"id": 2}])
    piece = again.save(changes_only=True)
    assert piece.is_whole
    assert piece.table.num_rows == 2


def test_a_state_of_many_blocks_comes_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointstamp.reduce.reductions._SAVED_ROWS_MAX", 7)
    driven, again = (Driven(["name"], {"first": ps.min("s")}) for _ in range(2))
    driven.epoch([{"name": str(each), "s": "x" * each} for each in range(50)])
    table = driven.save(changes_only=False).table
    assert table.column("name").num_chunks > 1
    # A file has one dictionary for all its batches.
    with pa.ipc.open_file(written(table)) as reader:
        again.operator.restore(again.context, {"groups": reader.read_all()})
    assert again.save(changes_only=False).table.to_pydict() == table.to_pydict()


def test_the_first_value_of_a_key_is_a_change_though_the_state_stays_as_it_was() -> None:
    """Found while asking what a change is: a sum of nothing is null, and with a zero it is zero."""
    driven = Driven(["id"], {"total": ps.sum("n")})
    assert driven.epoch([{"id": 1, "n": None}]) == [{"id": 1, "total": None}]
    driven.save(changes_only=False)
    assert driven.epoch([{"id": 1, "n": 0}]) == [{"id": 1, "total": 0}]
    assert driven.save(changes_only=True).table.num_rows == 1
    assert driven.epoch([{"id": 1, "n": 0}]) == []


@pytest.mark.parametrize("kind", [WindowedReduce, RunningReduce])
def test_a_notification_for_a_time_without_rows_is_no_error(
    kind: type[WindowedReduce] | type[RunningReduce],
) -> None:
    outlet = Outlet()
    kind(SCHEMA, ["id"], {"rows": ps.count()}).on_notify(cast("Context", outlet))
    assert outlet.sent == []


class Sets(Distinct):
    """As above, and says nothing of its types."""

    def state_types(self) -> Mapping[str, Any]:
        return {}


class Lists(Distinct):
    """As above, and says something else."""

    def state_types(self) -> Mapping[str, Any]:
        return {"kept": list[str]}


class Arrays(Own):
    """Keeps what nobody can write."""

    def __init__(self) -> None:
        super().__init__(None)

    def changed(self, kept: Any, value: str) -> Any:  # noqa: ANN401
        return np.zeros(2)

    def shown(self, kept: Any) -> str:  # noqa: ANN401
        return "?"


class Numbers(Arrays):
    """As above, and says that it is a number."""

    def state_types(self) -> Mapping[str, Any]:
        return {"kept": pa.int64()}


@pytest.mark.parametrize(
    ("own", "words"),
    [(Sets(), "frozenset"), (Lists(), "list[str]"), (Arrays(), "ndarray"), (Numbers(), "int64")],
)
def test_objects_that_would_not_come_back_are_refused_by_name(own: Own, words: str) -> None:
    driven = Driven(["id"], {"strange": own})
    driven.epoch([{"id": 1, "s": "a"}])
    with pytest.raises(
        FlowError, match="operator 'totals': the aggregate 'strange', column 'kept' of its state"
    ) as refusal:
        driven.save(changes_only=False)
    for word in ("operator 'totals'", "'strange'", "'kept'", words):
        assert word in str(refusal.value)


def test_groups_of_other_aggregates_are_refused() -> None:
    driven, other = Driven(["id"], {"total": ps.sum("n")}), Driven(["id"], {"total": ps.sum("x")})
    driven.epoch([{"id": 1, "n": 1}])
    table = driven.save(changes_only=False).table
    with pytest.raises(RecoveryError, match=r"operator 'totals' needs saved groups with .*state sum.*double"):
        other.operator.restore(other.context, {"groups": table})
