"""``pointstamp explain``: a run with failures, compared with the failure-free run that explains it.

For a trace that ``simulate --crashes`` has saved, it shows for every move whether it is kept, and where; the
explanation is verified again. For a checkpoint it reads the journal: its generations, ticks and commits, and
which run of ticks without failures explains what was published.

Exit code 0 if there is an explanation, 1 if there is none, 2 for what cannot be read.
"""

import argparse
import sys
from pathlib import Path

from pointstamp.cli.subcommand import AddParser, described
from pointstamp.errors import UsageError

_DESCRIPTION = """\
Compares a run with failures with the run without failures that an observer sees: the steps of epochs up to
the last commit that a generation resumed from are kept, and the other steps are dropped.

WHAT is a trace, saved with pointstamp simulate FLOW.py --crashes 0-4 --trace FILE, or the checkpoint of a
query: a folder, or an address such as s3://bucket/checkpoint.
"""


def add_to(add_parser: AddParser) -> None:
    """Add ``explain`` to the command line."""
    explain = described(
        add_parser,
        "explain",
        "compare a run with failures with an equivalent run without failures",
        _DESCRIPTION,
        _run,
    )
    explain.add_argument("what", metavar="WHAT", help="a trace of a run with crashes, or a checkpoint")
    explain.add_argument("--all", action="store_true", help="show every move")


def _run(arguments: argparse.Namespace) -> int:
    from pointstamp.cli import explanation

    path = Path(arguments.what)
    if path.is_file():
        from pointstamp.simulate.crash.trace import load_crashes

        trace = load_crashes(path)
        explained = trace.explained()
        sys.stdout.write(explanation.trace_text(trace, explained, show_all=arguments.all) + "\n")
        return 0 if explained.flaw is None else 1
    if "://" not in arguments.what and not path.is_dir():
        raise UsageError(
            f"explain: there is no file and no folder {arguments.what}; give a trace, or the checkpoint of a "
            "query."
        )
    from pointstamp.cli.explanation import checkpoint_text

    sys.stdout.write(checkpoint_text(arguments.what) + "\n")
    return 0
