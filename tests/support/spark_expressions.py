"""The expressions of which Spark's answers are stored: every function, operator and cast, over ``VALUES``."""
# ruff: noqa: E501 - what belongs together stands in one line

from typing import Final

from support.spark_grid import BERLIN, KATHMANDU, ST_JOHNS, Asked

_NUMBERS: Final = [
    *("i + i2", "i - i2", "i * i2", "i / i2", "i % i2", "i div i2", "mod(i, i2)", "try_mod(i, i2)"),
    *("l + l2", "l - l2", "l * l2", "l / l2", "l % l2", "l div l2", "try_divide(l, l2)", "y + y", "h * h", "y + i2"),
    *("x + x2", "x - x2", "x * x2", "x / x2", "x % x2", "try_divide(x, x2)", "try_mod(x, x2)"),
    *("f + f2", "f * f2", "f / f2", "f % f2", "f + x2", "i2 + f", "l2 * f", "f + d2"),
    *("d + d2", "d - d2", "d * d2", "d / d2", "d % d2", "d div d2", "e + e2", "e - e2", "e * e2", "e / e2", "e % e2"),
    *("d + i2", "d * l2", "d / i2", "d / 3", "d * 1.5", "d + x2", "d / 3.0", "k * k", "k / d2", "k + e2", "try_divide(d, d2)"),
    *("try_mod(d, d2)", "e div e2", "d % 0.3", "x2 * 0.1", "1 / d", "i / 2", "l / 1000", "-d", "-x", "-i", "-l", "-f", "-y"),
    *("abs(i)", "abs(l)", "abs(x)", "abs(f)", "abs(d)", "abs(e)", "abs(y)", "negative(i)", "negative(x)"),
    *("sign(x)", "sign(i)", "sign(d)", "signum(f)"),
    *("round(x)", "round(x, 2)", "round(x, 1)", "round(x, -2)", "round(f, 2)", "round(f)", "round(i, -1)", "round(l, -1)"),
    *("round(d)", "round(d, 1)", "round(d, -1)", "round(e, 7)", "round(d, 5)", "round(i)", "round(y, -2)", "round(l, 2)", "round(e)"),
    *("floor(x)", "ceil(x)", "ceiling(d)", "floor(d)", "floor(i)", "ceil(f)", "floor(e)", "ceil(e)", "ceil(l)", "floor(k)"),
    *("sqrt(x)", "exp(x)", "ln(x)", "log(x)", "log(2, x)", "log(x2, x)", "log10(x)", "log2(x)", "power(x, x2)", "pow(x2, i2)"),
    *("power(d, 2)", "sqrt(i)", "exp(i2)", "ln(d)", "log10(i)", "pi()", "greatest(x, x2)", "least(x, x2)", "greatest(i, l2, d2)"),
    *("least(d, e2)", "greatest(s, s2)", "least(a, a2)", "isnan(x)", "isnan(f)", "nullif(x, x2)", "nullif(i, i2)", "nullif(s, s2)"),
    *("nullifzero(i)", "nullifzero(x)", "zeroifnull(i)", "zeroifnull(d)", "zeroifnull(x)", "nvl(i, i2)", "ifnull(x, i2)"),
    *("coalesce(d, i2, x2)", "coalesce(i, l2)", "nvl2(i, x2, d2)", "if(i > 0, x2, d2)", "if(b, s, 'z')"),
]  # fmt: skip

_COMPARISONS: Final = [
    *("x = x2", "x < x2", "x <= x2", "x > x2", "x >= x2", "x <> x2", "x <=> x2", "f = f2", "f < x2", "i = x2", "i <=> i2"),
    *("d = d2", "d < e2", "i = d2", "l > x2", "s < s2", "s = s2", "a = t2", "a < t2", "a >= z", "t = t2", "b = b2", "b < b2"),
    *("b and b2", "b or b2", "not b", "x in (0.0D, 2.5D)", "x in (double('NaN'), 1D)", "i in (1, null, 7)", "i not in (1, 7)"),
    *("s in ('abc', 'aaa')", "s in (s2, 'abc')", "x between -1 and 3", "a between date '1970-01-01' and a2"),
    *("x > '1.5'", "f > '0.5'", "i = '7'", "i > '1'", "l = '3'", "d > '1.2'", "a = '2024-02-29'", "a > '2000'", "t > '2024-01-01'"),
    *("'7' = i", "x = 'NaN'", "b = 'true'", "n = 1", "n > 1.5", "n < 2D", "n = d2", "m = b2", "g = a2", "g < t2", "i + '3'", "x * '2'"),
    *("b is true", "b is not true", "b is false", "i is null", "x is not null", "isnull(x)", "isnotnull(s)"),
    *("case i when 1 then 'one' when 7 then 'seven' end", "case when b then i else l2 end", "case when x > 1 then d2 when b then 1 end"),
]  # fmt: skip

