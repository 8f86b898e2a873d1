"""``pointstamp dashboard``: serve a page for a checkpoint or a trace.

A running query serves its own page: ``query.dashboard()``, or ``dashboard=True`` when it is started.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from pointstamp.errors import UsageError

if TYPE_CHECKING:
    from pointstamp.dashboard.sight import Sight

AddParser = Callable[..., argparse.ArgumentParser]

_DESCRIPTION = """\
Serves a page that shows a checkpoint (its journal, its generations, the state of operators), or a trace step
by step: messages, capabilities, and the counts and frontiers of each worker, with the state of the formal
models. Traces are written by pointstamp simulate --trace, with or without crashes, and by queries with
verify=True that violate a rule. By default only this machine can reach the page (--host changes it), and only
clients that have its address. The environment variable POINTSTAMP_DASHBOARD_TOKEN
sets the token of that address, which is random by default. A running query serves its own page:
query.dashboard().
"""


def add_to(add_parser: AddParser) -> None:
    """Add ``dashboard`` to the command line."""
    dashboard = add_parser(
        "dashboard",
        help="show a checkpoint or a trace in a browser",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    dashboard.add_argument("what", metavar="WHAT", help="the checkpoint of a query, or a file with a trace")
    dashboard.add_argument("--port", metavar="N", type=int, default=0, help="the port (default: a free one)")
    dashboard.add_argument(
        "--host", metavar="HOST", default="127.0.0.1", help="the interface (default: this machine only)"
    )
    dashboard.set_defaults(command=dashboard, run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from pointstamp.dashboard.server import Dashboard

    with Dashboard(sight_of(arguments.what), host=arguments.host, port=arguments.port) as served:
        sys.stdout.write(f"{served.shown_address}\n")
        sys.stdout.flush()
        Event().wait()  # until it is interrupted from the keyboard
    return 0


def sight_of(what: str) -> "Sight":
    """The sight of a path or an address: a checkpoint or a trace."""
    if Path(what).is_file():
        return _trace_sight(Path(what))
    if "://" not in what and not Path(what).is_dir():
        raise UsageError(
            f"dashboard: there is no file and no folder {what}; give the checkpoint of a query, or a trace."
        )
    from pointstamp.query.checkpoint_page import CheckpointSight

    return CheckpointSight(what)


def _trace_sight(path: Path) -> "Sight":
    """A trace, with crashes or without."""
    from pointstamp.simulate.crash.trace import has_crashes, load_crashes, recorded_crashes
    from pointstamp.verify.recorded import TraceSight, recorded_run
    from pointstamp.verify.trace import load

    if has_crashes(path):
        return TraceSight(recorded_crashes(load_crashes(path)))
    return TraceSight(recorded_run(load(path)))
