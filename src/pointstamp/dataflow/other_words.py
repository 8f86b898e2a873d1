"""Names of other libraries for features of this one, and the errors for them."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Final

_OVER: Final = "with_columns(n=ps.row_number().over(partition_by='key', order_by='at'))"
_OUTPUT: Final = "flow.output('name', ...), and then flow.run(...) or flow.start(...)"

VERBS: Final = {
    "with_columns(total=ps.col('price') * 2)": "withColumn withColumns with_column assign mutate",
    "select('id', total=ps.col('price') * 2)": "selectExpr project",
    "rename({'old': 'new'})": "withColumnRenamed with_column_renamed",
    "filter(ps.col('price') > 1)": "where query",
    "filter(ps.col('price').is_not_null())": "dropna drop_nulls",
    "with_columns(price=ps.functions.coalesce('price', ps.lit(0.0)))": "na fillna fill_null",
    "group_by('key').agg(red=ps.sum(ps.when(ps.col('colour') == 'red', ps.col('price'))))": "pivot crosstab",
    "join(other, 'key', suffix='_right'); a table needs no alias": "alias as_ hint",
    "group_by('key').agg(total=ps.sum('amount'))": "groupBy groupby aggregate reduce sum min max mean",
    "distinct(), or distinct('key')": "dropDuplicates drop_duplicates unique",
    "union(other)": "unionAll unionByName union_all concat merge vstack",
    "except_(other), or except_all(other)": "subtract minus exceptAll difference",
    "intersect_all(other)": "intersection intersectAll",
    "explode('list'), or flat_map(function, schema)": "flatMap flatten",
    "map_batches(function)": "mapInArrow mapInPandas map_in_arrow mapPartitions transform pipe apply process",
    "exchange('key')": "repartition partitionBy keyBy key_by shuffle hash",
    "join(other, how='cross')": "crossJoin cross_join",
    "join_asof(other, 'key', at='at')": "merge_asof asof_join",
    "join_interval(other, 'id', at='at', within='10 minutes')": "interval_join intervalJoin",
    "iterate(body), or loop('name')": "recursive fixpoint iteration while_loop",
    "inspect(function)": "foreach foreachBatch forEach tap",
    "top(10, by='price desc'); rows have no order": "orderBy sort sort_values order_by limit head first take",
    _OVER: "over shift lag lead cumsum cum_sum row_number rank rolling",
    "with_watermark('at', '2 minutes')": "withWatermark watermark",
    "window('at', '10 minutes', slide=None)": "tumble hop time_window group_by_dynamic",
    "session_window('user', at='at', gap='5 minutes')": "session sessionize",
    _OUTPUT: "collect show toPandas to_pandas write writeStream output sink sink_to create_view",
    "schema": "columns dtypes printSchema print_schema",
    "flow.explain()": "explain describe",
    "to use the table twice; what several read is kept once": "cache persist arrange index",
    "ps.sql('select ... group by rollup (...)')": "rollup cube grouping_sets",
    "ps.aggregate(function, 'double') in group_by('key').agg(...)": "applyInPandas apply_in_pandas",
}
"""The names of methods in other libraries, by the name here."""

_NAMESPACES: Final = ("functions", "io", "timely", "ports", "status")

NAMES: Final = {
    "ps.bool_or": "any some",
    "ps.bool_and": "all every",
    "ps.mean": "avg average",
    "ps.count_distinct": "countDistinct n_unique nunique approx_count_distinct",
    "ps.quantile": "percentile percentile_cont percentile_approx",
    "ps.stddev": "std stdev",
    "ps.variance": "var",
    "ps.collect_list": "array_agg implode",
    "ps.min, or ps.first with an order": "any_value",
    "ps.max_by": "arg_max",
    "ps.min_by": "arg_min",
    "ps.aggregate(function, 'double')": "udaf pandas_udf",
    "ps.lag": "shift",
    f"table.{_OVER}": "Window over cum_sum cumsum",
    "table.window('at', '10 minutes')": "window tumble tumbling hop time_window",
    "table.session_window('user', at='at', gap='5 minutes')": "session_window session",
    "flow.run(...), flow.stream(...) or flow.start(...) of a ps.Dataflow": "run stream start open execute",
    "ps.Dataflow('name')": "Flow DataFlow Pipeline Graph dataflow",
    "ps.read_table, or a source of ps.io": "read readStream read_stream",
    "ps.view(df) for an expression or a function of Spark": "expr udf",
    "'price desc' in the order": "desc asc",
}
"""The names of functions in other libraries, by the name here."""


def no_such_verb(who: str, name: str, verbs: Iterable[str], kind: str) -> str:
    """Return the message for a method that a stream or a table, the kind, does not have."""
    other = "Table" if kind == "Stream" else "Stream"
    here = _here(VERBS, name)
    if here is not None and here.split("(")[0] not in verbs and here != _OUTPUT:
        way = "to_table()" if other == "Table" else "changes()"
        here = f"{way}, a {other.lower()}, and then {here}"
    return _message(who, name, verbs, here)


def no_such_name(name: str, known: Iterable[str]) -> str:
    """Return the message for a name that the package does not have, but one of its modules may."""
    homes = () if name.startswith("_") else _NAMESPACES
    within = (each for each in homes if name in dir(import_module(f"pointstamp.{each}")))
    here = next((f"ps.{each}.{name}" for each in within), None)
    return _message("pointstamp", name, known, here or _here(NAMES, name))


def _here(table: dict[str, str], name: str) -> str | None:
    return next((here for here, words in table.items() if name in (here.split("(")[0], *words.split())), None)


def _message(who: str, name: str, known: Iterable[str], here: str | None) -> str:
    if here is not None:
        return f"{who} has no '{name}'; here that is {here}."
    known = list(known)
    if close := get_close_matches(name, known, n=1, cutoff=0.65):
        return f"{who} has no '{name}'. Did you mean '{close[0]}'?"
    return f"{who} has no '{name}'; it has {', '.join(known)}."
