"""The same queries and changes by Pathway: what a change of 1,000 rows costs it, answers checked.

Pathway is no dependency of this project. Install it into an environment of its own:

    python -m venv .peers && .peers/bin/pip install pathway==0.33.0
    .peers/bin/python benchmarks/tables/pathway_peer.py [rows] [--epochs N] [--only NAME]

Each change is sent when the result of the one before is there. ``wait_ms`` is the median from the commit of a
change to the end of its time (``on_time_end``), on one worker; ``send_ms`` is what its Python connector takes
for the rows before that, one call for each. Its telemetry is switched off, and without a licence key it asks
nobody. The rows are drawn as those of ``cases.py``; how many rows the result has is compared with pandas'.
"""

import argparse
import json
import os
import threading
from time import perf_counter
from typing import Any

os.environ["PATHWAY_TELEMETRY_SERVER"] = ""
os.environ["PATHWAY_THREADS"] = "1"

import numpy as np
import pandas as pd
import pathway as pw  # type: ignore[import-not-found]

AIMS = ("join", "sum by key", "max of one group", "top 10 by key", "distinct")
KEYS = {"join": 1.0, "sum by key": 1.0, "max of one group": 0.0, "top 10 by key": 0.1, "distinct": 1.0}


SCHEMA = pw.schema_builder(
    {
        "id_": pw.column_definition(dtype=int, primary_key=True),
        "k": pw.column_definition(dtype=int),
        "v": pw.column_definition(dtype=int),
    }
)


def rows_of(name: str, rows: int, epochs: int, seed: int) -> pd.DataFrame:
    """The first rows and the changes, with times and weights, as ``cases.Rows`` draws them."""
    random = np.random.default_rng(seed)
    keys = max(1, int(rows * KEYS[name]))
    ids = np.arange(rows)
    k, v = random.integers(0, keys, rows), random.integers(0, 2**40, rows)
    parts: list[tuple[Any, ...]] = [
        (ids.copy(), k.copy(), v.copy(), np.ones(rows, np.int64), np.zeros(rows, np.int64))
    ]
    following = rows
    for epoch in range(1, epochs + 1):
        at = np.unique(random.integers(0, rows, 500))
        if name == "max of one group":
            at = np.unique(np.append(at[1:], np.argmax(v)))
        new = np.arange(following, following + len(at))
        following += len(at)
        gone = ids[at].copy(), k[at].copy(), v[at].copy()
        ids[at] = new
        k[at], v[at] = random.integers(0, keys, len(at)), random.integers(0, 2**40, len(at))
        ones = np.ones(len(at), np.int64)
        times = np.full(2 * len(at), 2 * epoch)
        columns = zip(gone, (new, k[at], v[at]), strict=True)
        parts.append((*(np.concatenate(each) for each in columns), np.concatenate((-ones, ones)), times))
    joined = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return pd.DataFrame(dict(zip(("id_", "k", "v", "__diff__", "__time__"), joined, strict=True)))


def query_of(name: str, tables: list[Any]) -> Any:  # noqa: ANN401 - a table of Pathway
    """The query in Pathway's words."""
    a = tables[0]
    if name == "join":
        b = tables[1]
        return a.join(b, a.k == b.k).select(a.id_, a.k, a.v, id_right=b.id_, v_right=b.v)
    if name == "sum by key":
        return a.groupby(a.k).group_by(a.k).agg(total=pw.reducers.sum(a.v))
    if name == "max of one group":
        return a.groupby(a.k).group_by(a.k).agg(most=pw.reducers.max(a.v))
    if name == "distinct":
        return a.groupby(a.k).group_by(a.k).agg()
    sorted_rows = a.select(a.k, pair=pw.make_tuple(-a.v, a.id_))
    every = pw.reducers.sorted_tuple(sorted_rows.pair)
    first = pw.apply_with_type(lambda rows: tuple(rows[:10]), tuple, every)
    return sorted_rows.groupby(sorted_rows.k).group_by(sorted_rows.k).agg(top=first)


def main() -> None:
    """Measure the queries that are asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("rows", nargs="?", type=int, default=1_000_000)
    asked.add_argument("--epochs", type=int, default=40)
    asked.add_argument("--only", choices=AIMS)
    given = asked.parse_args()
    for name in AIMS if given.only is None else (given.only,):
        run(name, given.rows, given.epochs)


class Changes(pw.io.python.ConnectorSubject):  # type: ignore[misc]
    """Sends the rows of one table, epoch by epoch, each when all tables are told to continue."""

    def __init__(self, epochs: list[list[dict[str, int]]], gate: "Gate") -> None:
        super().__init__()
        self._epochs = epochs
        self._gate = gate

    def run(self) -> None:
        """Send and commit, then wait for the result."""
        for number, rows in enumerate(self._epochs):
            began = perf_counter()
            for row in rows:
                weight = row.pop("__diff__")
                if weight > 0:
                    self.next(**row)
                else:
                    self.delete(**row)
            self._gate.sent.append(perf_counter() - began)
            self.commit()
            self._gate.wait(number)


class Gate:
    """Lets all tables continue together when a result is there."""

    def __init__(self, parties: int) -> None:
        self._meet = threading.Barrier(parties)
        self._news = threading.Event()
        self.sent: list[float] = []
        self.waited: list[float] = []

    def wait(self, number: int) -> None:
        """Wait until the result of what all have committed is there."""
        if self._meet.wait() == 0:
            self._began = perf_counter()
        self._news.wait()
        if self._meet.wait() == 0:
            self.waited.append(perf_counter() - self._began)
            self._news.clear()
        self._meet.wait()
        del number

    def told(self, time: int) -> None:
        """A time is over."""
        del time
        self._news.set()


def run(name: str, rows: int, epochs: int) -> None:
    """One query in one run of Pathway, and its line."""
    frames = [rows_of(name, rows, epochs, seed) for seed in range(2 if name == "join" else 1)]
    gate = Gate(len(frames))
    tables = []
    for frame in frames:
        own = [
            part.drop(columns="__time__").to_dict("records")
            for _, part in frame.groupby("__time__", sort=True)
        ]
        tables.append(pw.io.python.read(Changes(own, gate), schema=SCHEMA, autocommit_duration_ms=None))
    there = [0]

    def on_change(key: Any, row: Any, time: int, is_addition: bool) -> None:  # noqa: ANN401 - Pathway's
        there[0] += 1 if is_addition else -1

    pw.io.subscribe(query_of(name, tables), on_change, on_time_end=gate.told)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    left = [frame.groupby(["id_", "k", "v"])["__diff__"].sum() for frame in frames]
    now = [each[each > 0].reset_index() for each in left]
    wanted = len(now[0].merge(now[1], on="k")) if name == "join" else now[0]["k"].nunique()
    assert there[0] == wanted, f"{name}: {there[0]} rows, and there should be {wanted}"
    line = {
        "case": name,
        "peer": "pathway",
        "rows": rows,
        "first_s": round(sum(gate.sent[: len(frames)]) + gate.waited[0], 3),
        "send_ms": round(float(np.median(gate.sent[len(frames) :])) * 1e3, 3),
        "wait_ms": round(float(np.median(gate.waited[1:])) * 1e3, 3),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(line), flush=True)
    pw.internals.parse_graph.G.clear()


if __name__ == "__main__":
    main()