_SHORT_CIRCUIT: Final = [
    *("case when i2 <> 0 then i / i2 end", "case when i2 = 0 then 0 else i % i2 end", "if(l2 = 0, null, l div l2)"),
    *("i2 <> 0 and i / i2 > 1", "i2 = 0 or i / i2 > 1", "coalesce(i2, 1 / 0)", "coalesce(nullif(i2, 0), i / 0)"),
    *("case when b then 1 / 0 else 2 end", "if(true, i, 1 / 0)", "b and 1 / 0 > 1", "b or 1 / 0 > 1", "nvl(i, 1 / 0)"),
    *("nvl2(i, i, cast('a' as int))", "case when n rlike '^[0-9]+$' then cast(n as int) end", "nullif(i2, 10 / i2)"),
    *("case when i > 0 then l + l2 when i2 > 0 then l - l2 end", "i in (i2, 1 / i2)", "i2 in (1, 10 / i2)", "null / i2"),
    *("i / i2 > 1 or i2 = 0", "i2 / i is null and i = 0", "b or case when b2 then cast(s as int) > 1 else false end"),
    *("case when case when i2 > 0 then 10 / i2 end > 1 then 100 / i2 else 0 end", "i + 10 / i2", "10 / i2 + i"),
    *("greatest(i, i2, 0)", "case when l > 5 then null when l > 1 then l * l2 else l end", "concat(s, cast(10 / i2 as string))"),
]  # fmt: skip

_CASTS: Final = [
    *(f"cast(n as {to})" for to in ("int", "long", "short", "byte", "double", "float", "decimal(10,2)",
                                      "decimal(38,18)", "decimal(3,0)", "boolean")),
    *(f"try_cast(n as {to})" for to in ("int", "long", "byte", "double", "decimal(10,2)", "boolean", "date")),
    *("cast(m as boolean)", "try_cast(m as boolean)", "cast(g as date)", "cast(g as timestamp)", "cast(g as timestamp_ntz)"),
    *("try_cast(g as date)", "try_cast(g as timestamp)", "try_cast(g as timestamp_ntz)", "cast(s as string)"),
    *(f"cast({each} as string)" for each in ("b", "y", "i", "l", "f", "x", "d", "e", "k", "t", "z", "a", "j")),
    *(f"cast(x as {to})" for to in ("int", "long", "byte", "float", "boolean", "decimal(10,2)", "decimal(38,18)")),
    *(f"try_cast(x as {to})" for to in ("int", "long", "short", "decimal(5,1)")),
    *(f"cast(f as {to})" for to in ("int", "double", "decimal(10,4)", "boolean")),
    *(f"cast(l as {to})" for to in ("int", "short", "byte", "double", "float", "boolean", "decimal(10,2)", "decimal(20,0)", "timestamp")),
    *(f"cast(d as {to})" for to in ("int", "long", "byte", "double", "float", "boolean", "decimal(5,1)", "decimal(10,4)")),
    *("cast(e as double)", "cast(e as long)", "cast(e as int)", "cast(e as decimal(10,2))", "cast(k as float)"),
    *("cast(b as int)", "cast(b as double)", "cast(b as decimal(3,1))", "cast(i as boolean)", "cast(0.25 as int)", "cast(t as long)"),
    *("cast(t as double)", "cast(a as timestamp)", "cast(t as date)", "cast(t as timestamp_ntz)", "cast(z as timestamp)", "cast(z as date)"),
    *("cast(a as timestamp_ntz)", "cast(x2 as timestamp)", "cast(j as string)", "cast(s as binary)", "cast(i as decimal(4,2))"),
    *("bigint(n)", "int(x)", "double(n)", "float(n)", "string(x)", "string(i)", "date(g)", "timestamp(g)", "boolean(m)", "string(t)"),
    *("cast(null as int)", "cast('1.255' as decimal(5,2))", "cast(1e-8 as string)", "cast(cast(1e-8 as decimal(10,8)) as string)"),
    *("cast(interval 90 minutes as string)", "cast(interval 1 day as string)", "cast(t - t2 as string)", "t - t2", "a - a2"),
]  # fmt: skip

