"""``pointstamp run``: run a flow from files to files, locally or on Spark.

The command line is checked as a whole before anything runs: the flow, the names of its inputs, their paths
and columns, the output folder. What is wrong there is a UsageError (exit code 2); what goes wrong while the
flow runs keeps its own error (exit code 1).
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from pointstamp.cli.run_display import PREVIEW_EPOCHS_MAX, Totals, counted, preview
from pointstamp.cli.subcommand import AddParser, described
from pointstamp.errors import FlowError, UsageError
from pointstamp.redaction import redact

if TYPE_CHECKING:
    import pyarrow as pa

    from pointstamp.cli.run_files import InputFile
    from pointstamp.dataflow import Dataflow
    from pointstamp.driver.status import RowCounts

_PORT_MAX: Final = 65535
_DESCRIPTION: Final = """\
Runs the flow of a Python file, a Dataflow named flow, to the end of its inputs. Without --master it runs in
this process and needs no Java; with --master it runs as a Spark job.

An input is a Parquet, CSV or JSON-lines file, or a folder of such files; without --input the file's own
inputs are used. An output becomes Parquet files under DIR/NAME; without --output its first rows are shown.
For an output that is a table, the changes and the final rows are written (DIR/NAME.parquet) or shown.

With --stream a folder is followed: each file that arrives is an epoch, published when it is complete. The
same command resumes from its checkpoint. Files must appear complete: write elsewhere, then rename.
"""


def add_to(add_parser: AddParser) -> None:
    """Add ``run`` to the command line."""
    run = described(
        add_parser, "run", "run the flow of a file, in this process or on Spark", _DESCRIPTION, run_flow
    )
    run.add_argument("flow", metavar="FLOW.py", help="a Python file with a flow, or a file with SQL (.sql)")
    add_options(run)


def add_options(run: argparse.ArgumentParser) -> None:
    """Add what can be said of a run: where rows come from, where results go, and on what it runs."""
    run.add_argument(
        "--input",
        metavar="NAME=PATH",
        type=_pair,
        action="append",
        default=[],
        help="the rows of one input; give it once for each input of the flow",
    )
    run.add_argument("--output", metavar="DIR", help="an empty or new folder for the results")
    run.add_argument("--master", metavar="MASTER", help="run on this Spark master, for example local[2]")
    run.add_argument(
        "--workers",
        metavar="N",
        type=_positive,
        help="number of workers (default: 1; on Spark its slots, less one for a stream)",
    )
    run.add_argument(
        "--epoch",
        metavar="[NAME=]COLUMN",
        action="append",
        default=[],
        help="the column with the epoch of each row, of all inputs or of one (default: one epoch 0)",
    )
    run.add_argument(
        "--spill",
        metavar="SIZE",
        help="memory for state on each worker, 512MB or 2GB; the rest is spilled to disk",
    )
    _add_stream_options(run)


def _add_stream_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("--stream", action="store_true", help="follow folders as files arrive, until stopped")
    run.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="with --stream: the checkpoint (default: _checkpoint below the output)",
    )
    run.add_argument(
        "--available-now",
        action="store_true",
        help="with --stream: end when everything that has arrived is published",
    )
    run.add_argument(
        "--format",
        metavar="FORMAT",
        choices=("parquet", "csv", "json"),
        help="with --stream: the format of new files (default: by the names of existing files)",
    )
    run.add_argument(
        "--dashboard",
        metavar="PORT",
        type=_port,
        nargs="?",
        const=0,
        help="with --stream: serve a dashboard at this port (default: a free one)",
    )
    run.add_argument(
        "--accept",
        action="store_true",
        help="with --stream: accept a checkpoint of a flow with other outputs or functions",
    )


def run_flow(arguments: argparse.Namespace) -> int:
    """Run the flow of a file as the command line says; the exit code."""
    from pointstamp.cli import flowfile
    from pointstamp.cli.run_files import check_output, read

    if arguments.stream:
        return _run_stream(arguments)
    for option in ("checkpoint", "available_now", "format", "dashboard", "accept"):
        if getattr(arguments, option) is not None and getattr(arguments, option) is not False:
            raise UsageError(f"run: --{option.replace('_', '-')} is for streams; add --stream.")
    if arguments.output is not None:
        check_output(arguments.output)
    began = monotonic()
    if arguments.master is None and not arguments.input and not arguments.flow.endswith(".sql"):
        flow, data = flowfile.load(arguments.flow)
        _limit_memory(flow, arguments)
        totals = _run_here(flow, data, arguments)
    elif arguments.master is None:
        flow = _load(arguments)
        _limit_memory(flow, arguments)
        totals = _run_here(flow, {file.name: read(file) for file in _files(flow, arguments)}, arguments)
    else:
        from pointstamp.cli import run_spark

        flow = _load(arguments)
        _limit_memory(flow, arguments)
        totals = run_spark.run(flow, _files(flow, arguments), arguments)
    lies = f"; the output is in {redact(arguments.output)}" if arguments.output is not None else ""
    sys.stdout.write(
        f"{counted(totals.epochs, 'epoch')}, {counted(totals.rows_in, 'row')} in, "
        f"{counted(totals.rows_out, 'row')} out, {monotonic() - began:.1f} s{lies}\n"
    )
    return 0


def _run_stream(arguments: argparse.Namespace) -> int:
    from pointstamp.cli import run_stream

    flow = _load(arguments)
    _limit_memory(flow, arguments)
    inputs = _files(flow, arguments)
    run_stream.check(flow, inputs, arguments)
    return run_stream.run(flow, inputs, arguments)


# What the command line says, checked.


def _limit_memory(flow: "Dataflow", arguments: argparse.Namespace) -> None:
    if arguments.spill is not None:
        try:
            flow.spill_beyond(arguments.spill)
        except FlowError as error:
            raise UsageError(f"run: --spill {arguments.spill}: {error}") from error


def _load(arguments: argparse.Namespace) -> "Dataflow":
    """The flow of a file; ``pointstamp run`` has no options for a text of SQL."""
    from pointstamp.cli.describe import load_flow

    return load_flow(
        arguments.flow, dict(getattr(arguments, "parameter", [])), getattr(arguments, "time_zone", None)
    )


def _files(flow: "Dataflow", arguments: argparse.Namespace) -> "list[InputFile]":
    """The file of each input of the flow."""
    from pointstamp.cli.run_files import InputFile, format_of
    from pointstamp.flow.plan import NodeKind
    from pointstamp.topology.domain import EPOCHS

    declared = {name: node.outputs[0].schema for name, node in flow.plan.named(NodeKind.INPUT).items()}
    given = dict(arguments.input)
    if len(given) < len(arguments.input):
        raise UsageError("run: --input was given twice for one input. Put several files into one folder.")
    if flow.plan.root is not EPOCHS:
        raise UsageError(
            f"run: flow '{flow.name}' has custom times, which files cannot express. Run it in this "
            "process, with the inputs of its file."
        )
    for name in given:
        _check_name(name, flow.name, list(declared))
    if missing := [name for name in declared if name not in given]:
        why = "" if given else "the inputs of the file are for runs in this process to their end; "
        raise UsageError(f"run: {why}give --input {missing[0]}=PATH for an input of flow '{flow.name}'.")
    epochs = _epochs(arguments.epoch, flow)
    form = arguments.format
    return [
        InputFile(
            name,
            given[name],
            form or format_of(name, given[name], may_be_empty=arguments.stream),
            schema,
            epochs.get(name),
        )
        for name, schema in declared.items()
    ]


def _epochs(given: list[str], flow: "Dataflow") -> dict[str, str]:
    """The epoch column of each input that has one; a column without a name is for all inputs."""
    from pointstamp.driver.feeder import epoch_columns
    from pointstamp.flow.plan import NodeKind

    names = list(flow.plan.named(NodeKind.INPUT))
    epochs: dict[str, str] = {}
    for text in sorted(given, key=lambda each: "=" in each):
        name, equals, column = text.partition("=")
        if not equals:
            epochs.update(dict.fromkeys(names, text))
        else:
            _check_name(name, flow.name, names)
            epochs[name] = column
    try:
        # Those that are event time are declared in the flow.
        return {n: each for n, each in epoch_columns(flow.plan, epochs).items() if isinstance(each, str)}
    except FlowError as error:
        raise UsageError(f"run: {error}") from error


def _check_name(name: str, flow: str, names: list[str]) -> None:
    if name not in names:
        known = ", ".join(f"'{each}'" for each in names) or "none"
        raise UsageError(f"run: flow '{flow}' has no input '{name}'; it has {known}.")


def _pair(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"needs a name and a path, edges=edges.parquet, not {text!r}")
    return name, path


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs a number of at least 1, not {text!r}")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"needs a port, a number up to {_PORT_MAX}, not {text!r}")
    return int(text)


# In this process.


def _run_here(flow: "Dataflow", data: Mapping[str, Any], arguments: argparse.Namespace) -> Totals:
    from pointstamp.cli import run_files
    from pointstamp.cli.run_files import FinalTables
    from pointstamp.driver.status import RowCounts
    from pointstamp.topology.domain import EPOCHS

    has_epochs = flow.plan.root is EPOCHS
    if arguments.output is not None and not has_epochs:
        raise UsageError(
            f"run: flow '{flow.name}' has custom times, but --output writes files by epoch. Leave --output "
            "out."
        )
    if arguments.output is not None and run_files.is_remote(arguments.output):
        raise UsageError(f"run: {arguments.output} is not on this machine; give --master to write there.")
    epochs = _epochs(arguments.epoch, flow)
    word = "epoch" if has_epochs else "time"
    rows, count, previews = RowCounts(), 0, list[str]()
    final = FinalTables(flow.plan.output_schemas())
    for epoch, tables in _stream(flow, data, epochs, arguments.workers or 1, rows):
        count += 1
        for name, table in tables.items():
            final.add(name, table)
            if arguments.output is not None:
                run_files.write(Path(arguments.output), name, epoch, table)
            elif count <= PREVIEW_EPOCHS_MAX:
                previews.append(preview(f"{word} {epoch}, {name}", table, table.num_rows))
    # Not while the run is shown: a display and a table on one terminal would draw over each other.
    sys.stdout.write("".join(f"{each}\n" for each in previews))
    if arguments.output is None and count > PREVIEW_EPOCHS_MAX:
        sys.stdout.write(f"... {count - PREVIEW_EPOCHS_MAX:,} more epochs\n")
    for name, table in final.tables().items():
        if arguments.output is not None:
            run_files.write_table(Path(arguments.output), name, table)
        else:
            sys.stdout.write(preview(f"at the end, {name}", table, table.num_rows) + "\n")
    return Totals(count, sum(rows.sent.values()), sum(rows.finished.values()))


def _stream(
    flow: "Dataflow", data: Mapping[str, Any], epochs: dict[str, str], workers: int, rows: "RowCounts"
) -> "Iterator[tuple[Any, dict[str, pa.Table]]]":
    """Each epoch with its tables, as ``stream`` has them, while rows are counted."""
    from rich.console import Console

    from pointstamp.driver.feeder import feeder
    from pointstamp.driver.local_run import LocalRun
    from pointstamp.driver.run_loop import Collector, count_rows, drive
    from pointstamp.driver.status import status_of
    from pointstamp.show.live import LiveDisplay, draws

    collector = Collector(flow.plan.output_schemas())
    is_shown = draws(Console(stderr=True))
    with (
        LocalRun(flow.plan, workers, on_result=collector.on_result) as run,
        LiveDisplay.for_stream(silent=not is_shown) as display,
    ):
        tally = count_rows(run)
        rows.sent, rows.finished = tally.sent, tally.finished
        fed = feeder(run, data, epoch=epochs)
        watch = (lambda: display.update(lambda: status_of(run, tally))) if is_shown else None
        yield from drive(run, fed, collector, reads_ahead=False, after_step=watch)
