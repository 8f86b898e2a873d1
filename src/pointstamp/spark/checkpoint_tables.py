"""A checkpoint as tables: state of operators, commits and inputs.

It reads the journal and writes nothing, so a query may run meanwhile; what it says is true as of the last
commit.
"""

import warnings
from typing import Any, Final

import pyarrow as pa

from pointstamp.connectors.source import Part, Position, SourceBase, Unit, Watch
from pointstamp.errors import FlowError
from pointstamp.journal.history import Entry, JournalSummary, Ticked, each_of
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.query.start_checks import known_query_id
from pointstamp.redaction import redact
from pointstamp.storage.anywhere import storage_at

CHECKPOINT_TABLES: Final = {
    "operators": pa.schema(
        [("epoch", pa.int64()), ("operator", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())]
    ),
    "commits": pa.schema(
        [
            ("number", pa.int64()),
            ("epoch", pa.int64()),
            ("is_whole", pa.bool_()),
            ("workers", pa.int64()),
            ("bytes", pa.int64()),
            ("output_rows", pa.int64()),
            ("savepoint", pa.string()),
        ]
    ),
    "inputs": pa.schema(
        [
            ("input", pa.string()),
            ("source", pa.string()),
            ("last_tick", pa.int64()),
            ("complete_to", pa.int64()),
            ("committed_epoch", pa.int64()),
        ]
    ),
}
"""The columns of each table: ``inputs`` has the frontier of each input, before which no row will come."""


def checkpoint_rows(path: str, table: str) -> pa.Table:
    """Return one of the tables; FlowError if the path has no journal."""
    storage = storage_at(path)
    if not storage.list("journal/"):
        raise FlowError(
            f"'{redact(path)}' contains no journal. Give the folder that was given as checkpoint= of a query."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a storage is not exclusive matters to drivers
        journal: Journal[Entry] = Journal.open(storage, Entry, query=known_query_id(storage))
    inputs: set[str] = set()
    last_tick, complete_to = -1, 0
    for entry in (each for stored in journal.entries() for each in each_of(stored)):
        if isinstance(entry, Ticked):
            inputs.update(entry.units)
            last_tick, complete_to = entry.number, entry.complete_to
        elif isinstance(entry, JournalSummary):
            inputs.update(entry.positions)
            last_tick, complete_to = entry.last_tick, entry.open_from
    ledger = Ledger(journal, dict.fromkeys(inputs, UnreadSource()))
    return pa.Table.from_pylist(_rows(table, ledger, last_tick, complete_to), CHECKPOINT_TABLES[table])


def _rows(table: str, ledger: Ledger, last_tick: int, complete_to: int) -> list[dict[str, Any]]:
    last = ledger.committed
    if table == "operators":
        kept = {} if last is None else last.kept
        return [
            {"epoch": last.epoch if last is not None else None, "operator": name, "rows": rows, "bytes": size}
            for name, (rows, size) in kept.items()
        ]
    if table == "commits":
        return [
            {
                "number": each.number,
                "epoch": each.epoch,
                "is_whole": each.is_whole,
                "workers": len(each.parts),
                "bytes": each.size_bytes,
                "output_rows": sum(piece.rows for piece in each.staged),
                "savepoint": each.savepoint,
            }
            for each in ledger.commits
        ]
    sources = ledger.shape.sources if ledger.shape is not None else {}
    return [
        {
            "input": name,
            "source": " ".join(filter(None, (said.get("kind"), said.get("place")))),
            "last_tick": last_tick,
            "complete_to": complete_to,
            "committed_epoch": None if last is None else last.epoch,
        }
        for name, said in sources.items()
    ]


class UnreadSource(SourceBase):
    """Stands for each source of a journal that is only looked at."""

    units_per_tick: int | None = None

    def after(self, position: Position, unit: Unit) -> Position:
        """Return no position, because none is used."""
        del position, unit

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Never called."""
        raise NotImplementedError

    def read(self, part: Part, schema: pa.Schema) -> Any:  # noqa: ANN401
        """Never called."""
        raise NotImplementedError

    def describe(self) -> str:
        """Never called."""
        raise NotImplementedError
