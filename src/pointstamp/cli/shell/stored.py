"""A table of the shell: what was declared of it, and the rows that it has."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.table import Table
from pointstamp.errors import FlowError
from pointstamp.rows.schema import as_schema
from pointstamp.sql_views.declaring import InputDeclaration
from pointstamp.tables.kept.value import copies, sum_of
from pointstamp.tables.kept.weights import DIFF_FIELD

WEIGHT: Final = "weight of the shell"


@dataclass(slots=True)
class StoredTable:
    """The rows of a table, or of a view, as they are after the last epoch, and what waits for a commit."""

    name: str
    schema: pa.Schema
    declared: InputDeclaration | None = None
    """None for a view."""
    changes: list[pa.Table] = field(default_factory=list)
    pending: list[pa.Table] = field(default_factory=list)

    @property
    def weighed(self) -> pa.Schema:
        """The columns of a change."""
        return pa.schema([*self.schema, DIFF_FIELD])

    @property
    def is_growing(self) -> bool:
        """Whether rows can only be added, because a watermark says which of them are in time."""
        return self.declared is not None and self.declared.promise is not None

    def now(self) -> pa.Table:
        """The rows that are there, each once with how often it is."""
        self.changes = [pa.Table.from_batches([sum_of(self.changes, self.weighed)])]
        return self.changes[0]

    def rows(self) -> pa.Table:
        """The rows that are there, with what waits for a commit, each as often as it is."""
        return copies(sum_of([self.now(), *self.pending], self.weighed), f"'{self.name}'")

    def make_input(self, flow: Dataflow) -> Table:
        """The table of an input that takes changes as the shell makes them."""
        assert self.declared is not None
        if self.declared.promise is not None:
            # Each change by hand is an epoch, whatever the text says of epochs.
            promise = replace(self.declared.promise, every=None)
            return promise.stream(flow, self.name, self.schema).to_table()
        weighed = pa.schema([*self.schema, pa.field(WEIGHT, pa.int64())])
        return flow.table(self.name, weighed, weight=WEIGHT)

    def fed(self, changes: Sequence[pa.Table]) -> pa.Table:
        """Changes as that input takes them."""
        total = pa.Table.from_batches([sum_of(changes, self.weighed)])
        if self.is_growing:
            return copies(total.combine_chunks().to_batches()[0], self.name) if total.num_rows else self.empty
        return total.rename_columns([*self.schema.names, WEIGHT])

    @property
    def empty(self) -> pa.Table:
        """No rows."""
        return self.schema.empty_table()


def stored_table(declared: InputDeclaration) -> StoredTable:
    """A table without rows: the columns that views see, for here INSERT and DELETE say what others mark."""
    marks = [declared.properties.get(each) for each in ("weight", "operation", "deleted")]
    columns = [each for each in as_schema(declared.schema) if each.name not in marks]
    for key in declared.key:
        if key not in {each.name for each in columns}:
            raise FlowError(f"the key '{key}' is no column of '{declared.name}'.")
    return StoredTable(declared.name, pa.schema(columns), declared)


def weighed_rows(rows: pa.Table, weight: int, schema: pa.Schema) -> pa.Table:
    """Rows that come (weight 1) or go (weight -1), as changes."""
    weights = pa.array([weight] * rows.num_rows, pa.int64())
    return rows.append_column(DIFF_FIELD, weights).cast(schema)