_TEXTS: Final = [
    *("upper(s)", "lower(s)", "ucase(s)", "lcase(s)", "initcap(s)", "initcap(concat(s2, s))", "upper(concat(s2, s))", "length(s)", "len(s)", "char_length(s)", "character_length(s)"),
    *("reverse(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "trim(both 'a' from s)", "trim(leading 'ab' from s)", "trim(trailing 'c' from s)"),
    *("concat(s, s2)", "concat(i, '-', x2)", "s || s2", "s || i2", "concat_ws('-', s, s2)", "concat_ws('', s, null, s2)"),
    *("concat_ws('-', null, null)", "concat_ws(',', w)", "concat_ws('-', cast(null as string))", "concat(s)", "concat()", "concat_ws(',')"),
    *("substring(s, 2)", "substring(s, 0)", "substring(s, -2)", "substring(s, 1, 2)", "substring(s, -3, 2)", "substring(s, -9, 8)"),
    *("substr(s, 2, 1)", "substring(s, 0, 2)", "substring(s, 2, -1)", "substring(s from 2 for 2)", "left(s, 2)", "right(s, 2)"),
    *("left(s, 0)", "right(s, 0)", "left(s, -1)", "substring(s, 2147483647, 5)", "substring(s, -2147483648, 5)"),
    *("replace(s, 'a', 'xy')", "replace(s, 'a')", "replace(s, '', 'x')", "replace(s, 'aa', 'b')", "repeat(s, 2)", "repeat(s, 0)"),
    *("repeat(s, -1)", "split(s, ',')", "split(s, '')", "split(s, '[0-9]+')", "split(s, 'a')", "split(s, '.')", "split(s, '\\\\.')"),
    *("split_part(s, ',', 1)", "split_part(s, ',', 3)", "split_part(s, ',', -1)", "split_part(s, ',', -2)", "split_part(s, ',', 9)"),
    *("split_part(s, ',', -9)", "split_part(s, '', 1)", "split_part(s, ',', 0)", "split_part(s, '.', 2)", "split_part(s, 'aa', 2)"),
    *("instr(s, 'b')", "instr(s, '')", "locate('b', s)", "locate('', s)", "position('b' in s)", "position('a', s)", "locate('a', s, 2)"),
    *("instr(s, 'aa')", "instr(s, 'y')", "lpad(s, 5)", "lpad(s, 2, 'x')", "lpad(s, 9, 'xy')", "rpad(s, 9, 'xy')", "rpad(s, 2)", "lpad(s, 5, '')"),
    *("rpad(s, 5, '')", "lpad(s, 0)", "lpad(s, -1, 'x')", "rpad(s, 7, 'ß')", "contains(s, 'b')", "startswith(s, 'a')", "endswith(s, 'c')"),
    *("contains(s, '')", "startswith(s, '')", "s like 'a%'", "s like '%b%'", "s like 'a_c'", "s like '%\\n%'", "s like ''", "s like '%'"),
    *("s ilike 'A%'", "s ilike '%SS%'", "s not like 'a%'", "s like '!%%' escape '!'", "s rlike 'a+'", "s rlike '^a.c$'", "s rlike ''"),
    *("s rlike '[[:alpha:]]'", "s rlike '\\\\d'", "s rlike '(?i)AB'", "s rlike 'ß$'", "regexp_like(s, 'b')", "s rlike '\\\\w+\\\\s'"),
    *("regexp_replace(s, 'a', 'b')", "regexp_replace(s, '([a-z])([0-9])', '$2$1')", "regexp_replace(s, '(a)', '$1$1')"),
    *("regexp_replace(s, 'a', '\\\\$')", "regexp_replace(s, '', '-')", "regexp_replace(s, 'a|b', '[$0]')", "regexp_replace(s, '\\\\s+', ' ')"),
    *("regexp_replace(s, '(x)(1)(y)', '$10')", "regexp_replace(s, '.', '\\\\\\\\')", "regexp_replace(s, '[^a]', '')", "regexp_replace(s, 'b*', 'x')"),
    *("regexp_extract(s, '([a-z]+)([0-9]+)', 1)", "regexp_extract(s, '([a-z]+)([0-9]+)', 2)", "regexp_extract(s, 'b', 0)"),
    *("regexp_extract(s, '(b)|(c)', 2)", "regexp_extract(s, '([a-z]+)')", "regexp_extract(s, '(a)(?:b)(c)', 2)", "regexp_extract(s, '([[])', 1)"),
    *("size(w)", "size(split(s, ','))", "upper(i)", "length(i)", "length(x)", "length(d)", "length(a)", "length(j)", "upper(t2)", "trim(i)"),
    *("concat(a, '')", "concat(t2, 'x')", "concat(d, 'x')", "concat(b, 'x')", "concat(x, '')", "concat(e, '')", "replace(i, '1', 'x')"),
    *("s || null", "concat(s, null)", "reverse(w)", "concat(w, w)", "length(s || s2)", "initcap(lower(s))", "substring(i, 1, 1)"),
]  # fmt: skip

_PARTS: Final = (
    "year",
    "quarter",
    "month",
    "day",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "weekofyear",
    "hour",
    "minute",
    "second",
)
_UNITS: Final = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
                 "MON", "yyyy", "DD", "decade")  # fmt: skip

