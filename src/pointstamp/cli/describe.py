"""``pointstamp describe``: a flow as text, a Mermaid chart or an HTML page."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pointstamp.errors import FlowError, UsageError

if TYPE_CHECKING:
    from pointstamp.dataflow import Dataflow


def add_to(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add ``describe`` to the command line."""
    describe = add_parser(
        "describe",
        help="show the flow of a file: its operators, streams, loops and times",
        description="Shows the flow of a Python file, a Dataflow named flow, as text. The file may have "
        "inputs or none; nothing is run but the file itself.",
        allow_abbrev=False,
    )
    describe.add_argument(
        "flow", metavar="FLOW.py", help="a Python file with a flow, or a file with SQL (.sql)"
    )
    describe.add_argument("--operators", action="store_true", help="show the physical operators, too")
    drawn = describe.add_mutually_exclusive_group()
    drawn.add_argument("--mermaid", action="store_true", help="print a Mermaid flowchart instead of text")
    drawn.add_argument("--html", metavar="FILE", help="write an HTML page with the graph to a file")
    describe.set_defaults(command=describe, run=_run)


def load_flow(
    name: str, parameters: Mapping[str, object] | None = None, time_zone: str | None = None
) -> "Dataflow":
    """The flow of a file, which need not have inputs; a UsageError says what is wrong with it."""
    from pointstamp.cli import flowfile
    from pointstamp.dataflow import Dataflow

    path = Path(name)
    if not path.is_file():
        raise UsageError(f"{name}: there is no such file; give a Python file with a flow.")
    if path.suffix == ".sql":
        return _of_sql(path, parameters, time_zone)
    module = flowfile._run(path)  # noqa: SLF001 - load() asks for inputs too
    flow = getattr(module, "flow", None)
    if flow is None:
        raise UsageError(f"{name} has no flow; write flow = ps.Dataflow(...) at the top level of the file.")
    if not isinstance(flow, Dataflow):
        raise UsageError(f"{name}: flow must be a pointstamp.Dataflow, not a {type(flow).__name__}.")
    return flow


def _of_sql(path: Path, parameters: Mapping[str, object] | None, time_zone: str | None) -> "Dataflow":
    """The flow of a file with SQL, which declares its inputs with CREATE TABLE."""
    from pointstamp.sql_views.entry import sql

    try:
        return sql(
            path.read_text(encoding="utf-8"), name=path.stem, parameters=parameters, time_zone=time_zone
        )
    except FlowError as error:
        raise UsageError(f"{path}: {error}") from error


def _run(arguments: argparse.Namespace) -> int:
    flow = load_flow(arguments.flow)
    if arguments.html is not None:
        page = flow.to_html()
        try:
            Path(arguments.html).write_text(page, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"describe: cannot write the page to {arguments.html}: {error.strerror}."
            ) from error
        sys.stderr.write(f"wrote the graph of flow '{flow.name}' to {arguments.html}\n")
        return 0
    text = flow.to_mermaid() if arguments.mermaid else flow.describe(operators=arguments.operators)
    sys.stdout.write(text.rstrip("\n") + "\n")
    return 0
