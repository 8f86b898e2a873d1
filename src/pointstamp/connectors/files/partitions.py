"""Hive partition folders: ``day=2024-01-01/at=10%3A30/...``.

The columns are in the folders' names and not in the files, as Spark, DuckDB, polars and pyarrow expect it. A
null has the folder ``__HIVE_DEFAULT_PARTITION__``, and so has an empty string, for which Hive has no other;
so that it comes back as one, the file's name says which columns are *blank*. A name is text: only types whose
values come back exactly from their text are allowed.

Invariant: ``with_values`` of a file's path gives the rows that ``split`` was given, types and nulls included.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import SchemaError

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
PARTITIONS_MAX: Final = 1_000
"""The default maximum number of folders for one worker's rows of a commit."""

_NAME_BYTES_MAX: Final = 255
# Hive's list, and the closing brace, which is part of a pattern for Spark when it is given a path.
_ESCAPED: Final = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]")
_BLANK: Final = re.compile(r"-blank-([0-9]+(?:\.[0-9]+)*)\.parquet$")


class Partition(NamedTuple):
    """Rows with the same values: their folder, what ends their file's name, and them without the columns."""

    folder: str
    ending: str
    rows: pa.Table


def check_columns(output: str, schema: pa.Schema, columns: Sequence[str]) -> None:
    """Reject missing columns, and types whose values do not survive their text form."""
    for column in columns:
        if column not in schema.names:
            said = ", ".join(f"'{name}'" for name in schema.names)
            raise SchemaError(
                f"partition_by: output '{output}' has no column '{column}'; it has {said}. Name one of "
                "these, or give the columns by output: partition_by={'output': ['column']}."
            )
        if not _may_partition(schema.field(column).type):
            raise SchemaError(
                f"output '{output}' cannot be partitioned by '{column}', got {schema.field(column).type}. "
                "Partition columns must be integers, strings, booleans, dates or decimals. Convert the "
                "column in the flow, for example a time into a date."
            )
    if len(set(columns)) < len(columns):
        raise SchemaError(
            f"output '{output}' is partitioned twice by one column, got partition_by={list(columns)}. "
            "Name each column once."
        )


def split(output: str, table: pa.Table, columns: Sequence[str], partitions_max: int) -> Iterator[Partition]:
    """The rows of each folder, in the order of the table."""
    if not columns:
        yield Partition("", "", table)
        return
    numbers, count = _numbered(table, columns)
    if count > partitions_max:
        raise SchemaError(
            f"output '{output}', partitioned by {', '.join(columns)}, has rows for {count:,} folders in "
            f"one commit of one worker; at most {partitions_max:,} are allowed, because each becomes a "
            "file. Partition by columns with fewer values, or raise partitions_max."
        )
    order = np.argsort(numbers, kind="stable")
    borders = np.searchsorted(numbers[order], np.arange(count + 1))
    for first, after in pairwise(borders):
        rows = table.take(pa.array(order[first:after]))
        values = [rows[column][0] for column in columns]
        folder = "".join(f"/{_folder(output, *each)}" for each in zip(columns, values, strict=True))
        blank = [place for place, value in enumerate(values) if value.as_py() == ""]
        yield Partition(folder, blank_ending(blank), rows.drop_columns(list(columns)))


def values_of(path: str) -> dict[str, str | None]:
    """The columns that a file's path says, as text; None is a null.

    >>> values_of("out/day=2024-01-01/at=a%3Ab/city=__HIVE_DEFAULT_PARTITION__/x.parquet")
    {'day': '2024-01-01', 'at': 'a:b', 'city': None}
    """
    folders = [each.partition("=") for each in path.split("/")[1:-1]]
    blank = blank_columns(path)
    return {
        unquote(name): ("" if place in blank else None) if value == NULL else unquote(value)
        for place, (name, _, value) in enumerate(folders)
    }


def blank_columns(path: str) -> tuple[int, ...]:
    """Return the columns of a path that are empty strings, not nulls."""
    found = _BLANK.search(path)
    return tuple(int(place) for place in found[1].split(".")) if found else ()


def blank_ending(blank: Sequence[int]) -> str:
    """Return the suffix of a file name that lists the columns with empty strings."""
    return f"-blank-{'.'.join(map(str, blank))}" if blank else ""


def with_values(table: pa.Table, path: str, schema: pa.Schema) -> pa.Table:
    """The rows of a file with the columns that its path says, as far as a schema has them, in its order."""
    for name, text in values_of(path).items():
        if name not in schema.names:
            continue
        value = pa.scalar(text, pa.string()).cast(schema.field(name).type)
        table = table.append_column(schema.field(name), pa.repeat(value, table.num_rows))
    return table.select(schema.names)


def stored_schema(schema: pa.Schema, path: str) -> pa.Schema:
    """The columns that the file of a path holds itself."""
    outside = values_of(path)
    return pa.schema([field for field in schema if field.name not in outside])


def _may_partition(kind: pa.DataType) -> bool:
    types = pa.types
    checks = (types.is_integer, types.is_boolean, types.is_date32, types.is_decimal)
    return any(check(kind) for check in checks) or kind in (pa.string(), pa.large_string())


def _numbered(table: pa.Table, columns: Sequence[str]) -> tuple[np.ndarray, int]:
    """A number for each row, the same for equal values, and how many there are."""
    numbers = np.zeros(table.num_rows, np.int64)
    count = 1
    for column in columns:
        coded = table[column].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        together = numbers * len(coded.dictionary) + codes
        distinct, numbers = np.unique(together, return_inverse=True)
        count = len(distinct)
    return numbers, count


def _folder(output: str, column: str, value: pa.Scalar) -> str:
    text = _escaped(pc.cast(value, pa.string()).as_py() or "")
    # Who has this very text as a value gets it back, and no null.
    text = f"%5F{text[1:]}" if text == NULL else text or NULL
    # Names that begin with a dot are hidden, and no object's name has such a part.
    name = f"{_escaped(column)}={text}"
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise SchemaError(
            f"output '{output}' has a value of {len(text):,} characters in the partition column "
            f"'{column}'. The folder name '{column}=value' has at most {_NAME_BYTES_MAX} bytes. Partition "
            "by a column with shorter values."
        )
    return name


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
