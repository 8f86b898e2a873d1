"""``pointstamp check``: the explorer of the models on the command line.

``check models`` explores the catalogue; its exit code is 0 only if everything that should hold holds and
everything that should break breaks. ``check explain`` shows failure transparency on the worked example of
Veresov et al. (2024).
"""

import argparse
import sys
from collections.abc import Callable

AddParser = Callable[..., argparse.ArgumentParser]


def add_to(add_parser: AddParser) -> None:
    """Add ``check`` and its own commands to the command line."""
    check = add_parser(
        "check",
        help="check the formal models that pointstamp implements",
        description="Checks the formal models that pointstamp implements, and their broken variants.",
        allow_abbrev=False,
    )
    check.set_defaults(command=check, run=None)
    commands = check.add_subparsers(title="commands", metavar="COMMAND")
    _add_models(commands.add_parser)
    _add_explain(commands.add_parser)


def _add_models(add_parser: AddParser) -> None:
    models = add_parser(
        "models",
        help="explore every model and every broken variant of it",
        description=(
            "Explores every reachable state of small instances of each model, checks its properties in each, "
            "and makes sure that each broken variant (mutant) is rejected by the property it breaks. "
            "Exit code 0 only if all properties hold and all mutants are rejected."
        ),
        allow_abbrev=False,
    )
    models.add_argument(
        "--model", metavar="NAME", action="append", default=[], help="only this model; may be given again"
    )
    models.add_argument("--long", action="store_true", help="the large instances too; takes many minutes")
    models.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    models.add_argument("--verbose", action="store_true", help="show each mutant with its shortest trace")
    models.add_argument(
        "--processes", metavar="N", type=_positive, help="how many processes to use (default: one per core)"
    )
    models.set_defaults(command=models, run=_run_models)


def _add_explain(add_parser: AddParser) -> None:
    explain = add_parser(
        "explain",
        help="compare a run with a failure with the failure-free run that explains it",
        description=(
            "Shows an execution of the incremental average in which a task fails and recovers, and the "
            "failure-free execution that looks the same from outside: failure transparency."
        ),
        allow_abbrev=False,
    )
    explain.set_defaults(command=explain, run=_run_explain)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, got {text!r}")
    return int(text)


def _run_models(arguments: argparse.Namespace) -> int:
    from pointstamp_models import display
    from pointstamp_models.catalogue import ENTRIES
    from pointstamp_models.exploring import models, report

    entries = models.choose(ENTRIES, arguments.model)
    with display.progress(quiet=arguments.json) as notice:
        findings = models.run(entries, long=arguments.long, processes=arguments.processes, notice=notice)
    if arguments.json:
        sys.stdout.write(report.to_json(findings) + "\n")
    else:
        display.show(findings, verbose=arguments.verbose)
    return 0 if findings.right else 1


def _run_explain(arguments: argparse.Namespace) -> int:
    del arguments
    from pointstamp_models.exploring.incremental_average import worked_example

    sys.stdout.write(worked_example() + "\n")
    return 0
