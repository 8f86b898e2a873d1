"""``pointstamp run --stream``: a flow that follows folders, locally or on Spark.

An input that is a folder is followed; one that is a file is read once. Every epoch is published under the
output folder as soon as it is complete and saved, and the checkpoint has what is needed to continue: the same
command continues where the last one stopped, whatever stopped it.

Ctrl-C (or SIGTERM) finishes the epochs in flight; a second one does not wait. Both leave
complete epochs only, and a checkpoint to resume from. A mistake in the command line is a UsageError, raised
before anything is started or written.
"""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pointstamp.cli.run_files import InputFile, check_folder, is_remote, read
from pointstamp.connectors.files.source import files
from pointstamp.connectors.memory import Rows
from pointstamp.connectors.published.reader import published_now
from pointstamp.connectors.source import Source
from pointstamp.dataflow import Dataflow
from pointstamp.errors import FlowError, StorageError, UsageError
from pointstamp.query.options import QueryOptions
from pointstamp.query.query import Query
from pointstamp.query.start_checks import QUERY
from pointstamp.redaction import redact
from pointstamp.show.query_display import QueryDisplay
from pointstamp.storage.anywhere import storage_at

_CHECKPOINT: Final = "_checkpoint"


def check(flow: Dataflow, inputs: list[InputFile], arguments: argparse.Namespace) -> None:
    """Raise UsageError where these inputs and options cannot be a stream."""
    if arguments.output is None:
        raise UsageError("run: --stream publishes every epoch; give --output DIR.")
    followed = [each for each in inputs if _is_folder(each)]
    if not followed:
        raise UsageError(
            f"run: --stream follows folders, but the inputs of flow '{flow.name}' are files, which have an "
            "end. Leave --stream out, or give a folder."
        )
    if arguments.epoch and not arguments.available_now:
        raise UsageError(
            "run: with --epoch this command cannot know when an epoch of a stream is complete; add "
            "--available-now, or call query.advance() in a script."
        )
    for each in followed:
        if not is_remote(each.path):
            check_folder(each)
    _check_owner(arguments)


def run(flow: Dataflow, inputs: list[InputFile], arguments: argparse.Namespace) -> int:
    """Follow the inputs until the end, or until told to stop; 0 where the query has ended well."""
    checkpoint = _checkpoint(arguments)
    with _session(flow, arguments) as spark:
        before = _published_through(arguments.output)
        query = _start(flow, inputs, arguments, checkpoint, spark)
        with _stop_signals(), _dashboard(query, arguments.dashboard):
            _follow(query)
        count = query.epoch - before
    sys.stdout.write(
        f"{count:,} epoch{'' if count == 1 else 's'} published, {_through(query)}; the output is in "
        f"{redact(arguments.output)}, the checkpoint in {redact(checkpoint)}\n"
    )
    return 0


def _start(
    flow: Dataflow,
    inputs: list[InputFile],
    arguments: argparse.Namespace,
    checkpoint: str,
    spark: Any,  # noqa: ANN401 - a SparkSession or None
) -> Query:
    streams = {each.name: _source(each) for each in inputs}
    settings: dict[str, Any] = {
        "checkpoint": checkpoint,
        "output": arguments.output,
        "available_now": arguments.available_now,
        "options": QueryOptions(
            epoch={each.name: each.epoch for each in inputs if each.epoch is not None} or None,
            accept_changes=arguments.accept,
        ),
    }
    if spark is None:
        return flow.start(streams, processes=arguments.workers or 1, **settings)
    return flow.start(streams, on=spark, workers=arguments.workers, **settings)


def _source(each: InputFile) -> Source:
    """The source of a folder that is followed, or the rows of a file as one unit."""
    if _is_folder(each):
        return files(each.path, each.format)  # type: ignore[arg-type]
    return Rows(tuple(read(each).combine_chunks().to_batches()))


@contextmanager
def _dashboard(query: Query, port: int | None) -> Iterator[None]:
    """Serve the page of a query while it runs, at a port if one is given; its address is printed."""
    if port is None:
        yield
        return
    try:
        served = query.dashboard(port=port)
    except BaseException:
        query.stop(finish=False)
        raise
    with served:
        yield


def _follow(query: Query) -> None:
    try:
        with QueryDisplay(query) as display:
            try:
                while display.wait():
                    pass
            except KeyboardInterrupt:
                display.note("stopping after the epochs in flight; interrupt once more to stop at once")
                query.stop()
            display.show()
    finally:
        query.stop(finish=False)
    if error := query.exception():
        raise error


def _published_through(output: str) -> int:
    """The last epoch that was published before; -1 where there is none."""
    try:
        return published_now(output, check_files=False).epochs_through
    except FlowError:
        return -1


def _through(query: Query) -> str:
    return f"up to epoch {query.epoch}" if query.epoch >= 0 else "none so far"


def _is_folder(each: InputFile) -> bool:
    return is_remote(each.path) or Path(each.path).is_dir()


def _checkpoint(arguments: argparse.Namespace) -> str:
    return str(arguments.checkpoint or f"{arguments.output.rstrip('/')}/{_CHECKPOINT}")


def _check_owner(arguments: argparse.Namespace) -> None:
    """An output folder that is not empty must be of the query whose checkpoint this is."""
    output, checkpoint = arguments.output, _checkpoint(arguments)
    if is_remote(output) or not Path(output).exists():
        return
    if not Path(output).is_dir():
        raise UsageError(f"run: --output needs a folder, and {output} is a file.")
    try:
        goes_on = storage_at(checkpoint).size(QUERY) is not None
    except StorageError as error:
        raise UsageError(f"run: --checkpoint {checkpoint} cannot be read: {error}") from error
    if any(Path(output).iterdir()) and not goes_on:
        raise UsageError(
            f"run: the output folder {output} is not empty, and {checkpoint} is not a checkpoint to continue "
            "from; give the --checkpoint of the earlier run, or another --output."
        )


@contextmanager
def _session(flow: Dataflow, arguments: argparse.Namespace) -> Iterator[Any]:
    if arguments.master is None:
        with nullcontext():
            yield None
        return
    from pointstamp.cli import run_spark

    run_spark.send_by_value(Path(arguments.flow).resolve().parent)
    with run_spark.session(arguments.master, flow.name) as spark:
        yield spark


@contextmanager
def _stop_signals() -> Iterator[None]:
    """Let both signals mean to stop; Spark's own handler would cancel the workers' job instead."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
