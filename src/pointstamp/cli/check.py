"""``pointstamp check``: checks the formal models, if they are installed.

The models are a separate distribution, ``pointstamp-models``, which nothing else here needs. With it
installed, ``pointstamp_models.command`` defines this command; without it, the command says how to get it.
"""

import argparse
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from pointstamp.cli.subcommand import AddParser
from pointstamp.errors import UsageError

_MODELS: Final = "pointstamp_models"


def add_to(add_parser: AddParser) -> None:
    """Add ``check`` to the command line."""
    if find_spec(_MODELS) is not None:
        import_module(f"{_MODELS}.command").add_to(add_parser)
        return
    check = add_parser(
        "check",
        help="check the formal models that pointstamp implements (needs pointstamp-models)",
        description="Checks the formal models that pointstamp implements; they are a separate package.",
        allow_abbrev=False,
    )
    check.add_argument("what", nargs="*", help=argparse.SUPPRESS)
    check.set_defaults(command=check, run=_refuse)


def _refuse(arguments: argparse.Namespace) -> int:
    del arguments
    raise UsageError(
        "check needs the package pointstamp-models, which is not installed. Install it: pip install "
        "pointstamp-models"
    )
