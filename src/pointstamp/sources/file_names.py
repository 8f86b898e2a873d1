"""Parse file names: order, format and partition values.

Numbers in names are compared as numbers, so ``2.csv`` comes before ``10.csv``. The format is known by the
ending: ``.csv``, ``.tsv``, ``.json``, ``.jsonl``, ``.ndjson``, ``.arrow``, ``.feather``, ``.ipc``; text may
be compressed (``.csv.gz``). Everything else is Parquet. Folders such as ``day=2024-01-31`` are columns.
"""

import re
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

Format: TypeAlias = Literal["parquet", "csv", "json", "arrow"]
NameKey: TypeAlias = tuple[tuple[str | int, ...], str]
"""Sorts names, with the numbers in them as numbers."""

CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"

_FORMATS: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_NUMBER: Final = re.compile("([0-9]+)")


def name_key(name: str) -> NameKey:
    """The place of a name among others; names that differ have different places.

    >>> sorted(["10.csv", "9.csv", "b", "09.csv"], key=name_key)
    ['09.csv', '9.csv', '10.csv', 'b']
    """
    parts = _NUMBER.split(name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name


def format_of(name: str) -> Format:
    """Return the format of a file by its name.

    >>> [format_of(name) for name in ("a.csv.gz", "b.JSONL", "part-0.snappy.parquet", "c")]
    ['csv', 'json', 'parquet', 'parquet']
    """
    return _FORMATS.get(_ending(name), "parquet")


def delimiter_of(name: str) -> str:
    """Return the default delimiter of a CSV file of this name."""
    return "\t" if _ending(name) == ".tsv" else ","


def codec_of(name: str) -> str | None:
    """Return the compression of a text file of this name."""
    return CODECS.get(PurePosixPath(name).suffix.lower())


def is_partition(folder: str) -> bool:
    """Whether a folder's name is a column and its value, as in ``day=2024-01-31``."""
    return "=" in folder[1:] and folder[0] != "."


def partition_values(name: str) -> dict[str, str | None]:
    """The columns that the folders of a file tell, as text.

    >>> partition_values("day=2024-01-31/at=a%3Ab/city=__HIVE_DEFAULT_PARTITION__/x.parquet")
    {'day': '2024-01-31', 'at': 'a:b', 'city': None}
    """
    folders = [each.partition("=") for each in name.split("/")[:-1] if is_partition(each)]
    return {unquote(column): None if value == HIVE_NULL else unquote(value) for column, _, value in folders}


def _ending(name: str) -> str:
    endings = [each.lower() for each in PurePosixPath(name).suffixes]
    if endings and endings[-1] in CODECS:
        endings.pop()
    return endings[-1] if endings else ""
