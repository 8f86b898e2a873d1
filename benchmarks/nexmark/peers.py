"""Nexmark beside Flink and Pathway: the same events, the answers compared.

    .venv/bin/python -m benchmarks.nexmark.peers [--events 1000000] [--flink PYTHON] [--pathway PYTHON]

Neither is a dependency of ours: PYTHON is the interpreter of an environment that has ``apache-flink`` (2.3;
it needs Java) or ``pathway`` (0.33). Both read the events from CSV files with two slots or threads, and that
is in their ``seconds``; q0 says what reading alone costs Flink. Flink runs each query as a stream with its
settings for small batches, and the better of two turns counts. Pathway is given all events as one batch. Ours
come as Arrow tables, one epoch after the other, as in ``benchmarks.nexmark.throughput``. ``ratio`` is the
peer's seconds by ours, in this run, with one worker.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
from benchmarks.figures import Figures, lines_in, report
from benchmarks.nexmark.answers import added_up, assert_same, made_events
from benchmarks.nexmark.throughput import turn
from examples.nexmark import queries
from examples.nexmark.events import Epochs
from examples.nexmark.flows import Query, inputs_of

FLINK = ["q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q9", "q17", "q18", "q19", "q20"]
PATHWAY = ["q2", "q3", "q4", "q17", "q18", "q20"]
SLOTS = 2
FOLDER = Path(__file__).parent


def written(inputs: Epochs, folder: Path, *, for_pathway: bool) -> Path:
    """The events as CSV files, one for each slot; Pathway needs names of columns, and has an id."""
    for name in ("person", "auction", "bid"):
        (folder / name).mkdir(parents=True)
        table = pa.concat_tables(inputs[name])
        if for_pathway:
            table = table.rename_columns(["number" if each == "id" else each for each in table.column_names])
        size = -(-table.num_rows // SLOTS)
        for slot in range(SLOTS):
            options = csv.WriteOptions(include_header=for_pathway)
            csv.write_csv(table.slice(slot * size, size), folder / name / f"{slot}.csv", options)
    return folder


def lines_of(command: list[str], **environment: str) -> list[Figures]:
    """The JSON lines that a peer prints; RuntimeError with what it said, where it fails."""
    ran = subprocess.run(  # noqa: S603 - the interpreter that the caller names
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command[:2])} failed:\n{ran.stderr[-4000:]}")
    return lines_in(ran.stdout)


def read_answer(files: list[Path], names: list[str] | None, like: pa.Table) -> pa.Table:
    """An answer of a peer's, with the types of ours; without names the files have them."""
    types = {
        "number" if field.name == "id" and names is None else field.name: field.type for field in like.schema
    }
    reading = csv.ReadOptions(column_names=names)
    converting = csv.ConvertOptions(column_types=types)
    read = [csv.read_csv(each, reading, convert_options=converting) for each in files if each.stat().st_size]
    table = pa.concat_tables(read)
    return table.rename_columns(["id" if each == "number" else each for each in table.column_names])


def names_of(columns: str) -> list[str]:
    """The names in the declaration of columns that Flink is given."""
    declared = columns.replace("decimal(23, 3)", "decimal").split(", ")
    return [each.split()[0].strip("`") for each in declared]


def ours(name: str, inputs: Epochs) -> tuple[float, pa.Table]:
    """The seconds of one worker, the better of two turns, and its answer."""
    query: Query = getattr(queries, name)
    needed = {each: inputs[each] for each in inputs_of(query)}
    turns = [turn(query, needed, "one worker") for _ in range(2)]
    return min(sum(seconds) for seconds, _ in turns), added_up(turns[0][1])


def beside(
    peer: str, name: str, events: int, seconds: float, mine: tuple[float, pa.Table], found: pa.Table
) -> None:
    """Compare the answers, and print a line."""
    assert_same(name, mine[1], found)
    report(
        name,
        contender=peer,
        events=events,
        events_per_s=round(events / seconds),
        seconds=seconds,
        our_seconds=mine[0],
        ratio=seconds / mine[0],
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description="Nexmark beside Flink and Pathway.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--flink", help="the Python of an environment with apache-flink")
    parser.add_argument("--pathway", help="the Python of an environment with pathway")
    given = parser.parse_args()
    inputs = made_events(given.events, given.epochs)
    asked = set(FLINK if given.flink else []) | set(PATHWAY if given.pathway else [])
    mine = {name: ours(name, inputs) for name in sorted(asked)}
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as temporary:
        folder = Path(temporary)
        if given.flink:
            data = written(inputs, folder / "flink", for_pathway=False)
            command = [
                given.flink,
                str(FOLDER / "flink_peer.py"),
                str(data),
                str(folder / "answers"),
                str(SLOTS),
            ]
            for line in lines_of([*command, *FLINK]):
                name = line["query"]
                files = [each for each in (folder / "answers" / name).rglob("*") if each.is_file()]
                found = read_answer(files, names_of(line["columns"]), mine[name][1])
                beside("Flink", name, given.events, line["seconds"], mine[name], found)
        if given.pathway:
            data = written(inputs, folder / "pathway", for_pathway=True)
            for name in PATHWAY:
                command = [
                    given.pathway,
                    str(FOLDER / "pathway_peer.py"),
                    str(data),
                    str(folder / "pw"),
                    name,
                ]
                (line,) = lines_of(command, PATHWAY_THREADS=str(SLOTS))
                found = read_answer([folder / "pw" / f"{name}.csv"], None, mine[name][1])
                beside(
                    "Pathway", name, given.events, line["seconds"], mine[name], found.drop(["time", "diff"])
                )


if __name__ == "__main__":
    main()
