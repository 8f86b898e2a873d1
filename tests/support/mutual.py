"""Rights as Zanzibar has them, in two tables that are made of each other, and by brute force.

A user is a member of a group directly, or of a group in it; and who may view a folder is a member of the
groups that own it. A user may view an item by a grant to a group, or if it lies in a folder that they view.
"""

import random
from typing import Any, Final, TypeAlias

import pyarrow as pa

import pointstamp as ps
from support.table_queries import table_of

Pairs: TypeAlias = set[tuple[str, str]]
Facts: TypeAlias = dict[str, Pairs]


def _pair(one: str, other: str) -> pa.Schema:
    return pa.schema({one: pa.string(), other: pa.string(), "w": pa.int64()})


INPUTS: Final = {
    "direct": _pair("grp", "user"),
    "nested": _pair("grp", "sub"),
    "grants": _pair("item", "grp"),
    "parents": _pair("item", "folder"),
    "owners": _pair("grp", "folder"),
}


def _rights(
    members: ps.Table,
    viewers: ps.Table,
    direct: ps.Table,
    nested: ps.Table,
    grants: ps.Table,
    parents: ps.Table,
    owners: ps.Table,
) -> dict[str, ps.Table]:
    of_subgroups = nested.join(members, {"sub": "grp"}).select("grp", "user")
    of_folders = owners.join(viewers, {"folder": "item"}).select("grp", "user")
    by_grant = grants.join(members, "grp").select("item", "user")
    by_folder = parents.join(viewers, {"folder": "item"}).select("item", "user")
    return {
        "members": direct.union(of_subgroups).union(of_folders).distinct(),
        "viewers": by_grant.union(by_folder).distinct(),
    }


def rights_flow() -> ps.Dataflow:
    """Members and viewers over inputs with weights."""
    flow = ps.Dataflow("rights")
    tables = [flow.table(name, schema, weight="w") for name, schema in INPUTS.items()]
    starts = {"members": "grp string, user string", "viewers": "item string, user string"}
    for name, table in ps.iterate(starts, _rights, *tables, max_rounds=60, name="rights").items():
        flow.output(name, table)
    return flow


def brute_rights(facts: Facts) -> tuple[Pairs, Pairs]:
    """Members and viewers, by adding what follows until nothing does."""
    members: Pairs = set(facts["direct"])
    viewers: Pairs = set()
    while True:
        more_members = {(g, u) for g, sub in facts["nested"] for h, u in members if h == sub}
        more_members |= {(g, u) for g, folder in facts["owners"] for i, u in viewers if i == folder}
        more_viewers = {(i, u) for i, g in facts["grants"] for h, u in members if h == g}
        more_viewers |= {(i, u) for i, folder in facts["parents"] for j, u in viewers if j == folder}
        if more_members <= members and more_viewers <= viewers:
            return members, viewers
        members |= more_members
        viewers |= more_viewers


def random_rights(chance: random.Random, epochs: int) -> dict[str, list[Any]]:
    """Rows of each input by epoch: some are added, and some that are there are deleted."""
    names = {"user": "uvw", "grp": "abc", "sub": "abc", "item": "fgd", "folder": "fg"}
    fed: dict[str, list[Any]] = {}
    for name, schema in INPUTS.items():
        one, other = schema.names[:2]
        there: Pairs = set()
        fed[name] = []
        for _ in range(epochs):
            flipped = {(chance.choice(names[one]), chance.choice(names[other])) for _ in range(2)}
            rows = [(*row, -1 if row in there else 1) for row in sorted(flipped)]
            there ^= flipped
            fed[name].append(table_of(rows, schema))
    return fed
