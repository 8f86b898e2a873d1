"""Queries of Nexmark as operations on tables, where examples/nexmark/queries.py says them otherwise.

There a query says its result in the way that is best for these verbs, and many take streams. Here each does
what its text in SQL does, over tables.
"""

from decimal import Decimal

import pointstamp as ps
from pointstamp import functions as F  # noqa: N812 - as PySpark's users call it

Table = ps.Table
col = ps.col
PRICE = ps.lit(Decimal("0.908")) * col("price")


def q0(bid: Table) -> Table:
    return bid.select("auction", "bidder", "price", "date_time", "extra")


def q1(bid: Table) -> Table:
    return bid.select("auction", "bidder", PRICE.alias("price"), "date_time", "extra")


def q2(bid: Table) -> Table:
    return bid.filter(col("auction") % 123 == 0).select("auction", "price")


def q3(auction: Table, person: Table) -> Table:
    state = col("state")
    near = person.filter((state == "OR") | (state == "ID") | (state == "CA"))
    items = auction.filter(col("category") == 10).select("seller", auction_id=col("id"))
    return near.join(items, {"id": "seller"}).select("name", "city", "state", id=col("auction_id"))


def q5(bid: Table) -> Table:
    windows = bid.select("auction", "date_time").window("date_time", "10 seconds", slide="2 seconds")
    counted = windows.group_by("auction", "window_start", "window_end").agg(num=ps.count())
    shown = counted.select("auction", "num", "window_start")
    return shown.top(1, "window_start", by="num desc", ties=True)


def q6(auction: Table, bid: Table) -> Table:
    in_time = (col("date_time_bid") >= col("date_time")) & (col("date_time_bid") <= col("expires"))
    valid = auction.join(bid, {"id": "auction"}, where=in_time, suffix="_bid")
    best = valid.top(1, "id", by=["price desc", "date_time_bid"], rank="best").filter(col("best") == 1)
    won = best.select(*auction.schema.names, "price", col("date_time_bid").alias("bid_time"), "best")
    by = ["bid_time desc", "id", "category", "date_time", "expires", "price"]
    return won.top(10, "seller", by=by).group_by("seller").agg(price=ps.mean("price"))


def q7(bid: Table) -> Table:
    windows = bid.select("price", "date_time").window("date_time", "10 seconds")
    highest = windows.group_by("window_start", "window_end").agg(price=ps.max("price"))
    in_window = (col("date_time") >= col("window_start")) & (col("date_time") < col("window_end"))
    return bid.join(highest, "price", where=in_window).drop("window_start", "window_end")


def q8(auction: Table, person: Table) -> Table:
    came = person.select("id", "name", "date_time").window("date_time", "10 seconds")
    sold = auction.select("seller", "date_time").window("date_time", "10 seconds")
    people = came.select("id", "name", "window_start", "window_end").distinct()
    sellers = sold.select("seller", "window_start", "window_end").distinct()
    on = {"id": "seller", "window_start": "window_start"}
    return people.join(sellers, on, how="semi").select("id", "name", "window_start").distinct()


def q9(auction: Table, bid: Table) -> Table:
    in_time = (col("date_time_bid") >= col("date_time")) & (col("date_time_bid") <= col("expires"))
    valid = auction.join(bid, {"id": "auction"}, where=in_time, suffix="_bid")
    by = ["price desc", "date_time_bid", "bidder", "channel", "url", "extra_bid"]
    shown = valid.select(
        *auction.schema.names, "bidder", "price", "channel", "url", "date_time_bid", "extra_bid"
    )
    return shown.top(1, "id", by=by).drop("channel", "url")


def q10(bid: Table) -> Table:
    dt, hm = F.date_format("date_time", "yyyy-MM-dd"), F.date_format("date_time", "HH:mm")
    return bid.select("auction", "bidder", "price", "date_time", "extra", dt=dt, hm=hm)


def q11(bid: Table) -> Table:
    sessions = bid.session_window("bidder", at="date_time", gap="10 seconds")
    counted = sessions.group_by("bidder", "session_start", "session_end").agg(bid_count=ps.count())
    return counted.select("bidder", "bid_count", "session_start", "session_end")


def q12(bid: Table) -> Table:
    return bid.group_by("bidder").agg(count=ps.count())


def q13(bid: Table, side_input: Table) -> Table:
    keyed = bid.select("auction", "bidder", "price", "date_time", key=col("auction") % 10000)
    return keyed.join(side_input, "key").drop("key")


def q14(bid: Table) -> Table:
    hour = F.hour("date_time")
    day = ps.when((hour >= 8) & (hour <= 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime")
    count = (F.length("extra") - F.length(F.replace("extra", "c", ""))).cast("long")
    wanted = bid.filter(PRICE > 1_000_000).filter(PRICE < 50_000_000)
    return wanted.select(
        "auction",
        "bidder",
        PRICE.alias("price"),
        day.otherwise("otherTime").alias("bid_time_type"),
        "date_time",
        "extra",
        count.alias("c_counts"),
    )


def q18(bid: Table) -> Table:
    return bid.top(1, "bidder", "auction", by="date_time desc")


def q21(bid: Table) -> Table:
    channel = F.lower("channel")
    known = ["apple", "google", "facebook", "baidu"]
    channel_id = ps.when(channel == "apple", "0").when(channel == "google", "1")
    channel_id = channel_id.when(channel == "facebook", "2").when(channel == "baidu", "3")
    said = F.regexp_extract("url", "(&|^)channel_id=([^&]*)", 2)
    wanted = bid.filter(channel.is_in(known) | col("url").like("%&channel_id=%"))
    return wanted.select("auction", "bidder", "price", "channel", channel_id=channel_id.otherwise(said))


def q22(bid: Table) -> Table:
    parts = {f"dir{n}": F.split_part("url", "/", n + 3) for n in (1, 2, 3)}
    return bid.select("auction", "bidder", "price", "channel", **parts)
