"""The 23 queries of Nexmark, each as a user writes it.

A query is a function of the inputs that it names. What it takes as a stream flows by; what it takes as a
table is kept, and its result is right after every epoch, corrected where later events change it.

What differs from the texts that are known for Flink's SQL: means are doubles and are not cut to integers; of
rows that are as good as each other all come (q5, q7), or the other columns decide (q9, q18, q19); q6 has for
each seller the mean of the last ten, and not of each ten on the way; in q12 a window of processing time is an
epoch.
"""

from decimal import Decimal
from typing import Final

import pointstamp as ps
from pointstamp import functions as F

EURO: Final = ps.lit(Decimal("0.908"))


def q0(bid: ps.Stream) -> ps.Stream:
    """Pass through: what moving the rows costs."""
    return bid.select("auction", "bidder", "price", "date_time", "extra")


def q1(bid: ps.Stream) -> ps.Stream:
    """Currency conversion: each bid in euros."""
    return bid.select("auction", "bidder", "date_time", "extra", price=EURO * ps.col("price"))


def q2(bid: ps.Stream) -> ps.Stream:
    """Selection: the bids for some auctions."""
    return bid.filter(ps.col("auction") % 123 == 0).select("auction", "price")


def q3(auction: ps.Table, person: ps.Table) -> ps.Table:
    """Local item suggestion: who sells in category 10 in three states."""
    sellers = person.filter(ps.col("state").is_in(["OR", "ID", "CA"])).select("id", "name", "city", "state")
    items = auction.filter(ps.col("category") == 10).select("id", "seller")
    return items.join(sellers, {"seller": "id"}).select("name", "city", "state", "id")


def q4(auction: ps.Table, bid: ps.Table) -> ps.Table:
    """Average price for a category: the mean of the winning bids."""
    winning = valid_bids(auction, bid).group_by("id", "category").agg(final=ps.max("price"))
    return winning.group_by("category").agg(final=ps.mean("final"))


def q5(bid: ps.Table) -> ps.Table:
    """Hot items: in each ten seconds, of which one begins every two, the auctions with the most bids."""
    windows = bid.select("auction", "date_time").window("date_time", "10 seconds", slide="2 seconds")
    counted = windows.group_by("auction", "window_start").agg(num=ps.count())
    return counted.top(1, "window_start", by="num desc", ties=True)


def q6(auction: ps.Table, bid: ps.Table) -> ps.Table:
    """Average selling price by seller: the mean of the winning bids of the last ten auctions."""
    winning = valid_bids(auction, bid).top(1, "id", by=["price desc", "bid_time"])
    return winning.top(10, "seller", by="bid_time desc").group_by("seller").agg(price=ps.mean("price"))


def valid_bids(auction: ps.Table, bid: ps.Table) -> ps.Table:
    """Auctions with the bids that came in time; q4 and q6 need them."""
    auctions = auction.select("id", "seller", "category", "date_time", "expires")
    bids = bid.select("auction", "price", bid_time=ps.col("date_time"))
    in_time = ps.col("bid_time").between(ps.col("date_time"), ps.col("expires"))
    return auctions.join(bids, {"id": "auction"}, where=in_time)


def q7(bid: ps.Table) -> ps.Table:
    """Highest bid: the highest bids of each ten seconds."""
    windows = bid.with_columns(window_start=ps.functions.tumbling("date_time", "10 seconds"))
    return windows.top(1, "window_start", by="price desc", ties=True).drop("window_start")


def q8(auction: ps.Table, person: ps.Table) -> ps.Table:
    """Monitor new users: who came and sold something in the same ten seconds."""
    window_start = ps.functions.tumbling("date_time", "10 seconds")
    came = person.select("id", "name", window_start=window_start).distinct()
    sold = auction.select("seller", window_start=window_start)
    return came.join(sold, {"id": "seller", "window_start": "window_start"}, how="semi")


def q9(auction: ps.Table, bid: ps.Table) -> ps.Table:
    """Winning bids: each auction with the bid that it goes to."""
    in_time = ps.col("date_time_bid").between(ps.col("date_time"), ps.col("expires"))
    valid = auction.join(bid, {"id": "auction"}, where=in_time, suffix="_bid")
    return valid.top(1, "id", by=["price desc", "date_time_bid"]).drop("channel", "url")


def q10(bid: ps.Stream) -> ps.Stream:
    """Log to a file system: each bid with the day and the minute that it is filed under."""
    dt, hm = F.date_format("date_time", "yyyy-MM-dd"), F.date_format("date_time", "HH:mm")
    return bid.select("auction", "bidder", "price", "date_time", "extra", dt=dt, hm=hm)


