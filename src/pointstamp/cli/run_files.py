"""The files of ``pointstamp run``: formats, rows and the output folder.

An input is a Parquet, CSV or JSON-lines file, or a folder of files of one of these formats. A file may have
more columns than the flow declares: they are not read, with a warning, and a column that looks like a change
is an error, as for every input. Columns of CSV and JSON are read as the types that the flow declares, because
such files do not contain types: a code "007" must not become the number 7. Those of Parquet have types, and
whether they fit is decided where every batch is checked, at the flow's input.

An output is a folder with one Parquet file for each epoch, the epoch as first column, as on Spark. A file
appears when it is complete: it is written under a name that starts with a dot, and then renamed.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pointstamp.arrangement.open_changes import copies, sum_of, tables_among
from pointstamp.arrow.epoch_column import with_epochs
from pointstamp.arrow.schema import check_undeclared, extra_of
from pointstamp.errors import UsageError
from pointstamp.spark.locations import folder_name

_FORMATS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


class InputFile(NamedTuple):
    """A path with rows for one input, the columns to take, and the one among them that says the epoch."""

    name: str
    path: str
    format: str
    schema: pa.Schema
    epoch: str | None

    @property
    def wanted(self) -> pa.Schema:
        """The declared columns, and the epoch column where there is one beside them."""
        return with_epochs(self.schema, self.epoch)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise UsageError if columns are missing, SchemaError if an undeclared one looks like a change."""
        missing = [column for column in self.wanted.names if column not in columns]
        if missing:
            raise UsageError(
                f"input '{self.name}': {self.path} has no column {_listed(missing)}; it has "
                f"{_listed(columns)}."
            )
        check_undeclared(columns, self.wanted.names, f"input '{self.name}'", extra_of(self.schema))


def is_remote(path: str) -> bool:
    """Return whether a path has a scheme, such as s3://, and is not this machine's to look at."""
    return "://" in path


def format_of(name: str, path: str, *, may_be_empty: bool = False) -> str:
    """The format of a file, by its name, or of a folder, by the names in it; else UsageError.

    A folder that ``may_be_empty`` is one for Parquet until something else is in it.
    """
    if is_remote(path):
        return _FORMATS.get(Path(path).suffix.lower(), "parquet")
    place = Path(path)
    if place.is_dir():
        found = {_FORMATS.get(each.suffix.lower()) for each in _visible(place)} - {None}
        if not found and may_be_empty:
            return "parquet"
        if len(found) != 1:
            what = "files of several formats" if found else "no Parquet, CSV or JSON-lines files"
            raise UsageError(
                f"input '{name}': the folder {path} has {what}; give a folder with files of one format."
            )
        return str(found.pop())
    if not place.exists():
        raise UsageError(f"input '{name}': there is no file or folder {path}.")
    if place.suffix.lower() not in _FORMATS:
        raise UsageError(
            f"input '{name}': {path} must be Parquet, CSV or JSON lines, with a name that ends in one of "
            f"{', '.join(_FORMATS)}."
        )
    return _FORMATS[place.suffix.lower()]


def read(file: InputFile) -> pa.Table:
    """All rows of a local file or folder, with the wanted columns and no others."""
    names: list[str] = []
    try:
        found = _dataset(file, None)
        names = found.schema.names
        _check_each(file, found)
        if file.format != "parquet":
            found = _dataset(file, file.wanted)
        return found.to_table(columns=file.wanted.names)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"input '{file.name}': {file.path} cannot be read: {_words(error, names)}"
        ) from error


def check_folder(file: InputFile) -> None:
    """Raise UsageError if a file that is already in a followed folder lacks the wanted columns."""
    if not any(each.suffix for each in _visible(Path(file.path))):
        return
    try:
        _check_each(file, _dataset(file, None))
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"input '{file.name}': {file.path} cannot be read: {_words(error, [])}") from error


def check_output(folder: str) -> None:
    """Raise UsageError unless a folder is empty or not there yet; Spark checks addresses elsewhere."""
    if is_remote(folder):
        return
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise UsageError(f"run: --output needs a folder, and {folder} is a file.")
    if place.is_dir() and any(place.iterdir()):
        raise UsageError(f"run: the output folder {folder} is not empty; empty it, or give another.")


def write(folder: Path, output: str, epoch: int, table: pa.Table) -> None:
    """Write the rows of an output and epoch as one file, which is there when it is complete."""
    column = pa.array([epoch] * table.num_rows, pa.int64())
    place = folder / folder_name(output) / f"epoch-{epoch:012d}.parquet"
    _write(output, place, table.add_column(0, pa.field("epoch", pa.int64()), column))


def write_table(folder: Path, output: str, table: pa.Table) -> None:
    """Write a table as it is at the end, beside the folder with its changes."""
    _write(output, folder / f"{folder_name(output)}.parquet", table)


def _write(output: str, place: Path, table: pa.Table) -> None:
    unfinished = place.with_name(f".{place.name}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, unfinished)
        os.replace(unfinished, place)
    except OSError as error:
        raise UsageError(f"run: output '{output}' cannot be written to {place}: {error.strerror}.") from error


def _dataset(file: InputFile, schema: pa.Schema | None) -> ds.Dataset:
    return ds.dataset(file.path, schema=schema, format=file.format, partitioning="hive")


def _check_each(file: InputFile, found: ds.Dataset) -> None:
    """Look into every file: Arrow takes a column for null where only some files have it."""
    inside = [
        [*fragment.physical_schema.names, *ds.get_partition_keys(fragment.partition_expression)]
        for fragment in found.get_fragments()
    ]
    if file.format == "json":
        # A row of JSON may leave out what is null, so one file that has a column is enough.
        inside = [list(dict.fromkeys(name for names in inside for name in names))]
    for names in inside:
        file.check_columns(names)


def _words(error: Exception, names: Sequence[str]) -> str:
    """Arrow's complaint in one line, with a column's name for its number."""
    text = " ".join(str(error).split())
    numbered = re.search(r"In CSV column #(\d+)", text)
    if numbered and int(numbered[1]) < len(names):
        text = text.replace(numbered[0], f"in column '{names[int(numbered[1])]}'")
    return text


def _visible(folder: Path) -> list[Path]:
    return [
        each
        for each in sorted(folder.rglob("*"))
        if each.is_file() and not any(part[0] in "._" for part in each.relative_to(folder).parts)
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


# The outputs of ``pointstamp run`` that are tables: what their changes accumulate to when the run is over.


class FinalTables:
    """Adds the changes of tables up, epoch by epoch; what waits is never more than what there is."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._schemas = {name: schemas[name] for name in tables_among(schemas)}
        self._totals = {name: sum_of([], schema) for name, schema in self._schemas.items()}
        self._waiting: dict[str, list[pa.Table]] = {name: [] for name in self._schemas}

    def add(self, name: str, changes: pa.Table) -> None:
        """Take the changes of an epoch; those of outputs that are no tables are left out."""
        if name not in self._schemas:
            return
        self._waiting[name].append(changes)
        if sum(each.num_rows for each in self._waiting[name]) > self._totals[name].num_rows:
            self._add_up(name)

    def tables(self) -> dict[str, pa.Table]:
        """The rows of each table as they are now."""
        for name in self._schemas:
            self._add_up(name)
        return {name: copies(total, f"output '{name}'") for name, total in self._totals.items()}

    def _add_up(self, name: str) -> None:
        self._totals[name] = sum_of([self._totals[name], *self._waiting[name]], self._schemas[name])
        self._waiting[name].clear()
