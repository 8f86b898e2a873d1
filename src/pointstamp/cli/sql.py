"""``pointstamp sql``: run the views of a SQL text from files to files."""

import argparse
import sys
from decimal import Decimal
from pathlib import Path
from typing import Final

from pointstamp.cli.run import add_options, run_flow
from pointstamp.cli.subcommand import AddParser, described
from pointstamp.errors import FlowError, UsageError

_DESCRIPTION: Final = """\
Runs the views of a Spark SQL text. The text declares its inputs and defines its views:

  create table orders (id long primary key, city string, price long);
  create view cities as select city, sum(price) as total from orders group by city;

Each view is an output, with its changes in each epoch: rows with diff, +1 for an inserted row and -1 for
a deleted row. Everything else is as for pointstamp run. Unsupported SQL is rejected before
anything runs, with its line and column. Needs the package sqlglot: pip install 'pointstamp[sql]'.
"""


def add_to(add_parser: AddParser) -> None:
    """Add ``sql`` to the command line."""
    sql = described(
        add_parser,
        "sql",
        "run the views of a SQL text, in this process or on Spark",
        _DESCRIPTION,
        _run,
    )
    sql.add_argument("flow", metavar="VIEWS.sql", type=_sql_file, nargs="?", help="a file with SQL")
    sql.add_argument(
        "--parameter",
        metavar="NAME=VALUE",
        type=_parameter,
        action="append",
        default=[],
        help="the value of :NAME in the text: a number, true, false, null, or a string",
    )
    sql.add_argument(
        "--time-zone",
        metavar="ZONE",
        help="the zone in which dates, hours and texts of timestamps are computed, such as Europe/Berlin "
        "(default: that of the Spark session, UTC without Spark)",
    )
    sql.add_argument(
        "--explain",
        action="store_true",
        help="show the plan with the state and cost of each operator",
    )
    sql.add_argument(
        "--interactive", action="store_true", help="a shell that shows how views change with their inputs"
    )
    add_options(sql)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.interactive:
        return _interactive(arguments)
    if arguments.flow is None:
        raise UsageError("sql: give a file with SQL, views.sql, or --interactive.")
    if arguments.explain:
        from pointstamp.cli.describe import load_flow

        flow = load_flow(arguments.flow, dict(arguments.parameter), arguments.time_zone)
        sys.stdout.write(flow.explain().rstrip("\n") + "\n")
        return 0
    return run_flow(arguments)


def _interactive(arguments: argparse.Namespace) -> int:
    for option in ("input", "output", "master", "stream", "explain"):
        if getattr(arguments, option):
            raise UsageError(f"sql: --{option} is not for --interactive; write .help there.")
    try:
        from pointstamp.cli.sql_shell import Shell, Typed
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sqlglot"):
            raise
        raise UsageError("sql needs the package sqlglot: pip install 'pointstamp[sql]'.") from error
    from pointstamp.expressions.zones import UTC, in_time_zone

    zone = _checked_zone(arguments.time_zone)
    shell = Shell(dict(arguments.parameter), zone)
    with in_time_zone(zone or UTC):  # INSERT is evaluated by the shell itself
        if arguments.flow is not None:
            shell.read(arguments.flow)
        return shell.run(Typed(Path.home() / ".pointstamp_history"))


def _checked_zone(name: str | None) -> str | None:
    if name is None:
        return None
    from pointstamp.expressions.zones import check_time_zone

    try:
        return check_time_zone(name, "--time-zone")
    except FlowError as error:
        raise UsageError(f"sql: {error}") from error


def _parameter(text: str) -> tuple[str, object]:
    """A name and a value, which is read as a number or a truth value where it looks like one."""
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        raise argparse.ArgumentTypeError(f"needs a name and a value, least=5, not {text!r}")
    known: dict[str, object] = {"true": True, "false": False, "null": None}
    if value.lower() in known:
        return name, known[value.lower()]
    for kind in (int, Decimal):
        try:
            return name, kind(value)
        except (ValueError, ArithmeticError):
            continue
    is_quoted = len(value) > 1 and value[0] == value[-1] == "'"
    return name, value[1:-1] if is_quoted else value


def _sql_file(name: str) -> str:
    if not name.endswith(".sql"):
        raise argparse.ArgumentTypeError(f"needs a file whose name ends in .sql, not {name!r}")
    return name
