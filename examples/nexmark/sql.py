"""The 23 queries once more, in SQL: what a batch engine is asked to judge the answers of ``queries`` by.

The texts follow those that are known for Flink's SQL, and are written for DuckDB. What ``queries`` says of
ties holds here, too: where a row has to be chosen, all columns decide. Where ``queries`` takes a stream, the
text is asked of the rows of an epoch, and else of all rows so far.
"""

from typing import Final

SQL: Final[dict[str, str]] = {
    "q0": "select auction, bidder, price, date_time, extra from bid",
    "q1": "select auction, bidder, 0.908 * price as price, date_time, extra from bid",
    "q2": "select auction, price from bid where auction % 123 = 0",
    "q3": """
        select p.name, p.city, p.state, a.id from auction a join person p on a.seller = p.id
        where a.category = 10 and (p.state = 'OR' or p.state = 'ID' or p.state = 'CA')""",
    "q4": """
        select category, avg(final) as final from (
            select max(b.price) as final, a.category from auction a, bid b
            where a.id = b.auction and b.date_time between a.date_time and a.expires
            group by a.id, a.category)
        group by category""",
    "q5": """
        with counted as (
            select auction, epoch_ms(2000 * w) as window_start, count(*) as num
            from (select auction, epoch_us(date_time) // 2000000 as last from bid),
                unnest(range(last - 4, last + 1)) as started(w)
            group by auction, w)
        select auction, num, window_start from counted
        where num = (select max(num) from counted c where c.window_start = counted.window_start)""",
    "q6": """
        with won as (
            select *, row_number() over (
                partition by seller order by bid_time desc, id, category, date_time, expires, price) as place
            from (
                select a.*, b.price, b.date_time as bid_time,
                    row_number() over (partition by a.id order by b.price desc, b.date_time) as best
                from auction a join bid b
                on a.id = b.auction and b.date_time between a.date_time and a.expires)
            where best = 1)
        select seller, avg(price) as price from won where place <= 10 group by seller""",
    "q7": """
        with windowed as (select *, time_bucket(interval '10 seconds', date_time) as window_start from bid)
        select b.* exclude (window_start) from windowed b join (
            select max(price) as price, window_start from windowed group by window_start) m
        on b.price = m.price and b.window_start = m.window_start""",
    "q8": """
        select distinct p.id, p.name, time_bucket(interval '10s', p.date_time) as window_start
        from person p join auction a on p.id = a.seller
        and time_bucket(interval '10s', p.date_time) = time_bucket(interval '10s', a.date_time)""",
    "q9": """
        select * exclude (place) from (
            select a.*, b.bidder, b.price, b.date_time as date_time_bid, b.extra as extra_bid,
                row_number() over (partition by a.id order by b.price desc, b.date_time, b.bidder, b.channel,
                    b.url, b.extra) as place
            from auction a join bid b on a.id = b.auction and b.date_time between a.date_time and a.expires)
        where place = 1""",
    "q10": """
        select auction, bidder, price, date_time, extra, strftime(date_time, '%Y-%m-%d') as dt,
            strftime(date_time, '%H:%M') as hm from bid""",
    "q11": """
        with begun as (
            select *, coalesce(date_time - lag(date_time) over (
                partition by bidder order by date_time) > interval '10 seconds', true)::int as is_first
            from bid),
        numbered as (select *, sum(is_first) over (
            partition by bidder order by date_time rows unbounded preceding) as session from begun)
        select bidder, count(*) as bid_count, min(date_time) as session_start,
            max(date_time) + interval '10 seconds' as session_end
        from numbered group by bidder, session""",
    "q12": "select bidder, count(*) as count from bid group by bidder",
    "q13": """
        select b.auction, b.bidder, b.price, b.date_time, s.value
        from bid b join side_input s on b.auction % 10000 = s.key""",
    "q14": """
        select auction, bidder, 0.908 * price as price, case
            when hour(date_time) >= 8 and hour(date_time) <= 18 then 'dayTime'
            when hour(date_time) <= 6 or hour(date_time) >= 20 then 'nightTime' else 'otherTime'
            end as bid_time_type, date_time, extra, len(regexp_extract_all(extra, 'c')) as c_counts
        from bid where 0.908 * price > 1000000 and 0.908 * price < 50000000""",
    "q15": """
        select strftime(date_time, '%Y-%m-%d') as day,
            count(*) as total_bids, count(*) filter (price < 10000) as rank1_bids,
            count(*) filter (price >= 10000 and price < 1000000) as rank2_bids,
            count(*) filter (price >= 1000000) as rank3_bids,
            count(distinct bidder) as total_bidders,
            count(distinct bidder) filter (price < 10000) as rank1_bidders,
            count(distinct bidder) filter (price >= 10000 and price < 1000000) as rank2_bidders,
            count(distinct bidder) filter (price >= 1000000) as rank3_bidders,
            count(distinct auction) as total_auctions,
            count(distinct auction) filter (price < 10000) as rank1_auctions,
            count(distinct auction) filter (price >= 10000 and price < 1000000) as rank2_auctions,
            count(distinct auction) filter (price >= 1000000) as rank3_auctions
        from bid group by day""",
    "q16": """
        select channel, strftime(date_time, '%Y-%m-%d') as day, max(strftime(date_time, '%H:%M')) as minute,
            count(*) as total_bids, count(*) filter (price < 10000) as rank1_bids,
            count(*) filter (price >= 10000 and price < 1000000) as rank2_bids,
            count(*) filter (price >= 1000000) as rank3_bids,
            count(distinct bidder) as total_bidders,
            count(distinct bidder) filter (price < 10000) as rank1_bidders,
            count(distinct bidder) filter (price >= 10000 and price < 1000000) as rank2_bidders,
            count(distinct bidder) filter (price >= 1000000) as rank3_bidders,
            count(distinct auction) as total_auctions,
            count(distinct auction) filter (price < 10000) as rank1_auctions,
            count(distinct auction) filter (price >= 10000 and price < 1000000) as rank2_auctions,
            count(distinct auction) filter (price >= 1000000) as rank3_auctions
        from bid group by channel, day""",
    "q17": """
        select auction, strftime(date_time, '%Y-%m-%d') as day,
            count(*) as total_bids, count(*) filter (price < 10000) as rank1_bids,
            count(*) filter (price >= 10000 and price < 1000000) as rank2_bids,
            count(*) filter (price >= 1000000) as rank3_bids,
            min(price) as min_price, max(price) as max_price, avg(price) as avg_price, sum(price) as sum_price
        from bid group by auction, day""",
    "q18": """
        select * exclude (place) from (
            select *, row_number() over (
                partition by bidder, auction order by date_time desc, price, channel, url, extra) as place
            from bid)
        where place = 1""",
    "q19": """
        select * from (
            select *, row_number() over (
                partition by auction order by price desc, bidder, channel, url, date_time, extra
            ) as rank_number from bid)
        where rank_number <= 10""",
    "q20": """
        select b.*, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time as date_time_auction,
            a.expires, a.seller, a.category, a.extra as extra_auction
        from bid b join auction a on b.auction = a.id where a.category = 10""",
    "q21": """
        select auction, bidder, price, channel, case lower(channel)
            when 'apple' then '0' when 'google' then '1' when 'facebook' then '2' when 'baidu' then '3'
            else regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) end as channel_id
        from bid
        where lower(channel) in ('apple', 'google', 'facebook', 'baidu') or url like '%&channel_id=%'""",
    "q22": """
        select auction, bidder, price, channel, string_split(url, '/')[4] as dir1,
            string_split(url, '/')[5] as dir2, string_split(url, '/')[6] as dir3 from bid""",
}
"""Each query over the tables person, auction, bid and side_input."""