def q11(bid: ps.Table) -> ps.Table:
    """User sessions: how many bids each bidder made without a pause of ten seconds."""
    sessions = bid.select("bidder", "date_time").session_window("bidder", at="date_time", gap="10 seconds")
    return sessions.group_by("bidder", "session_start", "session_end").agg(bid_count=ps.count())


def q12(bid: ps.Stream) -> ps.Stream:
    """Processing time windows: how many bids each bidder made in an epoch."""
    return bid.count("bidder")


def q13(bid: ps.Stream, side_input: ps.Table) -> ps.Stream:
    """Bounded side input join: each bid with a value that is looked up."""
    keyed = bid.select("auction", "bidder", "price", "date_time", key=ps.col("auction") % 10_000)
    return keyed.lookup(side_input, "key").drop("key")


def q14(bid: ps.Stream) -> ps.Stream:
    """Calculation: bids between two prices, by the time of day, with the number of letters c."""
    hour, price = F.hour("date_time"), EURO * ps.col("price")
    day = ps.when(hour.between(8, 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime")
    return bid.filter((price > 1_000_000) & (price < 50_000_000)).select(
        "auction", "bidder", "date_time", "extra", price=price, bid_time_type=day.otherwise("otherTime"),
        c_counts=F.length("extra") - F.length(F.replace("extra", "c", "")),
    )  # fmt: skip


def q15(bid: ps.Table) -> ps.Table:
    """Bidding statistics: of each day, by three ranks of price."""
    days = bid.select("bidder", "auction", "price", day=F.date_format("date_time", "yyyy-MM-dd"))
    return days.group_by("day").agg({**bids_by_rank(), **different_by_rank()})


def q16(bid: ps.Table) -> ps.Table:
    """Channel statistics: the same of each channel, and its last minute."""
    day, minute = F.date_format("date_time", "yyyy-MM-dd"), F.date_format("date_time", "HH:mm")
    days = bid.select("channel", "bidder", "auction", "price", day=day, minute=minute)
    wanted = {"minute": ps.max("minute"), **bids_by_rank(), **different_by_rank()}
    return days.group_by("channel", "day").agg(wanted)


def q17(bid: ps.Table) -> ps.Table:
    """Auction statistics: of each auction and day, with its prices."""
    days = bid.select("auction", "price", day=F.date_format("date_time", "yyyy-MM-dd"))
    least, most, mean, total = ps.min("price"), ps.max("price"), ps.mean("price"), ps.sum("price")
    prices = {"min_price": least, "max_price": most, "avg_price": mean, "sum_price": total}
    return days.group_by("auction", "day").agg({**bids_by_rank(), **prices})


RANKS: Final = {
    "total": None,
    "rank1": ps.col("price") < 10_000,
    "rank2": (ps.col("price") >= 10_000) & (ps.col("price") < 1_000_000),
    "rank3": ps.col("price") >= 1_000_000,
}
"""Which bids each rank of price has."""


def bids_by_rank() -> dict[str, ps.functions.Aggregate]:
    """How many bids there are, in all and of each rank; q15, q16 and q17 need them."""
    return {f"{rank}_bids": ps.count(where=where) for rank, where in RANKS.items()}


def different_by_rank() -> dict[str, ps.functions.Aggregate]:
    """How many bidders and auctions there are, in all and of each rank; q15 and q16 need them."""
    return {
        f"{rank}_{each}s": ps.count_distinct(each, where=where)
        for each in ("bidder", "auction")
        for rank, where in RANKS.items()
    }


def q18(bid: ps.Table) -> ps.Table:
    """Find last bid: the last bid of each bidder for each auction."""
    return bid.top(1, "bidder", "auction", by="date_time desc")


def q19(bid: ps.Table) -> ps.Table:
    """Auction TOP-10 price: the ten highest bids of each auction."""
    return bid.top(10, "auction", by="price desc", rank="rank_number")


def q20(auction: ps.Table, bid: ps.Table) -> ps.Table:
    """Expand bid with auction: the bids for auctions of category 10."""
    return bid.join(auction.filter(ps.col("category") == 10), {"auction": "id"}, suffix="_auction")


def q21(bid: ps.Stream) -> ps.Stream:
    """Add channel id: four channels have one, others say it in their link."""
    said = F.regexp_extract("url", "(&|^)channel_id=([^&]*)", 2)
    channel_id = said
    for number, name in enumerate(["apple", "google", "facebook", "baidu"]):
        channel_id = ps.when(F.lower("channel") == name, str(number)).otherwise(channel_id)
    return bid.select("auction", "bidder", "price", "channel", channel_id=channel_id).filter(
        ps.col("channel_id") != ""
    )


def q22(bid: ps.Stream) -> ps.Stream:
    """Get URL directories: three parts of the link."""
    parts = {f"dir{n}": F.split_part("url", "/", n + 3) for n in (1, 2, 3)}
    return bid.select("auction", "bidder", "price", "channel", **parts)
