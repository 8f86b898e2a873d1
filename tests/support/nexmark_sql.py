# ruff: noqa: S608 - texts of our own
"""The queries of Nexmark in Spark's SQL, where the words of examples/nexmark/sql.py are DuckDB's own."""

from typing import Final

_BIDS: Final = """count(*) as total_bids, count(*) filter (where price < 10000) as rank1_bids,
    count(*) filter (where price >= 10000 and price < 1000000) as rank2_bids,
    count(*) filter (where price >= 1000000) as rank3_bids"""
_DISTINCT: Final = ", ".join(
    f"""count(distinct {column}) as total_{column}s,
    count(distinct {column}) filter (where price < 10000) as rank1_{column}s,
    count(distinct {column}) filter (where price >= 10000 and price < 1000000) as rank2_{column}s,
    count(distinct {column}) filter (where price >= 1000000) as rank3_{column}s"""
    for column in ("bidder", "auction")
)

SPARK: Final[dict[str, str]] = {
    "q5": """
        with counted as (
            select auction, count(*) as num, window.start as window_start from bid
            group by auction, window(date_time, '10 seconds', '2 seconds'))
        select auction, num, window_start from counted
        qualify rank() over (partition by window_start order by num desc) = 1""",
    "q7": """
        with highest as (
            select max(price) as price, window.start as s, window.end as e from bid
            group by window(date_time, '10 seconds'))
        select b.* from bid b join highest m on b.price = m.price
        where b.date_time >= m.s and b.date_time < m.e""",
    "q8": """
        select distinct p.id, p.name, p.window_start from (
            select id, name, window.start as window_start from person
            group by id, name, window(date_time, '10 seconds')) p
        join (
            select seller, window.start as window_start from auction
            group by seller, window(date_time, '10 seconds')) a
        on p.id = a.seller and p.window_start = a.window_start""",
    "q10": """
        select auction, bidder, price, date_time, extra, date_format(date_time, 'yyyy-MM-dd') as dt,
            date_format(date_time, 'HH:mm') as hm from bid""",
    "q11": """
        select bidder, count(*) as bid_count, session_window.start as session_start,
            session_window.end as session_end
        from bid group by bidder, session_window(date_time, '10 seconds')""",
    "q14": """
        select auction, bidder, 0.908 * price as price, case
            when hour(date_time) >= 8 and hour(date_time) <= 18 then 'dayTime'
            when hour(date_time) <= 6 or hour(date_time) >= 20 then 'nightTime' else 'otherTime'
            end as bid_time_type, date_time, extra,
            cast(length(extra) - length(replace(extra, 'c', '')) as long) as c_counts
        from bid where 0.908 * price > 1000000 and 0.908 * price < 50000000""",
    "q15": f"select date_format(date_time, 'yyyy-MM-dd') as day, {_BIDS}, {_DISTINCT} from bid group by day",
    "q16": f"""
        select channel, date_format(date_time, 'yyyy-MM-dd') as day,
            max(date_format(date_time, 'HH:mm')) as minute, {_BIDS}, {_DISTINCT}
        from bid group by channel, day""",
    "q17": f"""
        select auction, date_format(date_time, 'yyyy-MM-dd') as day, {_BIDS}, min(price) as min_price,
            max(price) as max_price, avg(price) as avg_price, sum(price) as sum_price
        from bid group by auction, day""",
    "q22": """
        select auction, bidder, price, channel, split_part(url, '/', 4) as dir1,
            split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3 from bid""",
}
