"""``pointstamp sql``: the views of a text in SQL, from files to files, as ``pointstamp run`` runs a flow."""

import argparse
from collections.abc import Callable
from typing import Final

from pointstamp.cli.run import add_options, run_flow

_DESCRIPTION: Final = """\
Keeps the views of a text in Spark's SQL up to date. The text declares its inputs and says its views:

  create table orders (id long primary key, city string, price long);
  create view cities as select city, sum(price) as total from orders group by city;

Each view is an output, with how it changes in each epoch: rows with diff, +1 for one that appears and -1 for
one that disappears. Everything else is as for pointstamp run. What is not supported is refused before
anything runs, with its line and column. Needs the package sqlglot: pip install 'pointstamp[sql]'.
"""


def add_to(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add ``sql`` to the command line."""
    sql = add_parser(
        "sql",
        help="keep the views of a text in SQL up to date, in this process or on Spark",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sql.add_argument("flow", metavar="VIEWS.sql", type=_sql_file, help="a file with SQL")
    add_options(sql)
    sql.set_defaults(command=sql, run=run_flow)


def _sql_file(name: str) -> str:
    if not name.endswith(".sql"):
        raise argparse.ArgumentTypeError(f"needs a file whose name ends in .sql, not {name!r}")
    return name
