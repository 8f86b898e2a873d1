"""The words that other libraries have for what a table does, and the word for it here."""

from typing import Final

HERE: Final[dict[str, str]] = {
    **dict.fromkeys(("withColumn", "withColumns", "with_column", "assign", "mutate"), "with_columns(x=...)"),
    **dict.fromkeys(("selectExpr", "project", "map"), "select('id', total=ps.col('price') * 2)"),
    "withColumnRenamed": "rename(new='old')",
    **dict.fromkeys(("where", "query"), "filter(ps.col('price') > 1)"),
    **dict.fromkeys(
        ("groupBy", "group_by", "groupby", "agg", "aggregate"), "reduce('key', total=ps.sum('x'))"
    ),
    **dict.fromkeys(("dropDuplicates", "drop_duplicates", "unique"), "distinct(), or distinct('key')"),
    **dict.fromkeys(
        ("over", "shift", "lag", "lead", "cumsum", "cum_sum", "row_number", "rank"),
        "with_order('key', by='at', before=ps.lag('price'))",
    ),
    **dict.fromkeys(("unionAll", "unionByName", "union_all", "concat", "vstack"), "union(other)"),
    **dict.fromkeys(("subtract", "exceptAll", "except_", "difference"), "minus(other)"),
    **dict.fromkeys(("intersection", "intersectAll"), "intersect(other)"),
    **dict.fromkeys(("orderBy", "sort", "order_by", "limit", "head"), "top(10, by='price desc')"),
    **dict.fromkeys(
        ("tumble", "hop", "time_window", "group_by_dynamic"), "window('at', '10 minutes', slide=None)"
    ),
    **dict.fromkeys(
        ("session_window", "session", "sessionize"), "sessions('user', at='at', gap='5 minutes')"
    ),
    **dict.fromkeys(("recursive", "fixpoint"), "iterate(body), or loop('name')"),
    **dict.fromkeys(("write", "collect", "show", "toPandas"), "flow.output('name', table), and then a run"),
    **dict.fromkeys(("crossJoin", "cross_join"), "join(other, how='cross')"),
    **dict.fromkeys(("join_asof", "merge_asof", "asof_join"), "join_as_of(other, 'key', at='at')"),
    **dict.fromkeys(("inspect", "exchange", "broadcast"), "changes(), a stream that has them"),
    **dict.fromkeys(("flatMap", "flatten"), "explode('list'), or flat_map(function, schema)"),
    **dict.fromkeys(("mapInArrow", "mapInPandas", "map_in_arrow"), "map_batches(function, schema)"),
}


def no_such_verb_of_tables(who: str, name: str, verbs: list[str]) -> str:
    """Return the message for a method that a table does not have."""
    if name in HERE:
        return f"{who} has no '{name}'; here that is {HERE[name]}."
    return f"{who} has no '{name}'; it has {', '.join(verbs)}."
