"""Nexmark in Flink's SQL, for ``benchmarks.nexmark.peers``, which starts it with a Python that has pyflink.

    python benchmarks/nexmark/flink_peer.py EVENTS ANSWERS SLOTS QUERY...

EVENTS has a folder of CSV files for each input. Each query is run twice as a stream into Flink's black hole,
which is timed, with the JVM warm after the first; then once more as a batch job that writes its answer as
CSV files to ANSWERS, because no sink that Flink brings takes corrections and can be read. Sessions are left
out, because Flink has none in batch jobs. One JSON line per query.

Rows are read with a watermark four seconds behind, more than the events are out of order, so that no row is
too late and the windows of Flink have all rows that ours have.
"""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

TABLES = {
    "person": (
        "id bigint, name string, email string, credit_card string, city string, state string, "
        "date_time timestamp(6), extra string"
    ),
    "auction": (
        "id bigint, item_name string, description string, initial_bid bigint, reserve bigint, "
        "date_time timestamp(6), expires timestamp(6), seller bigint, category bigint, extra string"
    ),
    "bid": (
        "auction bigint, bidder bigint, price bigint, channel string, url string, date_time timestamp(6), "
        "extra string"
    ),
}

BID = TABLES["bid"]

QUERIES: dict[str, tuple[str, str]] = {
    "q0": (
        "auction bigint, bidder bigint, price bigint, date_time timestamp(6), extra string",
        "select auction, bidder, price, date_time, extra from bid",
    ),
    "q1": (
        "auction bigint, bidder bigint, price decimal(23, 3), date_time timestamp(6), extra string",
        "select auction, bidder, 0.908 * price, date_time, extra from bid",
    ),
    "q2": ("auction bigint, price bigint", "select auction, price from bid where mod(auction, 123) = 0"),
    "q3": (
        "name string, city string, state string, id bigint",
        """select p.name, p.city, p.state, a.id from auction a join person p on a.seller = p.id
           where a.category = 10 and p.state in ('OR', 'ID', 'CA')""",
    ),
    "q4": (
        "category bigint, final double",
        """select category, avg(cast(final as double)) from (
               select max(b.price) as final, a.category from auction a, bid b
               where a.id = b.auction and b.date_time between a.date_time and a.expires
               group by a.id, a.category)
           group by category""",
    ),
    "q5": (
        "auction bigint, window_start timestamp(3), num bigint",
        """with counted as (
               select auction, count(*) as num, window_start, window_end
               from table(hop(table bid, descriptor(ts), interval '2' second, interval '10' second))
               group by auction, window_start, window_end)
           select c.auction, c.window_start, c.num from counted c join (
               select max(num) as num, window_start, window_end from counted
               group by window_start, window_end) m
           on c.window_start = m.window_start and c.window_end = m.window_end and c.num = m.num""",
    ),
    "q7": (
        BID,
        """select b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra from bid b join (
               select max(price) as price, window_start, window_end
               from table(tumble(table bid, descriptor(ts), interval '10' second))
               group by window_start, window_end) m
           on b.price = m.price and b.ts >= m.window_start and b.ts < m.window_end""",
    ),
    "q8": (
        "id bigint, name string, window_start timestamp(3)",
        """select p.id, p.name, p.window_start from (
               select id, name, window_start, window_end
               from table(tumble(table person, descriptor(ts), interval '10' second))
               group by id, name, window_start, window_end) p
           join (
               select seller, window_start, window_end
               from table(tumble(table auction, descriptor(ts), interval '10' second))
               group by seller, window_start, window_end) a
           on p.id = a.seller and p.window_start = a.window_start and p.window_end = a.window_end""",
    ),
    "q9": (
        TABLES["auction"] + ", bidder bigint, price bigint, date_time_bid timestamp(6), extra_bid string",
        """select id, item_name, description, initial_bid, reserve, date_time, expires, seller, category,
               extra, bidder, price, date_time_bid, extra_bid
           from (
               select a.*, b.bidder, b.price, b.date_time as date_time_bid, b.extra as extra_bid,
                   row_number() over (partition by a.id order by b.price desc, b.date_time) as place
               from auction a, bid b
               where a.id = b.auction and b.date_time between a.date_time and a.expires)
           where place = 1""",
    ),
    "q17": (
        "auction bigint, `day` string, total_bids bigint, rank1_bids bigint, rank2_bids bigint, "
        "rank3_bids bigint, min_price bigint, max_price bigint, avg_price double, sum_price bigint",
        """select auction, date_format(date_time, 'yyyy-MM-dd'), count(*),
               count(*) filter (where price < 10000),
               count(*) filter (where price >= 10000 and price < 1000000),
               count(*) filter (where price >= 1000000),
               min(price), max(price), avg(cast(price as double)), sum(price)
           from bid group by auction, date_format(date_time, 'yyyy-MM-dd')""",
    ),
    "q18": (
        BID,
        """select auction, bidder, price, channel, url, date_time, extra from (
               select *, row_number() over (
                   partition by bidder, auction order by date_time desc, price, channel, url, extra) as place
               from bid)
           where place = 1""",
    ),
    "q19": (
        BID + ", rank_number bigint",
        """select auction, bidder, price, channel, url, date_time, extra, rank_number from (
               select *, row_number() over (
                   partition by auction order by price desc, bidder, channel, url, date_time, extra
               ) as rank_number from bid)
           where rank_number <= 10""",
    ),
    "q20": (
        BID + ", item_name string, description string, initial_bid bigint, reserve bigint, "
        "date_time_auction timestamp(6), expires timestamp(6), seller bigint, category bigint, "
        "extra_auction string",
        """select b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name,
               a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category, a.extra
           from bid b join auction a on b.auction = a.id where a.category = 10""",
    ),
}


