"""What the shell shows: rows, and rows that come and go, in colours where there is a terminal."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text
from sqlglot import exp

from pointstamp.cli.run_display import counted
from pointstamp.cli.shell.session import ShellEpoch
from pointstamp.tables.kept.weights import DIFF

ROWS_MAX: Final = 40


class Display:
    """Draws on standard output."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True)

    def say(self, words: str) -> None:
        """A line of words."""
        self._console.print(Text(words))

    def fail(self, words: str) -> None:
        """An error, in one sentence."""
        self._console.print(Text(f"error: {words}", style="red"))

    def rows(self, table: pa.Table) -> None:
        """A table with a heading and how many rows it has."""
        self._plain(table)
        self.say(counted(table.num_rows, "row"))

    def epoch(self, epoch: ShellEpoch, hidden: Iterable[str]) -> None:
        """How views changed in an epoch."""
        left_out = set(hidden)
        views = {name: each for name, each in epoch.views.items() if name not in left_out}
        if not views and not epoch.streams:
            self.say(f"epoch {epoch.number}: no view changes")
            return
        self.say(f"epoch {epoch.number}")
        for name, changes in views.items():
            self.changes(name, changes)
        for name, rows in epoch.streams.items():
            self._heading(name)
            self._plain(rows)

    def changes(self, name: str, changes: pa.Table) -> None:
        """The rows of a view that come (+) and go (-)."""
        self._heading(name)
        ordered = sorted(changes.to_pylist(), key=_place)
        shown, styles = [], []
        for row in ordered[:ROWS_MAX]:
            weight = row.pop(DIFF)
            copies = "" if abs(weight) == 1 else f" {abs(weight)}x"
            shown.append([("+" if weight > 0 else "-") + copies, *map(_cell, row.values())])
            styles.append("green" if weight > 0 else "red")
        self._grid(["", *changes.column_names[:-1]], shown, styles)
        self._more(changes.num_rows)

    def _heading(self, name: str) -> None:
        self._console.print(Text(f"  {name}", style="bold"))

    def _plain(self, table: pa.Table) -> None:
        rows = table.slice(0, ROWS_MAX).to_pylist()
        self._grid(table.column_names, [[_cell(value) for value in row.values()] for row in rows], [])
        self._more(table.num_rows)

    def _grid(self, names: Sequence[str], rows: list[list[str]], styles: Sequence[str]) -> None:
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        for number, row in enumerate([list(names), *rows]):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            style = "dim" if not number else (styles[number - 1] if styles else "")
            self._console.print(Text(f"  {line}", style=style))

    def _more(self, count: int) -> None:
        if count > ROWS_MAX:
            self.say(f"  ... {count - ROWS_MAX:,} more")


def without_order(query: exp.Expr) -> exp.Expr:
    """A query whose order is for who shows it alone: one without a limit."""
    if query.args.get("limit") is None and query.args.get("order") is not None:
        query = query.copy()
        query.set("order", None)
    return query


def in_order(table: pa.Table, query: exp.Expr) -> pa.Table:
    """The rows of a query in the order that it says, as far as that is an order of its own columns."""
    order = query.args.get("order")
    wanted = []
    for each in [] if order is None else order.expressions:
        said = each.this
        name = said.name if isinstance(said, exp.Column) else ""
        if isinstance(said, exp.Literal) and not said.is_string:
            name = table.column_names[int(said.name) - 1]
        found = [column for column in table.column_names if column.lower() == name.lower()]
        if not found:
            return table
        wanted.append((found[0], each))
    for column, each in reversed(wanted):  # the sort is stable, so the first column has the last word
        table = table.take(_sorted(table[column], is_descending=bool(each.args.get("desc"))))
        is_null = pc.is_null(table[column])
        table = table.take(_sorted(is_null, is_descending=bool(each.args.get("nulls_first"))))
    return table


def _sorted(column: pa.ChunkedArray, *, is_descending: bool) -> pa.Array:
    by = [("by", "descending" if is_descending else "ascending")]
    return pc.sort_indices(pa.table({"by": column}), sort_keys=by)


def _place(row: dict[str, object]) -> tuple[object, ...]:
    """By the first column, which mostly is a key; then what goes, what comes, and the other columns."""
    first, *others = [
        (value is not None, _number(value), str(value)) for name, value in row.items() if name != DIFF
    ]
    weight = row[DIFF]
    assert isinstance(weight, int)
    return (first, weight > 0, *others)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value == value else 0.0


def _cell(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
