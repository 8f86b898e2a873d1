"""Late rows: rows of an epoch that their input has already passed.

Whether a row is late is decided where rows are read, from what was promised when they were found. The input
says what becomes of late rows: they are an error, or go to an output of their own, or are dropped; they are
counted in any case. They never reach the flow itself, whose epochs are complete without them.

An input whose late rows go to an output has a second port for them. Rows that are sent there have the
declared columns and, last, the epoch that the row names; they are sent at the epoch that is open when they
arrive.
"""

from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa

from pointstamp.errors import FlowError

LatePolicy: TypeAlias = Literal["error", "output", "drop"]
"""What becomes of late rows: ``"error"`` ends the run, ``"output"`` publishes them apart."""

LATE_EPOCH: Final = "late_epoch"
"""The column of late rows that holds the epoch that they name."""

LATE_PORT: Final = 1
"""The number of the port for late rows, of inputs that have one."""


def check_policy(name: str, late: str, late_output: str | None) -> None:
    """Raise FlowError unless this is a policy for the late rows of an input."""
    if late not in get_args(LatePolicy):
        raise FlowError(
            f"input '{name}': late must be one of {', '.join(get_args(LatePolicy))}, got {late!r}. Choose "
            "one of these."
        )
    if late_output is not None and late != "output":
        raise FlowError(
            f"input '{name}': late_output needs late='output', got late={late!r}. Give late='output', or "
            "leave late_output out."
        )


def late_schema(declared: pa.Schema, name: str) -> pa.Schema:
    """The columns of late rows: those of their input, and the epoch that they name.

    >>> late_schema(pa.schema([("x", pa.int64())]), "orders").names
    ['x', 'late_epoch']
    """
    if LATE_EPOCH in declared.names:
        raise FlowError(
            f"input '{name}' declares a column '{LATE_EPOCH}', which is reserved for the epoch of late "
            "rows. Rename the column, or choose late='drop' or late='error'."
        )
    return declared.append(pa.field(LATE_EPOCH, pa.int64()))


def late_rows(rows: Any, epoch: int) -> Any:  # noqa: ANN401 - a batch or a table, as it came
    """Rows of a late epoch as they are sent: with that epoch in a column."""
    epochs = pa.repeat(pa.scalar(epoch, pa.int64()), rows.num_rows)
    return rows.append_column(pa.field(LATE_EPOCH, pa.int64()), epochs)
