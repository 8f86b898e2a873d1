"""Mistakes at the edges that random rows seldom reach: ties, exact ends, offsets, limits of types and memory.

Each mistake has a judge whose oracle is brute force, or DuckDB, over rows that are made for it. The judge is
asked twice: without the mistake it must not object, with it it must.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import pointstamp as ps
from incremental.test_aggregates import AGGREGATES
from pointstamp.arrangement import run as run_module
from pointstamp.arrangement import runs as policy
from pointstamp.arrangement.column_arrays import KeptColumn, kept_column, kept_columns
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.arrangement.groups import Grouped
from pointstamp.arrangement.loop_times import Rounds
from pointstamp.arrangement.open_changes import OpenChanges
from pointstamp.arrangement.ordering import Ordered, ranks
from pointstamp.arrangement.run import Layout, run_of
from pointstamp.arrangement.runs import Merge, Runs
from pointstamp.arrangement.time_index import Calendar
from pointstamp.errors import FlowError
from pointstamp.incremental import (
    asof_join,
    exact_sums,
    group_aggregates,
    interval_join,
    operations,
    physical_table,
    window_operator,
)
from pointstamp.incremental.exact_sums import Summing
from pointstamp.incremental.group_aggregates import Aggregating
from pointstamp.incremental.hash_join import InnerJoin
from pointstamp.incremental.rolling_aggregates import PhysicalRolling
from pointstamp.incremental.session_windows import EpochSessions, OpenSessions
from pointstamp.incremental.window_operator import Placing
from pointstamp.state.memory_budget import MemoryBudget, MemoryLimit
from support.table_aggregates import Asked, judge_sales
from support.table_loops import judge_loop
from support.table_queries import Row, put_out, shifted_array
from support.table_worlds import loop_changes

Break = Callable[[pytest.MonkeyPatch], None]


# Slices of Arrow's arrays.


def shifted(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([shifted_array(each) for each in batch.columns], schema=batch.schema)


def with_offsets(patch: pytest.MonkeyPatch) -> None:
    """Let everything that aggregates are made of be slices with an offset."""
    for kind in (Aggregating, Placing):
        right = kind.__call__

        def call(self: Any, groups: Grouped, right: Any = right) -> pa.RecordBatch:  # noqa: ANN401
            return right(self, Grouped(shifted(groups.rows), groups.starts, shifted(groups.keys)))

        patch.setattr(kind, "__call__", call)
    shares, results = Summing.shares, Summing.results
    patch.setattr(Summing, "shares", lambda self, batch: shares(self, shifted(batch)))
    patch.setattr(Summing, "results", lambda self, batch, *more: results(self, shifted(batch), *more))
    put = OpenChanges.put
    patch.setattr(OpenChanges, "put", lambda self, time, name, batch: put(self, time, name, shifted(batch)))


def sales_epochs(seed: int) -> list[list[Row]]:
    """Sales with nulls, or without any where the seed is odd: then nothing is copied on the way."""
    rng = random.Random(seed)
    none = [] if seed % 2 else [None]
    there: list[Row] = []
    made = []
    for _ in range(3):
        new = [
            (
                rng.choice([*none, 0, 1]),
                rng.choice([*none, "", "a", "b"]),
                rng.choice([*none, 0.5, -0.0, 3.25]),
                rng.choice([*none, -2, 3, 2**60]),
                rng.choice([*none, Decimal("0.01"), Decimal("-2.50")]),
                rng.choice([*none, True, False]),
            )
            for _ in range(6)
        ]
        gone = [there.pop(rng.randrange(len(there))) for _ in range(2)] if there else []
        there += new
        made.append([(*row, 1) for row in new] + [(*row, -1) for row in gone])
    return made


def judge_aggregates(names: Sequence[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        with_offsets(patch)
        for seed, name in itertools.product(range(2), names):
            ours, theirs = AGGREGATES[name]
            asked = Asked(_reduced_by(ours), f"select k, {theirs} from a group by k")  # noqa: S608 - our own
            judge_sales(asked, sales_epochs(seed))


def _reduced_by(aggregate: ps.functions.Aggregate) -> Callable[[ps.Table], ps.Table]:
    return lambda a: a.group_by("k").agg(x=aggregate)


@pytest.mark.parametrize("name", AGGREGATES)
def test_an_aggregate_of_slices_with_an_offset_is_duckdbs(name: str) -> None:
    judge_aggregates([name])


def without_offset(values: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(values.type, len(values), values.buffers())


def _columns_without_offset(kinds: str) -> Callable[..., list[KeptColumn]]:
    """Takes a batch apart, and leaves out where columns of numpy's begin, of some kinds."""

    def wrong(batch: pa.RecordBatch, dtypes: tuple[Any, ...]) -> list[KeptColumn]:
        return [
            kept_column(without_offset(batch.column(at)))
            if isinstance(each, np.ndarray) and each.dtype.kind in kinds
            else each
            for at, each in enumerate(kept_columns(batch, dtypes))
        ]

    return wrong


