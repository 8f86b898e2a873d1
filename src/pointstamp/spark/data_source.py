"""``spark.read.format("pointstamp")``: published views, their changes, and checkpoints as DataFrames.

| option | meaning |
|---|---|
| ``path`` | the ``output=`` of a query; with ``show`` = operators, commits, inputs: its checkpoint |
| ``output`` | the name of the output; default: the only one |
| ``asOf`` | the epoch after which the table is read; default: the last published one |
| ``changes`` | ``true``: the changes of each epoch with the columns ``epoch`` and ``diff`` |
| ``after`` | of changes and streams: the epoch after which they begin |
| ``show`` | ``outputs``: what is published; ``operators``, ``commits``, ``inputs``: what a checkpoint says |

A stream of a table reads its changes; an epoch is taken completely or not at all. A read sees one moment:
the epoch that is the last when Spark plans it. The rows of a table are consolidated by one task.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pointstamp.arrangement.open_changes import is_changes
from pointstamp.connectors.published.reader import Published, published_now, read_changes, read_table
from pointstamp.errors import FlowError
from pointstamp.spark.checkpoint_tables import CHECKPOINT_TABLES, checkpoint_rows

_OPTIONS: Final = ("path", "output", "asOf", "changes", "after", "show")
_OUTPUTS: Final = pa.schema(
    [
        pa.field("output", pa.string()),
        pa.field("is_table", pa.bool_()),
        pa.field("published_through", pa.int64()),
        pa.field("files", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the options of a read ask for."""

    path: str
    output: str | None
    as_of: int | None
    changes: bool
    after: int
    show: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "_Asked":
        """Return what options ask for; FlowError names one that is unknown or has no meaning."""
        known = {each.lower(): each for each in _OPTIONS}
        given: dict[str, str] = {}
        for name, value in options.items():
            if name.lower() not in known:
                raise FlowError(
                    f"format 'pointstamp': unknown option '{name}'. The options are {', '.join(_OPTIONS)}."
                )
            given[known[name.lower()]] = value
        if "path" not in given:
            raise FlowError("format 'pointstamp' needs a path. Give the output of a query: load(path).")
        shows = ("outputs", *CHECKPOINT_TABLES)
        if given.get("show", "outputs") not in shows:
            raise FlowError(
                f"format 'pointstamp': option show must be one of {', '.join(shows)}, got '{given['show']}'."
            )
        return cls(
            given["path"].removeprefix("file://"),
            given.get("output"),
            _number(given, "asOf"),
            given.get("changes", "false").lower() == "true",
            -1 if (after := _number(given, "after")) is None else after,
            given.get("show"),
        )


class PointstampSource(DataSource):  # type: ignore[misc]  # pyspark's classes are not typed
    """A data source of published output and checkpoints."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pointstamp"

    def schema(self) -> StructType:
        """Return the columns; FlowError if the path has no such output."""
        return from_arrow_schema(_columns(_Asked.of(self.options)))

    def reader(self, schema: StructType) -> "_Reader":
        """Return the reader of a DataFrame."""
        del schema
        return _Reader(_Asked.of(self.options))

    def streamReader(self, schema: StructType) -> "_StreamReader":  # noqa: N802 - Spark's name
        """Return the reader of a stream, whose rows are changes."""
        del schema
        asked = _Asked.of(self.options)
        if asked.show is not None or asked.as_of is not None:
            raise FlowError(
                "format 'pointstamp': a stream reads changes, and has no asOf and no show. Leave them out."
            )
        if not asked.changes and _is_table(asked):
            raise FlowError(
                f"format 'pointstamp': output '{_output(asked)}' is a table, and a stream reads its changes. "
                "Set option changes to true."
            )
        return _StreamReader(asked)


@dataclass(frozen=True)
class _Epochs(InputPartition):  # type: ignore[misc]  # pyspark's classes are not typed
    """The epochs after one, up to another."""

    after: int
    through: int


class _Reader(DataSourceReader):  # type: ignore[misc]  # as above
    """Reads what is published at the moment of planning."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def partitions(self) -> list[_Epochs]:
        """Return one partition, which fixes the epoch."""
        asked = self._asked
        if asked.show is not None:
            return [_Epochs(-1, -1)]
        last = _published(asked).epochs_through
        return [_Epochs(asked.after, last if asked.as_of is None else asked.as_of)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows."""
        assert isinstance(partition, _Epochs)
        asked = self._asked
        if asked.show == "outputs":
            rows = _outputs(asked.path)
        elif asked.show is not None:
            rows = checkpoint_rows(asked.path, asked.show)
        elif asked.changes or not _is_table(asked):
            rows = _changes(asked, partition)
        else:
            rows = read_table(asked.path, _output(asked), as_of=partition.through)
        return iter(rows.select(_columns(asked).names).combine_chunks().to_batches())


class _StreamReader(DataSourceStreamReader):  # type: ignore[misc]  # as above
    """Reads epochs as they are published."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the epoch after which the stream begins."""
        return {"epoch": self._asked.after}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - as Spark 4.1 has it
        """Return the last published epoch."""
        return {"epoch": max(self._asked.after, _published(self._asked).epochs_through)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[_Epochs]:
        """Return the epochs between two offsets."""
        return [_Epochs(start["epoch"], end["epoch"])] if start["epoch"] < end["epoch"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the changes of some epochs."""
        assert isinstance(partition, _Epochs)
        rows = _changes(self._asked, partition)
        return iter(rows.select(_columns(self._asked).names).combine_chunks().to_batches())


def _changes(asked: _Asked, epochs: _Epochs) -> pa.Table:
    after = None if epochs.after < 0 else epochs.after
    rows = read_changes(asked.path, _output(asked), after=after)
    return rows.filter(pc.less_equal(rows["epoch"], epochs.through))


def _columns(asked: _Asked) -> pa.Schema:
    if asked.show == "outputs":
        return _OUTPUTS
    if asked.show is not None:
        return CHECKPOINT_TABLES[asked.show]
    schema = _published(asked).outputs[_output(asked)].schema
    if asked.changes or not is_changes(schema):
        return schema
    return pa.schema(list(schema)[1:-1])


def _published(asked: _Asked) -> Published:
    return published_now(asked.path, check_files=False)


def _output(asked: _Asked) -> str:
    names = list(_published(asked).outputs)
    if asked.output is None and len(names) == 1:
        return names[0]
    if asked.output not in names:
        said = "needs the option output" if asked.output is None else f"has no output '{asked.output}'"
        raise FlowError(
            f"format 'pointstamp': '{asked.path}' {said}. Give output, one of {', '.join(names)}."
        )
    return str(asked.output)


def _is_table(asked: _Asked) -> bool:
    return is_changes(_published(asked).outputs[_output(asked)].schema)


def _outputs(path: str) -> pa.Table:
    found = published_now(path, check_files=False)
    rows = [
        {
            "output": name,
            "is_table": is_changes(each.schema),
            "published_through": found.epochs_through,
            "files": len(each.files),
            "bytes": sum(file.size_bytes for file in each.files),
        }
        for name, each in found.outputs.items()
    ]
    return pa.Table.from_pylist(rows, schema=_OUTPUTS)


def _number(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name)
    if value is not None and not value.lstrip("-").isdecimal():
        raise FlowError(f"format 'pointstamp': option {name} must be an epoch, got '{value}'. Give a number.")
    return None if value is None else int(value)
