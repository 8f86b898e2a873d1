"""Flows with event time for simulated worlds, and their rows; and the same with a mistake in them.

Rows come out of order and often late. Epochs follow each other closely, so that a bound that is taken before
its epoch is complete depends on what arrived first.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.arrangement.consolidate import DIFF
from pointstamp.arrangement.open_changes import added_up
from pointstamp.arrangement.time_index import Calendar
from pointstamp.expressions.time_windows import integers_of
from pointstamp.flow.watermarks import InTime
from pointstamp.incremental import operations
from pointstamp.incremental.event_time_filters import KeptUntil, PhysicalEmitOnClose
from pointstamp.operators.context import Context
from pointstamp.operators.watermark import Bounds
from pointstamp.state.pieces import Piece
from support.event_bounds import TIMED, counted, windowed
from support.table_queries import Row, table_of

Break = Callable[[pytest.MonkeyPatch], None]


def corrected_flow() -> ps.Dataflow:
    """Windows and sessions that are corrected by late rows."""
    flow = ps.Dataflow("corrected")
    rows = flow.table("rows", TIMED)
    flow.output("windows", counted(rows.window("at", 10, slide=5)))
    flow.output("sessions", rows.session_window("k", at="at", gap=4))
    return flow


def final_flow() -> ps.Dataflow:
    """Windows that come once, and what is late."""
    flow = ps.Dataflow("final")
    windows = windowed(flow, 6)
    flow.output("open", windows)
    flow.output("final", counted(windows).emit_on_close())
    return flow


def delayed_flow() -> ps.Dataflow:
    """Two streams whose rows wait for the lesser bound; of one late rows are counted."""
    flow = ps.Dataflow("delayed")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", 4, late="drop")
    others = flow.stream_input("others", TIMED).with_watermark("at", 9)
    both = rows.union(others).window("at", 10).emit_on_close("window_end")
    flow.output("windows", both.group_by("k", "window_end").agg(total=ps.sum("n")))
    return flow


def keyed_flow() -> ps.Dataflow:
    """Windows by key that come once, with different values; and the open ones, counted and ranked."""
    flow = ps.Dataflow("keyed")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", 8)
    windows = rows.to_table().window("at", 12).retain_until("window_end")
    different = {"n": ps.count_distinct("n"), "times": ps.count_distinct("at"), "rows": ps.count()}
    by_key = windows.group_by("k", "window_end").agg(different)
    flow.output("final", by_key.emit_on_close("window_end"))
    flow.output("open", by_key)
    flow.output("last", windows.top(1, "k", "window_end", by="at desc").emit_on_close("window_end"))
    flow.output("all", rows.to_table().agg(values=ps.count_distinct("n"), keys=ps.count_distinct("k")))
    return flow


def close_flow() -> ps.Dataflow:
    """Pairs of rows that are close in time, and the row that was there last."""
    flow = ps.Dataflow("close")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", 6)
    others = flow.stream_input("others", TIMED).with_watermark("at", 12)
    flow.output("pairs", rows.join_interval(others, "k", at="at", within=(3, 7)))
    flow.output("last", rows.to_table().join_asof(others.to_table(), "k", at="at", tolerance=9, how="left"))
    return flow


def visits_flow() -> ps.Dataflow:
    """Sessions that come once when they are over, row by row and added up; and those that are open."""
    flow = ps.Dataflow("visits")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", 8)
    flow.output("closed", rows.session_window("k", at="at", gap=5))
    added_up = {"rows": ps.count(), "total": ps.sum("n")}
    flow.output("visits", rows.session_window("k", at="at", gap=5, aggregates=added_up).named("visits"))
    sessions = rows.to_table().session_window("k", at="at", gap=5)
    flow.output("open", sessions.retain_until("session_end").named("open"))
    return flow


EVENT_FLOWS: dict[str, Callable[[], ps.Dataflow]] = {
    "corrected": corrected_flow,
    "final": final_flow,
    "delayed": delayed_flow,
    "keyed": keyed_flow,
    "close": close_flow,
    "visits": visits_flow,
}


def events_of(name: str, seed: int = 0, epochs: int = 6) -> dict[str, Any]:
    """The rows of a flow, in epochs."""
    rng = random.Random(seed)
    inputs = ("rows", "others") if name in ("delayed", "close") else ("rows",)
    return {each: [table_of(_rows(rng, epoch), TIMED) for epoch in range(epochs)] for each in inputs}


def _rows(rng: random.Random, epoch: int) -> list[Row]:
    return [
        (rng.randrange(2), epoch * 6 + rng.randrange(-20, 9), rng.randrange(3))
        for _ in range(rng.randrange(2, 8))
    ]


class JudgesAtOnce(InTime):
    """Judges rows by the event times that have arrived so far, and not by those of complete epochs."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        (bounds,) = self._bounds
        if input in bounds:
            super().on_receive(context, input, batch)
            bounds.take(context.time)
            return
        bound = bounds.now
        at = integers_of(batch.column(self._plan.at))
        is_late = pc.fill_null(pc.less(at, -(2**60) if bound is None else bound), False)
        context.send(batch.filter(pc.invert(is_late)))
        context.send(batch.filter(is_late), output="late")


