"""Published and staging tables of an output, and how a commit changes them.

There are three kinds. A stream is *appended*, with the epoch of each row. A table whose key is known is
*keyed*: each row is there once, and a commit updates, deletes and inserts by key. A table without a key is
*weighted*: each row is there once, beside how often it is there. What changes add up to within a commit is
found by the database itself.

Invariant: a commit finds every row that it removes exactly as often as it removes it. Otherwise another
writer has changed the table, or the key is none, and nothing is changed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from pointstamp.errors import FlowError, StorageError
from pointstamp.sinks.files import EPOCH_COLUMN
from pointstamp.sinks.postgres.database import identifier, psycopg_package, run
from pointstamp.tables.kept.weights import DIFF

if TYPE_CHECKING:
    from psycopg.sql import Composed, Identifier

    from pointstamp.sinks.postgres.database import Connection

PIECE: Final = "_pointstamp_piece"
GENERATION: Final = "_pointstamp_generation"
EPOCH: Final[str] = EPOCH_COLUMN.name
WEIGHT: Final = "weight"
"""The column of a weighted table that says how often a row is there."""

NET: Final = "_pointstamp_weight"
"""How often a row comes or goes with a commit; a column of a statement, whose name no output can have."""

TableKind: TypeAlias = Literal["appended", "keyed", "weighted"]


class OutputColumns(msgspec.Struct, frozen=True):
    """The recorded layout of an output: table kind, columns with types, and key."""

    kind: TableKind
    columns: dict[str, str]
    key: list[str]

    def described(self) -> str:
        """For messages."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        return f"{columns} ({self.kind}{' by ' + ', '.join(self.key) if self.key else ''})"


