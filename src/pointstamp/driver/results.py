"""Results: the rows of each output by time."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pointstamp.arrangement.open_changes import copies, rows_of_table, sum_of
from pointstamp.errors import FlowError


class OutputTables(Mapping[Any, pa.Table]):
    """One output: a table for each time, in the order of completion; ``table()`` puts them together."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._tables: dict[Any, pa.Table] = {}

    def add(self, time: Any, table: pa.Table) -> None:  # noqa: ANN401 - a root time
        """Keep the finished rows of one time."""
        self._tables[time] = table

    def __getitem__(self, time: Any) -> pa.Table:  # noqa: ANN401 - a root time
        if time not in self._tables:
            raise FlowError(f"output '{self.name}' has no time {time}; it has {list(self._tables)}.")
        return self._tables[time]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def table(self, time_column: str = "epoch") -> pa.Table:
        """All rows, with the time of each in a first column."""
        if time_column in self.schema.names:
            raise FlowError(
                f"output '{self.name}' already has a column '{time_column}'. Give another name for the "
                "times: table(time_column='at')."
            )
        parts = [
            table.add_column(0, time_column, pa.array([time] * table.num_rows))
            for time, table in self._tables.items()
            if table.num_rows
        ]
        if parts:
            return pa.concat_tables(parts)
        return self.schema.insert(0, pa.field(time_column, pa.int64())).empty_table()

    def __repr__(self) -> str:
        rows = sum(table.num_rows for table in self._tables.values())
        return f"OutputTables('{self.name}', {len(self)} times, {rows} rows)"


class Results(Mapping[str, OutputTables]):
    """Every output of a finished run, by name."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._outputs = {name: OutputTables(name, schema) for name, schema in schemas.items()}

    def __getitem__(self, name: str) -> OutputTables:
        if name not in self._outputs:
            known = ", ".join(f"'{each}'" for each in self._outputs) or "none"
            raise FlowError(f"unknown output '{name}'. The outputs are {known}.")
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def table(self, name: str, *, as_of: int | None = None) -> pa.Table:
        """The rows of an output that is a table: as they are at the end, or were after an epoch."""
        output = self[name]
        who = f"output '{name}'"
        rows_of_table(output.schema, who)
        changes = [table for time, table in output.items() if as_of is None or time <= as_of]
        return copies(sum_of(changes, output.schema), who)

    def __repr__(self) -> str:
        return f"Results({', '.join(map(repr, self._outputs.values()))})"
