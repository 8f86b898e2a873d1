"""Nexmark's queries in SQL, and the comparison of what a flow puts out with DuckDB's answer after every epoch.

The texts are written for this comparison, after those that are known for Flink. What ``examples.nexmark.queries``
says of ties holds here, too: where a row has to be chosen, all columns decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from examples.nexmark.events import Epochs
from examples.nexmark.flows import WEIGHT, Query, flow_of, inputs_of

_VALID: Final = """
    select a.id, a.seller, a.category, b.price, b.date_time as bid_time
    from auction a join bid b on a.id = b.auction and b.date_time between a.date_time and a.expires"""

SQL: Final[dict[str, str]] = {
    "q0": "select auction, bidder, price, date_time, extra from bid",
    "q1": "select auction, bidder, 0.908 * price as price, date_time, extra from bid",
    "q2": "select auction, price from bid where auction % 123 = 0",
    "q3": """
        select p.name, p.city, p.state, a.id from auction a join person p on a.seller = p.id
        where a.category = 10 and (p.state = 'OR' or p.state = 'ID' or p.state = 'CA')""",
    "q4": f"""
        select category, avg(final) as final
        from (select max(price) as final, category from ({_VALID}) group by id, category) group by category""",
    "q6": f"""
        select seller, avg(price) as price
        from (
            select *, row_number() over (
                partition by seller order by bid_time desc, id, category, date_time, expires, price) as place
            from (
                select v.*, a.date_time, a.expires, row_number() over (
                    partition by v.id order by price desc, bid_time, a.seller, a.category, a.date_time, a.expires
                ) as best
                from ({_VALID}) v join auction a on a.id = v.id)
            where best = 1)
        where place <= 10 group by seller""",
    "q9": """
        select * exclude (place) from (
            select a.*, b.bidder, b.price, b.date_time as date_time_bid, b.extra as extra_bid,
                row_number() over (partition by a.id order by b.price desc, b.date_time, b.bidder, b.channel,
                    b.url, b.extra) as place
            from auction a join bid b on a.id = b.auction and b.date_time between a.date_time and a.expires)
        where place = 1""",
    "q10": """
        select auction, bidder, price, date_time, extra, strftime(date_time, '%Y-%m-%d') as dt,
            strftime(date_time, '%H:%M') as hm from bid""",
    "q12": "select bidder, count(*) as count from bid group by bidder",
    "q14": """
        select auction, bidder, 0.908 * price as price, case
            when hour(date_time) >= 8 and hour(date_time) <= 18 then 'dayTime'
            when hour(date_time) <= 6 or hour(date_time) >= 20 then 'nightTime' else 'otherTime'
            end as bid_time_type, date_time, extra, len(regexp_extract_all(extra, 'c')) as c_counts
        from bid where 0.908 * price > 1000000 and 0.908 * price < 50000000""",
    "q18": """
        select * exclude (place) from (
            select *, row_number() over (
                partition by bidder, auction order by date_time desc, price, channel, url, extra) as place
            from bid)
        where place = 1""",
    "q19": """
        select * from (
            select *, row_number() over (
                partition by auction order by price desc, bidder, channel, url, date_time, extra) as rank_number
            from bid)
        where rank_number <= 10""",
    "q20": """
        select b.*, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time as date_time_auction,
            a.expires, a.seller, a.category, a.extra as extra_auction
        from bid b join auction a on b.auction = a.id where a.category = 10""",
    "q21": """
        select auction, bidder, price, channel, case lower(channel)
            when 'apple' then '0' when 'google' then '1' when 'facebook' then '2' when 'baidu' then '3'
            else regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) end as channel_id
        from bid
        where lower(channel) in ('apple', 'google', 'facebook', 'baidu') or url like '%&channel_id=%'""",
    "q22": """
        select auction, bidder, price, channel, string_split(url, '/')[4] as dir1,
            string_split(url, '/')[5] as dir2, string_split(url, '/')[6] as dir3 from bid""",
}
"""Each query over the tables person, auction, bid and side_input."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What a flow is fed in each epoch, and the rows that are there after it."""

    changes: Epochs
    there: Epochs


