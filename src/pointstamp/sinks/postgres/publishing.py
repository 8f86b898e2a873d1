"""Publish a commit's rows and number in one transaction.

A number that is there says that its rows are there. Of two drivers that publish the same commit at once, one
waits for the other at the number, and then finds it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pointstamp.errors import RecoveryError, StorageError
from pointstamp.sinks.port import PublisherBase, Staged
from pointstamp.sinks.postgres.database import Database
from pointstamp.sinks.postgres.registry import Registry, digest
from pointstamp.sinks.postgres.tables import OutputColumns

if TYPE_CHECKING:
    from pointstamp.sinks.postgres.database import Connection


class PostgresPublisher(PublisherBase):
    """Publishes the commits of one query."""

    def __init__(self, database: Database, registry: Registry, outputs: Mapping[str, OutputColumns]) -> None:
        self._database = database
        self._registry = registry
        self._outputs = outputs

    def check_outputs(self, before: Collection[str]) -> None:
        """An output may begin or end with any commit; its columns and its key stay as they are."""
        del before  # the database says what there is
        with self._database.transaction() as connection:
            known = self._registry.outputs(connection)
            for output, said in self._outputs.items():
                if output in known:
                    problem = self._registry.problem(output, said, known[output])
                else:
                    problem = self._stranger(connection, output)
                if problem is not None:
                    raise RecoveryError(
                        f"{problem} Nothing was changed. Undo the change, or give another name, another "
                        "schema, or a new checkpoint with a new schema."
                    )

    def begin(self) -> None:
        """Make the tables, and note that the query has no commit yet, unless something is noted."""
        with self._database.transaction() as connection:
            self._registry.ensure(connection, self._outputs)
            self._registry.begin_output(connection)

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Apply all pieces and record the number in one transaction, unless it is recorded."""
        pieces: dict[str, dict[str, int]] = {}
        for piece in staged:
            pieces.setdefault(piece.output, {})[piece.path.rpartition("/")[2]] = piece.rows
        with self._database.transaction() as connection:
            known = self._registry.ensure(connection, self._outputs)
            if not self._registry.begin_commit(connection, number, epochs_through, digest(staged)):
                return
            own = self._registry.own(known)
            for output, its_pieces in pieces.items():
                if output not in own:
                    raise StorageError(
                        f"commit {number} has rows of output '{output}', but the schema "
                        f"'{self._registry.schema}' has no table for it. Start with a new checkpoint and "
                        "another schema."
                    )
                own[output].publish(connection, its_pieces)

    def published_through(self) -> int | None:
        """The last epoch of the last commit; None before the first."""
        with self._database.transaction() as connection:
            last = self._registry.last(connection)
        return None if last is None else last[1]

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged, unless it is kept; what is published is elsewhere."""
        kept = [piece.path.rpartition("/")[2] for piece in keep]
        with self._database.transaction() as connection:
            known = self._registry.outputs(connection)
            for table in self._registry.own(known).values():
                table.discard(connection, generation, kept)

    def _stranger(self, connection: "Connection", output: str) -> str | None:
        """The words for a table of this name that no query has made."""
        schema = self._registry.schema
        sql = (
            "SELECT 1 FROM pg_class WHERE relname = %s AND "
            "relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)"
        )
        if connection.execute(sql, [output, schema]).fetchone() is None:
            return None
        return f"there is already something named '{schema}.{output}', which no query of pointstamp has made."
