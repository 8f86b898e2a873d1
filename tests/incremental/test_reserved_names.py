"""A column cannot have a name that tables use themselves, by whichever verb it would get it.

What only this finds: a column that is lost beside one of ours, or a KeyError while the flow runs.
"""

from collections.abc import Callable

import pytest

import pointstamp as ps
from pointstamp.errors import SchemaError

COLUMNS = "k long, n long, at long, l array<long>"
ROW = {"k": 1, "n": 7, "at": 5, "l": [1, 2]}


def two(table: ps.Table) -> tuple[ps.Table, ps.Table]:
    """A table twice, with a column whose name a suffix makes longer."""
    return table.select("k", "at", d=ps.col("n")), table.select("k", "at", d=ps.col("n"))


NEW: dict[str, Callable[[ps.Table, str], ps.Table | ps.Stream]] = {
    "select": lambda t, name: t.select(ps.col("n").alias(name)),
    "select, named": lambda t, name: t.select("k", **{name: ps.col("n")}),
    "with_columns": lambda t, name: t.with_columns(**{name: ps.col("n")}),
    "rename": lambda t, name: t.rename({old: new for new, old in {name: "n"}.items()}),
    "reduce, a sum": lambda t, name: t.group_by("k").agg({name: ps.sum("n")}),
    "reduce, a greatest value": lambda t, name: t.group_by("k").agg({name: ps.max("n")}),
    "reduce, all rows of a key": lambda t, name: t.group_by("k").agg({name: ps.median("n")}),
    "reduce, different values": lambda t, name: t.group_by("k").agg({name: ps.count_distinct("n")}),
    "reduce, in all": lambda t, name: t.agg({name: ps.sum("n")}),
    "top": lambda t, name: t.top(1, "k", by="n", rank=name),
    "top, in all": lambda t, name: t.top(1, by="n", rank=name),
    "over": lambda t, name: t.with_columns({name: ps.row_number().over(partition_by="k", order_by="n")}),
    "over, in all": lambda t, name: t.with_columns({name: ps.lag("n").over(order_by="n")}),
    "window, start": lambda t, name: t.window("at", 3, start=name),
    "window, end": lambda t, name: t.window("at", 3, end=name),
    "sessions, start": lambda t, name: t.session_window("k", at="at", gap=3, start=name),
    "sessions, end": lambda t, name: t.session_window("k", at="at", gap=3, end=name, rows=ps.count()),
    "sessions, aggregates": lambda t, name: t.session_window(
        "k", at="at", gap=3, aggregates={name: ps.count()}
    ),
    "explode": lambda t, name: t.explode("l", position=name),
    "map_batches": lambda t, name: t.map_batches(lambda batch: batch, f"`{name}` long"),
    "flat_map": lambda t, name: t.flat_map(lambda row: [row], f"`{name}` long"),
}

JOINS: dict[str, Callable[[ps.Table, str], ps.Table | ps.Stream]] = {
    "join": lambda t, suffix: two(t)[0].join(two(t)[1], "k", suffix=suffix),
    "join, left": lambda t, suffix: two(t)[0].join(two(t)[1], "k", how="left", suffix=suffix),
    "join, full": lambda t, suffix: two(t)[0].join(two(t)[1], "k", how="full", suffix=suffix),
    "join, cross": lambda t, suffix: two(t)[0].join(two(t)[1], how="cross", suffix=suffix),
    "join_asof": lambda t, suffix: two(t)[0].join_asof(two(t)[1], "k", at="at", suffix=suffix),
    "join_interval": lambda t, suffix: two(t)[0].join_interval(
        two(t)[1], "k", at="at", within=1, suffix=suffix
    ),
}


def table_of(flow: ps.Dataflow) -> ps.Table:
    return flow.stream_input("rows", COLUMNS).with_watermark("at", 0).to_table()


@pytest.mark.parametrize("name", ["diff", "__all", "__round_0", "__rows", "__until", "__0"])
@pytest.mark.parametrize("verb", NEW)
def test_no_verb_gives_a_column_a_name_that_is_taken(verb: str, name: str) -> None:
    table = table_of(ps.Dataflow("test"))
    with pytest.raises(SchemaError, match=rf": a column cannot be called '{name}'.*Rename it\."):
        NEW[verb](table, name)


@pytest.mark.parametrize("verb", JOINS)
def test_no_suffix_makes_the_name_of_the_weight(verb: str) -> None:
    table = table_of(ps.Dataflow("test"))
    with pytest.raises(
        SchemaError, match=r": a column cannot be called 'diff', which is reserved for the weight"
    ):
        JOINS[verb](table, "iff")


@pytest.mark.parametrize("name", ["diff_", "Diff", "epoch", "name", "weight", "_all", "is tombstone"])
@pytest.mark.parametrize("verb", [each for each in NEW if each not in ("map_batches", "flat_map")])
def test_other_names_are_free(verb: str, name: str) -> None:
    flow = ps.Dataflow("test")
    flow.output(
        "made", NEW[verb](table_of(flow), name) if name != "name" else table_of(flow).rename({"n": "name"})
    )
    rows = flow.run(rows=[[ROW]])["made"][0].to_pylist()
    assert rows
    assert all(name in row for row in rows)


def test_rolling_gives_no_column_a_name_that_is_taken() -> None:
    stream = ps.Dataflow("test").stream_input("rows", COLUMNS)
    for name in ("diff", "__all", "__rows"):
        with pytest.raises(SchemaError, match=rf": a column cannot be called '{name}'.*Rename it"):
            stream.with_columns({name: ps.sum("n").over(partition_by="k", order_by="n", rows=2)})