def _limbs_without_offset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exact_sums, "kept_columns", _columns_without_offset("V"))


def _runs_without_offset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run_module, "kept_columns", _columns_without_offset("iufV"))


def _values_without_offset(patch: pytest.MonkeyPatch) -> None:
    right = group_aggregates._KINDS["median"]

    def wrong(given: Any, asked: Any) -> pa.Array:  # noqa: ANN401 - as the function takes it
        return right(replace(given, values=without_offset(given.values)), asked)

    patch.setitem(group_aggregates._KINDS, "median", wrong)


# As-of joins.


def judge_as_of() -> None:
    """Several rows with one time, times without nulls that are far apart, in every order of arrival."""
    quotes = [(1, 100, 5), (1, 100, 7), (1, 100, 6), (2, 95, 1), (2, 98, 2), (2, 98, 1)]
    trades = [(1, 110), (2, 110), (2, 98)]
    for seed, direction in itertools.product(range(3), ("backward", "forward")):
        given = random.Random(seed).sample(quotes, len(quotes))
        flow = ps.Dataflow("as of")
        mine = flow.table("t", "k long, at long")
        theirs = flow.table("q", "k long, at long, price long")
        flow.output("met", mine.join_asof(theirs, "k", at="at", direction=direction))  # type: ignore[arg-type]
        found = put_out(
            flow.run(
                t=[[{"k": k, "at": at} for k, at in trades], []],
                q=[[{"k": k, "at": at, "price": p} for k, at, p in part] for part in (given[:3], given[3:])],
            )["met"],
            2,
        )[-1]
        wanted: Counter[Row] = Counter()
        for k, at in trades:
            near = [
                (t, p) for q, t, p in quotes if q == k and (t <= at if direction == "backward" else t >= at)
            ]
            if near:
                wanted[(k, at, *(max(near) if direction == "backward" else min(near)))] += 1
        assert found == wanted, (seed, direction)


def _arrival_decides_ties(patch: pytest.MonkeyPatch) -> None:
    def wrong(rows: pa.RecordBatch, by: Sequence[Ordered]) -> Any:  # noqa: ANN401 - ranks
        found = ranks(rows, by)
        return found if by[0].column == "__at" and len(by) == 1 else [each * 0 for each in found]

    patch.setattr(asof_join, "ranks", wrong)


