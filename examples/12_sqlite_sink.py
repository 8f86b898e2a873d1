"""A sink of your own: epochs into a table of SQLite, each exactly once, in two phases.

Workers *stage* rows under a token, invisible to readers. The query records in its journal which tokens belong
to a commit, and then *publishes*: one transaction that copies the rows and records the commit's number. After
a crash the last commit is published again, and its number shows that it is already there.
"""
# ruff: noqa: D101, D102 - the sink port says what each of these is for

import json
import sqlite3
import tempfile
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import pointstamp as ps

TABLES = ["staged (token, generation, epoch, row)", "published (epoch, row)", "commits (number, through)"]


@dataclass(frozen=True)
class SqliteSink:  # a plain value, which travels to the workers
    path: str
    worker: int = 0
    generation: int = 0

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "SqliteSink":
        return self

    def writer(self, worker: int, generation: int) -> "SqliteSink":
        return replace(self, worker=worker, generation=generation)

    def publisher(self) -> "SqliteSink":
        return self

    def stage(self, output: str, epochs: Mapping[int, Collection[pa.RecordBatch]]) -> list[ps.ports.Staged]:
        token = f"{output}-{min(epochs)}-{self.worker}-{self.generation}"
        rows = [(epoch, json.dumps(row)) for epoch in epochs for b in epochs[epoch] for row in b.to_pylist()]
        sql = "INSERT INTO staged VALUES (?, ?, ?, ?)"
        self.at_once(*((sql, (token, self.generation, *row)) for row in rows))
        return [ps.ports.Staged(output, min(epochs), max(epochs), token, len(rows), 0, 0)]

    def begin(self) -> None:  # a mark before the first commit: a table without any has lost its own
        self.publish(-1, -1, [])

    def publish(self, number: int, epochs_through: int, staged: Collection[ps.ports.Staged]) -> None:
        copy = "INSERT INTO published SELECT epoch, row FROM staged WHERE token = ? AND "
        copy += "NOT EXISTS (SELECT * FROM commits WHERE number = ?)"
        copies = ((copy, (piece.path, number)) for piece in staged)
        self.at_once(*copies, ("INSERT INTO commits VALUES (?, ?)", (number, epochs_through)))

    def published_through(self) -> int | None:
        return self.at_once(("SELECT max(through) FROM commits", ()))[0][0]

    def discard(self, generation: int, keep: Collection[ps.ports.Staged]) -> None:
        sql = "DELETE FROM staged WHERE generation < ? AND token NOT IN (SELECT value FROM json_each(?))"
        self.at_once((sql, (generation, json.dumps([piece.path for piece in keep]))))

    def at_once(self, *steps: tuple[str, tuple[Any, ...]]) -> list[Any]:  # in one transaction
        with closing(sqlite3.connect(self.path)) as db, db:
            for table in TABLES:
                db.execute(f"CREATE TABLE IF NOT EXISTS {table}")
            db.execute("BEGIN IMMEDIATE")
            return [row for sql, values in steps for row in db.execute(sql, values).fetchall()]


flow = ps.Dataflow("words")
flow.output("counts", flow.stream_input("words", "word string").group_by("word", running=True).count())

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sink = SqliteSink(f"{folder}/words.db")
        words = [[{"word": "to"}, {"word": "be"}], [{"word": "to"}]]
        flow.start(words=words, checkpoint=f"{folder}/checkpoint", output=sink).await_termination()
        for epoch, row in sink.at_once(("SELECT * FROM published ORDER BY epoch, row", ())):
            print(epoch, row)

# 0 {"word": "be", "count": 1}
# 0 {"word": "to", "count": 1}
# 1 {"word": "to", "count": 2}
