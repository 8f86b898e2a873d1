"""Event time by brute force: which rows are late, where the bound is, and what is final in which epoch.

Rows are tuples of a key, an event time (a number) and a value. The oracle goes through plain lists, epoch by
epoch, and shares no code with what it judges.
"""

from collections import Counter
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.time_index import Calendar
from support.table_queries import Row, table_of

TIMED = pa.schema({"k": pa.int64(), "at": pa.int64(), "n": pa.int64()})
SIZE, SLIDE = 10, 5

TIMED_ROWS: st.SearchStrategy[Row] = st.tuples(
    st.integers(0, 1), st.one_of(st.none(), st.integers(-5, 60)), st.integers(0, 2)
)
TimedEpochs = Sequence[Sequence[Row]]


@dataclass
class Judged:
    """What is so after each epoch: the rows in time so far, the late ones of the epoch, and the bound."""

    in_time: list[list[Row]] = field(default_factory=list)
    late: list[list[Row]] = field(default_factory=list)
    bounds: list[int | None] = field(default_factory=list)


def judged(epochs: TimedEpochs, lateness: int) -> Judged:
    """Late rows and bounds, by brute force."""
    made = Judged()
    seen: list[int] = []
    good: list[Row] = []
    bound: int | None = None
    for rows in epochs:
        is_late = [bound is not None and row[1] is not None and row[1] < bound for row in rows]
        good = good + [row for row, late in zip(rows, is_late, strict=True) if not late]
        made.in_time.append(good)
        made.late.append([row for row, late in zip(rows, is_late, strict=True) if late])
        seen.extend(row[1] for row in rows if row[1] is not None)
        bound = max(seen) - lateness if seen else None
        made.bounds.append(bound)
    return made


def least(one: list[int | None], other: list[int | None]) -> list[int | None]:
    """The bounds of two streams together."""
    return [None if a is None or b is None else min(a, b) for a, b in zip(one, other, strict=True)]


def passed(bounds: Sequence[int | None], epoch: int, time: int) -> bool:
    """Whether the bound first is not before a time after this epoch."""
    before = bounds[epoch - 1] if epoch else None
    now = bounds[epoch]
    return now is not None and time <= now and (before is None or time > before)


def in_windows(rows: Sequence[Row]) -> list[Row]:
    """Each row once for each of its sliding windows, with the window's beginning and end."""
    return [
        (*row, start, start + SIZE)
        for row in rows
        if row[1] is not None
        for start in range(-100, 200, SLIDE)
        if start <= row[1] < start + SIZE
    ]


def windows_counted(rows: Sequence[Row]) -> Counter[Row]:
    """For each key and window how many rows, and the sum of their values."""
    groups: dict[Row, list[int]] = {}
    for k, _, n, start, end in in_windows(rows):
        groups.setdefault((k, start, end), []).append(n)
    return Counter((*key, len(values), sum(values)) for key, values in groups.items())


def timed_tables(epochs: TimedEpochs) -> list[pa.Table]:
    """The rows of each epoch."""
    return [table_of(rows, TIMED) for rows in epochs]


def rows_of(results: Any, epoch: int) -> Counter[Row]:  # noqa: ANN401 - the tables of an output
    """What an output has in an epoch."""
    rows = results[epoch].to_pylist() if epoch in results else []
    return Counter(tuple(row.values()) for row in rows)


def windowed(flow: ps.Dataflow, lateness: int, **options: Any) -> ps.Table:  # noqa: ANN401 - as event_time takes
    """The rows of an input in their windows, as long as these are open."""
    rows = flow.stream_input("rows", TIMED).with_watermark("at", lateness, **options)
    return rows.to_table().window("at", SIZE, slide=SLIDE).retain_until("window_end")


def counted(table: ps.Table) -> ps.Table:
    """For each key and window how many rows, and the sum of their values."""
    return table.group_by("k", "window_start", "window_end").agg(rows=ps.count(), total=ps.sum("n"))


Flow = Callable[[], ps.Dataflow]


def sessions_of(rows: Sequence[Row], gap: int) -> list[Row]:
    """Each row with where its session begins and ends."""
    made = []
    for key in {row[0] for row in rows}:
        own = sorted((row for row in rows if row[0] == key and row[1] is not None), key=lambda row: row[1])
        session: list[Row] = []
        for row in own:
            if session and row[1] - session[-1][1] > gap:
                made += [(*each, session[0][1], session[-1][1] + gap) for each in session]
                session = []
            session.append(row)
        made += [(*each, session[0][1], session[-1][1] + gap) for each in session]
    return made


def noted(patch: pytest.MonkeyPatch) -> list[Sized]:
    """All that holds rows in operators that are made from now on."""
    made: list[Sized] = []
    for kind in (Arrangement, Calendar):

        def begin(self: Any, *given: Any, right: Any = kind.__init__, **named: Any) -> None:  # noqa: ANN401
            right(self, *given, **named)
            made.append(self)

        patch.setattr(kind, "__init__", begin)
    return made
