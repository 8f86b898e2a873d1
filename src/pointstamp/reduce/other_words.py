"""Names of aggregates and window functions in other libraries, and ours."""

from typing import Final

_ORDER: Final = "table.with_order('key', by='at', before=ps.lag('price'))"

HERE: Final[dict[str, str]] = {
    **dict.fromkeys(("any", "some"), "ps.bool_or"),
    **dict.fromkeys(("all", "every"), "ps.bool_and"),
    **dict.fromkeys(("avg", "average"), "ps.mean"),
    **dict.fromkeys(("countDistinct", "n_unique", "nunique", "approx_count_distinct"), "ps.count_distinct"),
    **dict.fromkeys(("percentile", "percentile_cont", "percentile_approx"), "ps.quantile"),
    **dict.fromkeys(("std", "stdev"), "ps.stddev"),
    "var": "ps.variance",
    **dict.fromkeys(("array_agg", "implode"), "ps.collect_list"),
    "any_value": "ps.min, or ps.first with an order",
    "arg_max": "ps.max_by",
    "arg_min": "ps.min_by",
    **dict.fromkeys(("udaf", "pandas_udf"), "ps.aggregate(function, 'double')"),
    **dict.fromkeys(("cum_sum", "cumsum"), "ps.running_sum"),
    "shift": "ps.lag",
    **dict.fromkeys(("Window", "over"), _ORDER),
}


def no_such_name(name: str, known: list[str]) -> str:
    """Return the message for a name that the package does not have."""
    if name in HERE:
        return f"pointstamp has no {name!r}; here that is {HERE[name]}."
    return f"pointstamp has no {name!r}; it has {', '.join(known)}."
