"""The output of ``pointstamp run``: first rows and totals of each output."""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

PREVIEW_ROWS_MAX: Final = 10
PREVIEW_EPOCHS_MAX: Final = 20


class Totals(NamedTuple):
    """The totals of a run."""

    epochs: int
    rows_in: int
    rows_out: int


def preview(what: str, rows: "pa.Table", count: int) -> str:
    """The first of so many rows as a plain table under a line that says what they are."""
    head = f"{what}: {counted(count, 'row')}"
    shown = rows.slice(0, PREVIEW_ROWS_MAX)
    if not shown.num_rows:
        return head
    cells = [shown.column_names, *([_cell(value) for value in row.values()] for row in shown.to_pylist())]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    more = [f"  ... {count - shown.num_rows:,} more"] if count > shown.num_rows else []
    return "\n".join([head, *(f"  {line}".rstrip() for line in lines), *more])


def counted(number: int, what: str) -> str:
    """A number with its noun, in the plural where that is right."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _cell(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
