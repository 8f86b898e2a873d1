"""A subcommand whose description is shown as it is written."""

import argparse
from collections.abc import Callable
from typing import TypeAlias

AddParser: TypeAlias = Callable[..., argparse.ArgumentParser]
"""Adds the parser of a subcommand to the command line."""


def described(
    add_parser: AddParser,
    name: str,
    summary: str,
    description: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """The parser of a subcommand, which is run by a function that returns the exit code."""
    parser = add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=parser, run=run)
    return parser
