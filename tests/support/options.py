"""Options that tests pass on as keywords, as ``flow.start`` and ``flow.run`` take them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pointstamp as ps

NAMES: Final = {each.name for each in fields(ps.QueryOptions)}
OF_RUNS: Final = {"epoch", "verify"}


def with_options(
    how: Mapping[str, Any], options: ps.QueryOptions | None = None, *, of_run: bool = False
) -> dict[str, Any]:
    """Keywords of which those that are fields of QueryOptions are given as ``options=``."""
    moved = {name: value for name, value in how.items() if name in NAMES - (OF_RUNS if of_run else set())}
    rest = {name: value for name, value in how.items() if name not in moved}
    if not moved and options is None and "options" not in rest:
        return rest
    whole = rest.pop("options", options) or ps.QueryOptions()
    return {**rest, "options": replace(whole, **moved)}
