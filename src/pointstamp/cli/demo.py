"""``pointstamp demo``: three views of a shop on Spark, with a killed worker.

A DataFrame view, a SQL view and a recursive view follow orders, returns and referrals, which arrive, change
and are deleted. After each step every view is compared with Spark's recomputation over the current rows, and
both times are printed. Half way the demo kills one of its workers with SIGKILL.
"""

import argparse
import os
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from pointstamp.cli import demo_components
from pointstamp.cli.demo_components import positive
from pointstamp.cli.demo_session import demo_session, say
from pointstamp.errors import FlowError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pointstamp.cli.demo_shop import Shop
    from pointstamp.query.query import Query

ORDERS: Final = 200_000
STEPS: Final = 6
_WAIT_SECONDS_MAX: Final = 300.0


def add_to(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = add_parser(
        "demo",
        help="maintain three views of a shop on Spark, and kill a worker",
        description="Maintains a DataFrame view, a SQL view and a recursive view of a shop in a Spark job on "
        "this machine, kills a worker half way, and compares each view with Spark's recomputation after "
        "every step.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--output", metavar="DIR", help="an empty or new folder for everything (default: a temporary one)"
    )
    parser.add_argument(
        "--workers", type=positive, default=2, metavar="N", help="number of workers (default: 2)"
    )
    parser.add_argument(
        "--orders", type=positive, default=ORDERS, metavar="N", help=f"number of orders (default: {ORDERS:,})"
    )
    parser.add_argument(
        "--steps", type=positive, default=STEPS, metavar="N", help=f"number of changes (default: {STEPS})"
    )
    parser.add_argument("--no-crash", action="store_true", help="do not kill a worker")
    parser.set_defaults(command=parser, run=run)
    others = parser.add_subparsers(metavar="DEMO", title="other demos")
    demo_components.add_to(others.add_parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 if each view equaled Spark's result after each step."""
    from pointstamp.cli.demo_shop import Shop
    from pointstamp.cli.run_files import check_output

    if arguments.output is not None:
        check_output(arguments.output)
    folder = Path(arguments.output or tempfile.mkdtemp(prefix="pointstamp-demo-")).absolute()
    began = monotonic()
    with demo_session(arguments.workers + 1) as spark:
        say(f"Spark is there after {monotonic() - began:.1f} s")
        shop = Shop(folder, arguments.orders)
        return _Demo(spark, shop, folder, arguments).run()


class _Demo:
    """One run of the demo."""

    def __init__(self, spark: "SparkSession", shop: "Shop", folder: Path, given: argparse.Namespace) -> None:
        self._spark = spark
        self._shop = shop
        self._folder = folder
        self._workers: int = given.workers
        self._steps: int = given.steps
        self._kill_at = None if given.no_crash else given.steps // 2
        self._wrong: list[str] = []
        self._seconds: list[tuple[float, float]] = []

    def run(self) -> int:
        """Return the exit code."""
        import pointstamp as ps
        from pointstamp.cli.demo_shop import CHANGE, TABLES, views_of

        changes = self._shop.begin()
        self._shop.register(self._spark)
        flow = ps.views(
            self._spark,
            views_of(self._spark),
            inputs=self._shop.inputs(),
            changes={name: {"operation": CHANGE} for name in TABLES},
            name="a shop",
        )
        query = flow.start(
            on=self._spark,
            checkpoint=str(self._folder / "checkpoint"),
            output=str(self._folder / "out"),
            workers=self._workers,
            options=ps.QueryOptions(dashboard=True),
        )
        began = monotonic()
        try:
            say(
                f"{self._workers} workers keep three views up to date: revenue (a DataFrame), loyal (SQL), "
                "circle (recursive SQL)\n"
            )
            say(_line("step", "rows", "epoch", "refresh", "Spark", "revenue", "loyal", "circle"))
            started = monotonic()
            for step in range(self._steps + 1):
                note = ""
                if step:
                    started = monotonic()
                    changes = self._shop.step()
                    if step == self._kill_at:
                        note = self._kill(query)
                self._settle(query)
                ours = monotonic() - started
                self._compare(query, step, str(changes), ours, note)
        except KeyboardInterrupt:
            say(f"interrupted; what is published is in {self._folder / 'out'}, whole epochs only")
            raise
        finally:
            query.stop()
        if error := query.exception():
            raise error
        return self._summary(query, monotonic() - began)

    def _settle(self, query: "Query") -> None:
        query.process_all_available(_WAIT_SECONDS_MAX)

    def _kill(self, query: "Query") -> str:
        workers = query.workers()
        host, pid = workers[-1]
        if host != socket.gethostname():  # on a cluster the number would be another process's
            return ""
        os.kill(pid, signal.SIGKILL)
        return f"killed worker {len(workers) - 1} (process {pid})"

    def _compare(self, query: "Query", step: int, changes: str, ours: float, note: str) -> None:
        import pointstamp as ps
        from pointstamp.cli.demo_shop import views_of

        self._shop.register(self._spark)
        epoch, theirs, cells = query.epoch, 0.0, []
        for name, given in views_of(self._spark).items():
            started = monotonic()
            frame = self._spark.sql(given) if isinstance(given, str) else given
            wanted = frame.toArrow()
            seconds = monotonic() - started
            theirs += seconds
            found = ps.read_table(self._folder / "out", name, as_of=epoch)
            is_equal = rows(found) == rows(wanted)
            if not is_equal:
                self._wrong.append(f"view '{name}' after step {step} (epoch {epoch})")
            cells.append(f"{'equal' if is_equal else 'WRONG'} {seconds:5.2f} s")
        self._seconds.append((ours, theirs))
        say(_line(str(step), changes, str(epoch), f"{ours:.2f} s", f"{theirs:.2f} s", *cells, note))

    def _summary(self, query: "Query", seconds: float) -> int:
        took = ", ".join(f"{each:.1f} s" for each in query.recovery_seconds)
        crash = f", one worker killed and all there again after {took}" if query.recovery_seconds else ""
        say(f"\n{self._steps + 1} steps in {seconds:.1f} s, {query.epoch + 1} epochs published{crash}")
        for each in self._wrong:
            say(f"WRONG: {each} is not Spark's own answer; this is a bug of ours")
        if not self._wrong:
            say("each view was Spark's own answer after every step")
        usual = [pair for step, pair in enumerate(self._seconds) if step and step != self._kill_at]
        if usual:
            ours, theirs = (sorted(each)[len(usual) // 2] for each in zip(*usual, strict=True))
            say(f"median of a refresh {ours:.2f} s, of Spark's recomputation {theirs:.2f} s")
        out = self._folder / "out"
        say(f"\nthe output is in {out}; look at it:")
        say(f'  python -c \'import pointstamp as ps; print(ps.read_table("{out}", "circle"))\'')
        return 1 if self._wrong else 0


def rows(table: "pa.Table") -> Counter[tuple[Any, ...]]:
    """Return how often each row is there."""
    columns = [column.to_pylist() for column in table.columns]
    if not columns:
        raise FlowError("a view without columns cannot be compared.")
    return Counter(zip(*columns, strict=True))


def _line(*cells: str) -> str:
    widths = (4, 24, 5, 9, 9, 14, 14, 14, 0)
    padded = [
        cell.ljust(width) if place == 1 or place > 4 else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    return "  ".join(padded).rstrip()