def environment(folder: Path, slots: int, *, is_stream: bool) -> Any:  # noqa: ANN401 - pyflink is not here
    """A table environment with the inputs."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    builder = EnvironmentSettings.new_instance()
    made = TableEnvironment.create(
        (builder.in_streaming_mode() if is_stream else builder.in_batch_mode()).build()
    )
    made.get_config().set("parallelism.default", str(slots))
    # What Flink's own runs of the benchmark set: rows are collected before the state is looked up.
    made.get_config().set("table.exec.mini-batch.enabled", "true")
    made.get_config().set("table.exec.mini-batch.allow-latency", "2s")
    made.get_config().set("table.exec.mini-batch.size", "50000")
    for name, columns in TABLES.items():
        made.execute_sql(
            f"create temporary table {name} ({columns}, ts as cast(date_time as timestamp(3)), "
            "watermark for ts as ts - interval '4' second) with "
            f"('connector' = 'filesystem', 'path' = '{(folder / name).as_uri()}', 'format' = 'csv')"
        )
    return made


def main() -> None:
    """Run the queries."""
    events, answers, slots = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    streaming = environment(events, slots, is_stream=True)
    batch = environment(events, slots, is_stream=False)
    for name in sys.argv[4:]:
        columns, query = QUERIES[name]
        streaming.execute_sql(f"create temporary table {name} ({columns}) with ('connector' = 'blackhole')")
        batch.execute_sql(
            f"create temporary table {name} ({columns}) with ('connector' = 'filesystem', "
            f"'path' = '{(answers / name).as_uri()}', 'format' = 'csv')"
        )
        taken = []
        for _ in range(2):
            begin = perf_counter()
            streaming.execute_sql(f"insert into {name} {query}").wait()
            taken.append(perf_counter() - begin)
        batch.execute_sql(f"insert into {name} {query}").wait()
        print(json.dumps({"query": name, "seconds": min(taken), "columns": columns}), flush=True)


if __name__ == "__main__":
    main()
