"""Nexmark in Pathway, for ``benchmarks.nexmark.peers``, which starts it with a Python that has pathway.

    python benchmarks/nexmark/pathway_peer.py EVENTS ANSWERS QUERY

EVENTS has a folder of CSV files for each input. A query reads them whole, as one batch, which costs Pathway
less than many small ones, and writes its answer as a CSV file to ANSWERS. One JSON line. Pathway runs as one
process with as many threads as PATHWAY_THREADS says.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pathway as pw  # type: ignore[import-not-found]


class Person(pw.Schema):  # type: ignore[misc]
    """The columns of people; the name id is Pathway's own."""

    number: int
    name: str
    email: str
    credit_card: str
    city: str
    state: str
    date_time: str
    extra: str


class Auction(pw.Schema):  # type: ignore[misc]
    """The columns of auctions."""

    number: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: str
    expires: str
    seller: int
    category: int
    extra: str


class Bid(pw.Schema):  # type: ignore[misc]
    """The columns of bids."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: str
    extra: str


def q2(person: Any, auction: Any, bid: Any) -> Any:  # noqa: ANN401
    """Selection."""
    del person, auction
    return bid.filter(bid.auction % 123 == 0).select(pw.this.auction, pw.this.price)


def q3(person: Any, auction: Any, bid: Any) -> Any:  # noqa: ANN401
    """Local item suggestion."""
    del bid
    sellers = person.filter((person.state == "OR") | (person.state == "ID") | (person.state == "CA"))
    items = auction.filter(auction.category == 10)
    pairs = items.join(sellers, items.seller == sellers.number)
    return pairs.select(sellers.name, sellers.city, sellers.state, items.number)


def q4(person: Any, auction: Any, bid: Any) -> Any:  # noqa: ANN401
    """Average price for a category."""
    del person
    pairs = auction.join(bid, auction.number == bid.auction).filter(
        (bid.date_time >= auction.date_time) & (bid.date_time <= auction.expires)
    )
    valid = pairs.select(auction.number, auction.category, bid.price)
    winning = (
        valid.groupby(valid.number, valid.category)
        .group_by(valid.category)
        .agg(final=pw.reducers.max(valid.price))
    )
    return (
        winning.groupby(winning.category).group_by(winning.category).agg(final=pw.reducers.avg(winning.final))
    )


def q17(person: Any, auction: Any, bid: Any) -> Any:  # noqa: ANN401
    """Auction statistics."""
    del person, auction
    ranked = bid.select(
        bid.auction,
        bid.price,
        day=bid.date_time.str.slice(0, 10),
        rank1=pw.cast(int, bid.price < 10000),
        rank2=pw.cast(int, (bid.price >= 10000) & (bid.price < 1000000)),
        rank3=pw.cast(int, bid.price >= 1000000),
    )
    return (
        ranked.groupby(ranked.auction, ranked.day)
        .group_by(ranked.auction, ranked.day)
        .agg(
            total_bids=pw.reducers.count(),
            rank1_bids=pw.reducers.sum(ranked.rank1),
            rank2_bids=pw.reducers.sum(ranked.rank2),
            rank3_bids=pw.reducers.sum(ranked.rank3),
            min_price=pw.reducers.min(ranked.price),
            max_price=pw.reducers.max(ranked.price),
            avg_price=pw.reducers.avg(ranked.price),
            sum_price=pw.reducers.sum(ranked.price),
        )
    )


def q18(person: Any, auction: Any, bid: Any) -> Any:  # noqa: ANN401
    """Find last bid."""
    del person, auction
    last = bid.groupby(bid.bidder, bid.auction).agg(which=pw.reducers.argmax(bid.date_time))
    return bid.ix(last.which)


def q20(person: Any, auction: Any, bid: Any) -> Any:  # noqa: ANN401
    """Expand bid with auction."""
    del person
    items = auction.filter(auction.category == 10)
    return bid.join(items, bid.auction == items.number).select(
        *bid,
        items.item_name,
        items.description,
        items.initial_bid,
        items.reserve,
        items.expires,
        items.seller,
        items.category,
        date_time_auction=items.date_time,
        extra_auction=items.extra,
    )


QUERIES: dict[str, Callable[..., Any]] = {each.__name__: each for each in (q2, q3, q4, q17, q18, q20)}


def main() -> None:
    """Run one query; a process runs one, because Pathway keeps one graph."""
    events, answers, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    tables = {
        each: pw.io.csv.read(str(events / each), schema=schema, mode="static")
        for each, schema in (("person", Person), ("auction", Auction), ("bid", Bid))
    }
    answers.mkdir(parents=True, exist_ok=True)
    pw.io.csv.write(QUERIES[name](**tables), str(answers / f"{name}.csv"))
    begin = perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps({"query": name, "seconds": perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