_TIMES: Final = [
    *(f"{part}(t)" for part in _PARTS),
    *(f"{part}(z)" for part in _PARTS),
    *(f"{part}(a)" for part in _PARTS),
    *(f"date_trunc('{unit}', t)" for unit in _UNITS),
    *(f"date_trunc('{unit}', z)" for unit in ("hour", "week", "month")),
    *(f"date_trunc('{unit}', a)" for unit in ("hour", "week", "year")),
    *(f"trunc(a, '{unit}')" for unit in ("MM", "month", "mon", "year", "YYYY", "YY", "quarter", "week", "day", "x")),
    *("trunc(t, 'MM')", "trunc(g, 'year')", "month(g)", "hour(g)"),
    *("cast(t as string)", "cast(t as date)", "cast(a as timestamp)", "cast(g as timestamp)", "cast(z as timestamp)"),
    *("cast(t as timestamp_ntz)", "cast(g as timestamp_ntz)", "cast(g as date)", "string(t)", "date(t)"),
    *("t >= timestamp '2024-04-01 00:00:00'", "t > timestamp '2024-03-31 02:30:00'", "t = '2024-03-31 03:00:00'", "timestamp '2024-10-27 02:30:00'"),
    *("timestamp '2024-03-31 02:30:00'", "timestamp '2024-1-5'", "timestamp '2024-01-05 12:00:00+05:30'", "timestamp_ntz '2024-01-05 12:00:00'"),
    *("date '2024-1-5'", "date '2024'", "timestamp '2024-03-10 02:15:00'", "timestamp '2024-11-03 01:15:00'", "a > t2", "a = t2", "z < t2", "t - z", "z = t2"),
    *("t > a2", "coalesce(t, a2)", "t - t2", "a - a2", "t - a2", "t + interval 1 day", "t - interval 36 hours", "t + interval 1 month", "t - interval 1 year"),
    *("a + interval 1 day", "a - interval 1 month", "a + interval 1 hour", "a + 1", "a - 1", "1 + a", "a + i2", "z + interval 1 month", "z + interval 90 minutes"),
    *("add_months(a, 1)", "add_months(a, -13)", "add_months(t, 1)", "date_add(a, 1)", "date_add(a, i2)", "date_sub(a, 1)", "dateadd(a, 1)"),
    *("date_add(t, 1)", "datediff(a, a2)", "date_diff(a, a2)", "datediff(t, a2)", "datediff(t, t2)", "add_months(a, i2)", "date_add(g, 1)"),
    *("unix_timestamp(t)", "unix_micros(t)", "unix_timestamp(a)", "unix_timestamp(z)", "timestamp_seconds(l)", "timestamp_seconds(i)"),
    *("timestamp_seconds(x2)", "timestamp_seconds(d)", "unix_timestamp(g, 'yyyy-MM-dd')", "unix_timestamp(g)"),
    *(f"date_format(t, '{pattern}')" for pattern in (
        "yyyy-MM-dd HH:mm:ss", "yy", "yyyy", "y", "M/d/yy", "MMM", "MMMM", "EEE", "EEEE", "E", "HH:mm:ss.SSS", "SSSSSS", "hh:mm a", "H:m:s",
        "DDD", "D", "Q", "QQ", "q", "yyyyMMdd", "h", "K", "k", "MM", "d", "VV", "z", "XXX", "xxx", "Z", "O", "u", "F", "L", "LLLL",
        "yyyy-MM-dd HH\\'h\\'", "S", "a", "G", "w")),
    *(f"date_format(a, '{pattern}')" for pattern in ("yyyy-MM-dd", "HH:mm", "yy", "EEE", "MMM d, yyyy")),
    *(f"date_format(z, '{pattern}')" for pattern in ("yyyy-MM-dd HH:mm:ss.SSSSSS", "VV")),
    *(f"to_date(g, '{pattern}')" for pattern in ("yyyy-MM-dd", "yyyy-M-d", "yyyy", "yyyy/MM/dd", "yyyyMMdd", "MM")),
    *(f"to_timestamp(g, '{pattern}')" for pattern in ("yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd", "yyyy-MM-dd HH:mm", "HH:mm:ss", "yyyy-M-d H:m:s")),
    *("to_date(g)", "to_timestamp(g)", "to_date(t)", "to_timestamp(a)", "to_timestamp(t)", "to_date('03', 'MM')", "to_date('24', 'yy')"),
    *("to_date('99', 'yy')", "to_timestamp('12:30', 'HH:mm')", "to_date('5 Jan 2024', 'd MMM yyyy')", "to_date('31/12', 'dd/MM')"),
    *("to_date('Mon', 'EEE')", "to_timestamp('2024-01-05 01:30 PM', 'yyyy-MM-dd hh:mm a')", "to_timestamp('2024060', 'yyyyDDD')"),
    *("to_timestamp('2024-01-05 10:00:00.5', 'yyyy-MM-dd HH:mm:ss.S')", "to_date('January 5, 2024', 'MMMM d, yyyy')", "to_date('2024-02-30', 'yyyy-MM-dd')"),
    *("from_utc_timestamp(t, 'Europe/Berlin')", "to_utc_timestamp(t, 'Europe/Berlin')", "from_utc_timestamp(t, 'America/St_Johns')"),
    *("to_utc_timestamp(t, 'Asia/Kathmandu')", "from_utc_timestamp(g, 'UTC')", "from_utc_timestamp(t, '+02:00')", "from_utc_timestamp(t, 'Nowhere/X')"),
    *("convert_timezone('Europe/Berlin', 'America/St_Johns', z)", "convert_timezone('America/St_Johns', z)", "convert_timezone('UTC', 'Europe/Berlin', z)"),
    *("convert_timezone('Europe/Berlin', t)", "convert_timezone('UTC', 'Asia/Kathmandu', t)", "from_utc_timestamp(a, 'Europe/Berlin')"),
    *("extract(year from t)", "extract(hour from t)", "extract(second from t)", "extract(week from a)", "extract(doy from t)", "extract(dayofweek from t)"),
    *("extract(day from t)", "extract(minute from t)", "extract(month from a)", "extract(quarter from a)", "extract(second from z)"),
]  # fmt: skip

