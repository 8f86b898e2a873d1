"""Stage a worker's rows in a separate table of the database."""

import secrets
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, types

from pointstamp.arrow.arrays import integers
from pointstamp.connectors.postgres.database import Database, identifier, psycopg_package
from pointstamp.connectors.postgres.output_tables import GENERATION, PIECE, KeptTable, OutputColumns, Registry
from pointstamp.connectors.sink import Epochs, Staged, WriterBase
from pointstamp.connectors.staging import EPOCH_COLUMN
from pointstamp.errors import SchemaError

if TYPE_CHECKING:
    from pointstamp.connectors.postgres.database import Connection


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


# Convert Arrow columns to PostgreSQL types and COPY rows.
#
# Rows travel as CSV in which every value stands in quotes and a null is nothing at all, so that an empty text
# and a null are told apart. Values are never cut: what PostgreSQL cannot hold is rejected with an error.

_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (types.is_boolean, "boolean"),
    (types.is_int8, "smallint"),
    (types.is_int16, "smallint"),
    (types.is_int32, "integer"),
    (types.is_int64, "bigint"),
    (types.is_uint8, "smallint"),
    (types.is_uint16, "integer"),
    (types.is_uint32, "bigint"),
    (types.is_uint64, "numeric(20,0)"),
    (types.is_float16, "real"),
    (types.is_float32, "real"),
    (types.is_float64, "double precision"),
    (types.is_string, "text"),
    (types.is_large_string, "text"),
    (types.is_binary, "bytea"),
    (types.is_large_binary, "bytea"),
    (types.is_fixed_size_binary, "bytea"),
    (types.is_date32, "date"),
    (types.is_date64, "date"),
    (types.is_time, "time without time zone"),
    (types.is_duration, "interval"),
)


def sql_type(kind: pa.DataType) -> str | None:
    """The type of a column, as PostgreSQL says it; None where there is none.

    >>> sql_type(pa.int32()), sql_type(pa.list_(pa.string())), sql_type(pa.null())
    ('integer', 'text[]', None)
    """
    if types.is_timestamp(kind):
        return f"timestamp {'with' if kind.tz else 'without'} time zone"
    if types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})" if kind.scale >= 0 else "numeric"
    if types.is_list(kind) or types.is_large_list(kind):
        inner = sql_type(kind.value_type)
        return None if inner is None or inner.endswith("[]") else f"{inner}[]"
    return next((name for is_it, name in _PLAIN if is_it(kind)), None)


def as_csv(output: str, rows: pa.Table) -> bytes:
    """Rows as COPY reads them; SchemaError for a value that PostgreSQL cannot hold."""
    try:
        texts = [_texts(column.combine_chunks()) for column in rows.columns]
    except (pa.ArrowInvalid, ValueError) as error:
        raise SchemaError(
            f"output '{output}' has values that the types of its table cannot hold: {error}. Round or cast "
            "them in the flow."
        ) from error
    for name, text in zip(rows.column_names, texts, strict=True):
        if pc.any(pc.match_substring(text, "\0")).as_py():
            raise SchemaError(
                f"output '{output}', column '{name}' has a text with the character U+0000, which "
                "PostgreSQL cannot store. Replace it in the flow."
            )
    stream = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(pa.Table.from_arrays(texts, rows.column_names), stream, options)
    content: bytes = stream.getvalue().to_pybytes()
    return content


def _texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if types.is_string(kind):
        return column
    if types.is_date64(kind):
        column = column.cast(pa.date32())
    if types.is_float16(kind):
        column = column.cast(pa.float32())
    if types.is_timestamp(kind):
        # PostgreSQL counts microseconds: a finer value that is not a whole one raises here.
        micros = column.cast(pa.timestamp("us", kind.tz))
        local = micros.cast(pa.timestamp("us", "UTC" if kind.tz else None)).cast(pa.timestamp("us"))
        texts = local.cast(pa.string())
        return pc.binary_join_element_wise(texts, "Z", "") if kind.tz else texts
    if types.is_time64(kind):
        column = column.cast(pa.time64("us"))
    if types.is_duration(kind):
        micros = column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(micros, "microseconds", " ")
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.array(_lists(column), pa.string())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.array(
            [None if each is None else f"\\x{each.hex()}" for each in column.to_pylist()], pa.string()
        )
    return column.cast(pa.string())


def _lists(column: pa.Array) -> list[str | None]:
    """Lists as PostgreSQL writes them."""
    elements = [_element(each) for each in _texts(column.flatten()).to_pylist()]
    taken, found = 0, list[str | None]()
    for length in pc.list_value_length(column).to_pylist():
        found.append(None if length is None else "{" + ",".join(elements[taken : taken + length]) + "}")
        taken += length or 0
    return found


def _element(text: str | None) -> str:
    if text is None:
        return "NULL"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
