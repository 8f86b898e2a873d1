"""Sessions of tables beside gaps and islands in DuckDB, under rows that come late and rows that go.

- the law: after every epoch, on one to three workers, with keys and without;
- what one row does: it joins two sessions, and divides them when it goes;
- what is refused when the flow is written.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError
from pointstamp.incremental.session_windows import Sessions
from support.table_events import EVENT_ROWS, START, judge_events
from support.table_queries import Row, changes


def islands(gap_minutes: int, partition: str) -> str:
    """Sessions in SQL: a row begins one where no row lies at most the gap before it."""
    gap = f"interval '{gap_minutes} minutes'"
    return f"""
        with marked as (select *, case when "at" - lag("at") over w <= {gap} then 0 else 1 end as begins
                        from a where "at" is not null window w as ({partition} order by "at")),
             numbered as (select *, sum(begins) over (partition by {partition.partition("by ")[2] or "1"}
                          order by "at" range unbounded preceding) as number from marked)
        select k, "at", n, min("at") over w, max("at") over w + {gap} from numbered
        window w as (partition by {partition.partition("by ")[2] or "1"}, number)"""  # noqa: S608 - our own


@settings(max_examples=20, deadline=None)
@given(
    data=st.data(),
    gap=st.integers(1, 40),
    keys=st.sampled_from([(), ("k",), ("k", "n")]),
    workers=st.integers(1, 3),
    epochs=st.integers(1, 5),
)
def test_sessions_are_duckdbs_after_every_epoch(
    data: st.DataObject, gap: int, keys: tuple[str, ...], workers: int, epochs: int
) -> None:
    judge_events(
        lambda a: a.session_window(*keys, at="at", gap=timedelta(minutes=gap)),
        islands(gap, f"partition by {', '.join(keys)}" if keys else ""),
        data.draw(changes(EVENT_ROWS, epochs)),
        workers,
    )


@settings(max_examples=12, deadline=None)
@given(
    data=st.data(),
    gap=st.integers(1, 40),
    keys=st.sampled_from([(), ("k",)]),
    workers=st.integers(1, 3),
    epochs=st.integers(1, 5),
)
def test_aggregates_of_sessions_are_duckdbs_after_every_epoch(
    data: st.DataObject, gap: int, keys: tuple[str, ...], workers: int, epochs: int
) -> None:
    rows = islands(gap, "partition by k" if keys else "")
    # An aggregate that is named like an option of session_window, here start, is the last column.
    own = "".join(f"{key}, " for key in keys)
    judge_events(
        lambda a: a.session_window(
            *keys, at="at", gap=timedelta(minutes=gap), start=ps.min("n"), rows=ps.count(), name=ps.sum("n")
        ),
        f"select {own}b, e, count(*), sum(n), min(n) from ({rows}) as s(k, t, n, b, e) "  # noqa: S608 - our own
        f"group by {own}b, e",
        data.draw(changes(EVENT_ROWS, epochs)),
        workers,
    )


def event(minute: int, weight: int = 1) -> Row:
    return (1, START + timedelta(minutes=minute), 0, weight)


def test_a_late_row_joins_two_sessions_and_divides_them_when_it_goes() -> None:
    flow = ps.Dataflow("sessions")
    rows = flow.table("rows", "user string, at long, w long", weight="w")
    sessions = rows.session_window("user", at="at", gap=5)
    flow.output("sessions", sessions.group_by("user", "session_start", "session_end").agg(rows=ps.count()))
    epochs = [[(0, 1), (8, 1)], [(4, 1)], [(4, -1)]]
    found = flow.run(
        rows=[[{"user": "ada", "at": at, "w": w} for at, w in epoch] for epoch in epochs], workers=2
    )["sessions"]
    assert [
        sorted((row["diff"], row["session_start"], row["session_end"], row["rows"]) for row in rows)
        for rows in (found[epoch].to_pylist() for epoch in range(3))
    ] == [
        [(1, 0, 5, 1), (1, 8, 13, 1)],
        [(-1, 0, 5, 1), (-1, 8, 13, 1), (1, 0, 13, 3)],
        [(-1, 0, 13, 3), (1, 0, 5, 1), (1, 8, 13, 1)],
    ]


def test_an_end_that_is_not_in_its_session_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = [[event(0), event(5)], [event(10)]]

    def judged() -> None:
        judge_events(
            lambda a: a.session_window("k", at="at", gap="5 minutes"), islands(5, "partition by k"), epochs, 1
        )

    judged()
    right = Sessions._begins

    def without_its_end(self: Sessions, *given: Any) -> Any:  # noqa: ANN401 - as the method takes and gives
        return right(replace(self, gap=self.gap - 1), *given)

    monkeypatch.setattr(Sessions, "_begins", without_its_end)
    with pytest.raises(AssertionError, match=r"^epoch 0"):
        judged()


CASES: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (
        lambda t: t.session_window("who", at="at", gap="1 s"),
        SchemaError,
        "'sessions' of .* needs the column 'who'",
    ),
    (lambda t: t.session_window("s", at="time", gap="1 s"), SchemaError, "needs the column 'time'"),
    (
        lambda t: t.session_window("s", at="s", gap="1 s"),
        SchemaError,
        "needs a timestamp, a date or an integer",
    ),
    (lambda t: t.session_window("s", at="at", gap=3), FlowError, "gap must be a timedelta or text"),
    (lambda t: t.session_window("s", at="at", gap="0 s"), FlowError, "gap must be above 0"),
    (
        lambda t: t.session_window("s", at="at", gap="1 s", start="s"),
        SchemaError,
        "column 's' already exists",
    ),
    (lambda t: t.session_window("s", at="at", gap="1 s", end="diff"), SchemaError, "cannot be called 'diff'"),
    (lambda t: t.sessionize("at", "5 minutes"), AttributeError, r"here that is session_window\('user'"),
]


@pytest.mark.parametrize(("asked", "kind", "said"), CASES)
def test_what_is_no_session_is_refused_in_words(
    asked: Callable[[Any], Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        asked(ps.Dataflow("test").table("rows", "at timestamp, s string"))