def _times_are_places(patch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(**{name: getattr(np, name) for name in dir(np) if not name.startswith("__")})
    fake.unique = lambda values, **_: (values, values)
    patch.setattr(asof_join, "np", fake)


# Interval joins.


def judge_within() -> None:
    """Pairs whose times are from so much before to so much after, other lengths on both sides."""
    for seed, (before, after) in enumerate([(0, 4), (4, 0), (1, 3), (3, 1)]):
        rng = random.Random(seed)
        rows: dict[str, list[list[dict[str, int]]]] = {"a": [], "b": []}
        for epoch in range(10):
            for each in rows.values():
                each.append([{"k": rng.randrange(2), "at": epoch + rng.randrange(3)} for _ in range(2)])
        flow = ps.Dataflow("within")
        one, other = (flow.stream_input(name, "k long, at long").with_watermark("at", 2) for name in rows)
        flow.output("pairs", one.join_interval(other, "k", at="at", within=(before, after)))
        found = Counter(
            (row["k"], row["at"], row["at_right"])
            for row in flow.run(rows, workers=2)["pairs"].table().to_pylist()
        )
        wanted = Counter(
            (a["k"], a["at"], b["at"])
            for a in itertools.chain(*rows["a"])
            for b in itertools.chain(*rows["b"])
            if a["k"] == b["k"] and a["at"] - before <= b["at"] <= a["at"] + after
        )
        assert found == wanted, (before, after)


def _bounds_are_swapped(patch: pytest.MonkeyPatch) -> None:
    right = interval_join.pairs_within

    def wrong(left: Any, other: Any, on: Any, at: Any, lengths: Any, *more: Any) -> Any:  # noqa: ANN401
        return right(left, other, on, at, lengths[::-1], *more)

    patch.setattr(physical_table, "pairs_within", wrong)


def _freed_by_the_bound_of_the_other_side(patch: pytest.MonkeyPatch) -> None:
    right = operations.kept_until

    def wrong(rows: Any, name: str, *given: Any, later: int = 0, **named: Any) -> Any:  # noqa: ANN401
        return right(rows, name, *given, later=1, **named)

    patch.setattr(operations, "kept_until", wrong)


# Sessions at the exact end.


def judge_sessions(make: Callable[[ps.Dataflow], ps.Stream | ps.Table], *, are_closed: bool) -> None:
    """Event time reaches the end of a session, and then a row comes that is exactly there."""
    flow = ps.Dataflow("sessions")
    flow.output("sessions", make(flow))
    times = [[(1, 0)], [(2, 5)], [(1, 5)], [(2, 30)], [(2, 60)]]
    data = [[{"k": k, "at": at} for k, at in each] for each in times]
    found = flow.run(rows=data, workers=2)["sessions"].table().to_pylist()
    total: Counter[Row] = Counter()
    for row in found:
        if not are_closed and row["epoch"] > 2:  # later on all sessions are over, and leave
            continue
        total[(row["k"], row["session_start"], row["session_end"], row["n"])] += row.get("diff", 1)
    there = {row: count for row, count in total.items() if count}
    assert all(count == 1 for count in there.values()), there
    assert (1, 0, 10, 2) in there, there
    assert not [row for row in there if row[:2] == (1, 0) and row != (1, 0, 10, 2)], there
    assert not [row for row in there if row[:2] == (1, 5)], there


def of_stream(flow: ps.Dataflow) -> ps.Stream:
    return (
        flow.stream_input("rows", "k long, at long")
        .with_watermark("at", 0)
        .session_window("k", at="at", gap=5, n=ps.count())
    )


def of_table(flow: ps.Dataflow) -> ps.Table:
    rows = flow.stream_input("rows", "k long, at long").with_watermark("at", 0).to_table()
    return rows.session_window("k", at="at", gap=5, n=ps.count()).retain_until("session_end")


def of_epochs(flow: ps.Dataflow) -> ps.Stream:
    epochs = ps.by_event_time("at", every=5, lateness=60)
    return flow.stream_input("rows", "k long, at long", epochs=epochs).session_window(
        "k", at="at", gap=5, n=ps.count()
    )


def judge_closed() -> None:
    judge_sessions(of_stream, are_closed=True)


def judge_open() -> None:
    judge_sessions(of_table, are_closed=False)


def judge_by_epochs() -> None:
    judge_sessions(of_epochs, are_closed=True)


def _over_at_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(operations, "_makes_sessions", lambda _: False)


def _let_go_at_the_end(patch: pytest.MonkeyPatch) -> None:
    right, take = OpenSessions._taken_away, Calendar.take
    patch.setattr(OpenSessions, "_taken_away", lambda self, over, bound: right(self, over, bound + 1))
    patch.setattr(Calendar, "take", lambda self, bound: take(self, bound + 1))


def _epochs_are_over_at_the_end(patch: pytest.MonkeyPatch) -> None:
    right = EpochSessions._look_at
    patch.setattr(
        EpochSessions,
        "_look_at",
        lambda self, context, sessions, passed: right(self, context, sessions, passed + 1),
    )


# Rolling.


def judge_rolling_ties() -> None:
    """Rows that are equal in the order's column: the others decide, and then the older one is first."""
    for seed in range(6):
        rng = random.Random(seed)
        epochs = [
            [(rng.randrange(2), rng.randrange(2), rng.randrange(3)) for _ in range(4)] for _ in range(3)
        ]
        flow = ps.Dataflow("rolling")
        rows = flow.stream_input("rows", "k long, n long, v long")
        flow.output("out", rows.with_columns(total=ps.sum("v").over(partition_by="k", order_by="n", rows=2)))
        data = [[dict(zip("knv", row, strict=True)) for row in epoch] for epoch in epochs]
        found = flow.run(rows=data, workers=2)["out"]
        kept: dict[int, list[tuple[int, int]]] = {}
        for number, epoch in enumerate(epochs):
            wanted: Counter[Row] = Counter()
            for key in {k for k, _, _ in epoch}:
                old = [(n, v, 0) for n, v in kept.get(key, [])]
                both = sorted([*old, *((n, v, 1) for k, n, v in epoch if k == key)])
                for at, (n, v, is_new) in enumerate(both):
                    if is_new:
                        wanted[(key, n, v, sum(each[1] for each in both[max(at - 1, 0) : at + 1]))] += 1
                kept[key] = [(n, v) for n, v, _ in both][-1:]
            assert Counter(tuple(row.values()) for row in found[number].to_pylist()) == wanted, (seed, number)


def _rows_in_the_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    right = PhysicalRolling._ordered

    def wrong(self: PhysicalRolling, both: Any) -> Any:  # noqa: ANN401 - as the method takes and gives
        plan = self._plan
        self._plan = replace(plan, order=(*plan.order[:1], plan.order[0]))
        try:
            return right(self, both)
        finally:
            self._plan = plan

    patch.setattr(PhysicalRolling, "_ordered", wrong)


# Loops in loops.


class InTheInnerRoundAlone(InnerJoin):
    """Sends a pair at the bound of the inner rounds, and in the outer round of the change."""

    def _bounds(self, rows: Sequence[KeptColumn], rounds: Rounds) -> npt.NDArray[np.int64]:
        found = super()._bounds(rows, rounds)
        if len(rounds) > 1:
            found[:, 0] = rounds[0]
        return found


def judge_loops_in_loops() -> None:
    for seed in range(4):
        judge_loop("parts", *loop_changes("parts", seed, 5), 2)


def _outer_rounds_are_not_bounded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(operations, "InnerJoin", InTheInnerRoundAlone)


# Memory.

KEPT = pa.schema([("k", pa.int64()), ("text", pa.string()), DIFF_FIELD])
LAYOUT = Layout(KEPT, ("k",))


def change_of(rng: random.Random, rows: int) -> pa.RecordBatch:
    keys = [rng.randrange(10**6) for _ in range(rows)]
    return pa.RecordBatch.from_pydict(
        {"k": keys, "text": [f"text {key}" for key in keys], "diff": [1] * rows}, schema=KEPT
    )


def judge_spilling() -> None:
    """Both runs of a merge go to files while it is half done, and everything adds up."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("_SLICE_ROWS_MIN", 8),
            ("_AT_ONCE_ROWS_MAX", 8),
            ("_AT_ONCE_TIMES_MAX", 1),
            ("_MERGED_ROWS_PER_ROW", 1),
        ):
            patch.setattr(policy, name, value)
        budget = MemoryBudget(MemoryLimit(1 << 30, folder), "flow")
        runs = Runs()
        runs.keep_within(budget)
        rng, whole, spilled = random.Random(1), [], 0
        for step in range(60):
            change = change_of(rng, 5 + step % 3)
            runs.add(run_of(change, LAYOUT))
            whole.append(change)
            merges = [entry for entry in runs._entries if isinstance(entry, Merge)]
            if merges and step % 4 == 0:
                in_memory = [
                    run for merge in merges for run in (merge.older, merge.newer) if not run.is_mapped
                ]
                for _ in in_memory:
                    runs.spill_largest()
                    spilled += 1
            found = run_of(pa.concat_batches([run.batch for run in runs]), LAYOUT)
            assert found.batch.equals(run_of(pa.concat_batches(whole), LAYOUT).batch), step
            assert runs.memory_bytes == sum(entry.memory_bytes for entry in runs._entries)
        assert spilled > 5


def _the_wrong_run_is_replaced(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Merge, run: Any, same: Any) -> None:  # noqa: ANN401 - runs
        if run in (self.older, self.newer):
            self.newer = same

    patch.setattr(Merge, "replace", wrong)


def _a_merge_begins_again(patch: pytest.MonkeyPatch) -> None:
    right = Merge.replace

    def wrong(self: Merge, run: Any, same: Any) -> None:  # noqa: ANN401 - runs
        right(self, run, same)
        self._at = 0, 0

    patch.setattr(Merge, "replace", wrong)


def judge_room() -> None:
    """A merge that just fits is made in memory; with one byte less of room it is made in a file."""
    with TemporaryDirectory() as folder:
        rng = random.Random(2)
        older, newer = (run_of(change_of(rng, 40), LAYOUT) for _ in range(2))
        size = older.size_bytes + newer.size_bytes
        for pieces, missing in ((True, 0), (True, 1), (False, 0), (False, 1)):
            budget = MemoryBudget(MemoryLimit(1 << 20, folder), "flow")
            budget.piece_bytes_max = size - missing if pieces else 1 << 20
            budget.limit_bytes = 1 << 20 if pieces else size - missing
            runs = Runs()
            runs.keep_within(budget)
            merge = runs._merge_of(older, newer)
            while merge.result is None:
                merge.work(100)
            assert merge.result.is_mapped == bool(missing), (pieces, missing)
            assert not Path(folder).exists() or not list(Path(folder).iterdir()), "files have no names"


def _room_for_what_is_there_already(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryBudget, "has_room", lambda self, size: size <= self.piece_bytes_max + 1)


def _no_room_for_what_just_fits(patch: pytest.MonkeyPatch) -> None:
    right = MemoryBudget.has_room
    patch.setattr(MemoryBudget, "has_room", lambda self, size: right(self, size + 1))


# RANGE frames.

LIMITS = {
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "smallint": (-(2**15), 2**15 - 1),
}


def judge_range() -> None:
    """Frames by distance with nulls at either end, and with values at the limits of their type."""
    orders = ("n", "n desc", "n nulls last", "n desc nulls first")
    bounds = (
        ("1 preceding", "1 following"),
        ("unbounded preceding", "2 following"),
        ("1 preceding", "unbounded following"),
    )
    for kind, (least, most) in LIMITS.items():
        values = [None, None, least, least + 1, least + 3, -1, 0, 0, most - 2, most - 1, most]
        for order, (begin, end) in itertools.product(orders, bounds):
            text = f"""create table t (id long, n {kind});
                select id, count(*) over (order by {order} range between {begin} and {end}) as c from t"""  # noqa: S608
            rows = [{"id": at, "n": n} for at, n in enumerate(values)]
            found = {row["id"]: row["c"] for row in ps.sql(text).run(t=[rows]).table("result").to_pylist()}
            for at, n in enumerate(values):
                assert found[at] == _range_count(values, n, order, begin, end), (kind, order, begin, end, n)


def _range_count(values: Sequence[int | None], n: int | None, order: str, begin: str, end: str) -> int:
    """How many rows a frame has, by looking at each; nulls are next to each other and far from all else."""
    sign = -1 if "desc" in order else 1
    nulls_last = "last" in order or ("desc" in order and "first" not in order)
    count = 0
    for other in values:
        if n is None or other is None:
            is_after = (other is None) == nulls_last if (n is None) != (other is None) else None
            count += (
                is_after is None
                or (is_after and end.startswith("unbounded"))
                or (not is_after and begin.startswith("unbounded"))
            )
            continue
        far = (other - n) * sign
        low = -(10**30) if begin.startswith("unbounded") else -int(begin.split()[0])
        high = 10**30 if end.startswith("unbounded") else int(end.split()[0])
        count += low <= far <= high
    return count


def _distances_wrap_around(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(window_operator, "_moved", lambda numbers, by: numbers + np.int64(by))


def _nulls_are_zeros(patch: pytest.MonkeyPatch) -> None:
    right = window_operator.frames_by_distance

    def wrong(starts: Any, ends: Any, values: pa.Array, *more: Any) -> Any:  # noqa: ANN401 - as it takes
        return right(starts, ends, values.fill_null(0), *more)

    patch.setattr("pointstamp.incremental.window_operator.frames_by_distance", wrong)


def _nulls_are_first(patch: pytest.MonkeyPatch) -> None:
    right = window_operator.frames_by_distance

    def wrong(starts: Any, ends: Any, values: pa.Array, by: Ordered, frame: Any) -> Any:  # noqa: ANN401
        return right(starts, ends, values, Ordered(by.column, by.descends, moves_nulls=by.descends), frame)

    patch.setattr("pointstamp.incremental.window_operator.frames_by_distance", wrong)


MISTAKES: dict[str, tuple[Break, Callable[[], None]]] = {
    "limbs of decimals ignore an offset": (
        _limbs_without_offset,
        lambda: judge_aggregates(["sum of decimals"]),
    ),
    "runs ignore an offset": (_runs_without_offset, lambda: judge_aggregates(["sum", "max"])),
    "a median ignores an offset": (_values_without_offset, lambda: judge_aggregates(["median"])),
    "arrival decides between partners of one time": (_arrival_decides_ties, judge_as_of),
    "times are taken for places": (_times_are_places, judge_as_of),
    "the bounds of an interval join are swapped": (_bounds_are_swapped, judge_within),
    "rows of an interval join are freed too early": (_freed_by_the_bound_of_the_other_side, judge_within),
    "a session is over at its end": (_over_at_the_end, judge_closed),
    "an open session is let go at its end": (_let_go_at_the_end, judge_open),
    "a session of epochs is over at its end": (_epochs_are_over_at_the_end, judge_by_epochs),
    "rolling rows are in the order of arrival": (_rows_in_the_order_of_arrival, judge_rolling_ties),
    "outer rounds are not bounded": (_outer_rounds_are_not_bounded, judge_loops_in_loops),
    "the wrong run of a merge goes to a file": (_the_wrong_run_is_replaced, judge_spilling),
    "a merge begins again when a run is written": (_a_merge_begins_again, judge_spilling),
    "what is there already takes no room": (_room_for_what_is_there_already, judge_room),
    "what just fits has no room": (_no_room_for_what_just_fits, judge_room),
    "distances wrap around": (_distances_wrap_around, judge_range),
    "nulls are zeros in a range": (_nulls_are_zeros, judge_range),
    "nulls are first in a range": (_nulls_are_first, judge_range),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_and_what_is_right_is_not(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks, judge = MISTAKES[mistake]
    judge()
    breaks(monkeypatch)
    with pytest.raises(
        (AssertionError, FlowError, ValueError),
        match=r"assert (not |\d|Counter|True|False|\()|epoch \d|broadcast",
    ):
        judge()
