# ruff: noqa: E501 - lines as they are shown
"""``flow.explain()``: what each output keeps and costs, and what is kept once for several of them."""

import json
from pathlib import Path

import pytest

import pointstamp as ps
from pointstamp.cli.main import main
from pointstamp.show.describe import physical_plan

VIEWS = """
create table orders (id long primary key, cust long, city string, price long);
create table cust (id long, name string);
create temporary view dear as
  select o.city, o.price, c.name from orders o join cust c on o.cust = c.id where o.price > :least;
create view cities as select city, sum(price) as total from dear group by city;
create view names as select distinct name from dear;
create view r as
  with recursive r(n) as (select id from cust union select o.cust from r join orders o on r.n = o.id)
  select n from r;
"""

WANTED = """\
output 'cities': city string, total long, diff long not null
  'agg' by city: keeps the sums of each key, and no rows; a change costs its rows
    'join' by cust and by id: keeps both sides, by key; a change costs its rows and their matches
      'orders: upserts' by id: keeps the row of each key; a change costs its rows
        input 'orders'
      input 'cust'
output 'names': name string, diff long not null
  'distinct' by name: keeps every row once, with how often it is there; a change costs its rows
    'join', as above
output 'r': n long, diff long not null
  loop 'r': repeats until nothing changes
    'distinct 3' by n: keeps all rows by key, and what it has sent; a change costs all rows of the keys that change
      'distinct 2' by cast(id as int64): keeps every row once, with how often it is there; a change costs its rows
        'cust', as above
      'join 2' by r.n and by o#2.id: keeps both sides, by key; a change costs its rows and their matches
        'orders: upserts', as above
kept once, for several outputs:
  'orders: upserts': 'cities', 'names', 'r'
  'join': 'cities', 'names'
"""


def test_a_view_that_others_are_made_of_is_kept_once() -> None:
    text = ps.sql(VIEWS, parameters={"least": 3}).explain()
    assert text.partition("== Physical operators with state ==\n")[2] == WANTED


def test_the_plan_is_shown_as_it_was_written() -> None:
    text = ps.sql(VIEWS, parameters={"least": 3}).explain()
    assert text.startswith("== Logical plan ==\noutput 'cities'\n")
    assert "Aggregate 'agg' keys=[dear.city] group.0 = sum(dear.price)" in text
    assert "Filter 'filter' o.price > 3" in text
    assert "variable becomes Distinct" in text
    data = json.loads(ps.sql(VIEWS, parameters={"least": 3}).explain(format="json"))
    assert list(data["logical"]["outputs"]) == ["cities", "names", "r"]
    assert [each["name"] for each in data["physical"]][:2] == ["orders", "orders: upserts"]


def test_the_physical_operators_have_their_state_and_the_outputs_that_need_them() -> None:
    found = physical_plan(ps.sql(VIEWS, parameters={"least": 3}).plan)
    assert found.text == WANTED
    by_name = {each.name: each for each in found.operators}
    join = by_name["join"]
    assert join.kind == "operator"
    assert join.by == ("by cust", "by id")
    assert join.keeps == "both sides, by key; a change costs its rows and their matches"
    assert join.outputs == ("cities", "names")
    assert by_name["cust"].kind == "input"
    assert by_name["cust"].keeps is None


def test_the_command_line_explains_with_parameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "views.sql").write_text(VIEWS)
    assert main(["sql", str(tmp_path / "views.sql"), "--explain", "--parameter", "least=3"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("== Logical plan ==\noutput 'cities'\n")
    assert shown.endswith(WANTED)
    assert main(["sql", str(tmp_path / "views.sql"), "--explain"]) == 2
    assert "the parameter ':least' was not given" in capsys.readouterr().err
    assert main(["sql", str(tmp_path / "views.sql"), "--parameter", "5"]) == 2
    assert "needs a name and a value, least=5, not '5'" in capsys.readouterr().err


def test_a_flow_that_keeps_nothing_has_its_inputs_only() -> None:
    flow = ps.Dataflow("plain")
    flow.output("out", flow.stream_input("numbers", "x long").filter(ps.col("x") > 1))
    physical = flow.explain().partition("== Physical operators with state ==\n")[2]
    assert physical == "output 'out': x long\n  input 'numbers'\n"
