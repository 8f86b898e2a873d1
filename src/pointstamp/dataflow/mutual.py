"""Mutual recursion: several tables, each of which is made of all of them, until nothing changes."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from pointstamp.dataflow.table import Table, in_order_of
from pointstamp.errors import FlowError


def iterate(
    starts: Mapping[str, Table | str | pa.Schema],
    body: Callable[..., Mapping[str, Table]],
    *others: Table,
    max_rounds: int | None = None,
    name: str = "iterate",
) -> dict[str, Table]:
    """Tables that a body makes of each other again and again, until nothing changes.

    Args:
        starts: What each table is in round 0, by name: a table, or the columns of one without rows.
        body: It is called once, with the tables of ``starts`` in their order and then the others, and returns
            by name what each table is in the next round.
        others: Tables that the body reads and that stay as they are.
        max_rounds: A recursion that needs more rounds is an error. Default: no limit.
        name: The name of the loop.

    Returns:
        The tables after the last round, by name.

    Who may read a document, by groups that contain users and groups, and by folders that contain documents:

        found = ps.iterate(
            {"members": "grp string, user string", "viewers": "item string, user string"},
            lambda members, viewers, direct, nested, grants, parents: {
                "members": direct.union(
                    nested.join(members, {"sub": "grp"}).select("grp", "user")
                ).distinct(),
                "viewers": grants.join(members, "grp").select("item", "user").union(
                    parents.join(viewers, {"folder": "item"}).select("item", "user")
                ).distinct(),
            },
            direct, nested, grants, parents,
        )

    """
    who = f"'{name}'"
    given: object = starts
    if not isinstance(given, Mapping) or not starts:
        raise FlowError(
            f"{who} needs starts by name, iterate({{'a': table, 'b': 'id long'}}, ...), got {starts!r}."
        )
    anchor = next((each for each in (*starts.values(), *others) if isinstance(each, Table)), None)
    if anchor is None:
        raise FlowError(
            f"{who} begins without rows and reads no table. Give it a table to start with, or to read."
        )
    with anchor.loop(name, max_rounds=max_rounds) as loop:
        variables = {each: loop.variable(start, each) for each, start in starts.items()}
        made = body(*variables.values(), *(loop.enter(other) for other in others))
        _check_made(who, variables, made)
        alike = {
            each: in_order_of(variable, made[each], f"{name}: {each}") for each, variable in variables.items()
        }
        for each, variable in variables.items():
            loop.feedback(variable, alike[each])
        return {each: loop.leave(table) for each, table in alike.items()}


def _check_made(who: str, variables: Mapping[str, Table], made: object) -> None:
    """Reject anything but a mapping with a table for each variable."""
    if not isinstance(made, Mapping):
        raise FlowError(
            f"{who}: the body must return tables by name, got {type(made).__name__}. Return a dictionary."
        )
    if set(made) != set(variables):
        raise FlowError(
            f"{who}: the body returned tables for {sorted(map(str, made))}, and the tables of the recursion "
            f"are {sorted(variables)}. Return one for each."
        )
