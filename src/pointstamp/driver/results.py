"""Results: the rows of each output by time."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pointstamp.arrangement.open_changes import copies, rows_of_table, sum_of
from pointstamp.errors import FlowError


class OutputTables(Mapping[Any, pa.Table]):
    """One output of a run: a table for each time, in the order of completion.

    Examples:
        >>> flow = ps.Dataflow("words")
        >>> flow.output("words", flow.stream_input("words", "word string"))
        >>> output = flow.run([[{"word": "so"}], [{"word": "it"}]])["words"]
        >>> list(output), output[1].to_pylist()
        ([0, 1], [{'word': 'it'}])

    """

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._tables: dict[Any, pa.Table] = {}

    def add(self, time: Any, table: pa.Table) -> None:  # noqa: ANN401 - a root time
        """Add the complete table of one time; a run calls this.

        Examples:
            >>> output = ps.OutputTables("words", pa.schema({"word": pa.string()}))
            >>> output.add(0, pa.table({"word": ["so"]}))
            >>> output[0].num_rows
            1

        """
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
        """Return the rows of all times in one table, with the time in the first column.

        Args:
            time_column (str, default "epoch"): Name of the column for the time.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> flow.run([[{"word": "so"}], [{"word": "it"}]])["words"].table().to_pylist()
            [{'epoch': 0, 'word': 'so'}, {'epoch': 1, 'word': 'it'}]

        """
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
    """All outputs of a finished run, by name; each is an ``OutputTables``.

    Examples:
        >>> flow = ps.Dataflow("words")
        >>> flow.output("words", flow.stream_input("words", "word string"))
        >>> flow.run([[{"word": "so"}], [{"word": "it"}]])
        Results(OutputTables('words', 2 times, 2 rows))

    """

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
        """Return the accumulated rows of an output that is a table, at the end or after an epoch.

        Args:
            name: The name of the output.
            as_of (int, default None): The epoch. Default: the last one.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("counts", flow.table("words", "word string").count("word"))
            >>> results = flow.run([[{"word": "so"}], [{"word": "so"}]])
            >>> results.table("counts").to_pylist(), results.table("counts", as_of=0).to_pylist()
            ([{'word': 'so', 'count': 2}], [{'word': 'so', 'count': 1}])

        """
        output = self[name]
        who = f"output '{name}'"
        rows_of_table(output.schema, who)
        changes = [table for time, table in output.items() if as_of is None or time <= as_of]
        return copies(sum_of(changes, output.schema), who)

    def __repr__(self) -> str:
        return f"Results({', '.join(map(repr, self._outputs.values()))})"
