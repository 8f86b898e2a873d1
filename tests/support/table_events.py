"""Queries over one table of events, with event times, beside DuckDB after every epoch.

Events have a key, an event time without a zone that is often null, equal or far away, a number, and a weight.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import pyarrow as pa
from hypothesis import strategies as st

import pointstamp as ps
from support.table_queries import ENGINE, Epochs, Row, accumulated, canonical, put_out, table_of

EVENTS = pa.schema({"k": pa.int64(), "at": pa.timestamp("us"), "n": pa.int64(), "w": pa.int64()})
START = datetime(1970, 1, 1)

_TIMES = st.one_of(
    st.none(),
    st.integers(-40, 40).map(lambda minutes: START + timedelta(minutes=minutes)),
    st.datetimes(datetime(1960, 1, 1), datetime(2030, 1, 1)),
)
EVENT_ROWS: st.SearchStrategy[Row] = st.tuples(
    st.one_of(st.none(), st.integers(0, 2)), _TIMES, st.one_of(st.none(), st.integers(-30, 30))
)


def judge_events(make: Callable[[ps.Table], ps.Table], sql: str, epochs: Epochs, workers: int) -> None:
    """AssertionError where a query over events does not add up to DuckDB's answer after some epoch."""
    flow = ps.Dataflow("events")
    flow.output("result", make(flow.table("a", EVENTS, weight="w")))
    results = flow.run(a=[table_of(rows, EVENTS) for rows in epochs], workers=workers)
    for epoch, total in enumerate(put_out(results["result"], len(epochs))):
        ENGINE.register("a", table_of([(*row, 1) for row in accumulated(epochs[: epoch + 1])], EVENTS))
        assert total == Counter(map(canonical, ENGINE.execute(sql).fetchall())), f"epoch {epoch}"
