"""Stage a worker's rows in a separate table of the database."""

import secrets
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.rows.columns import integers
from pointstamp.sinks.files import EPOCH_COLUMN
from pointstamp.sinks.port import Epochs, Staged, WriterBase
from pointstamp.sinks.postgres.columns import as_csv
from pointstamp.sinks.postgres.database import Database, identifier, psycopg_package
from pointstamp.sinks.postgres.registry import Registry
from pointstamp.sinks.postgres.tables import GENERATION, PIECE, KeptTable, OutputColumns

if TYPE_CHECKING:
    from pointstamp.sinks.postgres.database import Connection


class StagedRows(WriterBase):
    """Stages the rows of one worker, in one generation."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        outputs: Mapping[str, OutputColumns],
        schemas: Mapping[str, pa.Schema],
        worker: int,
        generation: int,
    ) -> None:
        self._database = database
        self._registry = registry
        self._outputs = outputs
        self._schemas = schemas
        self._worker = worker
        self._generation = generation
        self._is_made = False

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        """Copy all rows of these epochs into the database in one transaction; no piece without rows."""
        tables = {
            epoch: table
            for epoch, batches in sorted(epochs.items())
            if batches and (table := pa.Table.from_batches(batches)).num_rows
        }
        if not tables:
            return []
        rows = pa.concat_tables([self._with_epoch(output, epoch, table) for epoch, table in tables.items()])
        first, last = min(tables), max(tables)
        # Drawn at random besides: a process that was given up may still think that it is this worker.
        piece = f"{self._generation}-{self._worker}-{first}-{secrets.token_hex(4)}"
        content = as_csv(output, _with_piece(rows, piece, self._generation))
        kept = self._registry.table(output, self._outputs[output])
        with self._database.transaction() as connection:
            if not self._is_made:
                self._registry.ensure(connection, self._outputs)
            self._copy(connection, output, kept, content)
        self._is_made = True
        return [
            Staged(output, first, last, f"{output}/{piece}", rows.num_rows, len(content), zlib.crc32(content))
        ]

    def _copy(self, connection: "Connection", output: str, kept: KeptTable, content: bytes) -> None:
        pg = psycopg_package()
        columns = pg.sql.SQL(", ").join(map(identifier, [PIECE, GENERATION, *kept.staged_columns]))
        statement = pg.sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(kept.staging, columns)
        plain = statement.as_bytes(connection).replace(b"%%", b"%")  # COPY has no parameters
        try:
            with connection.cursor() as cursor, cursor.copy(plain) as copy:
                copy.write(content)
        except (pg.DataError, pg.IntegrityError) as error:
            said = (str(error).splitlines() or [""])[0]
            raise SchemaError(
                f"output '{output}' has values that its table in PostgreSQL cannot hold: {said}. Cast them "
                "in the flow."
            ) from error

    def _with_epoch(self, output: str, epoch: int, table: pa.Table) -> pa.Table:
        said = self._outputs[output]
        try:
            fitted = table.cast(self._schemas[output])
        except (pa.ArrowInvalid, ValueError) as error:
            raise SchemaError(
                f"output '{output}' has values that the types of its table cannot hold: {error}. Round or "
                "cast them in the flow."
            ) from error
        for name in said.key:
            if fitted[name].null_count:
                raise SchemaError(
                    f"output '{output}' has a row of epoch {epoch} with null in the key column '{name}'. "
                    "Replace nulls in the flow, or give no key."
                )
        epochs = integers(np.full(table.num_rows, epoch), EPOCH_COLUMN.type)
        return fitted.add_column(0, EPOCH_COLUMN, epochs)


def _with_piece(rows: pa.Table, piece: str, generation: int) -> pa.Table:
    """The rows with the two columns that say whose they are."""
    marked = rows.add_column(0, GENERATION, [pa.repeat(pa.scalar(generation), rows.num_rows)])
    return marked.add_column(0, PIECE, [pa.repeat(pa.scalar(piece), rows.num_rows)])
