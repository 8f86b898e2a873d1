"""How a bounded run publishes: all its output as one commit, marked complete, written last and at once.

Until the commit is there nothing is published; with it everything is. It is the first and only link of the
chain that unbounded runs write (``sinks.chain``), so a reader of one can read the other. A folder takes one
publication: a second run is refused. Each run has a name of its own, which is in the names of its files, so
that a worker that outlives its run writes nothing that is ever read.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from pointstamp.errors import FlowError, StorageError
from pointstamp.sinks.chain import FOLDER, Chain
from pointstamp.sinks.parquet import ParquetSink
from pointstamp.sinks.port import Staged
from pointstamp.storage.anywhere import storage_at

_NEWEST: Final = 1_000_000
"""Above the generation of any file: attempts of a run count from 0."""


def new_run_name(flow: str) -> str:
    """A name that no other run has, and that says whose it is."""
    return f"{flow} {secrets.token_hex(8)}"


def check_unpublished(path: str) -> None:
    """Refuse a folder that has been published into."""
    if Chain(storage_at(path)).newest() is not None:
        raise _taken(path)


def publish(path: str, run: str, schemas: Mapping[str, pa.Schema], files: Sequence[Staged]) -> None:
    """Check that all files are there as they were written, then commit."""
    publisher = ParquetSink(path).for_query(run, schemas).publisher()
    epochs_through = max((file.last_epoch for file in files), default=0)
    try:
        publisher.publish(0, epochs_through, files, is_complete=True)
    except StorageError:
        links = Chain(storage_at(path)).links()
        if links and links[0].query != run:  # it was faster
            raise _taken(path) from None
        raise


def discard(path: str, run: str, schemas: Mapping[str, pa.Schema]) -> None:
    """Remove the files of a run that has failed, unless it was interrupted after its commit."""
    ParquetSink(path).for_query(run, schemas).publisher().discard(generation=_NEWEST, keep=())


def _taken(path: str) -> FlowError:
    return FlowError(
        f"'{path}' holds the output of another run ({FOLDER} is there), and a folder belongs to one run. "
        "Give another path, or remove the folder first."
    )
