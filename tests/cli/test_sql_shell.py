# ruff: noqa: E501, S608 - statements are read best as they are typed
"""``pointstamp sql --interactive``: what is typed, and what is shown; once in a process of its own.

What only this finds: a view that is created late and does not see rows of before; a change that is shown and
was undone; an error that ends the shell, or leaves half of a change behind.
"""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pointstamp.cli.main import main
from pointstamp.cli.sql_shell import Typed, cut


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a shell shows of what is typed; in this process, where the first test has another."""

    def typed(text: str, *arguments: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert main(["sql", "--interactive", *arguments]) == code
        made = capsys.readouterr()
        assert made.err == ""
        return made.out

    return typed


def in_a_process(text: str) -> str:
    made = subprocess.run(
        [sys.executable, "-m", "pointstamp.cli.main", "sql", "--interactive"],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        check=True,
    )
    assert made.stderr == ""
    return made.stdout


ORDERS = """
create table orders (id long primary key, city string, price long, at timestamp);
create view cities as
  select city, sum(price) as total from orders group by city;
"""


def test_each_change_is_an_epoch_and_shows_what_comes_and_goes() -> None:
    shown = in_a_process(
        ORDERS
        + """
        insert into orders values (1, 'Rome', 5, '2024-05-01 09:00:00'), (2, 'Oslo', 7, null);
        insert into orders (id, city, price) values (3, 'Rome', 2); -- a comment; with a semicolon
        update orders set price = price * 10 where city = 'Rome';
        insert into orders values (2, 'Bonn', 1, null);
        delete from orders where id in (select id from orders where price > 40);
        .quit
        """
    )
    assert shown.splitlines() == [
        "epoch 0",
        "  cities",
        "     city  total",
        "  +  Oslo  7",
        "  +  Rome  5",
        "epoch 1",
        "  cities",
        "     city  total",
        "  -  Rome  5",
        "  +  Rome  7",
        "epoch 2",
        "  cities",
        "     city  total",
        "  -  Rome  7",
        "  +  Rome  70",
        "epoch 3",
        "  cities",
        "     city  total",
        "  +  Bonn  1",
        "  -  Oslo  7",
        "epoch 4",
        "  cities",
        "     city  total",
        "  -  Rome  70",
        "  +  Rome  20",
    ]


def test_changes_between_begin_and_commit_are_one_epoch_and_a_late_view_sees_all_rows(
    shell: Callable[..., str],
) -> None:
    shown = shell(
        ORDERS
        + """
        insert into orders values (1, 'Rome', 5, null);
        begin;
        delete from orders;
        insert into orders select id + 8, upper(city), price from (values (1, 'bonn', 3)) as v(id, city, price);
        rollback;
        begin;
        delete from orders;
        insert into orders values (9, 'Bonn', 1, null), (8, 'Bonn', 4, null);
        select id from orders order by id desc;
        commit;
        create view dear as select id from orders where price > 2;
        select city, total from cities;
        insert into orders values (7, 'Oslo', 3, null);
        """,
        code=1,
    )
    assert (
        "error: line 1, column 21: the query has 3 columns for the 4 columns id, city, price, at.\n" in shown
    )
    assert (
        "  id\n  9\n  8\n2 rows\nepoch 1\n  cities\n     city  total\n  +  Bonn  5\n  -  Rome  5\n" in shown
    )
    assert "fed with all rows up to epoch 1\n  dear\n     id\n  +  8\n" in shown
    assert "  city  total\n  Bonn  5\n1 row\n" in shown
    assert shown.endswith("epoch 2\n  cities\n     city  total\n  +  Oslo  3\n  dear\n     id\n  +  7\n")


def test_an_error_is_one_sentence_and_changes_nothing(tmp_path: Path, shell: Callable[..., str]) -> None:
    file = tmp_path / "views.sql"
    file.write_text(ORDERS + "create view shares as select 10 / (price - 5) as share from orders;")
    shown = shell(
        """
        insert into orders values (1, 'Rome', 6, null);
        insert into orders values (2, 'Rome', 5, null);
        select count(*) as n from orders;
        select foo from cities;
        insert into nowhere values (1);
        insert into orders values (1, 'x');
        insert into orders values (7, 'x', 1, null), (7, 'y', 1, null);
        delete from cities;
        drop table orders;
        select frm;
        .load orders nowhere.csv
        .nonsense
        update orders set id = 3;
        """,
        str(file),
        code=1,
    )
    errors = [line for line in shown.splitlines() if line.startswith("error: ")]
    assert [error.partition(". ")[0] for error in errors] == [
        "error: division by zero; use ps.functions.try_divide or try_mod to return null instead",
        "error: line 1, column 16: there is no column 'foo'; there are 'cities.city', 'cities.total'.",
        "error: line 1, column 21: there is no table 'nowhere'; there are 'orders'.",
        "error: line 1, column 36: there are 2 values for the 4 columns id, city, price, at.",
        "error: line 1, column 21: two rows of 'orders' would have the key id = 7.",
        "error: line 1, column 21: 'cities' is a view",
        "error: line 1, column 20: the view 'cities' needs 'orders'",
        "error: line 1, column 16: there is no column 'frm'; there are no columns.",
        "error: input 'orders': there is no file or folder nowhere.csv.",
        "error: there is no command .nonsense; there are .help, .tables, .views, .explain, .load, .read, "
        ".quit.",
    ]
    assert "  n\n  1\n1 row\n" in shown
    assert shown.endswith("epoch 1: no view changes\n")


def test_files_are_loaded_and_tables_and_plans_are_shown(tmp_path: Path, shell: Callable[..., str]) -> None:
    rows = {
        "id": [1, 2],
        "city": ["Rome", "Rome"],
        "price": [5, 7],
        "at": pa.nulls(2, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(rows), tmp_path / "orders.parquet")
    shown = shell(
        ORDERS
        + f"""
        .load orders {tmp_path / "orders.parquet"}
        .tables
        .views
        .explain
        explain select city from cities where total > 1;
        .help
        create temporary view twice as select city, total * 2 as total from cities;
        create or replace view cities as select city, count(*) as total from orders where price >= :least group by city;
        select * from twice;
        drop view twice;
        """,
        "--parameter",
        "least=6",
    )
    assert "epoch 0\n  cities\n     city  total\n  +  Rome  12\n" in shown
    assert "orders (id long, city string, price long, at timestamp), key id: 2 rows\n" in shown
    assert "cities (city string, total long): 1 row\n" in shown
    assert "'orders: upserts' by id: keeps the row of each key" in shown
    assert shown.count("== Logical plan ==") == shown.count("== Physical operators with state ==") == 2
    assert "output 'cities'" in shown
    assert "output 'result'\n└─ Project 'select' city = cities.city (SQL" in shown
    assert "  city  total\n  Rome  2\n1 row\n" in shown


def test_late_rows_and_windows_that_are_over_are_the_same_in_the_flow_that_is_fed_again(
    shell: Callable[..., str],
) -> None:
    shown = shell(
        """
        create table bids (minute long, price long, watermark for minute as minute - 2);
        insert into bids values (3, 3), (8, 8);
        insert into bids values (11, 11);
        insert into bids values (9, 9), (13, 13);
        insert into bids values (5, 5), (24, 24);
        create view highest as select window.end as till, max(price) as price from bids
          group by window(minute, 10) having window.end <= now();
        insert into bids values (40, 40), (12, 12);
        select count(*) as n from bids;
        delete from bids;
        """,
        code=1,
    )
    assert shown.splitlines()[:6] == [
        "epoch 0: no view changes",
        "epoch 1: no view changes",
        "epoch 2: no view changes",
        "epoch 3",
        "  bids_late",
        "  minute  price",
    ]
    assert "up to epoch 3\n  highest\n     till  price\n  +  10    9\n  +  20    13\n" in shown
    assert (
        "epoch 4\n  highest\n     till  price\n  +  30    24\n  bids_late\n  minute  price\n  12      12\n"
        in shown
    )
    assert shown.endswith(
        "  n\n  7\n1 row\nerror: line 1, column 21: 'bids' has a watermark, so rows can only be inserted. "
        "Create it without one to delete rows.\n"
    )


def test_a_file_with_rows_that_go_is_not_taken_for_one_with_rows_that_come(shell: Callable[..., str]) -> None:
    shown = shell(
        "create table t (id long, w long) tblproperties ('weight' = 'w');\n.load t rows.parquet\n", code=1
    )
    assert shown.startswith(
        "error: .load only inserts rows, but rows of 't' can be deleted, by its property 'weight'."
    )


def test_what_was_typed_is_forgotten_when_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str | type[BaseException]] = ["select", KeyboardInterrupt, "select 1;", EOFError]
    prompts: list[str] = []

    def typed(prompt: str) -> str:
        prompts.append(prompt)
        line = lines.pop(0)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert list(Typed()) == ["select 1;"]
    assert prompts == ["sql> ", "  .. ", "sql> ", "sql> "]


def test_a_text_is_cut_at_semicolons_that_end_statements() -> None:
    assert cut("select 'a;b'") == ("", "select 'a;b'")
    assert cut("select 'a;\n") == ("", "select 'a;\n")
    assert cut("-- only; a comment\n") == ("", "")
    assert cut("select 1; -- done;\nselect") == ("select 1;", " -- done;\nselect")


def test_what_does_not_go_with_the_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--interactive", "--stream"]) == 2
    assert "--stream is not for --interactive" in capsys.readouterr().err
    assert main(["sql"]) == 2
    assert "give a file with SQL, views.sql, or --interactive" in capsys.readouterr().err


def test_an_unknown_name_is_answered_with_those_that_there_are(shell: Callable[..., str]) -> None:
    made = shell(
        "create table t (a int);\ncreate view v as select a from t;\n"
        "select * from nope;\nwith c as (select a from t) select * from c, nope;\ndrop view nope;\n",
        code=1,
    )
    assert made.count("there is no table or view 'nope'; there are 't', 'v'") == 2
    assert "there is no view 'nope'; there are 'v'" in made


def test_the_shell_reads_and_shows_timestamps_in_its_time_zone(shell: Callable[..., str]) -> None:
    text = """
    create table calls (at timestamp);
    create view hours as select hour(at) as h, cast(at as string) as at from calls;
    insert into calls values (timestamp '2024-07-01 12:00:00');
    insert into calls select '2024-07-01 13:00:00';
    select unix_timestamp(at) - 1719828000 as s from calls order by s;
    """
    shown = shell(text, "--time-zone", "Europe/Berlin")
    assert "12  2024-07-01 12:00:00" in shown
    assert "13  2024-07-01 13:00:00" in shown
    assert "0\n  3600" in shown
