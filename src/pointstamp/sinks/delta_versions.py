"""Time travel: the version of a Delta table after an epoch.

Each commit of a query is one version of its tables, and its metadata has the last epoch that is in it. Other
versions, such as those of OPTIMIZE, have none, and change no row.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.redaction import redact
from pointstamp.sinks.delta_log import EPOCH_METADATA, DeltaLog
from pointstamp.storage.anywhere import storage_at


@dataclass(frozen=True, slots=True)
class EpochVersion:
    """The last epoch of a commit, and the version of the table that it made."""

    epoch: int
    version: int


def delta_version(
    path: str | os.PathLike[str],
    output: str,
    epoch: int,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """The version of an output's Delta table that is the table after an epoch, with nothing later.

        version = ps.io.delta_version(path, "cities", 5)
        spark.read.format("delta").option("versionAsOf", version).load(f"{path}/cities")

    FlowError if no commit ends with the epoch: several epochs can be one commit, and a log is cut after some
    time. The message says which epochs there are.
    """
    found = _versions(os.fspath(path), output, dict(storage_options or {}))
    for each in found:
        if each.epoch == epoch:
            return each.version
    who = f"output '{output}' in '{redact(path)}'"
    if not found:
        raise FlowError(f"{who}: no commit in the table's log records an epoch. Read it without an epoch.")
    later = [each.epoch for each in found if each.epoch > epoch]
    if not later:
        raise FlowError(
            f"{who} is published through epoch {found[-1].epoch}, got epoch {epoch}. Ask for "
            "an earlier epoch."
        )
    earlier = [each.epoch for each in found if each.epoch < epoch]
    words = f"after {earlier[-1]}" if earlier else "from the first in its log"
    raise FlowError(
        f"{who}: no commit ends with epoch {epoch}. It was published together with those {words} through "
        f"{later[0]}. Ask for that epoch, or an earlier one."
    )


def _versions(path: str, output: str, options: dict[str, str]) -> list[EpochVersion]:
    """The commits that the log of a table has, from the first to the last."""
    table = DeltaLog(path, output, "", pa.schema([]), storage_at(path), options).table()
    if table is None:
        raise FlowError(f"there is no Delta table of output '{output}' in '{redact(path)}'.")
    found = [
        EpochVersion(int(entry[EPOCH_METADATA]), int(entry["version"]))
        for entry in table.history()
        if EPOCH_METADATA in entry
    ]
    return sorted(found, key=lambda each: each.version)
