"""Choose the files to merge: adjacent ones of similar size.

Files are taken in the order of their epochs, so that each holds the epochs of some time, and by size in
*tiers*: a tier ends where a file has less than a part of the rows of the largest one left. Enough files in a
tier become one of the next. So a row is written about once for each tier that it rises through, and n epochs
are files in the order of log n, each tier having fewer than ``files``. A merge of everything that is small,
whenever something new is there, would write a row n times; one of files that are not neighbours would let a
reader of the last epochs read all of them.

Rows say how large a file is, not bytes: a Parquet file of one row has a thousand bytes, and so has one of
ten. Bytes say when it is large enough to be left alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pointstamp.errors import FlowError
from pointstamp.sinks.hive import blank_columns
from pointstamp.sinks.port import Staged

_TIER: Final = 0.75
"""How far down a tier reaches from its largest file, in powers of ``files``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """When published files are merged, and how long those that were replaced stay.

    ``files`` of about the same size become one, until it has half of ``file_bytes``; one turn reads no more
    than that. Files that were replaced stay for ``keep_seconds``, for readers that still need them. Two turns
    are at least ``pause_seconds`` apart.
    """

    files: int = 8
    file_bytes: int = 64 * 1024 * 1024
    keep_seconds: float = 24 * 3600.0
    pause_seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.files < 2 or self.file_bytes < 1:
            raise FlowError(
                f"compaction: files must be at least 2 and file_bytes at least 1, got files={self.files} "
                f"and file_bytes={self.file_bytes}. Give larger values."
            )
        if self.keep_seconds < 0 or self.pause_seconds < 0:
            raise FlowError(
                f"compaction: keep_seconds and pause_seconds must be 0 or more, got {self.keep_seconds} "
                f"and {self.pause_seconds}. Give seconds."
            )


def chosen_groups(
    files: Sequence[Staged], policy: CompactionPolicy, *, is_full: bool = False
) -> list[list[Staged]]:
    """The groups of files to be merged, each into one; ``is_full`` takes all neighbours that fit together."""
    return [
        group
        for neighbours in _neighbours(files, policy)
        for run in ([neighbours] if is_full else _tiers(neighbours, policy.files))
        for group in _fitting(run, policy, 2 if is_full else policy.files)
    ]


def folder_of(file: Staged) -> tuple[str, str, tuple[int, ...]]:
    """The output and partition values that merged files must share."""
    return file.output, file.path.rpartition("/")[0], blank_columns(file.path)


def _neighbours(files: Sequence[Staged], policy: CompactionPolicy) -> Iterator[list[Staged]]:
    """Files of a folder that follow one another, with none between them that is large enough."""
    folders: dict[tuple[str, str, tuple[int, ...]], list[list[Staged]]] = {}
    for file in files:
        runs = folders.setdefault(folder_of(file), [[]])
        if 2 * file.size_bytes >= policy.file_bytes:
            runs.append([])
        else:
            runs[-1].append(file)
    for runs in folders.values():
        yield from runs


def _tiers(files: list[Staged], fanout: int) -> Iterator[list[Staged]]:
    """The files of each tier that has enough, with smaller ones that lie between."""
    levels = [math.log(max(1, file.rows), fanout) for file in files]
    start = 0
    while start < len(files):
        bottom = max(levels[start:]) - _TIER
        end = 1 + max(place for place in range(start, len(files)) if levels[place] >= bottom)
        if end - start >= fanout:
            yield files[start:end]
        start = end


def _fitting(run: list[Staged], policy: CompactionPolicy, least: int) -> Iterator[list[Staged]]:
    """Cut a run into groups that become one file each; files that are too few for a group stay."""
    group: list[Staged] = []
    size = 0
    for file in run:
        if size + file.size_bytes > policy.file_bytes:
            if len(group) > 1:
                yield group
            group, size = [], 0
        group.append(file)
        size += file.size_bytes
    if len(group) >= least:
        yield group
