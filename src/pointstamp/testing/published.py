"""Assertions on published Parquet output: rows by epoch, and tables.

Rows within an epoch have no order, so they are compared as a bag: each row as often as it is there.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from pointstamp.connectors.published.reader import read_changes, read_table

RowLike: TypeAlias = Mapping[str, Any]


def published_epochs(path: str | os.PathLike[str], output: str) -> dict[int, list[dict[str, Any]]]:
    """Return the published rows of an output by epoch; epochs without rows are omitted."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in read_changes(path)[output].sort_by("epoch").to_pylist():
        found.setdefault(row.pop("epoch"), []).append(row)
    return found


def assert_published(
    path: str | os.PathLike[str], output: str, expected: Mapping[int, Iterable[RowLike]]
) -> None:
    """Assert that exactly these epochs of a published output have rows, and exactly these rows.

    Raises:
        AssertionError: The rows differ.

    """
    found = published_epochs(path, output)
    wanted = {epoch: list(rows) for epoch, rows in expected.items()}
    wrong = [
        f"epoch {epoch}: {words}"
        for epoch in sorted({*found, *wanted})
        if (words := _difference(found.get(epoch, []), wanted.get(epoch, [])))
    ]
    if wrong:
        raise AssertionError(f"output '{output}' in '{path}' is not as expected. " + " ".join(wrong))


def assert_table(
    path: str | os.PathLike[str], output: str, expected: Iterable[RowLike], *, as_of: int | None = None
) -> None:
    """Assert that a published table has exactly these rows, after an epoch or now.

    Raises:
        AssertionError: The rows differ.

    """
    found = read_table(path, output, as_of=as_of).to_pylist()
    if words := _difference(found, list(expected)):
        when = "" if as_of is None else f" as of epoch {as_of}"
        raise AssertionError(f"the table '{output}' in '{path}'{when} is not as expected: {words}")


def _difference(found: Iterable[RowLike], wanted: Iterable[RowLike]) -> str:
    """The missing and the superfluous rows as text; empty if both are equal."""
    there, due = _counted(found), _counted(wanted)
    lacking, more = due - there, there - due
    parts = [f"missing {_listed(lacking)}"] if lacking else []
    parts += [f"not expected {_listed(more)}"] if more else []
    return ", ".join(parts) + "." if parts else ""


def _counted(rows: Iterable[RowLike]) -> "Counter[str]":
    # As text: values may be lists, which cannot be counted, and NaN, which equals nothing.
    return Counter("{" + ", ".join(f"{name}: {row[name]!r}" for name in sorted(row)) + "}" for row in rows)


def _listed(rows: "Counter[str]") -> str:
    return ", ".join(row if count == 1 else f"{count} times {row}" for row, count in sorted(rows.items()))
