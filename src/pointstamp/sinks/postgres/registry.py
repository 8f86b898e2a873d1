"""The registry in the database: outputs, owners and commits.

    _pointstamp_outputs    one row for each output: its query, and what its table is like
    _pointstamp_commits    the last commits of each query: number, last epoch, and a digest of the content
    _pointstamp_staged_*   what workers have staged for an output, and no commit has published yet

They lie in the schema of the output's tables. A process that finds them missing makes them under a lock, so
that it does not matter which one comes first.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from pointstamp.errors import StorageError
from pointstamp.sinks.port import Staged
from pointstamp.sinks.postgres.database import identifier, psycopg_package, run
from pointstamp.sinks.postgres.tables import KeptTable, OutputColumns

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from pointstamp.sinks.postgres.database import Connection

COMMITS_KEPT: Final = 10_000
"""Of so many commits the database can say what they held; one that is older is only known to be there."""

_FORGET_EVERY: Final = 1_000
_OUTPUTS: Final = "_pointstamp_outputs"
_COMMITS: Final = "_pointstamp_commits"
_LOCK: Final = 0x706F696E74  # "point": everybody who makes tables takes it


class Registry:
    """The registry of a schema: the outputs of one query, and tables of others."""

    def __init__(self, schema: str, query: str) -> None:
        self.schema = schema
        self.query = query
        self._is_made = False  # seen at the beginning of a transaction: then they stay

    def is_made(self, connection: "Connection") -> bool:
        """Whether any query has published into this schema, or begun to."""
        if not self._is_made:
            found = connection.execute(
                "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename = ANY(%s)",
                [self.schema, [_OUTPUTS, _COMMITS]],
            ).fetchone()
            self._is_made = found is not None and found[0] == 2
        return self._is_made

    def outputs(self, connection: "Connection") -> dict[str, tuple[str, OutputColumns]]:
        """All outputs in the schema: the query of each, and what its table is like."""
        return self._listed(connection) if self.is_made(connection) else {}

    def _listed(self, connection: "Connection") -> dict[str, tuple[str, OutputColumns]]:
        rows = run(connection, self._sql("SELECT output, query, said FROM {}", _OUTPUTS)).fetchall()
        return {
            output: (query, msgspec.json.decode(said, type=OutputColumns)) for output, query, said in rows
        }

    def own(self, known: Mapping[str, tuple[str, OutputColumns]]) -> dict[str, KeptTable]:
        """The tables of this query among these, also of outputs that are gone from the flow."""
        return {
            output: self.table(output, said) for output, (query, said) in known.items() if query == self.query
        }

    def table(self, output: str, said: OutputColumns) -> KeptTable:
        """The tables of an output."""
        tag = hashlib.blake2b(output.encode(), digest_size=8).hexdigest()
        return KeptTable(self.schema, output, f"_pointstamp_staged_{tag}", said)

    def ensure(
        self, connection: "Connection", wanted: Mapping[str, OutputColumns]
    ) -> dict[str, tuple[str, OutputColumns]]:
        """All outputs, after what was missing is made; StorageError for one of another query or columns."""
        known = self.outputs(connection)
        if any(output not in known for output in wanted) or not self._is_made:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            self._make(connection)
            known = self._listed(connection)  # another process may have been here first
            for output, said in wanted.items():
                if output not in known:
                    self.table(output, said).make(connection)
                    insert = self._sql("INSERT INTO {} (output, query, said) VALUES (%s, %s, %s)", _OUTPUTS)
                    run(connection, insert, [output, self.query, msgspec.json.encode(said).decode()])
                    known[output] = (self.query, said)
        for output, said in wanted.items():
            if problem := self.problem(output, said, known[output]):
                raise StorageError(problem)
        return known

    def problem(self, output: str, said: OutputColumns, there: tuple[str, OutputColumns]) -> str | None:
        """Return why an output cannot continue with its table, as text; None if it can."""
        query, before = there
        if query != self.query:
            return (
                f"the table '{self.schema}.{output}' belongs to the query '{query}', and '{self.query}' may "
                "not publish there; runs do not mix. Give another schema."
            )
        if before != said:
            return (
                f"the table '{self.schema}.{output}' has {before.described()}, but output '{output}' has "
                f"{said.described()}."
            )
        return None

    def last(self, connection: "Connection") -> tuple[int, int] | None:
        """The number and the last epoch of the last commit; None before the first."""
        return self._last(connection) if self.is_made(connection) else None

    def _last(self, connection: "Connection") -> tuple[int, int] | None:
        sql = self._sql(
            "SELECT number, through FROM {} WHERE query = %s ORDER BY number DESC LIMIT 1", _COMMITS
        )
        found = run(connection, sql, [self.query]).fetchone()
        return None if found is None else (found[0], found[1])

    def begin_output(self, connection: "Connection") -> None:
        """Note that there is no commit yet, as commit -1, unless something is noted."""
        if self._last(connection) is None:
            insert = (
                "INSERT INTO {} (query, number, through, content) VALUES (%s, -1, -1, %s) "
                "ON CONFLICT DO NOTHING"
            )
            run(connection, self._sql(insert, _COMMITS), [self.query, digest([])])

    def begin_commit(self, connection: "Connection", number: int, through: int, content: str) -> bool:
        """Record a commit in the transaction of its rows; False if it is recorded with this content."""
        last = self._last(connection)
        expected = 0 if last is None else last[0] + 1
        if number > expected:
            raise StorageError(
                f"the tables in '{self.schema}': expected commit {expected} of '{self.query}', got commit "
                f"{number}."
            )
        insert = (
            "INSERT INTO {} (query, number, through, content) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        )
        values = [self.query, number, through, content]
        # Another driver with the same number is waited for here: then its row is there, or it has failed.
        if number == expected and run(connection, self._sql(insert, _COMMITS), values).rowcount == 1:
            if number % _FORGET_EVERY == 0:
                forget = self._sql("DELETE FROM {} WHERE query = %s AND number <= %s", _COMMITS)
                run(connection, forget, [self.query, number - COMMITS_KEPT])
            return True
        sql = self._sql("SELECT through, content FROM {} WHERE query = %s AND number = %s", _COMMITS)
        there = run(connection, sql, [self.query, number]).fetchone()
        if there is not None and there != (through, content):
            raise StorageError(
                f"the tables in '{self.schema}': commit {number} of '{self.query}' was already published "
                "with different content. Use a new checkpoint and another schema."
            )
        return False

    def _make(self, connection: "Connection") -> None:
        sql = psycopg_package().sql
        schemas = connection.execute(
            "SELECT 1 FROM pg_namespace WHERE nspname = %s", [self.schema]
        ).fetchone()
        if schemas is None:
            run(connection, sql.SQL("CREATE SCHEMA {}").format(identifier(self.schema)))
        for name, columns in (
            (_OUTPUTS, "output text PRIMARY KEY, query text NOT NULL, said text NOT NULL"),
            (
                _COMMITS,
                "query text, number bigint, through bigint NOT NULL, content text NOT NULL, "
                "PRIMARY KEY (query, number)",
            ),
        ):
            run(connection, self._sql(f"CREATE TABLE IF NOT EXISTS {{}} ({columns})", name))

    def _sql(self, text: str, table: str) -> "Composed":
        sql = psycopg_package().sql
        composed: Composed = sql.SQL(text).format(identifier(self.schema, table))
        return composed


def digest(staged: Iterable[Staged]) -> str:
    """Return the digest that identifies the pieces of a commit."""
    content = msgspec.json.encode(sorted(staged, key=lambda piece: piece.path))
    return hashlib.blake2b(content, digest_size=16).hexdigest()