_IN_ZONES: Final = [each for each in _TIMES if "(a)" not in each or "timestamp(a" in each]

EXPRESSIONS: Final = [
    *map(Asked, dict.fromkeys([*_NUMBERS, *_COMPARISONS, *_SHORT_CIRCUIT, *_CASTS, *_TEXTS, *_TIMES])),
    *(Asked(each, BERLIN) for each in dict.fromkeys(_IN_ZONES)),
    *(Asked(each, zone) for zone in (ST_JOHNS, KATHMANDU) for each in dict.fromkeys(_IN_ZONES[:80])),
]

KNOWN_DIFFERENCES: Final = {
    "e div e2": "a quotient that does not fit a long is an error; Spark gives the lowest 64 bits of it",
    "regexp_replace(s, '', '-')": "a character outside of the first plane stays whole; Java cuts it into two",
    "regexp_replace(s, 'b*', 'x')": "as above",
    "cast(interval 90 minutes as string)": "rejected: the units of an interval are not kept",
    "cast(interval 1 day as string)": "rejected: the units of an interval are not kept",
    "concat()": "rejected: it needs an argument",
    "concat_ws(',')": "rejected: it needs an argument",
    "s rlike '[[:alpha:]]'": "rejected: Java and RE2 read brackets inside of brackets differently",
    "reverse(w)": "rejected: lists are not reversed",
    "concat(w, w)": "rejected: lists are not concatenated",
    "date_trunc('decade', t)": "rejected: an unknown unit is a mistake; Spark gives null",
    "trunc(a, 'day')": "rejected: an unknown unit is a mistake; Spark gives null",
    "trunc(a, 'x')": "rejected: an unknown unit is a mistake; Spark gives null",
    "date_format(t, 'z')": "rejected: the short names of zones come from a database of Java's",
}
"""What differs from Spark, and why: the page of SQL says so."""
