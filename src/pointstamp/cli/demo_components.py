"""``pointstamp demo graph``: a graph grows, Spark maintains its components, and a worker is killed.

A million edges arrive in a folder, file by file, while the query runs as a Spark job on this machine. Every
epoch's changes are published as Parquet as soon as the epoch is complete and saved. Half way the demo kills
one of its own workers with SIGKILL; the query resumes from its last snapshot. At the end every published
epoch is compared with what scipy finds in the files from scratch, so any trace of the crash would show.
"""

import argparse
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from pointstamp.cli.demo_session import demo_session, say
from pointstamp.errors import PointstampError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pointstamp.cli.demo_graph import Arrivals, Labels
    from pointstamp.dataflow import Dataflow
    from pointstamp.query.query import Query
    from pointstamp.show.query_display import QueryDisplay

EDGES: Final = 1_000_000
EPOCHS: Final = 30
EVERY_SECONDS: Final = 0.4
AHEAD_FILES: Final = 4
"""The maximum number of unpublished files: enough to be busy, few enough to see the crash in the middle."""

_OUTPUT: Final = "components"


def add_to(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the subcommand of ``demo``."""
    parser = add_parser(
        "graph",
        help="components of a growing graph, on Spark, with a crash",
        description="Follows a folder in which a graph of a million edges arrives file by file, maintains "
        "its connected components as a Spark job on this machine, kills one of its own workers half way, "
        "continues, and checks every published epoch with scipy.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--output", metavar="DIR", help="an empty or new folder for everything (default: a temporary one)"
    )
    parser.add_argument(
        "--workers", type=positive, default=2, metavar="N", help="number of workers (default: 2)"
    )
    parser.add_argument(
        "--edges", type=positive, default=EDGES, metavar="N", help=f"number of edges (default: {EDGES:,})"
    )
    parser.add_argument(
        "--epochs", type=positive, default=EPOCHS, metavar="N", help=f"number of files (default: {EPOCHS})"
    )
    parser.add_argument(
        "--every",
        type=float,
        default=EVERY_SECONDS,
        metavar="SECONDS",
        help=f"seconds between files (default: {EVERY_SECONDS:g})",
    )
    parser.add_argument(
        "--through",
        choices=("files", "spark"),
        default="files",
        help="who reads the files: the workers, or Structured Streaming (default: files)",
    )
    parser.add_argument("--no-crash", action="store_true", help="do not kill a worker")
    parser.set_defaults(command=parser, run=run)


@dataclass(slots=True)
class _Story:
    """The course of one demo; changed by the thread of the command only."""

    folder: Path
    arrivals: "Arrivals"
    labels: "Labels"
    kill_at: int | None
    drain: threading.Thread | None = None
    killed_at_seconds: float | None = None

    def files_allowed(self, epoch: int) -> int:
        """The maximum number of files when this epoch is published; before the crash, never all."""
        if self.kill_at is None:
            return epoch + 1 + AHEAD_FILES
        before = self.kill_at + min(2, self.arrivals.files - 1 - self.kill_at)
        return min(epoch + 1 + AHEAD_FILES, before)

    def facts(self) -> list[tuple[str, str]]:
        labels, arrivals = self.labels, self.arrivals
        return [
            ("files", f"{arrivals.written} of {arrivals.files} have arrived"),
            ("graph", f"{labels.vertices:,} vertices in {labels.components:,} components"),
        ]


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 where every published epoch is what scipy finds."""
    from pointstamp.cli.demo_graph import Arrivals, Labels
    from pointstamp.cli.run_files import check_output

    if arguments.output is not None:
        check_output(arguments.output)
    folder = Path(arguments.output or tempfile.mkdtemp(prefix="pointstamp-demo-")).absolute()
    (folder / "in").mkdir(parents=True, exist_ok=True)
    vertices = max(2, arguments.edges * 6 // 10)
    arrivals = Arrivals(
        folder / "in",
        edges=arguments.edges,
        vertices=vertices,
        files=arguments.epochs,
        every_seconds=max(0.0, arguments.every),
    )
    # A worker dies while there is something left to do.
    kill_at = None if arguments.no_crash or arguments.epochs < 2 else (arguments.epochs - 1) // 2
    story = _Story(folder, arrivals, Labels(vertices), kill_at)
    say(
        f"a graph of {vertices:,} vertices grows by {arguments.edges:,} edges, in {arguments.epochs} files; "
        f"{arguments.workers} workers on Spark maintain its components"
    )
    if kill_at is not None:
        say(f"after epoch {kill_at} one of the workers will be killed")
    began = monotonic()
    with demo_session(arguments.workers + (arguments.through == "spark")) as spark:
        say(f"Spark is there after {monotonic() - began:.1f} s")
        return _run(story, _start(spark, story, arguments), vertices)


def _start(spark: "SparkSession", story: _Story, arguments: argparse.Namespace) -> "Query":
    import pointstamp as ps

    edges: Any = ps.io.files(story.folder / "in", in_order=True)
    if arguments.through == "spark":
        reader: Any = spark.readStream.schema("src long, dst long").option("maxFilesPerTrigger", 1)
        edges = reader.parquet(str(story.folder / "in"))
    return _flow().start(
        on=spark,
        edges=edges,
        checkpoint=str(story.folder / "checkpoint"),
        output=str(story.folder / "out"),
        workers=arguments.workers,
    )


def _flow() -> "Dataflow":
    import pointstamp as ps
    from pointstamp import graphs

    flow = ps.Dataflow("components of a growing graph")
    edges = flow.stream_input("edges", "src long, dst long")
    flow.output(_OUTPUT, graphs.connected_components(edges))
    return flow


def _run(story: _Story, query: "Query", vertices: int) -> int:
    from pointstamp.show.query_display import QueryDisplay

    began = monotonic()
    try:
        with QueryDisplay(query, facts=story.facts) as display:
            story.arrivals.start()
            while display.wait() and not _is_over(story, query):
                if query.status["message"] != "starting workers":
                    story.arrivals.allow(story.files_allowed(query.epoch))
                _look(story, query, display)
            query.stop()
            _read_published(story)
            display.show()
    except KeyboardInterrupt:
        say(f"interrupted; what is published is in {story.folder / 'out'}, whole epochs only")
        raise
    finally:
        story.arrivals.stop()
        query.stop(finish=False)
    if error := query.exception():
        raise error
    return _summary(story, query, monotonic() - began, vertices)


def _is_over(story: _Story, query: "Query") -> bool:
    """Return whether everything that arrived is published."""
    if story.drain is None and story.arrivals.is_done:
        # In a thread: the display continues while it waits.
        story.drain = threading.Thread(target=_drain, args=(query,), daemon=True)
        story.drain.start()
    return story.drain is not None and not story.drain.is_alive()


def _drain(query: "Query") -> None:
    try:
        query.process_all_available()
    except PointstampError:
        return  # the query has ended, and says why itself


def _look(story: _Story, query: "Query", display: "QueryDisplay") -> None:
    """Read what is new, and kill a worker when its time has come."""
    if query.epoch > story.labels.epoch:
        _read_published(story)
    if story.kill_at is not None and query.epoch >= story.kill_at:
        workers = query.workers()
        host, pid = workers[-1]
        story.kill_at = None
        if host == socket.gethostname():  # and not on a cluster, where the number would be another's
            os.kill(pid, signal.SIGKILL)
            story.killed_at_seconds = monotonic()
            display.note(
                f"killed worker {len(workers) - 1} (process {pid}) with SIGKILL; epoch {query.epoch} was the "
                "last one published"
            )


def _read_published(story: _Story) -> None:
    import pointstamp as ps

    try:
        story.labels.apply(ps.read_changes(str(story.folder / "out"), _OUTPUT, after=story.labels.epoch))
    except PointstampError:
        return  # nothing is published yet


def _summary(story: _Story, query: "Query", seconds: float, vertices: int) -> int:
    import pointstamp as ps
    from pointstamp.cli.demo_graph import differences

    labels, folder = story.labels, story.folder
    crash = ""
    if story.killed_at_seconds is not None:
        took = ", ".join(f"{each:.1f} s" for each in query.recovery_seconds)
        crash = f", one of its workers killed, all there again after {took or 'never'}"
    say(f"\n{query.epoch + 1} epochs published in {seconds:.1f} s{crash}")
    say(
        f"{labels.vertices:,} vertices in {labels.components:,} components; the largest has "
        f"{labels.largest:,}"
    )
    published = ps.read_changes(str(folder / "out"), _OUTPUT)
    is_checked = find_spec("scipy") is not None
    wrong = list(differences(published, story.arrivals, vertices)) if is_checked else []
    for each in wrong:
        say(f"WRONG: {each}; this is a bug of ours")
    if not is_checked:
        say("nothing was checked, because scipy is not installed")
    elif not wrong:
        unseen = ", as if no worker had been killed" if story.killed_at_seconds is not None else ""
        say(
            f"scipy, asked again from scratch after each epoch, finds the same {published.num_rows:,} "
            f"changes; none is lost, none comes twice{unseen}"
        )
    say(f"\nthe output is in {folder / 'out'}, the checkpoint in {folder / 'checkpoint'}; look at them:")
    say(f"  pointstamp snapshots {folder / 'checkpoint'}")
    say(f"  python -c 'import pointstamp as ps; print(ps.read_changes(\"{folder / 'out'}\"))'")
    return 1 if wrong else 0


def positive(text: str) -> int:
    """Return a number of at least 1 of an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs a number of at least 1, not {text!r}")
    return int(text)
