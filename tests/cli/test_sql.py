"""``pointstamp sql``: views of a text, from files to files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pointstamp import read_changes
from pointstamp.cli.main import main

VIEWS = """
create table orders (id long, city string, price long);
create view cities as select city, sum(price) as total from orders group by city;
"""


@pytest.fixture
def views(tmp_path: Path) -> Path:
    rows = {"id": [1, 2, 3], "city": ["Rome", "Oslo", "Rome"], "price": [5, 7, 2], "day": [0, 0, 1]}
    pq.write_table(pa.table(rows), tmp_path / "orders.parquet")
    (tmp_path / "views.sql").write_text(VIEWS)
    return tmp_path


def test_views_are_written_with_their_changes(views: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "--input",
        f"orders={views / 'orders.parquet'}",
        "--epoch",
        "day",
        "--output",
        str(views / "out"),
    ]
    assert main(["sql", str(views / "views.sql"), *given]) == 0
    assert "2 epochs, 3 rows in, 4 rows out" in capsys.readouterr().out
    second = sorted((views / "out" / "cities").iterdir())[1]
    rows = pq.read_table(second).drop_columns("epoch").sort_by("diff").to_pylist()
    assert rows == [{"city": "Rome", "total": 5, "diff": -1}, {"city": "Rome", "total": 7, "diff": 1}]


def test_a_folder_is_followed(views: Path) -> None:
    folder = views / "in"
    folder.mkdir()
    (views / "orders.parquet").rename(folder / "1.parquet")
    given = ["--input", f"orders={folder}", "--output", str(views / "out"), "--stream", "--available-now"]
    assert main(["sql", str(views / "views.sql"), *given]) == 0
    assert read_changes(str(views / "out"), "cities").num_rows == 2


def test_what_is_refused_is_one_line_with_its_place(views: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (views / "views.sql").write_text("create table t (id long);\nselect rand() as r from t")
    assert main(["sql", str(views / "views.sql"), "--input", "t=t.parquet"]) == 2
    assert "views.sql: line 2, column 8: rand() changes" in capsys.readouterr().err


def test_an_input_without_a_path_is_asked_for(views: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", str(views / "views.sql")]) == 2
    assert "give --input orders=PATH" in capsys.readouterr().err


def test_parameters_are_numbers_truth_values_or_strings(
    views: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (views / "views.sql").write_text(
        "create table orders (id long, city string, price long);\n"
        "select id, :flag as flag, :share as share from orders where city = :city and price > :least"
    )
    given = [f"--parameter={each}" for each in ("city=Rome", "least=2", "flag=true", "share=0.5")]
    source = ["--input", f"orders={views / 'orders.parquet'}"]
    assert main(["sql", str(views / "views.sql"), *source, *given]) == 0
    assert "id  flag  share" in (shown := capsys.readouterr().out)
    assert "1   True  0.5" in shown
    (views / "views.sql").write_text("create table orders (city string);\nselect :least as least from orders")
    assert main(["sql", str(views / "views.sql"), *source, "--parameter", "least='2'"]) == 0
    assert "at the end, result: 3 rows\n  least\n  2\n" in capsys.readouterr().out


def test_the_time_zone_is_that_of_the_command_line(views: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (views / "calls.json").write_text('{"at": "2024-07-01T22:30:00Z"}\n')
    (views / "calls.sql").write_text(
        "create table calls (at timestamp);\nselect day(at) as d, hour(at) as h from calls"
    )
    given = ["sql", str(views / "calls.sql"), "--input", f"calls={views / 'calls.json'}"]
    for zone, line in (
        ([], "1  22"),
        (["--time-zone", "Europe/Berlin"], "2  0"),
        (["--time-zone=-02:30"], "1  20"),
    ):
        assert main([*given, *zone]) == 0
        assert f"  d  h\n  {line}\n" in capsys.readouterr().out
    for place in (given, ["sql", "--interactive"]):
        assert main([*place, "--time-zone", "Berlin"]) == 2
        assert "offset such as '+02:00', got 'Berlin'" in capsys.readouterr().err


def test_a_text_is_described(views: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(views / "views.sql")]) == 0
    shown = capsys.readouterr().out
    assert "outputs:\n  'cities': city string, total long, diff long not null\n" in shown
    assert "view 'cities':\n  Aggregate" in shown
