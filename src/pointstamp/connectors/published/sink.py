"""Parquet output on any storage, published by a chain of manifests.

    <path>/_pointstamp/<number>.json                                        the chain (``chain``)
    <path>/<output>/epoch-<first>-worker-<w>-query-<tag>-<generation>.parquet   data (``staging``)

Readers take the files that the chain lists and no others: files that a dead generation has left, or that
other programs have put into the folder, are not part of the output. Data files are never changed. Each is
listed with its rows, its size and its CRC-32. Commits hold complete epochs of all outputs, and so does what
is read. Small files are merged beside the query (``compactor``), and those that were replaced stay for a day
unless the policy sets it, so a reader has a day to finish.

With ``partition_by`` the files of an output lie in folders by the values of columns (``partitions``).

The chain belongs to one query: another one that publishes into the same folder is refused. Its outputs may
change with the flow: a new one begins with the next commit, and one that is gone stays as it is; both are
read as far as they go.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pointstamp.connectors import staging
from pointstamp.connectors.files import partitions
from pointstamp.connectors.published.chain import Chain, Columns, PublishedCommit, changed_columns
from pointstamp.connectors.published.compactor import ParquetCompactor
from pointstamp.connectors.published.merging import CompactionPolicy
from pointstamp.connectors.sink import PublisherBase, SinkBase, Staged, StagedLost
from pointstamp.connectors.staging import FileLayout, Origin, StagedFiles, folder_name
from pointstamp.errors import FlowError, RecoveryError, StorageError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.storage.anywhere import absolute_place, storage_at
from pointstamp.storage.exclusivity import check_exclusive
from pointstamp.storage.port import Storage


@dataclass(frozen=True, slots=True, repr=False)
class ParquetSink(SinkBase, RedactedRepr):
    """Publish Parquet files below a folder.

    ``partition_by`` names the partition columns: of every output, or by output. The rows of one worker and
    commit may have at most ``partitions_max`` partitions. ``compaction`` is the policy that merges small
    files while a query runs; None keeps all files as they were written. ``open_storage`` opens the folder, on
    each host.

    Examples:
        >>> sink = ps.io.ParquetSink("/data/out", partition_by=["day"])

    """

    path: str
    open_storage: Callable[[str], Storage] = storage_at
    query: str = ""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    partition_by: Sequence[str] | Mapping[str, Sequence[str]] = field(default=(), kw_only=True)
    partitions_max: int = field(default=partitions.PARTITIONS_MAX, kw_only=True)
    compaction: CompactionPolicy | None = field(default_factory=CompactionPolicy, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", absolute_place(self.path))
        by = self.partition_by
        if isinstance(by, str) or (isinstance(by, Mapping) and any(isinstance(v, str) for v in by.values())):
            raise FlowError(
                f"the sink at '{redact(self.path)}': partition_by must be a list of columns, got {by!r}. "
                "Write a list also for one column: partition_by=['day']."
            )

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "ParquetSink":
        """Return the sink of one query, whose files have these columns after the epoch.

        SchemaError for an output without the columns by which it should be partitioned.
        """
        for output, schema in schemas.items():
            staging.file_schema(output, schema)
            partitions.check_columns(output, schema, self._columns(output))
        unknown = [each for each in self.partition_by if each not in schemas]
        if isinstance(self.partition_by, Mapping) and unknown:
            raise FlowError(
                f"the sink at '{redact(self.path)}': partition_by names {unknown}, but the outputs are "
                f"{list(schemas)}. Name one of these."
            )
        return replace(self, query=query, schemas=dict(schemas))

    def check_place(self) -> None:
        """Raise StorageError if the storage cannot tell two drivers apart, which is tested."""
        check_exclusive(self.open_storage(self.path))

    def writer(self, worker: int, generation: int) -> StagedFiles:
        """Return the writer of one worker, on its host."""
        storage = self.open_storage(self.path)
        origin = Origin(self.query, generation)
        layout = FileLayout({output: self._columns(output) for output in self.schemas}, self.partitions_max)
        return StagedFiles(storage, self._folders(), self.schemas, origin, worker, layout)

    def publisher(self) -> "ParquetPublisher":
        """Return the publisher, for the driver."""
        return ParquetPublisher(
            self.open_storage(self.path),
            self.query,
            {name: Columns.of(staging.file_schema(name, schema)) for name, schema in self.schemas.items()},
            self._folders(),
        )

    def compactor(self) -> ParquetCompactor | None:
        """Return the compactor of small files, for the driver; None without compaction."""
        if self.compaction is None:
            return None
        return ParquetCompactor(self.open_storage(self.path), self.compaction)

    def _folders(self) -> dict[str, str]:
        return {output: folder_name(output) for output in self.schemas}

    def _columns(self, output: str) -> tuple[str, ...]:
        by = self.partition_by
        return tuple(by.get(output, ()) if isinstance(by, Mapping) else by)


class ParquetPublisher(PublisherBase):
    """Appends to the chain of one query."""

    def __init__(
        self, storage: Storage, query: str, outputs: dict[str, Columns], folders: Mapping[str, str]
    ) -> None:
        self._storage = storage
        self._chain = Chain(storage)
        self._query = query
        self._outputs = outputs
        self._folders = folders

    def check_outputs(self, before: Collection[str]) -> None:
        """An output may begin or end with any commit, but its columns must be those that are published."""
        del before  # the chain says what there is
        last = self._chain.last()
        if last is None:
            return
        try:
            self._chain.check_query(last, self._query)
        except StorageError as error:
            raise RecoveryError(
                f"{error} Give the output folder of this checkpoint, or an empty folder and a new checkpoint."
            ) from error
        for name in changed_columns(last, self._outputs):
            raise RecoveryError(
                f"output '{name}' has the columns {_listed(self._outputs[name])}, but is published in "
                f"'{self._storage.address}' with {_listed(last.outputs[name])}; nothing was changed. Undo "
                "the change, or give the output another name: it then starts with the next epoch, and "
                f"the published '{name}' stays."
            )

    def begin(self) -> None:
        """Mark the folder before the first commit."""
        self._chain.begin(self._query)

    def publish(
        self, number: int, epochs_through: int, staged: Sequence[Staged], *, is_complete: bool = False
    ) -> None:
        """Check that all files are intact, then commit; a complete commit is the last."""
        ordered = sorted(staged, key=lambda file: file.path)
        commit = PublishedCommit(number, epochs_through, ordered, is_complete)
        self._chain.append(self._query, self._outputs, commit, look=lambda: self._look_for(ordered))

    def published_through(self) -> int | None:
        """The last epoch that is visible, and stays so; None before the first."""
        last = self._chain.last()
        if last is None:
            return -1 if self._chain.is_begun(self._query) else None
        self._chain.check_query(last, self._query)
        self._chain.sync(last)
        return last.commits[-1].epochs_through

    def _look_for(self, staged: Sequence[Staged]) -> None:
        # Not for a commit that is published: its files may have been replaced by larger ones.
        for problem in staging.missing(self._storage, staged):
            raise StagedLost(
                f"{problem} A worker has written it, so either driver and workers do not share this "
                "folder, or the file was removed. Give a path on a file system that all of them reach."
            )

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations of this query have staged, unless it is published or kept."""
        links = self._chain.links()
        committed = {file.path for link in links for commit in link.commits for file in commit.files}
        kept = committed.union(file.path for file in keep)
        # Also in the folders of outputs that the flow has no more.
        ended = [folder_name(name) for link in links[-1:] for name in link.outputs]
        folders = {*self._folders.values(), *ended}
        staging.discard(self._storage, folders, Origin(self._query, generation), kept)


def _listed(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.names.items())