class KeptTable:
    """The tables of one output in a schema of the database."""

    def __init__(self, schema: str, output: str, staging: str, said: OutputColumns) -> None:
        self._sql = psycopg_package().sql
        self._output = output
        self._name = f"{schema}.{output}"
        self.said = said
        self.table = identifier(schema, output)
        self.staging = identifier(schema, staging)

    @property
    def staged_columns(self) -> list[str]:
        """The columns that a worker stages, besides its piece and its generation."""
        weight = [] if self.said.kind == "appended" else [DIFF]
        return [EPOCH, *self._own, *weight]

    @property
    def _own(self) -> list[str]:
        """The columns of a row."""
        return list(self.said.columns)

    def make(self, connection: "Connection") -> None:
        """Make the tables where they are missing."""
        types = {name: self._sql.SQL(kind) for name, kind in self.said.columns.items()}
        own = [self._format("{} {}", self._id(name), types[name]) for name in self._own]
        ends = {
            "appended": [],
            "keyed": [self._format("PRIMARY KEY ({})", self._list(self.said.key))] if self.said.key else [],
            "weighted": [self._format("{} bigint NOT NULL", self._id(WEIGHT))],
        }[self.said.kind]
        begin = [self._format("{} bigint NOT NULL", self._id(EPOCH))] if self.said.kind == "appended" else []
        columns = self._joined([*begin, *own, *ends])
        run(connection, self._format("CREATE TABLE {} ({})", self.table, columns))
        if self.said.kind == "weighted":
            run(connection, self._format("CREATE INDEX ON {} ({})", self.table, self._hash(None)))
        weight = [self._format("{} bigint NOT NULL", self._id(DIFF))] if self.said.kind != "appended" else []
        own_staged = [
            self._format("{} text NOT NULL", self._id(PIECE)),
            self._format("{} bigint NOT NULL", self._id(GENERATION)),
            self._format("{} bigint NOT NULL", self._id(EPOCH)),
        ]
        staged = self._joined([*own_staged, *own, *weight])
        run(connection, self._format("CREATE TABLE {} ({})", self.staging, staged))
        run(connection, self._format("CREATE INDEX ON {} ({})", self.staging, self._id(PIECE)))

    def publish(self, connection: "Connection", pieces: dict[str, int]) -> None:
        """Move pieces, each of so many rows, from where they were staged into the table."""
        pg = psycopg_package()
        ways = {"appended": self._by_appending, "keyed": self._by_key, "weighted": self._by_weight}
        try:
            found = run(connection, ways[self.said.kind](), [list(pieces)]).fetchone()
        except pg.errors.UniqueViolation as error:
            raise FlowError(
                f"the table '{self._name}' already has a row with an inserted key: "
                f"{error.diag.message_detail or error} Either {', '.join(self.said.key)} is not a key of "
                f"output '{self._output}', or another writer has added rows. {_ANEW}"
            ) from error
        assert found is not None
        moved, wanted_gone, gone, wanted_come, come = found
        for piece, rows in pieces.items():
            if (moved or {}).get(piece, 0) != rows:
                raise StorageError(
                    f"the table '{self._name}': expected {rows} staged rows as '{piece}', got "
                    f"{(moved or {}).get(piece, 0)}. Another writer has removed them: start with a new "
                    "checkpoint and another schema."
                )
        if (wanted_gone, wanted_come) != (gone, come):
            raise FlowError(
                f"the table '{self._name}': a commit deletes {wanted_gone} rows and inserts "
                f"{wanted_come}, but {gone} were deleted and {come} inserted. Either the rows of output "
                f"'{self._output}' have no such key, or another writer has changed the table. {_ANEW}"
            )

    def discard(self, connection: "Connection", generation: int, keep: list[str]) -> None:
        """Remove what earlier generations have staged, except these pieces."""
        sql = self._format(
            "DELETE FROM {} WHERE {} < %s AND {} <> ALL(%s)",
            *(self.staging, self._id(GENERATION), self._id(PIECE)),
        )
        run(connection, sql, [generation, keep])

    def _by_appending(self) -> "Composed":
        text = """
            WITH {moved}, appended AS (INSERT INTO {table} ({columns}) SELECT {columns} FROM moved)
            SELECT {counts}, 0, 0, 0, 0
        """
        return self._filled(
            text,
            moved=self._moved(),
            table=self.table,
            columns=self._list(self.staged_columns),
            counts=self._counts(),
        )

    def _by_key(self) -> "Composed":
        own = self._own
        same_key = self._joined([self._same("come", "gone", name) for name in self.said.key], " AND ")
        there = self._joined([self._same("there", "gone", name) for name in own], " AND ")
        rest = [name for name in own if name not in self.said.key] or self.said.key
        settings = [self._format("{} = come.{}", self._id(name), self._id(name)) for name in rest]
        text = """
            WITH {moved}, net AS ({net}),
                 gone AS (SELECT * FROM net WHERE {weight} < 0),
                 come AS (SELECT * FROM net WHERE {weight} > 0),
                 deleted AS (DELETE FROM {table} AS there USING gone
                             WHERE {there} AND NOT EXISTS (SELECT FROM come WHERE {same_key}) RETURNING 1),
                 updated AS (UPDATE {table} AS there SET {settings} FROM come, gone
                             WHERE {same_key} AND {there} RETURNING 1),
                 inserted AS (INSERT INTO {table} ({own}) SELECT {own} FROM come
                              WHERE NOT EXISTS (SELECT FROM gone WHERE {same_key}) RETURNING 1)
            SELECT {counts}, (SELECT coalesce(-sum({weight}), 0) FROM gone),
                   (SELECT count(*) FROM deleted) + (SELECT count(*) FROM updated),
                   (SELECT coalesce(sum({weight}), 0) FROM come),
                   (SELECT count(*) FROM updated) + (SELECT count(*) FROM inserted)
        """
        return self._filled(
            text,
            moved=self._moved(),
            counts=self._counts(),
            net=self._net(NET),
            table=self.table,
            own=self._list(own),
            weight=self._id(NET),
            there=there,
            same_key=same_key,
            settings=self._joined(settings),
        )

    def _by_weight(self) -> "Composed":
        same = [self._same("there", "net", name) for name in self._own]
        hashes = self._format("{} = {}", self._hash("there"), self._hash("net"))
        text = """
            WITH {moved}, net AS ({net}),
                 changed AS (UPDATE {table} AS there SET {weight} = there.{weight} + net.{weight} FROM net
                             WHERE {same} AND there.{weight} + net.{weight} > 0
                             RETURNING net.{weight} AS by_),
                 deleted AS (DELETE FROM {table} AS there USING net
                             WHERE {same} AND there.{weight} + net.{weight} = 0
                             RETURNING net.{weight} AS by_),
                 inserted AS (INSERT INTO {table} ({own}, {weight}) SELECT {own}, {weight} FROM net
                              WHERE {weight} > 0 AND NOT EXISTS (SELECT FROM {table} AS there WHERE {same})
                              RETURNING {weight} AS by_),
                 applied AS (SELECT by_ FROM changed UNION ALL SELECT by_ FROM deleted
                             UNION ALL SELECT by_ FROM inserted)
            SELECT {counts}, (SELECT coalesce(-sum({weight}), 0) FROM net WHERE {weight} < 0),
                   (SELECT coalesce(-sum(by_), 0) FROM applied WHERE by_ < 0),
                   (SELECT coalesce(sum({weight}), 0) FROM net WHERE {weight} > 0),
                   (SELECT coalesce(sum(by_), 0) FROM applied WHERE by_ > 0)
        """
        return self._filled(
            text,
            moved=self._moved(),
            counts=self._counts(),
            net=self._net(WEIGHT),
            table=self.table,
            own=self._list(self._own),
            weight=self._id(WEIGHT),
            same=self._joined([hashes, *same], " AND "),
        )

    def _moved(self) -> "Composed":
        """The staged rows of the pieces, taken away from where they were staged."""
        text = "moved AS (DELETE FROM {} WHERE {} = ANY(%s) RETURNING *)"
        return self._format(text, self.staging, self._id(PIECE))

    def _counts(self) -> "Composed":
        """How many rows of each piece there were."""
        text = (
            "(SELECT jsonb_object_agg(p, n) FROM (SELECT {0} AS p, count(*) AS n FROM moved GROUP BY {0}) c)"
        )
        return self._format(text, self._id(PIECE))

    def _net(self, weight: str) -> "Composed":
        """What the staged changes add up to: each row once, with its weight in a column of this name."""
        text = "SELECT {0}, sum({1})::bigint AS {2} FROM moved GROUP BY {0} HAVING sum({1}) <> 0"
        return self._format(text, self._list(self._own), self._id(DIFF), self._id(weight))

    def _hash(self, where: str | None) -> "Composed":
        """The hash of a row, by which it is found: equal rows have equal ones."""
        names = [self._id(name) if where is None else self._column(where, name) for name in self._own]
        return self._format("hash_record_extended(ROW({}), 0)", self._joined(names))

    def _same(self, one: str, other: str, name: str) -> "Composed":
        is_key = name in self.said.key
        word = "=" if is_key else "IS NOT DISTINCT FROM"
        return self._format(f"{{}} {word} {{}}", self._column(one, name), self._column(other, name))

    def _column(self, table: str, name: str) -> "Identifier":
        return identifier(table, name)

    def _id(self, name: str) -> "Identifier":
        return identifier(name)

    def _list(self, names: list[str]) -> "Composed":
        return self._joined([self._id(name) for name in names])

    def _joined(self, parts: Sequence[object], word: str = ", ") -> "Composed":
        joined: Composed = self._sql.SQL(word).join(parts)
        return joined

    def _format(self, text: str, *parts: object) -> "Composed":
        composed: Composed = self._sql.SQL(text).format(*parts)
        return composed

    def _filled(self, text: str, **parts: object) -> "Composed":
        composed: Composed = self._sql.SQL(text).format(**parts)
        return composed


_ANEW: Final = (
    "Nothing was changed. Start with a new checkpoint and another schema, give the columns that are a "
    "key, and allow no other writer to the table."
)