class TakesLateRows(InTime):
    """Sends late rows on as if they were in time."""

    def _send_late(self, context: Context, rows: pa.RecordBatch, bound: int) -> None:
        context.send(rows)


class CountsWhatIsOver(PhysicalEmitOnClose):
    """Takes changes of rows whose time is over for new ones."""

    def _arrived(self, time: Any, after: int | None) -> Any:  # noqa: ANN401 - as the method takes and gives
        arrived = super()._arrived(time, None)
        if arrived is None:
            return None
        is_new = arrived[0].column(DIFF).to_numpy() > 0
        return arrived[0].filter(pa.array(is_new)), arrived[1][is_new]


class ForgetsTooSoon(KeptUntil):
    """Lets rows go in the epoch in which the bound passes them, and not in the one after."""

    def on_notify(self, context: Context) -> None:
        opened = self._bounds._open.get(context.time)
        self._bounds.take(context.time)
        if opened is not None:
            self._bounds._open[context.time] = opened
        super().on_notify(context)


class NeverForgets(KeptUntil):
    """Keeps rows for ever."""

    def on_notify(self, context: Context) -> None:
        self._bounds._latest.clear()
        self._bounds.now = None
        super().on_notify(context)


def _sends_again(patch: pytest.MonkeyPatch) -> None:
    """What was taken is left there, up to a bound that nobody saves, and comes again after a recovery."""
    taken: dict[Calendar, int] = {}

    def take(self: Calendar, bound: int) -> pa.RecordBatch | None:
        before, taken[self] = taken.get(self, -(2**60)), max(bound, taken.get(self, bound))
        rows = added_up(self._runs) if self._runs else None
        if rows is None:
            return None
        until = rows.column("__until").to_numpy()
        return rows.filter(pa.array((until > before) & (until <= bound))).select([*self._names, DIFF])

    patch.setattr(Calendar, "take", take)


def _bounds_are_lost(patch: pytest.MonkeyPatch) -> None:
    right = Bounds.saved
    patch.setattr(Bounds, "saved", lambda self: right(self).slice(0, 0))


def _bounds_belong_to_one(patch: pytest.MonkeyPatch) -> None:
    """What every worker knows is given to the one that owns its hash."""
    right = InTime.save

    def save(self: InTime, *, changes_only: bool) -> Mapping[str, Piece]:
        pieces = right(self, changes_only=changes_only)
        return {name: Piece(piece.table, ("name",)) for name, piece in pieces.items()}

    patch.setattr(InTime, "save", save)


BROKEN_EVENTS: dict[str, Break] = {
    "a bound is taken before its epoch is complete": lambda patch: patch.setattr(
        "pointstamp.flow.watermarks.InTime", JudgesAtOnce
    ),
    "a late row is counted into a closed window": lambda patch: patch.setattr(
        "pointstamp.flow.watermarks.InTime", TakesLateRows
    ),
    "a window that is over comes again": lambda patch: patch.setattr(
        operations, "PhysicalEmitOnClose", CountsWhatIsOver
    ),
    "rows are let go too soon": lambda patch: patch.setattr(operations, "KeptUntil", ForgetsTooSoon),
    "rows are never let go": lambda patch: patch.setattr(operations, "KeptUntil", NeverForgets),
    "a final row comes twice after a recovery": _sends_again,
    "bounds are lost in a recovery": _bounds_are_lost,
    "bounds are given to one worker": _bounds_belong_to_one,
}


def epochs_flow() -> ps.Dataflow:
    """Epochs that are event time: windows and sessions that come in their last epoch, once."""
    flow = ps.Dataflow("epochs")
    rows = flow.stream_input("rows", TIMED, epochs=ps.by_event_time("at", every=3, lateness=18))
    windows = rows.window("at", 12, slide=6).emit_on_close("window_end")
    flow.output("windows", windows.group_by("k", "window_start", "window_end").agg(total=ps.sum("n")))
    flow.output("sessions", rows.session_window("k", at="at", gap=4, total=ps.sum("n"), rows=ps.count()))
    return flow


def rows_in_time(seed: int = 0, units: int = 8) -> dict[str, Any]:
    """Rows that are out of order, and not late: in no unit earlier by 18 than in one before."""
    rng = random.Random(seed)
    made = []
    for unit in range(units):
        count = rng.randrange(1, 5)
        made.append(
            [
                (rng.randrange(2), max(0, unit * 5 + rng.randrange(-8, 9)), rng.randrange(3))
                for _ in range(count)
            ]
        )
    return {"rows": [table_of(rows, TIMED) for rows in made]}
