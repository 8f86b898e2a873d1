"""Extract the rows of single epochs from published files.

A merged file holds thousands of epochs, and whoever catches up asks for one after the other. So the last file
is remembered as it was decoded, with where each epoch begins: the next epoch is then a slice, and not the
whole file again. One file is remembered, and only if it has several epochs.

May be used by several threads: what is remembered is replaced as a whole, and never changed.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pointstamp.rows.undeclared import check_undeclared, extra_of
from pointstamp.sinks import hive
from pointstamp.sinks.port import Staged
from pointstamp.sinks.reading import content_of
from pointstamp.storage.anywhere import url_of
from pointstamp.storage.port import Storage


class FileByEpoch:
    """The rows of one file in the order of their epochs, and where each epoch begins."""

    def __init__(self, rows: pa.Table) -> None:
        epochs = rows.column("epoch").to_numpy()
        if (epochs[1:] < epochs[:-1]).any():
            order = np.argsort(epochs, kind="stable")
            rows, epochs = rows.take(order), epochs[order]
        self._rows = rows
        self.epochs, self._starts = np.unique(epochs, return_index=True)

    def of(self, epoch: int) -> pa.Table:
        """The rows of an epoch, in their order in the file."""
        at = int(np.searchsorted(self.epochs, epoch))
        if at == len(self.epochs) or self.epochs[at] != epoch:
            return self._rows.slice(0, 0)
        stop = self._starts[at + 1] if at + 1 < len(self._starts) else self._rows.num_rows
        return self._rows.slice(int(self._starts[at]), int(stop - self._starts[at]))


class EpochsOfFiles:
    """Reads files, and remembers the last one that has several epochs."""

    def __init__(self) -> None:
        self._last: tuple[tuple[str, str, int], FileByEpoch] | None = None

    def epochs(self, storage: Storage, file: Staged) -> list[int]:
        """The epochs that a file has rows of, in order; NotStored if it is gone."""
        if file.first_epoch == file.last_epoch:
            return [file.first_epoch]
        epochs: list[int] = self._file(storage, file).epochs.tolist()
        return epochs

    def rows(
        self, storage: Storage, files: Sequence[Staged], epoch: int, schema: pa.Schema, who: str
    ) -> list[pa.Table]:
        """The rows of an epoch out of files, in the columns of a schema that there are.

        SchemaError for a column that the schema does not declare and that looks like the change of a row.
        """
        found = [(file.path, self._file(storage, file).of(epoch)) for file in files]
        tables = []
        for path, rows in found:
            there = dict.fromkeys([*rows.schema.names, *hive.values_of(path)])
            check_undeclared(there, schema.names, who, extra_of(schema), known=("epoch",))
            wanted = [_field(rows, schema, name) for name in schema.names if name in there]
            tables.append(hive.with_values(rows, path, pa.schema(wanted)))
        return tables

    def _file(self, storage: Storage, file: Staged) -> FileByEpoch:
        key = (url_of(storage), file.path, file.crc32)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        read = FileByEpoch(content_of(storage, file))
        if len(read.epochs) > 1:
            self._last = (key, read)
        return read


def _field(rows: pa.Table, schema: pa.Schema, name: str) -> pa.Field:
    """A column as the file has it, or, where only its path does, as it is asked for."""
    return rows.schema.field(name) if name in rows.schema.names else schema.field(name)
