"""The same rows in other files and epochs: splits of a story, and the table that a flow makes of each.

A *split* says how the rows of one input arrive: the order of the rows, which of them are one file, how many
files one epoch takes, and after which files the query stops and is started again from its checkpoint. A law
over splits draws two of them and compares the final tables, or compares one with an oracle.

``splits(count)`` draws a split of so many rows; with ``is_ordered`` rows keep their order, as they must where
a later row deletes what an earlier one has inserted. ``table_from_files`` runs a flow over files, stopping
and starting as the split says. ``table_from_epochs`` runs it over rows in memory, each file an epoch, without
restarts. Both return the output's rows with their multiplicities, added up over all epochs.
"""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import pointstamp as ps

Row: TypeAlias = Mapping[str, Any]
Added: TypeAlias = Counter[tuple[tuple[str, Any], ...]]
"""How often each row is there, with the names of its columns."""

MakeFlow: TypeAlias = Callable[[], ps.Dataflow]

DIFF = "diff"
_SECOND_NS = 1_000_000_000
_START_NS = 1_700_000_000 * _SECOND_NS


@dataclass(frozen=True)
class Split:
    """How rows arrive: the rows of each file, in order; stops after these files; files of one epoch."""

    files: tuple[tuple[int, ...], ...]
    stops: frozenset[int]
    files_per_epoch: int | None
    names: tuple[int, ...]
    """The place of each file among the names: names need not sort as files arrive."""


@st.composite
def splits(draw: st.DrawFn, count: int, *, is_ordered: bool = False, files_max: int = 6) -> Split:
    """Any way for so many rows to arrive."""
    order = list(range(count)) if is_ordered else draw(st.permutations(range(count)))
    cuts = draw(st.lists(st.integers(0, count), max_size=files_max - 1)) if count else []
    borders = [0, *sorted(cuts), count]
    files = tuple(tuple(order[start:stop]) for start, stop in pairwise(borders))
    stops = draw(st.frozensets(st.integers(0, len(files) - 1), max_size=2))
    names = tuple(draw(st.permutations(range(len(files)))))
    return Split(files, stops, draw(st.sampled_from([1, 2, None])), names)


def table_from_files(
    make_flow: MakeFlow,
    name: str,
    rows: Sequence[Row],
    schema: pa.Schema,
    split: Split,
    folder: Path,
    *,
    format: str = "parquet",  # noqa: A002 - as the source calls it
    output: str | None = None,
    has_times: bool = True,
    **options: Any,  # noqa: ANN401 - of the source
) -> Added:
    """What a flow publishes of rows that arrive in files, with restarts between.

    Modification times say the order of the files; without ``has_times`` all are the same.
    """
    inbox = folder / "in"
    inbox.mkdir(parents=True)
    source = ps.io.files(inbox, format, units_per_tick=split.files_per_epoch, **options)  # type: ignore[arg-type]
    for number, places in enumerate(split.files):
        path = inbox / f"part-{split.names[number]}.{format}"
        write_rows([rows[place] for place in places], schema, path, format)
        at = _START_NS + number * _SECOND_NS * has_times
        os.utime(path, ns=(at, at))
        if number in split.stops or number == len(split.files) - 1:
            query = make_flow().start(
                {name: source}, checkpoint=folder / "c", output=folder / "o", available_now=True
            )
            query.await_termination()
    return added_up(ps.read_changes(str(folder / "o"), output or _only_output(make_flow())))


def table_from_epochs(
    make_flow: MakeFlow,
    name: str,
    rows: Sequence[Row],
    schema: pa.Schema,
    split: Split,
    *,
    output: str | None = None,
    **options: Any,  # noqa: ANN401 - of run
) -> Added:
    """What a flow emits of rows in memory, each file of the split one epoch."""
    flow = make_flow()
    epochs = [pa.Table.from_pylist([dict(rows[place]) for place in places], schema) for places in split.files]
    results = flow.run({name: epochs}, **options)
    return added_up(results[output or _only_output(flow)].table())


def added_up(table: pa.Table) -> Added:
    """The rows of all epochs, each as often as its weights add up to."""
    total: Added = Counter()
    for row in table.to_pylist():
        weight = row.pop(DIFF, 1)
        row.pop("epoch", None)
        total[tuple(sorted(row.items()))] += weight
    return Counter({row: count for row, count in total.items() if count})


def write_rows(rows: Sequence[Row], schema: pa.Schema, path: Path, format: str) -> None:  # noqa: A002
    """Write a file that appears whole; times keep those of the clock."""
    unfinished = path.with_name(f"{path.name}.tmp")
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), unfinished)
    elif format == "arrow":
        with pa.ipc.new_file(unfinished, schema) as file:
            file.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema))
    elif format == "csv":
        with unfinished.open("w", newline="", encoding="utf-8") as text:
            writer = csv.writer(text)
            writer.writerow(schema.names)
            writer.writerows(
                [["" if row[each] is None else row[each] for each in schema.names] for row in rows]
            )
    else:
        unfinished.write_text("".join(json.dumps(dict(row)) + "\n" for row in rows), encoding="utf-8")
    unfinished.rename(path)


def _only_output(flow: ps.Dataflow) -> str:
    (name,) = flow.plan.output_schemas()
    return name
