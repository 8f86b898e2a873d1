"""The command ``pointstamp``: subcommands, errors as one line, exit codes.

Exit codes: 0 success, 1 failure or finding, 2 invalid command line, 130 interrupted from the keyboard.

Each subcommand has a file of its own in this package with a function ``add_to(add_parser)``, listed in
``SUBCOMMANDS``. Those files import what they run only when they run it, so that ``--help`` is instant.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from pointstamp.cli import check, dashboard, demo, describe, explain, run, simulate, snapshots, sql
from pointstamp.compiled import has_kernels, is_compiled
from pointstamp.errors import PointstampError, UsageError
from pointstamp.version import __version__

SUBCOMMANDS: Final = (demo, sql, run, describe, dashboard, snapshots, simulate, explain, check)
"""The subcommands in the order of ``--help``: the most common first."""

_DESCRIPTION: Final = """\
Incremental and recursive views on Apache Spark, and streams with loops:
timely dataflow with exact completion and exactly-once recovery.
"""

_EPILOG: Final = """\
start here:
  pointstamp demo                maintain three views of a shop on Spark, and kill a worker
  pointstamp demo graph          run connected components of a growing graph on Spark
  pointstamp sql                 open a SQL shell with views that are updated as rows change
  pointstamp sql VIEWS.sql       run the views of a SQL file
  pointstamp run FLOW.py         run a flow in this process or on Spark
  pointstamp run ... --stream    the same, for files that arrive in folders
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with the known values."""

    def error(self, message: str) -> NoReturn:
        """Raise what ``main`` prints as one line."""
        raise UsageError(f"{self._who()}{message}; see {self.prog} --help")

    def unknown(self, arguments: Sequence[str]) -> UsageError:
        """Return the error for unknown arguments of this command."""
        options = sorted(self._option_string_actions)
        known = [option for option in options if option.startswith("--")]
        return UsageError(f"{self._who()}unknown argument {arguments[0]!r}; known: {', '.join(known)}")

    def _who(self) -> str:
        subcommand = self.prog.removeprefix("pointstamp").strip()
        return f"{subcommand}: " if subcommand else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - as argparse has it
        if action.choices is not None and value not in action.choices:
            what = str(action.metavar or action.dest).lower()
            known = ", ".join(map(str, action.choices))
            raise UsageError(f"{self._who()}unknown {what} {value!r}; known: {known}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        sys.stderr.write(f"pointstamp: {error}\n")
        return 2
    except PointstampError as error:
        sys.stderr.write(f"pointstamp: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("pointstamp: interrupted\n")
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone (``| head``). Python flushes standard output once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as stop:  # argparse ends --help and --version so
        return stop.code if isinstance(stop.code, int) else 0


def _run(argv: Sequence[str]) -> int:
    arguments, unknown = _parser().parse_known_args(argv)
    command: Parser = arguments.command
    if unknown:
        raise command.unknown(unknown)
    run: Callable[[argparse.Namespace], int] | None = arguments.run
    if run is None:
        sys.stderr.write(command.format_help())
        return 2
    return run(arguments)


def _parser() -> Parser:
    parser = Parser(
        prog="pointstamp",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    core = "compiled" if is_compiled() else "Python"
    kernels = "compiled" if has_kernels() else "missing"
    told = f"pointstamp {__version__} (core: {core}, kernels: {kernels})"
    parser.add_argument("--version", action="version", version=told)
    parser.set_defaults(command=parser, run=None)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for subcommand in SUBCOMMANDS:
        subcommand.add_to(subparsers.add_parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
