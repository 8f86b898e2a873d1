"""Aggregates of the last rows of each key beside brute force, which keeps lists."""

from collections import Counter
from collections.abc import Sequence

import pointstamp as ps
from support.table_queries import Row, canonical


def judge_rolling(epochs: Sequence[Sequence[Row]], last: int, workers: int) -> None:
    """AssertionError where a row of (k, n) is not sent once with the sum and the list of the last rows."""
    flow = ps.Dataflow("rolling")
    numbers = flow.stream_input("x", "k long, n long")
    made = numbers.with_columns(
        total=ps.sum("n").over(partition_by="k", order_by="n desc", rows=last),
        all=ps.collect_list("n").over(partition_by="k", order_by="n desc", rows=last),
    )
    flow.output("out", made)
    given = [[{"k": k, "n": n} for k, n in rows] for rows in epochs]
    found = flow.run(x=given, workers=workers)["out"]
    kept: dict[object, list[int | None]] = {}
    for epoch, rows in enumerate(epochs):
        wanted: Counter[Row] = Counter()
        for key in {k for k, _ in rows}:
            old = [(n, 0) for n in kept.get(key, [])]
            both = sorted([*old, *((n, 1) for k, n in rows if k == key)], key=_place)
            for at, (n, is_new) in enumerate(both):
                window = [each for each, _ in both[max(0, at - last + 1) : at + 1] if each is not None]
                if is_new:
                    total = sum(window) if window else None
                    wanted[(key, n, total, tuple(sorted(window)))] += 1
            kept[key] = [n for n, _ in both][-(last - 1) :] if last > 1 else []
        sent = found[epoch].to_pylist() if epoch in found else []
        shown = Counter(canonical((row["k"], row["n"], row["total"], tuple(row["all"]))) for row in sent)
        assert shown == wanted, f"epoch {epoch}"


def _place(row: Row) -> Row:
    """Descending, null last; of equal ones the older first."""
    n, is_new = row
    return n is None, -(n or 0), is_new
