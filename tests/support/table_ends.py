"""Tables whose keys have many rows and lose the first ones, and what is left of them by Python's sort."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pyarrow as pa

import pointstamp as ps
from support.table_queries import Row

SCHEMA = pa.schema({"k": pa.string(), "n": pa.int64(), "s": pa.string(), "w": pa.int64()})


def largest_first(row: Row) -> Row:
    """By n, null last; then all columns from left to right, null first."""
    return (row[1] is None, -(row[1] or 0), *_ascending(row))


def _ascending(row: Row) -> Row:
    return tuple((value is not None, value) for value in row)


def first_rows(rows: list[Row], *, ties: bool = False, rank: bool = False) -> list[Row]:
    made: list[Row] = []
    for key in {row[0] for row in rows}:
        own = sorted((row for row in rows if row[0] == key), key=largest_first)
        third = own[min(2, len(own) - 1)][1]
        kept = [row for at, row in enumerate(own) if at < 3 or (ties and row[1] == third)]
        made.extend((*row, at + 1) if rank else row for at, row in enumerate(kept))
    return made


def extremes(rows: list[Row]) -> list[Row]:
    made: list[Row] = []
    for key in {row[0] for row in rows}:
        numbers, texts = ([row[at] for row in rows if row[0] == key and row[at] is not None] for at in (1, 2))
        counted = sum(row[0] == key for row in rows)
        total = sum(numbers) if numbers else None
        most, least = max(numbers, default=None), min(texts, default=None)
        made.append((key, counted, most, least, total, max(texts, default=None)))
    return made


def _extremes(rows: ps.Table) -> ps.Table:
    return rows.group_by("k").agg(
        rows=ps.count(), most=ps.max("n"), least=ps.min("s"), total=ps.sum("n"), last=ps.max("s")
    )


def chosen(rows: list[Row]) -> list[Row]:
    """Values of the rows in which n is greatest, and of the first and last ones by n and s, or by s alone."""
    made: list[Row] = []
    for key in {row[0] for row in rows}:
        own = sorted((row for row in rows if row[0] == key), key=lambda row: _ascending(row[1:]))
        numbers = [row for row in own if row[1] is not None]
        positive = [row for row in own if row[1] is not None and row[1] > 0]
        texts = sorted(positive, key=lambda row: (row[2] is None, *_ascending((row[2], row[1]))))
        least = min((row[2] for row in positive if row[2] is not None), default=None)
        made.append(
            (
                key,
                numbers[-1][2] if numbers else None,
                numbers[0][2] if numbers else None,
                own[0][2],
                own[-1][2],
                texts[0][1] if texts else None,
                least,
            )
        )
    return made


def _chosen(rows: ps.Table) -> ps.Table:
    is_positive = ps.col("n") > 0
    return rows.group_by("k").agg(
        most=ps.max_by("s", "n"),
        least=ps.min_by("s", "n"),
        first=ps.first("s", by="n"),
        last=ps.last("s", by=["n", "s"]),
        text=ps.first("n", by="s nulls last", where=is_positive),
        small=ps.min("s", where=is_positive),
    )


QUERIES: dict[str, tuple[Callable[[ps.Table], ps.Table], Callable[[list[Row]], list[Row]]]] = {
    "top": (lambda t: t.top(3, "k", by="n desc"), first_rows),
    "top with ties": (lambda t: t.top(3, "k", by="n desc", ties=True), partial(first_rows, ties=True)),
    "top with ranks": (lambda t: t.top(3, "k", by="n desc", rank="at"), partial(first_rows, rank=True)),
    "extremes": (_extremes, extremes),
    "chosen": (_chosen, chosen),
    "distinct": (lambda t: t.distinct(), lambda rows: list(set(rows))),
}  # fmt: skip


def judge(query: str, seed: int, count: int = 120, workers: int = 2) -> None:
    """AssertionError names the first epoch that is not what the rows that are left give."""
    rng = random.Random(seed)
    there: list[Row] = []
    epochs: list[list[Row]] = []
    after: list[list[Row]] = []
    for _ in range(6):
        # The first rows in either order are deleted, which is what finds a table that has looked no further.
        ordered = sorted(there, key=largest_first)
        at = rng.randrange(40)
        gone = [*ordered[:at], *ordered[len(ordered) - rng.randrange(40) :]] if len(ordered) > 90 else []
        there = ordered[at : len(ordered) - (len(gone) - at)] if gone else ordered
        new = [_row(rng) for _ in range(count if not epochs else 12)]
        there = there + new
        epochs.append([(*row, -1) for row in gone] + [(*row, 1) for row in new])
        after.append(list(there))
    flow = ps.Dataflow("ends")
    make, by_hand = QUERIES[query]
    flow.output("out", make(flow.table("rows", SCHEMA, weight="w")))
    batches = [
        pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in e], SCHEMA) for e in epochs
    ]
    results = flow.run(rows=batches, workers=workers)["out"]
    sent: Counter[Row] = Counter()
    for epoch, left in enumerate(after):
        for row in results[epoch].to_pylist() if epoch in results else []:
            assert row["diff"] != 0
            sent[tuple(value for name, value in row.items() if name != "diff")] += row["diff"]
        assert Counter({row: n for row, n in sent.items() if n}) == Counter(by_hand(left)), (
            f"{query}, epoch {epoch}"
        )


def _row(rng: random.Random) -> Row:
    text = rng.choice(["a", "the same beginning " + rng.choice("abc"), "", None, "z" * rng.randrange(12)])
    return rng.choice(["x", "y", None]), rng.choice([None, *range(-20, 21)]), text
