"""A sink of one's own: exactly-once output into SQLite, as the sink port asks for it.

Workers stage rows into one table, each piece under a token; a commit copies the rows of its pieces into
another and notes its number, in one transaction of SQLite. That is all. Rows are kept as text, to be short.
"""

import sqlite3
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from pointstamp.connectors.sink import Epochs, Staged
from pointstamp.errors import StorageError

TABLES = (
    "CREATE TABLE IF NOT EXISTS staged (token TEXT, generation INTEGER, epoch INTEGER, row TEXT)",
    "CREATE TABLE IF NOT EXISTS published (token TEXT, epoch INTEGER, row TEXT)",
    "CREATE TABLE IF NOT EXISTS commits (number INTEGER PRIMARY KEY, through INTEGER, tokens TEXT)",
)
LOCK_SECONDS_MAX = 60.0
Steps = Callable[[sqlite3.Connection], int | None]


def connected(path: str) -> sqlite3.Connection:
    """Wait for others who write, also where they wait for the disk: SQLite's own five seconds are few."""
    return sqlite3.connect(path, timeout=LOCK_SECONDS_MAX)


@dataclass(frozen=True)
class SqliteSink:
    """A file of SQLite, which all workers reach; the sink is its own writer and publisher."""

    path: str
    connect: Callable[[str], sqlite3.Connection] = connected
    worker: int = 0
    generation: int = 0

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "SqliteSink":
        return self

    def writer(self, worker: int, generation: int) -> "SqliteSink":
        return replace(self, worker=worker, generation=generation)

    def publisher(self) -> "SqliteSink":
        return self

    def check_outputs(self, before: Collection[str]) -> None:
        """Rows are text, so any outputs will do."""

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        rows = [(epoch, repr(row)) for epoch in epochs for part in epochs[epoch] for row in part.to_pylist()]
        token = f"{output}/{min(epochs)}-{self.worker}-{self.generation}"
        values = [(token, self.generation, *row) for row in rows]
        self._at_once(lambda db: db.executemany("INSERT INTO staged VALUES (?, ?, ?, ?)", values).rowcount)
        text = repr(rows).encode()
        return [Staged(output, min(epochs), max(epochs), token, len(rows), len(text), zlib.crc32(text))]

    def begin(self) -> None:
        self._at_once(lambda db: db.execute("INSERT OR IGNORE INTO commits VALUES (-1, -1, '[]')").rowcount)

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        tokens = sorted(piece.path for piece in staged)
        commit = (number, epochs_through, repr(tokens))

        def steps(db: sqlite3.Connection) -> None:
            there = db.execute("SELECT * FROM commits WHERE number = ?", [number]).fetchone()
            if there == commit:
                return
            count = db.execute("SELECT count(*) FROM commits WHERE number >= 0").fetchone()[0]
            if there or count != number:
                raise StorageError(
                    f"commit {number} was given, but {there or f'{count} commits'} are published."
                )
            db.execute("INSERT INTO commits VALUES (?, ?, ?)", commit)
            for token in tokens:
                db.execute(
                    "INSERT INTO published SELECT token, epoch, row FROM staged WHERE token = ?", [token]
                )

        self._at_once(steps)

    def published_through(self) -> int | None:
        return self._at_once(lambda db: db.execute("SELECT max(through) FROM commits").fetchone()[0])

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        # Also what is published: its rows are in the other table.
        kept = repr([piece.path for piece in keep])
        sql = "DELETE FROM staged WHERE generation < ? AND instr(?, '''' || token || '''') = 0"
        self._at_once(lambda db: db.execute(sql, [generation, kept]).rowcount)

    def _at_once(self, steps: Steps) -> int | None:
        with closing(self.connect(self.path)) as db, db:
            db.execute("BEGIN IMMEDIATE")
            for table in TABLES:
                db.execute(table)
            return steps(db)
