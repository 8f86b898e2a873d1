# ruff: noqa: E501 - texts are read best in one line
"""JSON in texts is read as Spark reads it, whether it is well formed or not.

Texts written by hand for the corners, and six hundred more that are made of values with letters left out,
added and exchanged. Spark is asked about all of them at once.
"""

import json
import random
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.expressions.json_reading import parsed
from support.view_answers import register

BY_HAND = [
    None, "", "  ", "null", "1", '"x"', "[]", "{}", "{}}", '{"a":1} x', "{'a':1}", '{"a":1,"a":2}', '{"a":1,"a":"x"}',
    '{"a":null,"b":2}', '{"a":1.5,"b":2}', '{"a":2147483648}', '{"b":2,"a":NaN}', '{"b":2,"a":-Infinity}', '{"a":+1}',
    '{"a":01}', '{"a":1x}', '{"a":-0,"b":-0.0}', '{"a":"","c":""}', '{"c":{"x": 1.50, "y": [1,2 , 3e3]}}',
    '{"c":true,"d":"12.345","e":[1,null]}', '{"d":99999999999,"e":[1,"x"]}', '{"d":"1,234.5","e":{}}', '{"d":" 1"}',
    '{"c":"\\u00e9\\ud83d\\ude00\\n"}', '{"c":"\\ud83d"}', '{"c":"\\x"}', '{"c":"a\tb"}', '{"c":"it\'s"}', "{'c':'\\''}",
    '[{"a":1},{"a":"x"},null]', '[1,2', '{"m":{"p":1,"q":2},"s":{"a":"x","b":[1.25]}}', '{"m":{"p":"x"}}', '{"c":1e400}',
    '{"c":123456789012345678901234567890}', '{"a":1e2,"b":1E+2}', ' \n{"a" : 1 }', '{"t":200,"u":128}', "tru", '{"z":tru}',
    '{"a":1,}', '{,}', '{"a" 1}', "{a:1}", '{"a":{"b":[{"c":null},{"c":"deep"}]}}', '{"a b":{"c.d":5}}', '{"":1}',
]  # fmt: skip


def random_texts(count: int) -> list[str]:
    chosen = random.Random(7)

    def value(depth: int) -> Any:  # noqa: ANN401 - any value of JSON
        kinds = ["int", "float", "text", "word", "list", "object"][: 6 if depth else 4]
        match chosen.choice(kinds):
            case "int":
                return chosen.choice([0, 1, -7, 127, 255, 40000, 2**31, 2**63, 10**20])
            case "float":
                return chosen.choice([0.5, -0.0, 1e-7, 12345678.9, 1e21, 3.0])
            case "text":
                return chosen.choice(["", "x", "1.5", "NaN", "ü\u2028", 'q"\\', "\x07"])
            case "word":
                return chosen.choice([True, False, None])
            case "list":
                return [value(depth - 1) for _ in range(chosen.randrange(3))]
        return {chosen.choice("abcdemstu"): value(depth - 1) for _ in range(chosen.randrange(4))}

    texts = []
    for number in range(count):
        text = json.dumps(
            value(3) if number % 9 == 0 else {each: value(2) for each in chosen.sample("abcdemstu", 3)}
        )
        for _ in range(number % 3):
            at = chosen.randrange(len(text) + 1)
            text = (
                text[:at] + chosen.choice(["", "", *"{}[]\",:\\ 1e.-x'"]) + text[at + chosen.randrange(2) :]
            )
        texts.append(text)
    return texts


QUERY = """
select id,
  from_json(s, 'a int, b double, c string, d decimal(10,2), e array<int>, m map<string,int>,
                s struct<a:int,b:array<double>>, t tinyint, u smallint, z boolean') as plain,
  from_json(s, 'array<struct<a:int>>') as lists,
  from_json(s, 'map<string,string>') as texts,
  from_json(s, 'a struct<b:array<struct<c:string>>>, e array<array<long>>, m map<string,struct<a:long>>') as deep,
  get_json_object(s, '$.a') as a, get_json_object(s, '$.c') as c, get_json_object(s, '$') as whole,
  get_json_object(s, '$.a.b[1].c') as far, get_json_object(s, '$[0]') as first, get_json_object(s, 'a') as none,
  get_json_object(s, "$['a b']") as named,
  json_object_keys(s) as names, json_array_length(s) as length, c0, c1
from t lateral view json_tuple(s, 'a', 'c') as c0, c1
"""


def test_texts_in_json_are_read_as_spark_reads_them(spark: SparkSession) -> None:
    texts = [*BY_HAND, *random_texts(600)]
    table = pa.table({"id": range(len(texts)), "s": texts})
    register(spark, {"t": table})
    frame = spark.sql(QUERY)
    changes = ps.views(spark, {"result": frame}).run({"t": table})["result"][0]
    ours, theirs = (
        [(row["id"], *map(repr, list(row.values())[1 : len(row)])) for row in rows]
        for rows in (changes.drop_columns(["diff"]).to_pylist(), frame.toArrow().to_pylist())
    )
    by_id = {row[0]: row[1:] for row in ours}
    assert len(by_id) == len(texts)
    wrong = [(texts[row[0]], by_id[row[0]], row[1:]) for row in theirs if by_id[row[0]] != row[1:]]
    # After a mistake Jackson may go on behind it, and Spark keeps the fields that it has read.
    wrong = [each for each in wrong if parsed(each[0], is_lenient=False) is not None]
    assert not wrong, f"{len(wrong)} texts, first {wrong[0]}"
    assert sum(parsed(each or "", is_lenient=False) is not None for each in texts) > 300