def inserted(epochs: Epochs) -> Fed:
    """Inputs to which rows are only added."""
    return Fed(
        epochs,
        {
            name: [pa.concat_tables(tables[: n + 1]) for n in range(len(tables))]
            for name, tables in epochs.items()
        },
    )


_CHANGED: Final = {"person": "state", "auction": "category", "bid": "price", "side_input": "value"}


def with_deletions(epochs: Epochs, seed: int) -> Fed:
    """The same rows with weights; in each epoch some of those before are deleted, and half of them replaced."""
    random = np.random.default_rng(seed)
    made = Fed({name: [] for name in epochs}, {name: [] for name in epochs})
    for name, tables in epochs.items():
        there = tables[0].slice(0, 0)
        for new in tables:
            is_gone = random.random(there.num_rows) < 0.1
            gone = there.filter(pa.array(is_gone))
            # A row that is replaced has the value that another one had.
            other = gone.slice(gone.num_rows // 2)
            position = other.schema.get_field_index(_CHANGED[name])
            values = other.column(position).combine_chunks()
            other = other.set_column(position, other.schema.field(position), values[::-1])
            made.changes[name].append(
                pa.concat_tables([_weighed(new, 1), _weighed(gone, -1), _weighed(other, 1)])
            )
            there = pa.concat_tables([there.filter(pa.array(~is_gone)), new, other])
            made.there[name].append(there)
    return made


def _weighed(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column(WEIGHT, pa.array(np.full(table.num_rows, weight)))


def judge(query: Query, fed: Fed, *, workers: int, deleting: bool = False) -> int:
    """How many epochs were compared; AssertionError names the first that is not DuckDB's answer.

    A query whose result is a table is asked of all that is there, one whose result is a stream of the rows of
    the epoch.
    """
    flow = flow_of(query, with_deletions=deleting)
    inputs = inputs_of(query)
    results = flow.run_local(**{name: fed.changes[name] for name in inputs}, workers=workers)["result"]
    count = len(fed.changes["bid"])
    so_far: list[pa.Table] = []
    engine = duckdb.connect(config={"threads": 1})
    for epoch in range(count):
        found = results[epoch]
        is_table = "diff" in found.column_names
        if is_table:
            assert_consolidated(engine, found, f"{query.__name__}, epoch {epoch}")
            so_far.append(found)
            found = pa.concat_tables(so_far)
        given = fed.there if is_table else fed.changes
        asked = {name: given[name][epoch] for name in inputs}
        wrong = differences(engine, SQL[query.__name__], asked, found)
        assert not wrong, f"{query.__name__} on {workers} workers, epoch {epoch}: {wrong}"
    return count


def assert_consolidated(engine: duckdb.DuckDBPyConnection, changes: pa.Table, who: str) -> None:
    """Every change of an epoch is one of its own, and is one."""
    engine.register("changes", changes)
    columns = _quoted(changes.column_names[:-1])
    found = engine.execute(
        f"select {columns}, count(*), min(diff) from changes group by {columns} "  # noqa: S608 - our own text
        "having count(*) > 1 or bool_or(diff = 0) limit 3"
    ).fetchall()
    assert not found, f"{who}: {found}"


def differences(
    engine: duckdb.DuckDBPyConnection, sql: str, inputs: Mapping[str, pa.Table], found: pa.Table
) -> Sequence[Any]:
    """Some rows that are there too often or too seldom, with how often they are and how often they should be."""
    for name, table in inputs.items():
        engine.register(name, table)
    engine.register("found", found)
    columns = _quoted(name for name in found.column_names if name != "diff")
    weight = "sum(diff)" if "diff" in found.column_names else "count(*)"
    ours = f"select {columns}, {weight} as n from found group by {columns} having {weight} <> 0"  # noqa: S608
    theirs = f"select {columns}, count(*) as n from ({sql}) group by {columns}"  # noqa: S608
    return engine.execute(
        f"(select 'too many', * from ({ours} except all {theirs}) limit 3) union all "  # noqa: S608
        f"(select 'too few', * from ({theirs} except all {ours}) limit 3)"
    ).fetchall()


def _quoted(names: Any) -> str:  # noqa: ANN401 - an iterable of names
    return ", ".join(f'"{name}"' for name in names)
