"""The words that other libraries have for what a stream does, and the word for it here.

Users who come from Spark, pandas, polars, Flink or SQL type the word that they know. The answer is the word
that this library has, and not a bare "no attribute".
"""

from typing import Final

_COLUMNS: Final = "with_columns(total=ps.col('price') * 2)"
_GROUPS: Final = "reduce('key', total=ps.sum('amount')), or count('key')"
_DISTINCT: Final = "distinct() within an epoch, or running().distinct() over all of them"
_SHARING: Final = "exchange('key'): each row goes to the worker that owns its key"
_RESULT: Final = "flow.output('name', stream), and then flow.run_local(...), flow.run(spark, ...) or start"
_BATCHES: Final = "map_batches(function)"
_NO_ORDER: Final = (
    "nothing: a stream has no order. top(10, by='price') has the first rows of each epoch; sort the results"
)
_JOIN: Final = "join(other, 'key') within an epoch, or running().join(...) over all epochs so far"
_PLACES: Final = "with_order('key', by='at', before=ps.lag('price')), within an epoch"

_WINDOWS: Final = "window('at', '10 minutes', slide=None), which adds window_start and window_end"

HERE: Final[dict[str, str]] = {
    **dict.fromkeys(("withColumn", "withColumns", "with_column", "assign", "mutate"), _COLUMNS),
    **dict.fromkeys(("selectExpr", "project"), "select('id', total=ps.col('price') * 2)"),
    "withColumnRenamed": "rename(new='old')",
    **dict.fromkeys(("where", "query"), "filter(ps.col('price') > 1)"),
    "split": "branch(condition): two streams",
    **dict.fromkeys(
        ("groupBy", "group_by", "groupby", "agg", "aggregate", "sum", "min", "max", "mean"), _GROUPS
    ),
    **dict.fromkeys(("dropDuplicates", "drop_duplicates", "unique"), _DISTINCT),
    **dict.fromkeys(("union", "unionAll", "unionByName", "union_all", "merge", "vstack"), "concat(other)"),
    **dict.fromkeys(("flatMap", "flatten"), "flat_map(function, schema), or explode('list')"),
    **dict.fromkeys(
        ("mapInArrow", "mapInPandas", "map_in_arrow", "mapPartitions", "transform", "pipe"), _BATCHES
    ),
    **dict.fromkeys(("apply", "process", "applyInPandas"), "map_batches(function), or ps.operator(...)"),
    **dict.fromkeys(("repartition", "partitionBy", "keyBy", "key_by", "shuffle", "hash"), _SHARING),
    **dict.fromkeys(("crossJoin", "cogroup", "merge_asof"), _JOIN),
    **dict.fromkeys(("iterate", "iteration", "while_loop"), "loop('name'), or running().iterate(body)"),
    **dict.fromkeys(("minus", "subtract", "intersect"), "running(), a table, which has it"),
    **dict.fromkeys(
        ("interval_join", "intervalJoin"), "join_within(other, 'id', at='at', within='10 minutes')"
    ),
    **dict.fromkeys(("session_window", "sessionize"), "sessions('user', at='at', gap='5 minutes')"),
    **dict.fromkeys(("foreach", "foreachBatch", "forEach", "tap"), "inspect(function)"),
    **dict.fromkeys(("orderBy", "sort", "sort_values", "order_by", "limit", "head"), _NO_ORDER),
    **dict.fromkeys(("over", "shift", "lag", "lead", "cumsum", "cum_sum"), _PLACES),
    **dict.fromkeys(
        ("withWatermark", "with_watermark", "watermark"), "event_time('at', lateness='2 minutes')"
    ),
    **dict.fromkeys(("tumble", "hop", "time_window", "group_by_dynamic"), _WINDOWS),
    **dict.fromkeys(("collect", "show", "toPandas", "to_pandas", "write", "writeStream", "sink_to"), _RESULT),
}


def no_such_verb(who: str, name: str, verbs: list[str]) -> str:
    """The words for a user who has asked a stream for something that it does not have."""
    if name in HERE:
        return f"{who} has no '{name}'; here that is {HERE[name]}."
    return f"{who} has no '{name}'; it has {', '.join(verbs)}."
