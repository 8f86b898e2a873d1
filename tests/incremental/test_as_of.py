"""The as-of join: one row beside each, whatever came first, and what cannot be asked.

That it is DuckDB's after every epoch is in test_law.py; here it is what DuckDB leaves open, beside brute
force: rows with one time, the nearer of two, and how far away a row may be.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError
from support.table_queries import Row, accumulated, changes, put_out, table_of

TRADES = pa.schema({"k": pa.int64(), "at": pa.int64(), "w": pa.int64()})
QUOTES = pa.schema({"k": pa.int64(), "time": pa.int64(), "price": pa.float64(), "w": pa.int64()})
_KEY = st.sampled_from([None, 0, 1])
# Near to each other, and so far apart that they are no places among rows; integers without nulls, too.
_TIMES = [
    st.one_of(st.none(), st.integers(0, 5)),
    st.integers(0, 5),
    st.integers(0, 99),
    st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 7, 2**63 - 2, 2**63 - 1]),
]
_PRICE = st.sampled_from([None, 1.0, 2.0])


def partner(trade: Row, quotes: list[Row], direction: str, tolerance: int | None) -> Row | None:
    """The quote of a trade, by brute force."""
    k, at = trade
    known = [(t, -1.0 if p is None else p, p) for q, t, p in quotes if None not in (k, at, q, t) and q == k]
    far = {each: abs(each[0] - at) for each in known}
    near = [each for each in known if tolerance is None or far[each] <= tolerance]
    before = max((each for each in near if each[0] <= at), default=None)
    after = min((each for each in near if each[0] >= at), default=None)
    choice = {"backward": [before], "forward": [after], "nearest": [before, after]}[direction]
    found = min((each for each in choice if each is not None), key=far.__getitem__, default=None)
    return (found[0], found[2]) if found else None


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@settings(max_examples=25, deadline=None)
@given(
    data=st.data(),
    tolerance=st.sampled_from([None, 0, 1, 2]),
    is_left=st.booleans(),
    workers=st.integers(1, 3),
    epochs=st.integers(1, 4),
)
def test_a_row_stands_beside_its_nearest_after_every_epoch(
    direction: Any,  # noqa: ANN401 - one of three words
    data: st.DataObject,
    tolerance: int | None,
    is_left: bool,
    workers: int,
    epochs: int,
) -> None:
    times = data.draw(st.sampled_from(_TIMES))
    trades = data.draw(changes(st.tuples(_KEY, times), epochs))
    quotes = data.draw(changes(st.tuples(_KEY, times, _PRICE), epochs))
    flow = ps.Dataflow("test")
    mine, theirs = (flow.table(name, schema, weight="w") for name, schema in (("t", TRADES), ("q", QUOTES)))
    how: Any = "left" if is_left else "inner"
    made = mine.join_asof(theirs, "k", at={"at": "time"}, direction=direction, how=how, tolerance=tolerance)
    flow.output("met", made)
    found = put_out(
        flow.run(
            t=[table_of(rows, TRADES) for rows in trades],
            q=[table_of(rows, QUOTES) for rows in quotes],
            workers=workers,
        )["met"],
        epochs,
    )
    for epoch in range(epochs):
        wanted: Counter[Row] = Counter()
        there = accumulated(quotes[: epoch + 1])
        for trade in accumulated(trades[: epoch + 1]):
            met = partner(trade, there, direction, tolerance)
            if met is not None or is_left:
                wanted[(*trade, *(met or (None, None)))] += 1
        assert found[epoch] == wanted, f"epoch {epoch}"


def test_times_may_be_timestamps_and_lengths_of_time() -> None:
    flow = ps.Dataflow("test")
    trades, quotes = (flow.table(name, "k long, at timestamp") for name in ("trades", "quotes"))
    flow.output("met", trades.join_asof(quotes, "k", at="at", how="left", tolerance="10 minutes"))
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    rows = [{"k": 1, "at": noon}, {"k": 1, "at": noon + timedelta(minutes=21)}]
    met = flow.run(trades=[rows], quotes=[[{"k": 1, "at": noon + timedelta(minutes=-10)}]])["met"][0]
    assert sorted(met["at_right"].is_valid().to_pylist()) == [False, True]


def test_distances_of_great_integers_do_not_overflow() -> None:
    flow = ps.Dataflow("test")
    a, b = (flow.table(name, "k long, at long") for name in "ab")
    flow.output("met", a.join_asof(b, "k", at="at", tolerance=5))
    rows = flow.run(a=[[{"k": 1, "at": 2**63 - 1}]], b=[[{"k": 1, "at": -(2**63)}]])["met"]
    assert not rows.table().num_rows


CASES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"at": "when"}, SchemaError, "at=, on the left side, needs the column 'when'"),
    ({"at": ["at", "n"]}, FlowError, "at must be one column"),
    ({"at": {"at": "n"}}, SchemaError, "'at' is timestamp.* and 'n' is int64, but both must have one type"),
    ({"at": "k"}, FlowError, r"'k' is in on= and in at="),
    ({"at": "at", "direction": "back"}, FlowError, "direction must be one of backward"),
    ({"at": "at", "how": "full"}, FlowError, "how must be 'inner' or 'left', got 'full'"),
    ({"at": "at", "tolerance": 5}, FlowError, "tolerance of times must be a duration"),
    ({"at": "n", "tolerance": "5 minutes"}, FlowError, "tolerance of numbers must be a number"),
    ({"at": "n", "tolerance": -1}, FlowError, "tolerance must be 0 or more"),
    ({"at": "s", "direction": "nearest"}, SchemaError, "'s' is string, whose values have no difference"),
    ({"at": "l"}, SchemaError, "'l' must be a time or a number, got list.*"),
]


@pytest.mark.parametrize(("asked", "kind", "said"), CASES)
def test_what_cannot_be_asked_is_refused_in_words(
    asked: dict[str, Any], kind: type[Exception], said: str
) -> None:
    flow = ps.Dataflow("test")
    schema = "k long, at timestamp, n long, s string, l array<long>"
    one, other = (flow.table(name, schema) for name in "ab")
    with pytest.raises(kind, match=said):
        one.join_asof(other, "k", **asked)
